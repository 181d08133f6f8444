"""Explanations as one self-contained page: markup, style and script from `report/`, texts and scores as data.

Nothing of a text, a label or an option ever becomes markup: all of it travels as JSON inside a script element that the
browser does not run, and the page's own script, the only one its security policy lets run, sets it as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import UsageError
from whence.explanation import Explanation, Prediction, Token

if TYPE_CHECKING:
    from jaxtyping import Float

    from whence.lens import Lens

SCHEMA = "whence.page/1"
TITLE = "Which words the decision rests on"
SCRIPTS = ("begin", "reading", "scores", "text", "map", "lens", "list", "frame", "export", "report")
_HEIGHT = 760  # pixels of a notebook's output


def page(explanations: Sequence[Explanation], *, title: str = TITLE, lenses: Sequence[Lens] = ()) -> str:
    """The page of several explanations: texts down a list, the methods that explained the same text side by side.

    A lens stands below its text; one lens can have a page of its own.

    >>> import whence
    >>> found = whence.explain(whence.load(), ["a witty film", "a dull film"], method="leave_one_out")
    >>> page(found).startswith("<!doctype html>")
    True
    """
    style = _file("report.css")
    script = "\n".join(_file(f"{name}.js") for name in SCRIPTS)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "style": style,
        "script": script,
        "data": embedded(page_data(explanations, title, lenses)),
    }
    return re.sub(r"%%(\w+)%%", lambda match: parts[match[1]], _file("report.html"))


def frame(explanation: Explanation) -> str:
    """The page inside a notebook: a frame of its own, so that neither page can touch the other."""
    content = html.escape(page([explanation]), quote=True)
    return (
        f'<iframe title="whence explanation" sandbox="allow-scripts allow-downloads" width="100%" height="{_HEIGHT}"'
        f' style="border: 0; resize: vertical; color-scheme: normal" srcdoc="{content}"></iframe>'
    )


def embedded(data: Any) -> str:
    """JSON that stays JSON inside a script element: plain ASCII without a character that could end it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page_data(explanations: Sequence[Explanation], title: str = TITLE, lenses: Sequence[Lens] = ()) -> dict[str, Any]:
    """What the page holds: each model, method and text once, and a run for every explanation.

    An explanation joins the runs of its text; the same text explained twice in the same way is a second entry.
    """
    if not explanations and len(lenses) != 1:
        raise UsageError("there is nothing to show", "give at least one explanation, or one lens")
    models: dict[str, int] = {}
    methods: dict[str, int] = {}
    texts: list[dict[str, Any]] = []
    entries: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for explanation in explanations:
        model = _place(models, vars(explanation.model))
        run = _run(explanation, _place(methods, _method(explanation)))
        alike = entries.setdefault((explanation.text, explanation.pair, explanation.tokens, model), [])
        entry = next((each for each in alike if all(run["method"] != other["method"] for other in each["runs"])), None)
        if entry is None:
            entry = {**_text(explanation, model), "prediction": _prediction(explanation.prediction)}
            alike.append(entry)
            texts.append(entry)
        entry["runs"].append(run)
    for lens in lenses:
        model = _place(models, vars(lens.model))
        mine = entries.get((lens.text, lens.pair, lens.tokens, model), [])
        if explanations and not mine:
            raise UsageError("a lens belongs to none of the explanations", "explain its text with the same model")
        if not mine:
            mine = [{**_text(lens, model), "prediction": None}]
            texts += mine
        for entry in mine:
            entry["lens"] = _lens(lens)
    return {
        "schema": SCHEMA,
        "title": title,
        "version": (explanations[0].whence_version if explanations else "") or version("whence"),
        "models": [json.loads(model) for model in models],
        "methods": _labelled([json.loads(method) for method in methods]),
        "texts": texts,
    }


def _place(seen: dict[str, int], record: Mapping[str, Any]) -> int:
    return seen.setdefault(json.dumps(record), len(seen))


def _method(explanation: Explanation) -> dict[str, Any]:
    meaning = explanation.meaning
    bounds = {"low": _finite(meaning.low), "high": _finite(meaning.high)}
    return {
        "name": explanation.method,
        "options": {str(name): str(value) for name, value in explanation.options.items()},
        "seed": explanation.seed,
        "layers": list(explanation.layers),
        "meaning": {**vars(meaning), **bounds},
        "keep": "keep" in meaning.name.lower(),
    }


def _labelled(methods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Methods with a label each: the name, and where several share it a number too."""
    seen: dict[str, int] = {}
    for method in methods:
        name = method["name"]
        seen[name] = seen.get(name, 0) + 1
        method["label"] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return methods


def _text(shown: Explanation | Lens, model: int) -> dict[str, Any]:
    return {
        "text": shown.text,
        "pair": shown.pair,
        "model": model,
        "tokens": _tokens(shown.tokens),
        "runs": [],
        "lens": None,
    }


def _lens(lens: Lens) -> dict[str, Any]:
    """Each word once, and by number in the squares."""
    words: dict[str, int] = {}
    top = [words.setdefault(word, len(words)) for layer in lens.words for square in layer for word in square]
    return {
        "layers": list(lens.layers),
        "k": lens.ids.shape[2],
        "words": list(words),
        "top": top,
        "probabilities": _numbers(lens.probabilities),
        "own": _numbers(lens.own_probabilities),
        "ranks": lens.own_ranks.ravel().tolist(),
        "readBack": lens.read_back.tolist(),
        "head": lens.head,
        "nextToken": lens.next_token,
        "warnings": list(lens.warnings),
    }


def _tokens(tokens: Sequence[Token]) -> dict[str, list[Any]]:
    """Column by column, which is half as long; places are characters as Python counts them."""
    return {
        "text": [token.text for token in tokens],
        "start": [token.start for token in tokens],
        "end": [token.end for token in tokens],
        "segment": [token.segment for token in tokens],
        "special": [int(token.special) for token in tokens],
        "word": [token.word for token in tokens],
    }


def _prediction(prediction: Prediction) -> dict[str, Any]:
    chances = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    return {
        "label": prediction.label,
        "probability": _finite(prediction.probability),
        "probabilities": [[label, _finite(chance)] for label, chance in chances],
    }


def _run(explanation: Explanation, method: int) -> dict[str, Any]:
    errors, missing = explanation.standard_errors, explanation.completeness_errors
    target, cost = explanation.target, explanation.cost
    return {
        "method": method,
        "scores": _numbers(explanation.scores),
        "errors": None if errors is None else _numbers(errors),
        "completeness": None if missing is None else [_finite(error) for error in missing],
        "target": {"description": target.description, "scale": target.scale, "value": _finite(target.value)},
        "cost": {"forwards": cost.forwards, "backwards": cost.backwards, "seconds": _finite(cost.seconds)},
        "warnings": list(explanation.warnings),
    }


def _numbers(table: Float[np.ndarray, "layer token *rank"]) -> str:
    """Every score exactly, in a third of the room that digits would take: little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(table, dtype="<f4").tobytes()).decode("ascii")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _file(name: str) -> str:
    return (files("whence.render") / "report" / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"
