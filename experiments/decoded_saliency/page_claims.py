"""The first screen of docs/decoded_saliency.md: what the paper claims, what was found, and what follows for a user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paper
from commands import N_TEXTS
from contestants import CONTESTANTS
from findings import ZERO, as_few, comparison
from intervals import Interval, centred, difference
from verdict import RULE, Asks, Claim, Here, claims_table
from wording import TITLES, bullet, link, paragraph

from whence.metrics.many_comparisons import holm

TRAINING = Path(__file__).parents[2] / "training" / "results.json"
WHOLE = {"sst2": "dev", "ag_news": "test"}
GAMES: dict[str, tuple[int, Asks]] = {"revealing": (0, "> 0"), "hiding": (1, "< 0")}
PLAIN = ", ordinary"
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
        f"""Hou and Castanon (2022) decode a hidden layer's scores into words by the language-model head. **The
        models here were kept decodable**: fine-tuning went on filling masked words (loss weight
        {" and ".join(f"{weight:g}" for weight in sorted(weights))}; unsaid in the paper).
        {_after_ordinary(plain["games"])}
        [Appendix]({more}): commands and tables."""
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
    of_news = {", embedded": games["ag_news"], PLAIN: plain["games"].get("ag_news")}
    sampled = [where for where, each in of_news.items() if each and each["n_texts"] < N_TEXTS["ag_news"]]
    if sampled:
        which = sampled[0] if any(each and where not in sampled for where, each in of_news.items()) else ""
        words = f"all {N_TEXTS['ag_news']:,} test texts of AG News{which}"
        claims.append(Claim(words, None, None, None, why_not="–"))
    lines += ["", *claims_table(claims), "", *paragraph(RULE), ""]
    lines += [f"![All layers on {TITLES['sst2']}]({link(figures / 'sst2-layers.png', out)})", ""]
    lines += [f"![Overlap over k]({link(figures / 'overlap.png', out)})", "", "## What this means for you", ""]
    points = [_added(games, plain["games"]), _shared(overlaps, plain["overlap"])]
    points.append("Measure what the head reads at your layer first.")
    return [*lines, *(line for point in points for line in bullet(point))]


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
    read = plain["sst2"]["head"]
    return (
        f"{told}; after an ordinary fine-tuning of all weights, from another pretraining,"
        f" {read['probability'][bare['layer']]:.2f} (n = {read['n_texts']})."
    )


def _after_ordinary(plain: Mapping[str, Any]) -> str:
    """Whether decoding beats layer 0, as in the paper, on models that were fine-tuned in the ordinary way."""
    lost, kept = [], []
    for name, found in plain.items():
        rows = {game: _layer_0(name, found, game, "") for game in GAMES}
        won = [game for game, claim in rows.items() if claim is not None and claim.cells()[-1] == "reproduced"]
        if won:
            kept.append(TITLES[name] + ("" if len(won) == len(GAMES) else f" in {won[0]} alone"))
        elif any(rows.values()):
            lost.append(TITLES[name])
    surely = "decoding was surely better than layer 0"
    if lost:
        told = f"**After an ordinary fine-tuning {surely.replace('was', 'was not')}** ({', '.join(lost)})"
        return f"{told}; it was on {', '.join(kept)}." if kept else f"{told}."
    return f"After an ordinary fine-tuning, too, {surely} ({', '.join(kept)})." if kept else ""


def _embedded(training: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    run: Mapping[str, Any] = training["finetunings"][training["embedded_runs"][task]]
    return run


def _added(games: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """What decoding adds to the undecoded score at the layer that was chosen for it."""
    told = [
        comparison(row, p)
        for found in (*games.values(), *plain.values())
        for row, p in zip(found["differences"], holm(np.array([row["p"] for row in found["differences"]])), strict=True)
        if row["what"] == SAME_LAYER
    ]
    return (
        f"Choose the layer first: beside the undecoded score there, decoding is better in {told.count('better')} and "
        f"worse in {told.count('worse')} of {len(told)} games."
    )


def _shared(overlaps: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Whether few tokens in common are a mark of decoding, by all models."""
    found = [each for each in (*overlaps.values(), *plain.values()) if each["chosen"] in each["methods"]]
    others = sum(bool(as_few(each)) for each in found)
    if others == len(found):
        return "Fewer tokens shared by two classes is no mark of decoding: other explainers share as few."
    return f"Few tokens shared by two classes: other explainers share as few in {others} of {len(found)} models."


def _games(name: str, found: Mapping[str, Any], where: str = "") -> list[Claim]:
    """Decoded at its chosen layer against the paper's baseline, and against the rival that the paper finds stronger."""
    claims = [claim for game in GAMES if (claim := _layer_0(name, found, game, where)) is not None]
    theirs, best = paper.GAMES[name], paper.GAMES[name][paper.BEST[name]]
    row = _row(found, "the best of the packages' explainers", "hiding")
    if row is not None and "Shapely" in theirs and row["rival"].startswith("Shapley"):
        words = f"{TITLES[name]}, hiding: decoded − Shapley{where}"
        claims.append(_claim(words, best[1] - theirs["Shapely"][1], "> 0", row, _half(name, found)))
    return claims


def _layer_0(name: str, found: Mapping[str, Any], game: str, where: str) -> Claim | None:
    column, asks = GAMES[game]
    row = _row(found, "the undecoded score at layer 0", game)
    if row is None:
        return None
    best, first = (paper.GAMES[name][each][column] for each in (paper.BEST[name], "Grad-CAM l0"))
    words = f"{TITLES[name]}, {game}: decoded − layer 0{where}"
    return _claim(words, best - first, asks, row, _half(name, found))


def _row(found: Mapping[str, Any], what: str, game: str) -> Mapping[str, Any] | None:
    return next((row for row in found["differences"] if (row["what"], row["game"]) == (what, game)), None)


def _half(name: str, found: Mapping[str, Any]) -> str:
    return f"half of {_split(name, found)}"


def _split(name: str, found: Mapping[str, Any]) -> str:
    return "a test sample" if name == "ag_news" and found["n_texts"] < N_TEXTS[name] else WHOLE[name]


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
    words = f"{TITLES[name]}, overlap: decoded − paper's rival{where}"
    return [Claim(words, theirs, "< 0", Here(number, found["n_texts"], 1, _split(name, found), note=lowest), digits=1)]


def overlap_interval(facts: Mapping[str, Any]) -> Interval:
    """The overlap with its interval; records from before the middle was kept have the ends of the resamples alone."""
    return centred(facts["overlap"], facts["low"], facts["high"], facts.get("middle"))
