"""Which tokens speak for which class, and how many for two at once: Tables 3 to 9, Figures 4, 7, 8 and 9, the examples.

python experiments/decoded_saliency/overlap.py --data-dir DIR [--sets sst2 ag_news] [--sample N] [--device cuda]
    [--jobs N]

Reads SET-games.json in --out (for the layer chosen there), the scores in --cache, and
wikipedia_document_frequencies.parquet in DIR; writes SET-overlap.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from contestants import CONTESTANTS, label
from scores import Task, scores_of, surroundings, write
from tables import arguments, players, processes, task_of, tell

from whence.explanation import Explanation
from whence.metrics.confidence import percentile_ends, resampling_weights
from whence.metrics.document_frequency import DocumentFrequencies, read_document_frequencies
from whence.metrics.overlap import contradictions, overlap, overlap_curve, shared_tokens, token_totals, top_tokens

K = 50
KS = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100)
RESAMPLES = 200
FREQUENCIES = "wikipedia_document_frequencies.parquet"

# the first words of the examples of the paper's appendix A.5
EXAMPLES = {
    "sst2": (
        "unflinchingly bleak", "so unremittingly awful", "birthday girl is an", "more romantic , more emotional",
    ),
    "ag_news": (
        "Dutch Retailer Beats Apple", "Charity chief kidnapped in Iraq", "Hockey Labor Talks Broken Off",
        "United Pilots Cut Deal on Pensions",
    ),
}  # fmt: skip


def main(given: Any) -> None:
    words = read_document_frequencies(given.data_dir / FREQUENCIES)
    groups = ("decoded", "undecoded", "package", "sane")
    listed = [each for each in players(given) if CONTESTANTS[each].group in groups]
    with processes(given.jobs) as share_out:
        for name in given.sets:
            task = task_of(given, name)
            games = json.loads((given.out / f"{name}-games.json").read_text())
            if games["n_texts"] != len(task.texts):
                raise SystemExit(
                    f"{name}-games.json is of {games['n_texts']} texts, not of {len(task.texts)}: same --sample?"
                )
            frequencies = words.of_pieces(pieces(task))
            tell(f"{name}: {len(frequencies.counts)} pieces with document frequencies")
            found = share_out(partial(of_contestant, given, name, frequencies), listed)
            results = {
                "data": name,
                "n_texts": len(task.texts),
                "chosen": games["chosen"].get("Decoded Grad-CAM"),
                "k": K,
                "ks": list(KS),
                "predicted": {c: sum(said.prediction.label == c for said in task.said) for c in games["labels"]},
                "documents": frequencies.n_documents,
                "resamples": RESAMPLES,
                "methods": {called: facts for each in found for called, facts in each.items()},
                "examples": examples(given, name, listed),
                "seed": given.seed,
                **surroundings(given.device),
            }
            write(results, given.out / f"{name}-overlap.json")
            tell(f"{name}: overlaps of {len(results['methods'])} methods")


def of_contestant(given: Any, name: str, frequencies: DocumentFrequencies, each: str) -> dict[str, dict[str, Any]]:
    """A contestant's numbers at each of its layers."""
    task = task_of(given, name)
    scored = scores_of(task, each, CONTESTANTS[each], given.cache)
    found = {
        label(each, layer, len(scored.layers)): {"group": CONTESTANTS[each].group}
        | of_method(task, frequencies, each, scored.rows[layer])
        for layer in scored.layers
    }
    tell(f"{name}: {each}: overlaps at {len(found)} layers")
    return found


def pieces(task: Task) -> Callable[[str], list[str]]:
    """The word pieces of a word, as the model's tokenizer cuts it."""
    tokenizer = task.model.tokenizer.tokenizer  # type: ignore[attr-defined]
    return lambda word: tokenizer.tokenize(word)


def of_method(task: Task, frequencies: DocumentFrequencies, name: str, rows: list[np.ndarray]) -> dict[str, Any]:
    """The paper's numbers of one method, and the same without weights and without equal say for every text."""
    explanations = task.explanations(rows)
    repeats: Literal["mean", "sum"] = "mean" if CONTESTANTS[name].unique else "sum"
    weighted, plain, raw = (
        in_order(task, token_totals(explanations, repeats=repeats, **settings))
        for settings in ({"weight": frequencies.idf}, {}, {"weight": frequencies.idf, "normalise": False})
    )
    shared = shared_tokens(weighted, K)
    assert contradictions(shared) == []
    low, middle, high = resampled(explanations, frequencies, repeats)
    return {
        "overlap": overlap(weighted, K),
        "low": low,
        "middle": middle,
        "high": high,
        "without_idf": overlap(plain, K),
        "raw_scores": overlap(raw, K),
        "curve": overlap_curve(weighted, KS),
        "counts": [sum(len(tokens) for tokens in shared_tokens(weighted, k).values()) for k in KS],
        "shared": {f"{one} and {other}": tokens for (one, other), tokens in shared.items()},
        "top": {c: {token: weighted[c][token] for token in top_tokens(weighted[c], K)} for c in weighted},
    }


def in_order(task: Task, totals: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Classes in the order of the model's labels, also those never predicted, so that pairs are the paper's."""
    return {name: totals.get(name, {}) for name in task.model.reading.labels.names}  # type: ignore[attr-defined]


def resampled(
    explanations: list[Explanation], frequencies: DocumentFrequencies, repeats: Any
) -> tuple[float, float, float]:
    """Resamples over texts of the overlap at K, their ends and their median: each text's totals once, then sums.

    A resample holds fewer distinct texts, and so fewer tokens that both classes use: its overlap is lower on average
    than that of all texts. The page moves the ends by that much (`intervals.centred`).
    """
    texts: list[tuple[str, dict[str, float]]] = []
    for explanation in explanations:
        [(predicted, totals)] = token_totals([explanation], weight=frequencies.idf, repeats=repeats).items()
        texts.append((predicted, totals))
    classes = list(explanations[0].prediction.probabilities)
    tokens = sorted({token for _, totals in texts for token in totals})
    number = {token: i for i, token in enumerate(tokens)}
    cells = np.array(
        [classes.index(predicted) * len(tokens) + number[token] for predicted, totals in texts for token in totals]
    )
    values = np.array([value for _, totals in texts for value in totals.values()])
    owner = np.repeat(np.arange(len(texts)), [len(totals) for _, totals in texts])
    found = []
    for drawn in resampling_weights(len(texts), RESAMPLES):
        sums = np.bincount(cells, values * drawn[owner], minlength=len(classes) * len(tokens)).reshape(len(classes), -1)
        first = np.zeros(sums.shape, dtype=bool)
        np.put_along_axis(first, np.argsort(-sums, axis=1, kind="stable")[:, :K], True, axis=1)
        first &= sums > 0
        shares = [
            (first[a] & first[b]).sum() / max(1, min(first[a].sum(), first[b].sum()))
            for a in range(len(classes))
            for b in range(a)
        ]
        found.append(float(np.mean(shares)))
    low, high = percentile_ends(np.array(found))
    return float(low), float(np.median(found)), float(high)


def examples(given: Any, name: str, listed: list[str]) -> list[dict[str, Any]]:
    """The examples of the paper's appendix that are in the data, sampled or not: words with their scores, by method."""
    task = task_of(given, name, EXAMPLES[name])
    explained = {}
    for each in listed if task.texts else ():
        scored = scores_of(task, each, CONTESTANTS[each], given.cache)
        for layer in scored.layers:
            explained[label(each, layer, len(scored.layers))] = task.explanations(scored.rows[layer])
    return [
        {
            "predicted": said.prediction.label,
            "probability": said.prediction.probability,
            "gold": task.model.reading.labels.name(task.gold[row]),
            "words": [word.text for word in said.words()],
            "scores": {called: [word.score for word in found[row].words()] for called, found in explained.items()},
        }
        for row, said in enumerate(task.said)
    ]


if __name__ == "__main__":
    main(arguments.parse_args())
