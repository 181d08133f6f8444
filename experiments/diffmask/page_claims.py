"""The first screen of docs/diffmask.md: what the paper claims, what was found, and what follows for a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import page_figures
import paper
from intervals import Interval, difference, over, with_seeds
from page_table2 import BEST_STEP, RELEASED, RIVAL, not_empty, scored
from toy_figures import draw_shares
from verdict import RULE, Claim, Here, claims_table
from wording import bullet, passage, percent, picture

POINTS = 100
RIVALS = ("integrated gradients", "information bottleneck", "noise tolerance")


def first_screen(found: Mapping[str, Any], figures: Path, page: Path, appendix: str) -> list[str]:
    """Claims, pictures, and what they mean."""
    lines = ["# DiffMask, tried again"]
    lines += passage(
        f"""DiffMask (De Cao et al., 2020) trains probes that say which words, or hidden states, a model can do without.
        Here: the embedded BERT, six layers; [twelve](real_encoder.md). [Appendix]({appendix}): commands and tables."""
    )
    claims = [*_table_2(found), *_five_classes(found), *_questions(found), *_digits(found), *_separators(found)]
    claims.append(Claim("Figures 11, 13, 14; BERT-base and BERT-large", None, None, None, why_not="–"))
    lines += ["", *claims_table(claims), *passage(RULE)]
    if {"table2_gru", "table2_bert"} <= set(found):
        lines += passage(_both_steps(found))
    if "sst" in found:
        lines += picture(page_figures.sst_layers(found["sst"], figures), page, "Five seeds, and the published settings")
    if "toy" in found:
        path = draw_shares(found["toy"]["figure_3"], figures / "toy-figure-3.png")
        lines += picture(path, page, "Figure 3: who finds the digits that count?")
    return [*lines, "", "## What this means for you", "", *meaning(_table_2(found))]


def meaning(table_2: Sequence[Claim]) -> list[str]:
    points = ["On sentences a mask costs answers: read it beside its agreement with the unmasked model."]
    if table_2 and all(claim.cells()[3] != "reproduced" for claim in table_2):
        points.append("For the fewest sufficient words of one sentence, corrected REINFORCE is as good or better.")
    points.append("The printed settings collapse here: keep whence's recipe, and look for collapse.")
    return [line for point in points for line in bullet(point)]


def _table_2(found: Mapping[str, Any]) -> list[Claim]:
    claims = []
    for name in ("table2_gru", "table2_bert"):
        if name not in found or RIVAL not in found[name]["rows"]:
            continue
        own = found[name]
        claims.append(
            Claim(
                f"Table 2, {own['model']['name'].split()[0]}: F1, DiffMask − corrected REINFORCE",
                own["paper"]["DiffMask"]["f1"] - own["paper"]["REINFORCE"]["f1"],
                "> 0",
                Here(
                    difference(scored(own, BEST_STEP, "f1"), scored(own, RIVAL, "f1")),
                    own["search"]["sentences"] - own["search"]["not_solved"],
                    len(own["seeds"]),
                    own["split"],
                ),
                digits=1,
            )
        )
    return claims


def _both_steps(found: Mapping[str, Any]) -> str:
    """What the headline of Table 2 leaves out: the last step, empty optima, REINFORCE as released."""
    gru, bert = found["table2_gru"], found["table2_bert"]
    whole = (BEST_STEP, RIVAL, RELEASED)
    last = tuple(f"{name}, last step" for name in whole)

    def f1_of(own: Mapping[str, Any], names: Sequence[str]) -> list[float]:
        return [own["rows"][name]["f1"] for name in names]

    def said(scores: Sequence[float | None]) -> str:
        mine, rival, released = ("–" if each is None else f"{each:.1f}" for each in scores)
        return f"{mine} against {rival} ({released})"

    pairs = [f1_of(own, names)[:2] for own in (gru, bert) for names in (whole, last)]
    turned = sum(mine < rival for mine, rival in pairs)
    empty = [not_empty(gru, name)[0] for name in whole]
    search = bert["search"]
    left = f", {search['not_solved']} of {search['sentences']} unsolved, left out" if search["not_solved"] else ""
    return (
        f"Table 2 takes the smallest of {gru['rows'][BEST_STEP]['settings']['steps']:,} steps that meets the judge's"
        f" own constraint. F1 against corrected (released) REINFORCE: GRU {said(f1_of(gru, whole))}, last step"
        f" {said(f1_of(gru, last))}, without {gru['search']['sizes'].get('0', 0)} empty optima {said(empty)}; BERT"
        f" {said(f1_of(bert, whole))}, last step {said(f1_of(bert, last))}{left}. Corrected, it leads in {turned} of"
        f" {len(pairs)}."
    )


def _five_classes(found: Mapping[str, Any]) -> list[Claim]:
    if "sst" not in found:
        return []
    own = found["sst"]
    claims = []
    for kind, reading, words in (("input", "top", "inputs"), ("hidden", "mean", "hidden states")):
        got, there = own["test"]["recipes"][kind], paper.SST_F1[kind]
        change, n_seeds = got[reading]["macro_f1_change"], got["n_seeds"]
        value, low, high = (POINTS * change[key] for key in ("value", "low", "high"))
        number = with_seeds(value, low, high, None if change.get("sd") is None else POINTS * change["sd"], n_seeds)
        masked = f"{percent(got[reading]['masked']['value'])} masked"
        claims.append(
            Claim(
                f"SST: change in macro-F1, {there['masked']} % of {words} masked",
                there["masked_f1"] - paper.SST_F1["unmasked"],
                "at least",
                Here(number, own["test"]["n_texts"], n_seeds, "test", note=masked),
                digits=1,
                signed=True,
            )
        )
    for kind, words in (("input", "inputs"), ("hidden", "hidden states")):
        spread = own["stability"][kind]["ddof_1_mean_of_sentences"]
        claims.append(
            Claim(
                f"spread (sd) over seeds, {words}",
                paper.SST_STABILITY[kind],
                "at most",
                Here(
                    Interval(spread["value"], spread["low"], spread["high"]),
                    own["n_texts"],
                    own["recipes"][kind]["n_seeds"],
                    "dev",
                ),
                digits=4,
            )
        )
    return claims


def _questions(found: Mapping[str, Any]) -> list[Claim]:
    if "squad" not in found:
        return []
    kept = found["squad"]["input"]["answers_kept"]["0.5"]["all_layers"]
    number = Interval(kept["value"], kept["low"], kept["high"])
    here = Here(number, found["squad"]["n_texts"], 1, "dev")
    return [Claim("SQuAD: all layers keep the answer", paper.ANSWER_KEPT, "at least", here)]


def _digits(found: Mapping[str, Any]) -> list[Claim]:
    if "toy" not in found or "rows" not in found["toy"]["runs"][0]:
        return []
    own, claims = found["toy"], []
    for number, measure in enumerate(("kl", "js")):
        theirs = {name: own["table"][name]["paper"][number] for name in (*RIVALS, "DiffMask, hidden")}
        gaps = [
            min(run["rows"][name][measure] for name in RIVALS) - run["rows"]["DiffMask, hidden"][measure]
            for run in own["runs"]
        ]
        claims.append(
            Claim(
                f"digits: {measure.upper()} to the truth, best rival − DiffMask",
                min(theirs[name] for name in RIVALS) - theirs["DiffMask, hidden"],
                "> 0",
                Here(
                    over(gaps), sum(run["n_compared"] for run in own["runs"]), len(own["seeds"]), "held out",
                    note="by seed " + ", ".join(f"{gap:.2f}" for gap in gaps),
                ),
            )
        )  # fmt: skip
    return claims


def _separators(found: Mapping[str, Any]) -> list[Claim]:
    if "sst" not in found:
        return []
    rows = {row["group"]: row for row in found["sst"]["figures"]["hidden_by_part_of_speech"] if row["low"] is not None}
    if not {"[SEP]", "ADJ"} <= set(rows):
        return []
    kept = [
        Interval(*(rows[group][key] / rows[group]["n_layers"] for key in ("mean", "low", "high")))
        for group in ("[SEP]", "ADJ")
    ]
    theirs = [paper.NOTEBOOK_HIDDEN_POS[group] / paper.SST_ENTRIES for group in ("[SEP]", "ADJ")]
    here = Here(difference(kept[0], kept[1]), found["sst"]["n_texts"], 1, "dev")
    return [
        Claim(
            "layers that keep [SEP] − adjectives, hidden states",
            theirs[0] - theirs[1],
            "> 0",
            here,
        )
    ]
