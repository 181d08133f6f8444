"""A scoreboard in a folder: scoreboard.json for reading, Parquet tables for computing, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import FileError
from whence.explanation import ExplainedTarget, Meaning, ModelRecord, Token, layer_of_file
from whence.files import write_whole
from whence.json_records import plain
from whence.metrics.table import METRICS, Metric
from whence.scoreboard.board import CURVES, GRID, Entry, JudgedText, Scoreboard
from whence.scoreboard.controls import SINGLE_EFFECTS

SCHEMA = "whence.scoreboard/1"
SUMMARY, PER_TEXT, CURVE_TABLE, SCORES, TEXTS = (
    "scoreboard.json", "per_text.parquet", "curves.parquet", "scores.parquet", "texts.parquet"
)  # fmt: skip
_ADVICE = "give a folder that Scoreboard.save or `whence evaluate` wrote"
_METRIC_FIELDS = ("title", "group", "better", "sentence", "of", "version")
_TOKEN_FIELDS = ("text", "id", "start", "end", "segment", "special", "word")


def to_dict(board: Scoreboard) -> dict[str, Any]:
    verdict = board.verdict
    rankings = {
        metric: [
            {"entry": each.name, "mean": each.mean.mean, "low": each.mean.low, "high": each.mean.high,
             "ranks": list(each.ranks), "n_texts": each.n_texts}
            for each in board.ranking(metric).standings
        ]
        for metric in board.metrics
        if board.kinds[metric].better is not None
    }  # fmt: skip
    data: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "model": asdict(board.model),
            "n_texts": board.n_texts,
            "verdict": asdict(verdict),
            "entries": [asdict(entry) for entry in board.entries],
            "metrics": {
                name: {field: getattr(board.kinds[name], field) for field in _METRIC_FIELDS} for name in board.metrics
            },
            "means": {
                metric: {
                    entry.name: None if (found := board.interval(entry.name, metric)) is None else asdict(found)
                    for entry in board.entries
                }
                for metric in board.metrics
            },
            "rankings": rankings,
            "two_rankings": None if board.two_rankings is None else asdict(board.two_rankings),
            "rank_correlation": board.rank_correlation,
            "stages": board.stages,
            "randomised": {
                entry.name: [_mean(of_stage) for of_stage in of_entry]
                for entry, of_entry in zip(board.entries, board.randomised, strict=True)
            },
            "flagged": board.flagged,
            "left_out": board.left_out,
            "settings": board.settings,
            "seconds": board.seconds,
            "warnings": board.warnings,
        },
        nan_as_null=True,
    )
    return data


def save(board: Scoreboard, folder: str | Path) -> None:
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
    n_entries, n_texts = len(board.entries), board.n_texts
    names = [entry.name for entry in board.entries]
    which = {"entry": np.repeat(names, n_texts), "text": np.tile(np.arange(n_texts), n_entries)}
    _write(
        folder / PER_TEXT,
        {
            **which,
            **{name: table.ravel() for name, table in board.values.items()},
            **{f"randomised_{number}": board.randomised[:, number].ravel() for number in range(len(board.stages))},
        },
    )
    _write(
        folder / CURVE_TABLE,
        {
            **which,
            **{name: list(board.curves[:, :, number].reshape(-1, len(GRID))) for number, name in enumerate(CURVES)},
        },
    )
    _write(folder / SCORES, {**which, "scores": [row for of_entry in board.scores for row in of_entry]})
    _write(
        folder / TEXTS,
        {
            "text": [text.text for text in board.texts],
            "pair": [text.pair for text in board.texts],
            "prediction": [text.prediction for text in board.texts],
            "probability": [text.probability for text in board.texts],
            **{
                f"target_{name}": [getattr(text.target, name) for text in board.texts]
                for name in ("description", "scale", "value")
            },
            "gold": [text.gold for text in board.texts],
            "rationale": [
                None if text.rationale is None else [list(span) for span in text.rationale] for text in board.texts
            ],
            **{
                f"token_{name}": [[getattr(token, name) for token in text.tokens] for text in board.texts]
                for name in _TOKEN_FIELDS
            },
        },
    )
    # last, so that a folder with a summary is complete
    write_whole(json.dumps(to_dict(board), indent=1, ensure_ascii=False, allow_nan=False) + "\n", folder / SUMMARY)


def load(folder: str | Path) -> Scoreboard:
    folder = Path(folder)
    try:
        data = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"no scoreboard in {str(folder)!r}: {error.strerror}", _ADVICE) from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{SUMMARY} in {str(folder)!r} is not JSON: {error}", _ADVICE) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise FileError(f"{SUMMARY} in {str(folder)!r} is no {SCHEMA}", _ADVICE)
    try:
        return _board(folder, data)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileError(f"the scoreboard in {str(folder)!r} is broken: {error!r}", _ADVICE) from error


def _board(folder: Path, data: Mapping[str, Any]) -> Scoreboard:
    entries = tuple(_entry(each) for each in data["entries"])
    texts = tuple(_text(row) for row in _read(folder / TEXTS))
    shape = (len(entries), len(texts))
    per_text, curves, scores = (_read(folder / name) for name in (PER_TEXT, CURVE_TABLE, SCORES))
    if not len(per_text) == len(curves) == len(scores) == shape[0] * shape[1]:
        raise ValueError("its tables do not have one row per entry and text")

    def column(name: str) -> np.ndarray:
        return np.array([row[name] for row in per_text], dtype=float).reshape(shape)

    stages = tuple(data["stages"])
    flat = [np.array(row["scores"], dtype=np.float32) for row in scores]
    return Scoreboard(
        model=ModelRecord(**data["model"]),
        entries=entries,
        texts=texts,
        kinds={name: _metric(name, told) for name, told in data["metrics"].items()},
        values={name: column(name) for name in data["metrics"]},
        curves=np.array([[row[name] for name in CURVES] for row in curves], dtype=np.float32).reshape(
            *shape, len(CURVES), len(GRID)
        ),
        scores=[flat[start : start + shape[1]] for start in range(0, len(flat), shape[1])],
        stages=stages,
        randomised=np.stack([column(f"randomised_{number}") for number in range(len(stages))], axis=1)
        if stages
        else np.zeros((shape[0], 0, shape[1])),
        settings=data["settings"],
        left_out=data["left_out"],
        seconds=data["seconds"],
        warnings=tuple(data["warnings"]),
    )


def _entry(told: Mapping[str, Any]) -> Entry:
    if told["kind"] == "control" and told["name"] == "oracle":  # boards of before promised too much
        told = {**told, "name": SINGLE_EFFECTS}
    chosen_from = tuple(layer_of_file(layer) for layer in told["chosen_from"])
    meaning = Meaning(**told["meaning"])
    return Entry(**{**told, "layer": layer_of_file(told["layer"]), "chosen_from": chosen_from, "meaning": meaning})


def _metric(name: str, told: Mapping[str, Any]) -> Metric:
    """A metric as the file tells it; whence's own is the one of the table."""
    known = METRICS.get(name)
    found = Metric(name=name, **told)
    return known if known is not None and replace(known, compute=None) == found else found


def _text(row: Mapping[str, Any]) -> JudgedText:
    columns = [row[f"token_{name}"] for name in _TOKEN_FIELDS]
    tokens = tuple(Token(**dict(zip(_TOKEN_FIELDS, each, strict=True))) for each in zip(*columns, strict=True))
    rationale = row["rationale"]
    # boards of before did not say what was explained; the decision's probability is as true
    target = (row.get("target_description", row["prediction"]), row.get("target_scale", "probability"),
              row.get("target_value", row["probability"]))  # fmt: skip
    return JudgedText(
        row["text"], row["pair"], tokens, row["prediction"], row["probability"], ExplainedTarget(*target), row["gold"],
        None if rationale is None else tuple((int(start), int(end)) for start, end in rationale),
    )  # fmt: skip


def _write(path: Path, columns: Mapping[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    temporary = path.with_name(f".{path.name}")
    try:
        pyarrow.parquet.write_table(pyarrow.table(dict(columns)), temporary, write_page_checksum=True)
        temporary.replace(path)
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", "choose another folder") from error
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path, page_checksum_verification=True).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileError(f"{path.name!r} cannot be read: {reason}", _ADVICE) from error
    return rows


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
