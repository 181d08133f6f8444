"""Write docs/sparse_attention.md, its appendix and its figures from the results file, and from nothing else.

python experiments/sparse_attention/report.py
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing, verdict and intervals are

import paper
from claims import as_shares, claims, summary
from commands import after, before, runs
from contradictions import contradictions
from figures import FIGURES, draw
from page_writing import bullet, paragraph
from tables import (
    NAMES,
    UNIFORM,
    Results,
    chosen_adversary,
    controls,
    detached,
    find,
    forms,
    measured_on,
    removals,
    sound_searches,
    sparsities,
    table_1,
    table_2,
    table_3,
    table_5,
    table_6,
    ties,
    trials,
    uniform_in_sweep,
)  # fmt: skip
from verdict import RULE, Claim, claims_table

ROOT = Path(__file__).parents[2]
HERE = "experiments/sparse_attention"


FIRST_FIGURES = ("figure_1", "figure_3")


def first_screen(results: Results, figures: str, appendix: str) -> str:
    """Claims, pictures, and what they mean."""
    data = _data(results)
    shown = "\n\n".join(f"![{FIGURES[name][1]}]({figures}/{name}.svg)" for name in FIRST_FIGURES)
    shown_claims = claims(results, data)
    lines = [
        "# Is sparse attention more interpretable?",
        "",
        *paragraph(
            f"""Meister et al. (ACL 2021), tried again without their code and word
            vectors{"".join(f"; {each}" for each in _fewer(results, data))}. [Appendix]({appendix}): commands and
            tables."""
        ),
        "",
        *claims_table(shown_claims),
        "",
        *paragraph(
            f"{RULE} Intervals: over cells (set, encoder, attention), each a mean of seeds. {_dagger(shown_claims)}"
        ),
        "",
        shown,
        "",
        "## What this means for you",
        "",
        *(line for point in summary(results, data) for line in bullet(point)),
    ]
    return "\n".join(lines) + "\n"


def _dagger(shown: Sequence[Claim]) -> str:
    return "†: some attention uniform." if any(claim.words.endswith("†") for claim in shown) else ""


def _data(results: Results) -> list[str]:
    return [name for name in paper.SETS if any(each["data"] == name for each in results["classifiers"])]


def appendix(results: Results, figures: str, first: str) -> str:
    """All tables."""
    data = _data(results)
    seeds = {name: _seeds(results, name) for name in data}
    patience, longest = _epochs(results, "patience"), _epochs(results, "max_epochs")
    shown = "\n\n".join(f"![{about}]({figures}/{name}.svg)" for name, (_, about) in FIGURES.items())
    made = "\n".join([*before(results), *runs(results, data), *after(results)])
    sizes = "; ".join(f"{NAMES[name]} {measured_on(results, name)}" for name in data)
    weights = sorted({each["test"]["settings"]["divergence_weight"] for search in results["adversaries"]
                      for each in search["adversaries"]})  # fmt: skip
    dev = ", ".join(f"{NAMES[name]} n = {_size(results, name, 'dev'):,}" for name in data)
    return f"""# Is sparse attention more interpretable? Appendix

What stands behind [the claims and verdicts]({first}). The authors' code is not public: what the paper leaves open is
filled from the code it builds on, or chosen and said here. This page is written by `{HERE}/report.py` from
`{HERE}/results/results.json`.

In every cell the paper's number comes first, then → ours. τ is Kendall's τ-b between attention and an importance
measure, document by document: mean ± standard deviation over test documents, in brackets the 95 % interval over
documents **and seeds** (bootstrap over documents, Student's t over seeds, added as squares; with one seed over
documents alone, which is too narrow), and in parentheses the seeds. Behind | stands the τ that *ties alone* explain: if
attention and measure vanish on the same words and are otherwise ordered at random, τ-b is not 0 but
(w − s) / (w − (s + 1) / 2) for s of w words left. "Undefined" counts documents (over all seeds) where τ or entropy is
0/0; they are left out of the means. † stands where attention is all but uniform (mean normalised entropy of at least
{UNIFORM}): words are ranked there by its last digits.

{_missing(results)} Measured on: {sizes}{"".join(f"; {each}" for each in _fewer(results, data))}.

```
{made}
```

## The claims without uniform attention

The table of the first page once more, without the cells marked †, n as in its rows.

{chr(10).join(claims_table(claims(results, data, uniform=False)))}

The claims on τ, each τ as the share of what ties leave open, (τ − ties) / (1 − ties), by seed; the paper's numbers are
its τ, of which it gives no ties.

{chr(10).join(claims_table(as_shares(results, data)))}

## Sets, word vectors, learning rates

| set | train / dev / test documents | importance measured on | vocabulary | seeds |
|---|---|---|---|---|
{_sizes(results, data, seeds)}

Classifiers, with controls and sweep, by the hardware on which they were trained: {_hardware(results, data)}.

{_vectors(results)}{_later_runs(results)}

Learning rates were tried with seed 0, with the same rate for the attention and with ten times that, and chosen by
ROC-AUC on the dev part ({dev}; epochs in brackets: training stops {patience} epochs after the best one, and at the
latest after {longest}). The paper's rates are 1e-4 (BiLSTM) and 1e-5 (Transformer). Sparse projections other than
sparsemax take over its rates, IMDb those of SST.

{trials(results, data)}

## Table 3: accuracy

No importance is reported for a classifier more than {paper.GATE:.2f} below the paper's accuracy.

{table_3(results, data)}

## Table 6: attention and importance

{table_6(results, data)}

Leave-one-out of states, under each meaning of "leave out":

{removals(results, data)}

The gradient at the inputs, if attention is taken for a constant (as in the code that the paper builds on):

{detached(results, data)}

What ties alone explain of the rank correlation with states, and the share of the possible that is reached beyond them,
(τ − ties) / (1 − ties), from the means of a seed; a τ less its ties says nothing where ties leave no room:

{ties(results, data)}

## Table 1: entropy of what influences a state

Mean over the states of a document first, then mean ± standard deviation over documents; in brackets the standard
deviation over all states of all documents.

{table_1(results, data)}

Appendix A of the paper says that the norm of a state and its coordinates are influenced alike. On a few of the shorter
documents (n in the row, seed 0): the gradient of the norm against the whole Jacobian.

{forms(results, data)}

## Table 2: sparsity and the entropy of importance

Correlation of sparsegen's λ with the normalised entropy of the gradient at the inputs. An interval that holds 0 says
neither that it falls nor that it rises.

{table_2(results, data)}

The same for τ between attention and the gradient at the inputs (the paper has Figure 3 for this){
        _swept_uniform(results, data)
    }:

{table_2(results, data, "tau g_x")}

λ by λ:

{sparsities(results, data)}

## Table 5: adversarial attention

{_adversaries(results, data)} Of the divergence weights
({", ".join(f"{each:g}" for each in weights)}) that is taken which leads attention as far from the base's, on the dev
part, as in the paper, while the next smaller one does not; else the farthest. Numbers are of the test part: the mean of
the seeds, its interval over them, and each seed.

{table_5(results, data)}

## Figures

{shown}

## Controls

{_controlled(results, data)}

{controls(results, data)}

## Contradictions in the paper, and what the numbers say

{contradictions(results, data)}
"""


def _fewer(results: Results, data: Sequence[str]) -> list[str]:
    """The sets with fewer seeds than another, or without controls, said."""
    seeds = {name: _seeds(results, name) for name in data}
    found = []
    for name in data:
        lacks = [f"with {_counted(seeds[name], 'seed')}"] if seeds[name] < max(seeds.values()) else []
        lacks += [] if _control_seeds(results, name) else ["without controls"]
        found += [f"{NAMES[name]} {' and '.join(lacks)}"] if lacks else []
    return found


def _counted(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number} {word}s"


def _control_seeds(results: Results, data: str) -> set[int]:
    return {
        len(group["seeds"]) for group in results["classifiers"]
        if group["data"] == data and (group["control"], group["vectors"]) != ("none", "trained")
    }  # fmt: skip


def _controlled(results: Results, data: Sequence[str]) -> str:
    with_seeds = {name: _control_seeds(results, name) for name in data}
    said = [f"{NAMES[name]} with {_counted(max(seeds), 'seed')}" for name, seeds in with_seeds.items() if seeds]
    said += [f"{NAMES[name]} has none" for name, seeds in with_seeds.items() if not seeds]
    return f"{'; '.join(said)}."


def _swept_uniform(results: Results, data: Sequence[str]) -> str:
    """What the dagger says of a row that is over all λ."""
    found = [
        f"{NAMES[name]} {NAMES[encoder]} {count} of {len(paper.SPARSITIES)}"
        for encoder in paper.ENCODERS for name in data if (count := uniform_in_sweep(results, name, encoder))
    ]  # fmt: skip
    return f"; † if attention is all but uniform at some λ: {', '.join(found)}" if found else ""


def _adversaries(results: Results, data: Sequence[str]) -> str:
    """How far Table 5 can be believed."""
    searches = [search for search in results["adversaries"] if search["job"]["data"] in data]
    ends = [chosen_adversary(search) for search in searches]
    tried = [each["test"] for search in searches for each in search["adversaries"]]
    cut, cut_of_all = (sum(each["n_epochs"] == each["settings"]["max_epochs"] for each in of) for of in (ends, tried))
    patience = sorted({each["settings"]["patience"] for each in tried})
    stopped = (
        f"{cut} of the {len(ends)} adversaries shown, and {cut_of_all} of all {len(tried)} that were trained, were "
        f"stopped by the limit of epochs, the others after {_or(patience)} epochs without a lower loss."
    )
    cells = [(name, encoder, kind) for name in data for encoder in paper.ENCODERS for kind in ("frozen", "unfrozen")]
    poor = [cell for cell in cells if not sound_searches(results, *cell)]
    if len(poor) == len(cells):
        return (
            "**Not tried well enough for a verdict.** One seed; the base was trained anew for some of the weights of a "
            f"search, and came out otherwise (its accuracies are in the row, Table 3 has others again). {stopped}"
        )
    rows = "; ".join(dict.fromkeys(f"{NAMES[name]}, {NAMES[encoder]}" for name, encoder, _ in poor))
    bearing = {
        kind: [
            chosen_adversary(search)
            for name in data
            for encoder in paper.ENCODERS
            for search in sound_searches(results, name, encoder, kind).values()
        ]
        for kind in ("frozen", "unfrozen")
    }
    unfinished = " and ".join(
        f"{sum(each['n_epochs'] == each['settings']['max_epochs'] for each in shown)} of {len(shown)} {kind}"
        for kind, shown in bearing.items()
    )
    stopped += f" Of those that the claim rests on the limit stopped {unfinished} ones: these might have gone farther."
    without = f" Without verdict, because of too few seeds or of bases trained anew: {rows}." if poor else ""
    return (
        "The claim rests on cells of at least three seeds, in each of which one base is imitated throughout: a digest "
        "of its weights stands in the record. These bases were trained for this table, so that their accuracies (in "
        f"the row) need not be those of Table 3.{without} {stopped}"
    )


def _later_runs(results: Results) -> str:
    """Runs that were made after the first one, with word vectors of their own."""
    lines = []
    for run, about in results.get("later_runs", {}).items():
        taken = "; ".join(f"{count} of {NAMES[name]}" for name, count in about["classifiers"].items()) or "none"
        where = sorted({place for counts in about["hardware"].values() for place in counts})
        lines.append(
            f"The run “{run}” was made later, on {', '.join(where)}, with {_their_vectors(about['vectors'], results)}. "
            f"Its adversaries are in Table 5; of its classifiers those that have more seeds than the "
            f"first run's stand in place of them: {taken}.{_bases(about.get('bases', []))}"
        )
    return "".join(f"\n\n{line}" for line in lines)


def _bases(bases: Sequence[dict[str, Any]]) -> str:
    """How the classifiers were trained that its adversaries imitate."""
    said = [
        f"{NAMES[each['data']]} {NAMES[each['encoder']]} {each['learning_rate']:g} and ×{each['attention_speed']:g} "
        f"(accuracy {', '.join(f'{right:.3f}' for right in each['accuracy'])})"
        for each in bases
    ]
    return f" Learning rates of the bases, chosen in that run, and seed by seed: {'; '.join(said)}." if said else ""


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _their_vectors(vectors: dict[str, Any] | None, results: Results) -> str:
    if vectors is None:
        return "word vectors that start at random"
    if vectors == results["vectors"]:
        return "the same word vectors"
    return f"word vectors trained anew in the same way ({vectors['running_words']:,} words)"


def _size(results: Results, data: str, split: str) -> int:
    return int(next(each["sizes"][split] for each in results["classifiers"] if each["data"] == data))


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
        return (
            "Every table of the paper was run for every set; how many seeds and documents each set has is said below."
        )
    parts = [f"Table 2 rests on {'; '.join(lacking)}."] if lacking else []
    parts += [f"No adversary was trained for {'; '.join(unattacked)}."] if unattacked else []
    return f"**Not everything was run.** {' '.join(parts)} A dash in a table stands for what is missing."


def _epochs(results: Results, limit: str) -> str:
    """The numbers of epochs that classifiers were trained under, by set."""
    found: dict[str, set[int]] = {}
    for group in results["classifiers"]:
        found.setdefault(group["data"], set()).update(each[limit] for each in group["training"] if each)
    said = {name: _or(sorted(numbers)) for name, numbers in found.items() if numbers}
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
    second = args.out.with_stem(f"{args.out.stem}_appendix")
    args.out.write_text(first_screen(results, args.figures, second.name), encoding="utf-8")
    second.write_text(appendix(results, args.figures, args.out.name), encoding="utf-8")
    print(args.out, second)
