"""The first screen of docs/decoded_saliency.md: what the paper claims, what was found, and what follows for a user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paper
from contestants import CONTESTANTS
from findings import ZERO, comparison
from intervals import Interval, centred, difference
from verdict import RULE, Asks, Claim, Here, claims_table
from wording import TITLES, bullet, link, paragraph

from whence.metrics.many_comparisons import holm

TRAINING = Path(__file__).parents[2] / "training" / "results.json"
WHOLE = {"sst2": "dev", "ag_news": "test"}
GAMES: dict[str, tuple[int, Asks]] = {"revealing": (0, "> 0"), "hiding": (1, "< 0")}
N_TEST = 7_600  # of AG News
PLAIN = ", ordinary fine-tuning"
SAME_LAYER = "the undecoded score at the same layer"


def first_screen(
    games: Mapping[str, Any], overlaps: Mapping[str, Any], plain: Mapping[str, Mapping[str, Any]], figures: Path,
    out: Path, more: str,
) -> list[str]:  # fmt: skip
    """Claims, pictures, and what they mean; `plain` are games and overlaps of models fine-tuned in the ordinary way."""
    training = json.loads(TRAINING.read_text(encoding="utf-8"))
    weights = {_embedded(training, name)["knobs"]["masked_lm_weight"] for name in ("sentiment", "topic")}
    lines = ["# Decoded layer saliency, tried again", ""]
    lines += paragraph(
        f"""Hou and Castanon (2022) carry a hidden layer's scores back to words through the language-model head. **The
        models here were kept decodable**: their fine-tuning went on filling masked words (loss weight
        {" and ".join(f"{weight:g}" for weight in sorted(weights))}), of which the paper says nothing.
        {_lost(plain["games"])}
        [Appendix]({more}): commands, all tables and figures."""
    )
    claims = [claim for name in TITLES for claim in _games(name, games[name])]
    claims += [claim for name in TITLES for claim in _overlap(name, overlaps[name])]
    for name in TITLES:
        if name in plain["games"]:
            claims += _games(name, plain["games"][name], PLAIN)
        if name in plain["overlap"]:
            claims += _overlap(name, plain["overlap"][name], PLAIN)
        if name not in plain["games"]:
            claims.append(Claim(f"{TITLES[name]}: any of this{PLAIN}", None, None, None, why_not="–"))
    if games["ag_news"]["n_texts"] < N_TEST:
        claims.append(Claim(f"all {N_TEST:,} test texts of AG News", None, None, None, why_not="–"))
    lines += ["", *claims_table(claims), "", *paragraph(RULE), ""]
    lines += [f"![All layers on {TITLES['sst2']}]({link(figures / 'sst2-layers.png', out)})", ""]
    lines += [f"![Overlap over k]({link(figures / 'overlap.png', out)})", "", "## What this means for you", ""]
    return [*lines, *(line for point in meaning(games, plain["games"]) for line in bullet(point))]


def ordinary(training: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """What the head reads at the layer before the last: of the embedded model, of one that was fine-tuned in the
    ordinary way (its games, by data set), and of one that only lacks the loss."""
    trial = training["trials"].get("sentiment-0-1")
    if trial is None:
        return ""
    ours, bare = (run["head_after"][-2] for run in (_embedded(training, "sentiment"), trial))
    told = (
        f"At layer {bare['layer']} the head gives the word that stands there {ours['mean_probability']:.2f}; without"
        f" that loss, words frozen as here, {bare['mean_probability']:.2f} (median rank {bare['median_rank']})"
    )
    if "sst2" not in plain:
        return f"{told}."
    reads = plain["sst2"]["head"]["probability"][bare["layer"]]
    return f"{told}; after an ordinary fine-tuning of all weights, from another pretraining, {reads:.2f}."


def _lost(plain: Mapping[str, Any]) -> str:
    """What the paper finds and a model that was fine-tuned in the ordinary way does not show."""
    told = []
    for name, found in plain.items():
        claims = {claim.words: claim.cells()[-1] for claim in _games(name, found) if "layer 0" in claim.words}
        if claims and "reproduced" not in claims.values():
            told.append(TITLES[name])
    return (
        f"**After an ordinary fine-tuning decoding was not surely better than layer 0** ({', '.join(told)})."
        if told
        else ""
    )


def _embedded(training: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    run: Mapping[str, Any] = training["finetunings"][training["embedded_runs"][task]]
    return run


def meaning(games: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    named = {TITLES[name]: games[name] for name in TITLES}
    named |= {f"{TITLES[name]}{PLAIN}": found for name, found in plain.items()}
    told = []
    for title, found in named.items():
        rows = found["differences"]
        ps = holm(np.array([row["p"] for row in rows]))
        against = [
            f"{row['game']} {comparison(row, p)}" for row, p in zip(rows, ps, strict=True) if row["what"] == SAME_LAYER
        ]
        told.append(f"{title}: {', '.join(against)}")
    return [
        f"Choose the layer first; what decoding adds to the undecoded score there: {'; '.join(told)}.",
        "Fewer tokens shared by two classes is no mark of decoding: other explainers share as few here.",
        "Measure what the head reads at your layer before you decode.",
    ]


def _games(name: str, found: Mapping[str, Any], where: str = "") -> list[Claim]:
    """Decoded at its chosen layer against the paper's baseline, and against the rival that the paper finds stronger."""
    claims, half = [], f"half of {_split(name, found)}"
    rows = {(row["what"], row["game"]): row for row in found["differences"]}
    theirs, best = paper.GAMES[name], paper.GAMES[name][paper.BEST[name]]
    for game, (column, asks) in GAMES.items():
        row = rows.get(("the undecoded score at layer 0", game))
        if row is not None:
            words = f"{TITLES[name]}, {game}: decoded − layer 0{where}"
            claims.append(_claim(words, best[column] - theirs["Grad-CAM l0"][column], asks, row, half))
    row = rows.get(("the best of the packages' explainers", "hiding"))
    if row is not None and "Shapely" in theirs and row["rival"].startswith("Shapley"):
        words = f"{TITLES[name]}, hiding: decoded − Shapley{where}"
        claims.append(_claim(words, best[1] - theirs["Shapely"][1], "> 0", row, half))
    return claims


def _split(name: str, found: Mapping[str, Any]) -> str:
    return "a test sample" if name == "ag_news" and found["n_texts"] < N_TEST else WHOLE[name]


def _claim(words: str, theirs: float, asks: Asks, row: Mapping[str, Any], split: str) -> Claim:
    return Claim(
        words, theirs, asks, Here(Interval(row["mean"], row["low"], row["high"]), row["n"], 1, split), digits=3
    )


def _overlap(name: str, found: Mapping[str, Any], where: str = "") -> list[Claim]:
    """Decoded against the lowest of the paper's rivals that have scores at all."""
    chosen, methods = found["chosen"], found["methods"]
    counts = paper.OVERLAPS[name]
    rivals = [
        called
        for called in methods
        if called in CONTESTANTS and called not in ZERO and CONTESTANTS[called].paper in counts and called != "Decoded"
        and CONTESTANTS[called].group == "package"
    ]  # fmt: skip
    if chosen not in methods or not rivals:
        return []
    lowest = min(rivals, key=lambda called: methods[called]["overlap"])
    ours = difference(overlap_interval(methods[chosen]), overlap_interval(methods[lowest]))
    shares = {each: 100 * sum(row) / (50 * len(row)) for each, row in counts.items()}
    theirs = shares.pop("Decoded") - min(shares.values())
    number = Interval(*(100 * each for each in ours))
    words = f"{TITLES[name]}, overlap: decoded − lowest rival{where}"
    return [Claim(words, theirs, "< 0", Here(number, found["n_texts"], 1, _split(name, found), note=lowest), digits=1)]


def overlap_interval(facts: Mapping[str, Any]) -> Interval:
    """The overlap with its interval; records from before the middle was kept have the ends of the resamples alone."""
    return centred(facts["overlap"], facts["low"], facts["high"], facts.get("middle"))
