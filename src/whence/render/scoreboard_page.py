"""A scoreboard as one page, drawn by the scripts in `pages/scoreboard`, and the page of its texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from whence.explanation import Explanation
from whence.metrics.table import HEADLINE
from whence.render.glossary import words_for
from whence.render.page import page
from whence.render.shell import finite, shell
from whence.render.visible import shortened, visible
from whence.render.wording import model_name, options_words
from whence.render.worked_example import worked_example
from whence.scoreboard.board import CURVES, GRID, Scoreboard
from whence.scoreboard.second_way import SECOND, in_words
from whence.scoreboard.verdict import STRENGTHS, passes_of

SCHEMA = "whence.scoreboard_page/2"
TITLE = "Which explanation should I believe?"
SCRIPTS = ("begin", "charts", "ranking", "example", "panels", "scoreboard")
MOST_DISPUTED = 8  # texts listed
MOST_TEXTS = 500  # in the page of texts: more would not open quickly
_LONGEST = 280  # characters of a text in the list
_GLOSSARY = (
    "AUC", "AUPRC", "control", "faithfulness", "game", "Holm", "interval", "layer", "LDS", "passes", "random",
    "single_effects", "token", "τ",
)  # fmt: skip


def scoreboard_page(board: Scoreboard, *, texts: str | None = None) -> str:
    """The page of a board; `texts` is the address of the page with its texts, if there is one to link to."""
    title = f"{TITLE} {model_name(board.model.id)} on {board.n_texts} text{'s' if board.n_texts != 1 else ''}"
    return shell("scoreboard", SCRIPTS, title, page_data(board, texts))


def texts_page(board: Scoreboard) -> str:
    """The texts of a board with the words of every entry, to look at one by one: the believed first, controls last."""
    believed, controls = board.verdict.believe, {each.name for each in board.entries if each.kind == "control"}
    ranked = [each.name for each in board.ranking().standings if each.name not in believed]
    names = [*believed, *sorted(ranked, key=controls.__contains__)]
    columns = [board.explanations(name)[:MOST_TEXTS] for name in names]
    explanations: list[Explanation] = [each for row in zip(*columns, strict=True) for each in row]
    return page(explanations, title=f"The texts of the scoreboard of {model_name(board.model.id)}", board=board)


def page_data(board: Scoreboard, texts: str | None = None) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    verdict = board.verdict
    return {
        "schema": SCHEMA,
        "model": visible(model_name(board.model.id)),
        "nTexts": board.n_texts,
        "seconds": round(board.seconds, 1),
        "answer": visible(verdict.answer),
        "strength": verdict.strength,
        "believe": [visible(name) for name in verdict.believe],
        "reasons": [visible(reason) for reason in verdict.reasons],
        "warnings": [visible(warning) for warning in board.warnings],
        "leftOut": [[visible(name), visible(reason)] for name, reason in board.left_out.items()],
        "settings": [[visible(str(name)), visible(str(value))] for name, value in board.settings.items()],
        "metrics": {
            name: {
                "title": visible(kind.title),
                "group": kind.group,
                "better": kind.better,
                "sentence": visible(kind.sentence),
            }
            for name, kind in board.kinds.items()
        },
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
        "correlations": [[finite(value, 6) for value in row] for row in board.rank_correlation],
        "best": _best(board),
        "ways": _ways(board),
        "texts": texts,
        "disputed": _disputed(board),
        "example": worked_example(board),
        "glossary": words_for(*_GLOSSARY) | {f"{name} evidence": said for name, said in STRENGTHS.items()},
    }


def _best(board: Scoreboard) -> float | None:
    """The faithfulness that the best order of each text's words gets, on average."""
    return _mean(board.per_text("best_faithfulness")[0]) if "best_faithfulness" in board.metrics else None


def _ways(board: Scoreboard) -> dict[str, Any] | None:
    """The two ways of hiding, and how far the rankings by them go together."""
    both = board.two_rankings
    if both is None:
        return None
    ways = [str(board.settings.get(way, "")) for way in ("hide", "second_hide")]
    names = [visible(in_words(way)) for way in ways]
    tau = [finite(value, 6) for value in (both.tau.mean, both.tau.low, both.tau.high)]
    return {"names": names, "metrics": [HEADLINE, SECOND], "tau": tau}


def _entries(board: Scoreboard) -> list[dict[str, Any]]:
    found = []
    for index, entry in enumerate(board.entries):
        means = {}
        for metric in board.metrics:
            interval = board.interval(entry.name, metric)
            if interval is not None:
                means[metric] = [finite(value, 6) for value in (interval.mean, interval.low, interval.high)]
        found.append(
            {
                "name": visible(entry.name),
                "kind": entry.kind,
                "layer": entry.layer,
                "chosen": bool(entry.chosen_from),
                "chosenOn": entry.chosen_on,
                "stability": entry.stability,
                "flagged": entry.name in board.flagged,
                "note": visible(entry.note),
                "options": options_words(entry.options),
                "meaning": visible(entry.meaning.sentence),
                "signed": entry.meaning.signed,
                "memory": entry.memory,
                "means": means,
                "passes": passes_of(board, entry.name) or None,
                "curves": {
                    name: [finite(value, 6) for value in board.curves[index, :, number].mean(axis=0).tolist()]
                    for number, name in enumerate(CURVES)
                },
                "randomised": [_mean(row) for row in board.randomised[index]],
            }
        )
    return found


def _disputed(board: Scoreboard) -> list[dict[str, Any]]:
    """The texts on which methods disagree most, each with the first words of the best entry and of its opposite."""
    known = np.flatnonzero(np.isfinite(board.discord))
    order = known[np.argsort(-board.discord[known], kind="stable")][:MOST_DISPUTED]
    best = next(each.name for each in board.ranking().standings if each.ranks != (0, 0))
    own = [index for index, entry in enumerate(board.entries) if entry.kind != "control"]
    shown: dict[str, list[Explanation]] = {}
    found = []
    for index in order.tolist():
        text = board.texts[index]
        against = board.text_rank_correlation[index, board.index(best), own]
        other = board.entries[own[int(np.nanargmin(against))]].name if np.isfinite(against).any() else best
        for name in (best, other):
            shown.setdefault(name, board.explanations(name))
        whole = text.text if text.pair is None else f"{text.text} | {text.pair}"
        found.append(
            {
                "index": index if index < MOST_TEXTS else None,
                "text": shortened(whole, _LONGEST),
                "prediction": visible(text.prediction),
                "probability": finite(text.probability, 6),
                "gold": None if text.gold is None else visible(text.gold),
                "correlation": finite(1 - board.discord[index], 6),
                "words": [[visible(name), _first_words(shown[name][index])] for name in dict.fromkeys((best, other))],
            }
        )
    return found


def _first_words(explanation: Explanation) -> list[str]:
    words = sorted(explanation.words(), key=lambda word: -word.score)[:3]
    return [visible(word.text) for word in words]


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return finite(known.mean(), 6) if len(known) else None
