"""Write docs/sparse_attention.md and its figures from the results file, and from nothing else.

python experiments/sparse_attention/report.py
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import paper
from claims import claims
from contradictions import contradictions
from figures import FIGURES, draw
from tables import (
    NAMES,
    Results,
    controls,
    detached,
    find,
    removals,
    sparsities,
    table_1,
    table_2,
    table_3,
    table_5,
    table_6,
    ties,
    trials,
)  # fmt: skip

ROOT = Path(__file__).parents[2]
HERE = "experiments/sparse_attention"


def page(results: Results, figures: str) -> str:
    """The whole page."""
    data = [name for name in paper.SETS if any(each["data"] == name for each in results["classifiers"])]
    seeds = {name: _seeds(results, name) for name in data}
    patience, longest = _epochs(results, "patience"), _epochs(results, "max_epochs")
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

{_missing(results)}

## What the paper claims, and in how many cells it holds here

{claims(results, data)}

## Sets, word vectors, learning rates

| set | train / dev / test documents | importance measured on | vocabulary | seeds |
|---|---|---|---|---|
{_sizes(results, data, seeds)}

Classifiers, with controls and sweep, by the hardware on which they were trained: {_hardware(results, data)}.

{_vectors(results)}

Learning rates were tried with seed 0, with the same rate for the attention and with ten times that, and chosen by
ROC-AUC on the dev part (epochs in brackets: training stops {patience} epochs after the best one, and at the latest
after {longest}). The paper's rates are 1e-4 (BiLSTM) and 1e-5 (Transformer). Sparse projections other than sparsemax
take over its rates, IMDb those of SST.

{trials(results, data)}

## Table 3: accuracy

`python {HERE}/run.py --table 3 --data sst 20news imdb --seeds 0 1 2 --work WORK`

No importance is reported for a classifier more than {paper.GATE:.2f} below the paper's accuracy.

{table_3(results, data)}

## Table 6: attention and importance

`python {HERE}/run.py --table 6 --data sst 20news imdb --seeds 0 1 2 --work WORK`

{table_6(results, data)}

Leave-one-out of states, under each meaning of "leave out":

{removals(results, data)}

The gradient at the inputs, if attention is taken for a constant (as in the code that the paper builds on):

{detached(results, data)}

What ties alone explain of the rank correlation with states:

{ties(results, data)}

## Table 1: entropy of what influences a state

`python {HERE}/run.py --table 1 --data sst 20news imdb --seeds 0 1 2 --work WORK`

Mean over the states of a document first, then mean ± standard deviation over documents; in brackets the standard
deviation over all states of all documents.

{table_1(results, data)}

## Table 2: sparsity and the entropy of importance

`python {HERE}/run.py --table 2 --data sst 20news imdb --seeds 0 1 2 --work WORK`

Correlation of sparsegen's λ with the normalised entropy of the gradient at the inputs.

{table_2(results, data)}

The same for τ between attention and the gradient at the inputs (the paper has Figure 3 for this):

{table_2(results, data, "tau g_x")}

λ by λ:

{sparsities(results, data)}

## Table 5: adversarial attention

`python {HERE}/run.py --table 5 --data sst 20news imdb --work WORK`

The divergence weight is raised until attention is as far from the base's, on the dev part, as in the paper (or the
largest weight is reached); numbers are those of the test part.

{table_5(results, data)}

## Figures

{shown}

## Controls

`python {HERE}/run.py --table controls --data sst 20news --work WORK`

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
        measured = next((each["documents"]["n_words"]["n_documents"] for each in results["classifiers"]
                         if each["data"] == name and "documents" in each), 0)  # fmt: skip
        lines.append(f"| {NAMES[name]} | {sizes} | {measured:,} of test | {group['n_words']:,} | {seeds[name]} |")
    return "\n".join(lines)


def _hardware(results: Results, data: Sequence[str]) -> str:
    return "; ".join(
        f"{NAMES[name]} {', '.join(f'{count} {where}' for where, count in sorted(results['hardware'][name].items()))}"
        for name in data
    )


def _missing(results: Results) -> str:
    """What the tables lack, said before they are read."""
    lambdas = len(paper.SPARSITIES)
    lacking = []
    for name in paper.SETS:
        for encoder in paper.ENCODERS:
            own = [
                group for group in results["classifiers"]
                if (group["data"], group["encoder"], group["control"], group["vectors"])
                == (name, encoder, "none", "trained") and group["projection"] != "softmax"
            ]  # fmt: skip
            wanted = 1 if name == "imdb" else 3
            done = sum(min(len(group["seeds"]), wanted) for group in own)
            if done < wanted * lambdas:
                lacking.append(f"{done} of {wanted * lambdas} sparse classifiers of {NAMES[name]}, {NAMES[encoder]}")
    attacked = {(each["job"]["data"], each["job"]["encoder"]) for each in results["adversaries"]}
    unattacked = [
        f"{NAMES[name]}, {NAMES[encoder]}"
        for name in paper.SETS for encoder in paper.ENCODERS if (name, encoder) not in attacked
    ]  # fmt: skip
    if not lacking and not unattacked:
        return "Every table was run for every set; how many seeds and documents each set has is said below."
    parts = [f"Table 2 rests on {'; '.join(lacking)}."] if lacking else []
    parts += [f"No adversary was trained for {'; '.join(unattacked)}."] if unattacked else []
    return f"**Not everything was run.** {' '.join(parts)} A dash in a table stands for what is missing."


def _epochs(results: Results, limit: str) -> str:
    """The numbers of epochs that classifiers were trained under, by set."""
    found: dict[str, set[int]] = {}
    for group in results["classifiers"]:
        found.setdefault(group["data"], set()).update(each[limit] for each in group["training"] if each)
    said = {name: " or ".join(map(str, sorted(numbers))) for name, numbers in found.items() if numbers}
    return ", ".join(f"{said[name]} ({NAMES[name]})" for name in paper.SETS if name in said)


def _vectors(results: Results) -> str:
    about = results["vectors"]
    if about is None:
        return "Word vectors start at random."
    return (
        f"Word vectors: {about['size']} dimensions, {about['algorithm']}, trained here on "
        f"{about['running_words']:,} words of Wikipedia, unlabelled reviews and news in place of the paper's fastText "
        'vectors, which could not be had; "random word vectors" below shows what they are worth.'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "results.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "sparse_attention.md")
    parser.add_argument("--figures", default="figures/sparse_attention", help="their folder beside the page")
    args = parser.parse_args()
    results = json.loads(args.results.read_text())
    draw(results, args.out.parent / args.figures)
    args.out.write_text(page(results, args.figures), encoding="utf-8")
    print(args.out)
