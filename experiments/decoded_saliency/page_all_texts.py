"""The part of the appendix on all texts of a set of which the rest of the page has a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page_games import TABLE, against, areas
from page_overlap import HEAD, overlap_rows
from wording import TITLES, paragraph

LEFT_OUT = {"sane": "the explainers with the mask as reference", "control": "the controls", "tau": "the thresholds"}
Records = Mapping[str, Mapping[str, dict[str, Any]]]


def section_all_texts(whole: Records, plain: Records) -> list[str]:
    """Tables 2 to 8 on all texts: of the embedded models, then of those fine-tuned in the ordinary way."""
    if not whole["games"] and not plain["games"]:
        return []
    lines = ["", "## All texts"]
    for name, found in whole["games"].items():
        lines += _of_model(name, found, whole["overlap"].get(name), "the embedded model")
    for name, found in plain["games"].items():
        words = "an encoder fine-tuned once more as for the sample (the weights of that run were not kept)"
        lines += _of_model(name, found, plain["overlap"].get(name), words)
    return lines


def _of_model(name: str, found: dict[str, Any], overlap: dict[str, Any] | None, model: str) -> list[str]:
    title = TITLES[name]
    played = {facts["group"] for facts in found["contestants"].values()}
    absent = [words for group, words in LEFT_OUT.items() if group not in played]
    without = f" Not played on all texts, only on the sample: {', '.join(absent)}." if absent else ""
    about = f"""**{title}, n = {found["n_texts"]:,}** on {model} (`{found["model"]}`, accuracy {found["accuracy"]:.3f},
    {found["hardware"]}): Table {TABLE[name]} as above, random the mean of {found["random_orders"]} orders.{without}"""
    lines = ["", *paragraph(about), "", *areas(name, found), *against(title, found["differences"])]
    if overlap is None:
        return lines
    return [*lines, "", f"Overlap, n = {overlap['n_texts']:,}:", "", *HEAD, *overlap_rows(name, title, overlap)]
