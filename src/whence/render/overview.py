"""The overview of a corpus as one page, drawn by the script in `pages/overview`, and the page of the texts it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from whence.corpus.overview import LEAST_TEXTS, DrivingWord, Facet, ListedText, Overview
from whence.render.glossary import words_for
from whence.render.page import page
from whence.render.shell import finite, shell
from whence.render.visible import shortened, visible
from whence.render.wording import model_name, options_words

SCHEMA = "whence.overview/1"
SCRIPTS = ("overview",)
MOST_REASONS = 20
_LONGEST = 280  # characters of a text in a list


def overview_page(found: Overview, *, texts: str | None = None) -> str:
    """The page; `texts` is the address of the page with the texts that are named, if there is one to link to."""
    manifest = found.corpus.manifest
    title = f"What decides {len(found.corpus):,} texts: {model_name(manifest.model.id)}"
    return shell("overview", SCRIPTS, title, page_data(found, texts), manifest.versions.get("whence", ""))


def named_rows(found: Overview) -> list[int]:
    """The texts that the page names, in its order, each once; those that failed have nothing to show."""
    lists = (found.mistakes, found.disagreeing, found.truncated)
    rows = [each.row for some in lists for each in some]
    words = (found.decisive, found.frequent, found.wrong)
    rows += [each.row for some in words for those in some.values() for each in those if each.row is not None]
    return list(dict.fromkeys(rows))


def texts_page(found: Overview) -> str:
    """The texts that the overview names, word by word, by every method."""
    corpus = found.corpus
    explanations = [corpus.explanation(row, name) for row in named_rows(found) for name in corpus.methods]
    return page(explanations, title=f"Texts of the overview of {model_name(corpus.manifest.model.id)}")


def page_data(found: Overview, texts: str | None = None) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    corpus, manifest = found.corpus, found.corpus.manifest
    places = {row: index for index, row in enumerate(named_rows(found))}
    labels = list(dict.fromkeys([*found.histograms, *(name for pair in found.confusion for name in pair)]))
    meaning = next(each.meaning for each in manifest.methods)
    return {
        "schema": SCHEMA,
        "model": visible(model_name(manifest.model.id)),
        "data": visible(_without_folder(str(manifest.data.get("name", "")))),
        "complete": corpus.complete,
        "counts": {
            "texts": len(corpus),
            "failed": corpus.failed,
            "warned": sum(each.warned for each in corpus.shards),
            "truncated": sum(each.truncated for each in corpus.shards),
            "words": sum(each.words for each in corpus.shards),
            "judged": found.judged,
            "right": found.right,
        },
        "classes": [
            {"name": visible(name), "texts": sum(bins), "bins": bins} for name, bins in found.histograms.items()
        ],
        "confusion": {
            "labels": [visible(label) for label in labels],
            "rows": [[found.confusion.get((gold, said), 0) for said in labels] for gold in labels],
        }
        if found.confusion
        else None,
        "mistakes": _texts(found.mistakes, places),
        "decisive": _words(found.decisive, places),
        "leastTexts": LEAST_TEXTS,
        "frequent": _words(found.frequent, places),
        "wrong": _words(found.wrong, places),
        "disagreeing": _texts(found.disagreeing, places),
        "truncated": _texts(found.truncated, places),
        "failed": _texts(found.failed, {}),
        "errors": [[visible(reason), count] for reason, count in found.errors.most_common(MOST_REASONS)],
        "warnings": [[visible(warning), count] for warning, count in found.warnings.most_common(MOST_REASONS)],
        "facets": [
            {"name": visible(name), "values": [_facet(each) for each in some]} for name, some in found.facets.items()
        ],
        "meaning": visible(meaning.sentence),
        "glossary": words_for("score", "layer", "interval", "probability", "method", "τ", "token"),
        "layer": str(found.layer),
        "texts": texts,
        "facts": [
            ["model", visible(f"{model_name(manifest.model.id)}, {manifest.model.architecture}, {manifest.dtype}")],
            ["fingerprint", manifest.fingerprint[:16]],
            *(
                [visible(f"method {each.name}"), f"layers {', '.join(map(str, each.layers))}; "
                 f"{options_words(each.options) or 'no options'}"]
                for each in manifest.methods
            ),
            ["what a row of words is", visible(manifest.units)],
            ["seed", str(manifest.seed)],
            ["shards", str(len(corpus.shards))],
            ["versions", visible(", ".join(f"{name} {each}" for name, each in manifest.versions.items()))],
        ],
    }  # fmt: skip


def _texts(some: Sequence[ListedText], places: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {
            "id": shortened(each.id, 80),
            "index": places.get(each.row),
            "text": shortened(each.text, _LONGEST),
            "label": None if each.label is None else visible(each.label),
            "prediction": None if each.prediction is None else visible(each.prediction),
            "probability": finite(each.probability, 4),
            "value": finite(each.value, 4),
            "note": visible(each.note),
        }
        for each in some
    ]


def _words(words: dict[str, list[DrivingWord]], places: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": visible(name),
            "words": [
                {
                    "word": shortened(each.word, 80),
                    "texts": each.texts,
                    "occurrences": each.occurrences,
                    "mean": finite(each.mean, 5),
                    "low": finite(each.low, 5),
                    "high": finite(each.high, 5),
                    "total": finite(each.total, 3),
                    "example": None if each.example is None else [visible(part) for part in each.example],
                    "index": None if each.row is None else places.get(each.row),
                }
                for each in some
            ],
        }
        for name, some in words.items()
    ]


def _facet(facet: Facet) -> dict[str, Any]:
    return {
        "value": shortened(facet.value, 80),
        "texts": facet.texts,
        "right": finite(facet.right / facet.judged, 4) if facet.judged else None,
        "sure": finite(facet.sure / facet.texts, 4),
        "predictions": [[visible(name), count] for name, count in facet.predictions.most_common(5)],
    }


def _without_folder(name: str) -> str:
    """A file's own name: where it lay is nobody's business. A data set of the hub keeps both parts of its name."""
    path = PurePath(name)
    return path.name if path.is_absolute() or path.suffix or len(path.parts) > 2 else name
