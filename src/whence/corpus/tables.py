"""The two tables of a shard: a row per text, and a row per word (or sentence, or token) and method."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.columns import columns_of
from whence.corpus.explaining import Explained
from whence.corpus.job import Job
from whence.explanation import Explanation, Layer, Unit
from whence.json_records import plain
from whence.tokens import Tokens

if TYPE_CHECKING:
    import pyarrow

TABLES = ("texts", "words")


def score_column(layer: Layer) -> str:
    return f"score_{layer}"


def error_column(layer: Layer) -> str:
    return f"standard_error_{layer}"


def texts_schema(job: Job) -> pyarrow.Schema:
    """The columns of the table of texts: what was read, what the model said, and what it cost to explain."""
    import pyarrow as pa

    kinds = {"text": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    probabilities = pa.list_(pa.struct([("label", pa.string()), ("probability", pa.float64())]))
    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            ("source", pa.string()),
            ("text", pa.string()),
            *([("pair", pa.string())] if job.paired else []),
            *([("label", pa.string())] if job.labelled else []),
            *((name, kinds[kind]) for name, kind in job.kept),
            ("prediction", pa.string()),
            ("probability", pa.float64()),
            ("probabilities", probabilities),
            ("target", pa.string()),
            ("values", pa.list_(pa.float64())),
            ("forwards", pa.int64()),
            ("backwards", pa.int64()),
            ("warnings", pa.list_(pa.string())),
            ("notes", pa.list_(pa.string())),
            ("error", pa.string()),
        ]
    )


def words_schema(job: Job) -> pyarrow.Schema:
    """The columns of the table of words: where a word stands, and its score and standard error at every layer."""
    import pyarrow as pa

    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            ("method", pa.string()),
            ("position", pa.int32()),
            ("word", pa.string()),
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("segment", pa.int8()),
            *([("special", pa.bool_())] if job.units == "token" else []),
            *((score_column(layer), pa.float32()) for layer in job.layers),
            *((error_column(layer), pa.float32()) for layer in job.layers),
        ]
    )


def texts_table(job: Job, shard: Sequence[Explained]) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([_text_row(job, each) for each in shard], schema=texts_schema(job))


def _text_row(job: Job, each: Explained) -> dict[str, Any]:
    record = each.record
    row: dict[str, Any] = {
        "row": record.row,
        "id": record.id,
        "source": record.source,
        "text": record.text,
        "pair": record.pair,
        "label": gold_label(record.label, job.labels),
        **dict(zip((name for name, _ in job.kept), record.kept, strict=True)),
        "warnings": [],
        "notes": [],
        "error": each.error,
    }
    if each.error is not None:
        return row
    several = len(each.explanations) > 1
    first = each.explanations[0]
    said = first.prediction
    return {
        **row,
        "prediction": said.label,
        "probability": said.probability,
        "probabilities": [{"label": name, "probability": share} for name, share in said.probabilities.items()],
        "target": first.target.description,
        "values": [one.target.value for one in each.explanations],
        "forwards": sum(one.cost.forwards for one in each.explanations),
        "backwards": sum(one.cost.backwards for one in each.explanations),
        "warnings": _sentences(each.explanations, "warnings", several),
        "notes": _sentences(each.explanations, "notes", several),
    }


def _sentences(explanations: Sequence[Explanation], field: str, several: bool) -> list[str]:
    return [
        f"{one.method}: {sentence}" if several else sentence for one in explanations for sentence in getattr(one, field)
    ]


def gold_label(label: str | None, names: Sequence[str]) -> str | None:
    """A gold label in the model's words: by name in any case, else by number, else as it was given.

    >>> [gold_label(label, ("negative", "positive")) for label in ("POSITIVE", "0", "4 stars", None)]
    ['positive', 'negative', '4 stars', None]
    """
    if label is None:
        return None
    by_name = {name.casefold(): name for name in names}
    if label.casefold() in by_name:
        return by_name[label.casefold()]
    return names[int(label)] if label.isdecimal() and int(label) < len(names) else label


def words_table(job: Job, shard: Sequence[Explained]) -> pyarrow.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in words_schema(job).names}
    scores: dict[str, list[np.ndarray]] = {name: [] for name in columns if "score_" in name or "standard_error" in name}
    for each in shard:
        for explanation in each.explanations:
            count = _add_units(columns, explanation, job.units == "token")
            columns["row"] += [each.record.row] * count
            columns["id"] += [each.record.id] * count
            columns["method"] += [explanation.method] * count
            of_units = explanation if job.units == "token" else explanation.units
            assert of_units is not None, "every explanation of a run has its units"
            _add_scores(scores, job.layers, explanation.layers, of_units.scores, of_units.standard_errors)
    for name, parts in scores.items():
        column = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        columns[name] = pa.array(column, type=pa.float32(), from_pandas=True)  # NaN: there is none
    return pa.table(columns, schema=words_schema(job))


def _add_units(columns: dict[str, list[Any]], explanation: Explanation, tokens: bool) -> int:
    if tokens:
        own = Tokens.of(explanation.tokens)
        starts, ends, segments = own.starts, own.ends, own.segments
        columns["word"] += own.texts
        columns["special"] += own.special
    else:
        assert explanation.units is not None, "every explanation of a run has its units"
        starts, ends, segments = _columns_of_units(explanation.units.units)
        sources = (explanation.text, explanation.pair or "")
        places = zip(segments, starts, ends, strict=True)
        columns["word"] += [sources[segment][start:end] for segment, start, end in places]
    columns["position"] += range(len(starts))
    columns["start"] += starts
    columns["end"] += ends
    columns["segment"] += segments
    return len(starts)


def _columns_of_units(units: Sequence[Unit]) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    starts, ends, segments, _ = columns_of(units, ("start", "end", "segment", "tokens"))
    return starts, ends, segments


def _add_scores(
    columns: dict[str, list[np.ndarray]],
    all_layers: Sequence[Layer],
    layers: Sequence[Layer],
    scores: np.ndarray,
    errors: np.ndarray | None,
) -> None:
    nothing = np.full(scores.shape[1], np.nan, np.float32)
    for layer in all_layers:
        known = layer in layers
        columns[score_column(layer)].append(scores[layers.index(layer)] if known else nothing)
        columns[error_column(layer)].append(errors[layers.index(layer)] if known and errors is not None else nothing)


def as_bytes(table: pyarrow.Table, kind: str) -> bytes:
    """A table as the contents of a file: the same bytes for the same table."""
    if kind == "parquet":
        import pyarrow.parquet

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(table, buffer, compression="zstd")
        return buffer.getvalue()
    rows = (plain(row, nan_as_null=True) for row in table.to_pylist())
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.schema.names)
    for row in rows:
        nested = (list, dict)
        values = (
            json.dumps(value, ensure_ascii=False) if isinstance(value, nested) else value for value in row.values()
        )
        writer.writerow(values)
    return text.getvalue().encode()
