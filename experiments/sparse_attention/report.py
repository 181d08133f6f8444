"""Write docs/sparse_attention.md and its figures from the results file, and from nothing else.

python experiments/sparse_attention/report.py
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import paper
from contradictions import contradictions
from figures import FIGURES, draw
from tables import Results, controls, find, removals, table_1, table_2, table_3, table_5, table_6, ties

ROOT = Path(__file__).parents[2]
HERE = "experiments/sparse_attention"


def page(results: Results, figures: str) -> str:
    """The whole page."""
    data = [name for name in paper.SETS if any(each["data"] == name for each in results["classifiers"])]
    seeds = {name: _seeds(results, name) for name in data}
    shown = "\n\n".join(f"![{about}]({figures}/{name}.svg)\n\n*{about}*" for name, (_, about) in FIGURES.items())
    return f"""# Is sparse attention more interpretable?

What Meister, Lazov, Augenstein and Cotterell (ACL 2021) report, and what these scripts obtain. The authors' code is
not public: what the paper leaves open is filled from the code it builds on, or chosen and said here. This page is
written by `{HERE}/report.py` from `{HERE}/results/results.json`.

In every cell the paper's number comes first, then → ours. τ is Kendall's τ-b between attention and an importance
measure, document by document: mean ± standard deviation over test documents, and in brackets the 95 % bootstrap
interval of the mean over documents (of the seeds' average). Behind | stands the τ that *ties alone* explain: if
attention and measure vanish on the same words and are otherwise ordered at random, τ-b is not 0 but
(n − s) / (n − (s + 1) / 2) for s of n words left. "Undefined" counts documents (over all seeds) where τ or entropy is
0/0; they are left out of the means.

| set | train / dev / test documents | vocabulary | seeds |
|---|---|---|---|
{_sizes(results, data, seeds)}

{_vectors(results)}

## Table 3: accuracy

`python {HERE}/run.py --table 3 --data sst 20news imdb --seeds 0 1 2 --work WORK`

A classifier more than {paper.GATE:.2f} below the paper's accuracy is not measured.

{table_3(results, data)}

## Table 6: attention and importance

`python {HERE}/run.py --table 6 --data sst 20news imdb --seeds 0 1 2 --work WORK`

{table_6(results, data)}

Leave-one-out of states, under each meaning of "leave out":

{removals(results, data)}

What ties alone explain of the agreement with states:

{ties(results, data)}

## Table 1: entropy of what influences a state

`python {HERE}/run.py --table 1 --data sst 20news imdb --seeds 0 1 2 --work WORK`

Mean over the states of a document first, then mean ± standard deviation over documents; in brackets the standard
deviation over all states of all documents.

{table_1(results, data)}

{_forms(results, data)}

## Table 2: sparsity and the entropy of importance

`python {HERE}/run.py --table 2 --data sst 20news imdb --seeds 0 1 2 --work WORK`

Correlation of sparsegen's λ with the normalised entropy of the gradient at the inputs.

{table_2(results, data)}

The same for τ between attention and the gradient at the inputs (the paper has Figure 3 for this):

{table_2(results, data, "tau g_x")}

## Table 5: adversarial attention

`python {HERE}/run.py --table 5 --data sst 20news imdb --work WORK`

The divergence weight is raised until attention is as far from the base's, on the dev part, as in the paper (or the
largest weight is reached); numbers are those of the test part.

{table_5(results, data)}

## Figures

{shown}

## Controls

`python {HERE}/run.py --table controls --data sst --work WORK`

{controls(results, data)}

## Contradictions in the paper, and what the numbers say

{contradictions(results, data)}
"""


def _seeds(results: Results, data: str) -> int:
    group = find(results, data, "bilstm", "softmax") or find(results, data, "transformer", "softmax")
    return len(group["seeds"]) if group else 0


def _sizes(results: Results, data: Sequence[str], seeds: dict[str, int]) -> str:
    lines = []
    for name in data:
        group = next(each for each in results["classifiers"] if each["data"] == name)
        sizes = " / ".join(f"{group['sizes'][split]:,}" for split in ("train", "dev", "test"))
        lines.append(f"| {name} | {sizes} | {group['n_words']:,} | {seeds[name]} |")
    return "\n".join(lines)


def _vectors(results: Results) -> str:
    about = results["vectors"]
    if about is None:
        return "Word vectors start at random."
    return (
        f"Word vectors: {about['size']} dimensions, {about['algorithm']}, trained here on "
        f"{about['running_words']:,} words of Wikipedia, unlabelled reviews and news in place of the paper's fastText "
        'vectors, which could not be had; "random word vectors" below shows what they are worth.'
    )


def _forms(results: Results, data: Sequence[str]) -> str:
    """The appendix's claim that the norm of a state and its coordinates give nearly the same."""
    lines = []
    for name in data:
        for encoder in paper.ENCODERS:
            forms = (find(results, name, encoder, "softmax") or {}).get("forms")
            if forms:
                tau, norm, coordinates = (each["mean"] for each in forms.values())
                lines.append(f"{name}, {encoder}: τ {tau:.2f}, entropies {norm:.2f} and {coordinates:.2f}")
    if not lines:
        return ""
    return "The gradient of a state's norm against its whole Jacobian, ranks of words: " + "; ".join(lines) + "."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "results.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "sparse_attention.md")
    args = parser.parse_args()
    results = json.loads(args.results.read_text())
    folder = args.out.with_suffix("")
    draw(results, folder)
    args.out.write_text(page(results, folder.name), encoding="utf-8")
    print(args.out)
