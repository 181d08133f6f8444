"""A scoreboard as one self-contained page: markup, style and script from `scoreboard_report/`, the numbers as data.

As in `page.py`, nothing of a text, a name or an option ever becomes markup.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from whence.explanation import Explanation
from whence.render.page import embedded, page
from whence.render.visible import visible
from whence.scoreboard.board import CURVES, GRID, Scoreboard

SCHEMA = "whence.scoreboard_page/1"
TITLE = "Which explanation should I believe?"
SCRIPTS = ("begin", "charts", "ranking", "panels", "scoreboard")
MOST_DISPUTED = 8  # texts listed
MOST_TEXTS = 500  # in the page of texts: more would not open quickly
_LONGEST = 280  # characters of a text in the list


def scoreboard_page(board: Scoreboard, *, texts: str | None = None) -> str:
    """The page of a board; `texts` is the address of the page with its texts, if there is one to link to."""
    style = _file("scoreboard.css")
    script = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "style": style,
        "script": script,
        "data": embedded(page_data(board, texts)),
    }
    return re.sub(r"%%(\w+)%%", lambda match: parts[match[1]], _file("scoreboard.html"))


def texts_page(board: Scoreboard) -> str:
    """The texts of a board with the words of every entry, to look at one by one: the one to believe first."""
    controls = [entry.name for entry in board.entries if entry.kind == "control"]
    ranked = [each.name for each in board.ranking().standings]
    names = sorted(ranked, key=lambda name: (name in controls, name not in board.verdict.believe[:1]))
    columns = [board.explanations(name)[:MOST_TEXTS] for name in names]
    explanations: list[Explanation] = [each for row in zip(*columns, strict=True) for each in row]
    return page(explanations, title=f"The texts of the scoreboard of {board.model.id}")


def page_data(board: Scoreboard, texts: str | None = None) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    verdict = board.verdict
    return {
        "schema": SCHEMA,
        "title": TITLE,
        "version": version("whence"),
        "model": visible(board.model.id),
        "nTexts": board.n_texts,
        "seconds": round(board.seconds, 1),
        "answer": visible(verdict.answer),
        "believe": [visible(name) for name in verdict.believe],
        "reasons": [visible(reason) for reason in verdict.reasons],
        "warnings": [visible(warning) for warning in board.warnings],
        "leftOut": [[visible(name), visible(reason)] for name, reason in board.left_out.items()],
        "settings": [[visible(str(name)), visible(str(value))] for name, value in board.settings.items()],
        "metrics": {name: {"title": visible(metric.title), "group": metric.group, "better": metric.better,
                           "sentence": visible(metric.sentence)} for name, metric in board.kinds.items()},
        "entries": _entries(board),
        "rankings": {
            metric: [
                {"entry": board.index(each.name), "ranks": list(each.ranks)} for each in board.ranking(metric).standings
            ]
            for metric in board.metrics
            if board.kinds[metric].better is not None
        },
        "grid": list(GRID),
        "stages": list(board.stages),
        "agreement": [[_number(value) for value in row] for row in board.rank_correlation],
        "texts": texts,
        "disputed": _disputed(board),
    }  # fmt: skip


def _entries(board: Scoreboard) -> list[dict[str, Any]]:
    found = []
    for place, entry in enumerate(board.entries):
        means = {}
        for metric in board.metrics:
            interval = board.interval(entry.name, metric)
            if interval is not None:
                means[metric] = [_number(value) for value in (interval.mean, interval.low, interval.high)]
        found.append(
            {
                "name": visible(entry.name),
                "kind": entry.kind,
                "layer": entry.layer,
                "chosen": bool(entry.chosen_from),
                "flagged": entry.name in board.flagged,
                "note": visible(entry.note),
                "options": ", ".join(visible(f"{name}={value}") for name, value in entry.options.items()),
                "meaning": visible(entry.meaning.sentence),
                "memory": entry.memory,
                "means": means,
                "curves": {
                    name: [_number(value) for value in board.curves[place, :, number].mean(axis=0).tolist()]
                    for number, name in enumerate(CURVES)
                },
                "randomised": [_mean(row) for row in board.randomised[place]],
            }
        )
    return found


def _disputed(board: Scoreboard) -> list[dict[str, Any]]:
    """The texts on which methods agree least, each with the first words of the best entry and of its opposite."""
    known = np.flatnonzero(np.isfinite(board.discord))
    order = known[np.argsort(-board.discord[known], kind="stable")][:MOST_DISPUTED]
    best = next(each.name for each in board.ranking().standings if each.ranks != (0, 0))
    own = [place for place, entry in enumerate(board.entries) if entry.kind != "control"]
    shown: dict[str, list[Explanation]] = {}
    found = []
    for place in order.tolist():
        text = board.texts[place]
        against = board.text_rank_correlation[place, board.index(best), own]
        other = board.entries[own[int(np.nanargmin(against))]].name if np.isfinite(against).any() else best
        for name in (best, other):
            shown.setdefault(name, board.explanations(name))
        whole = text.text if text.pair is None else f"{text.text} | {text.pair}"
        found.append(
            {
                "place": place if place < MOST_TEXTS else None,
                "text": visible(whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"),
                "prediction": visible(text.prediction),
                "probability": _number(text.probability),
                "gold": None if text.gold is None else visible(text.gold),
                "agreement": _number(1 - float(board.discord[place])),
                "words": [[visible(name), _first_words(shown[name][place])] for name in dict.fromkeys((best, other))],
            }
        )
    return found


def _first_words(explanation: Explanation) -> list[str]:
    words = sorted(explanation.words(), key=lambda word: -word.score)[:3]
    return [visible(word.text) for word in words]


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return _number(float(known.mean())) if len(known) else None


def _file(name: str) -> str:
    return (files("whence.render") / "scoreboard_report" / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"
