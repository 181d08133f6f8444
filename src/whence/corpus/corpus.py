"""`whence.Corpus`: what a run wrote, read back a shard at a time, as tables, data frames or explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.corpus.job import Asked, Job, ModelSource
from whence.corpus.manifest import Manifest, MethodRecord, read_manifest
from whence.corpus.shards import RECEIPTS, Receipt, is_whole, receipt_of
from whence.corpus.tables import TABLES, error_column, score_column, texts_schema, words_schema
from whence.data.streams import lines_with_ends, pieces
from whence.data.tables import separated
from whence.errors import FileError, UnknownNameError, UsageError
from whence.explanation import (
    Cost,
    ExplainedTarget,
    Explanation,
    Layer,
    Prediction,
    Token,
    Unit,
    UnitScores,
)
from whence.json_records import load_json, parse_json
from whence.units import word_of, word_spans

if TYPE_CHECKING:
    import pandas
    import pyarrow

ADVICE = "give the command that made it again with --resume: what is broken is made anew, the rest is kept"


@dataclass(frozen=True, eq=False)
class Corpus:
    """The tables of a run: `texts`, a row per text, and `words`, a row per word and method.

    Nothing is read before it is asked for, and what is asked for shard by shard is never all in memory. Parquet files
    can be read by anything else as well: they are in the folders `texts` and `words`.
    """

    folder: Path
    manifest: Manifest
    shards: tuple[Receipt, ...]

    @classmethod
    def open(cls, folder: str | Path) -> Corpus:
        """What `whence.run` wrote; of a run that is not complete, the shards that are finished."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        shards = manifest.shards
        if not manifest.complete:
            made = (receipt_of(load_json(path)) for path in sorted((folder / RECEIPTS).glob("part-*.json")))
            shards = tuple(receipt for receipt in made if receipt.job == manifest.key)
        return cls(folder, manifest, shards)

    @property
    def complete(self) -> bool:
        return self.manifest.complete

    @property
    def failed(self) -> int:
        """How many texts could not be explained."""
        return sum(receipt.failed for receipt in self.shards)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(method.name for method in self.manifest.methods)

    def __len__(self) -> int:
        return sum(receipt.texts for receipt in self.shards)

    def broken(self) -> list[str]:
        """The files that are missing or not as they were written; all are read for that."""
        return [
            name
            for receipt in self.shards
            for name, file in receipt.files.items()
            if not is_whole(self.folder / name, file)
        ]

    def tables(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pyarrow.Table]:
        """The table "texts" or "words", a shard at a time; perhaps only some columns."""
        if name not in TABLES:
            raise UnknownNameError("table", name, TABLES)
        for column in columns or ():
            if column not in self.schema(name).names:
                raise UnknownNameError(f"column of {name}", column, self.schema(name).names)
        for receipt in self.shards:
            yield self._table(receipt, name, columns)

    def texts(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The table of texts, all of it, perhaps only some columns."""
        return self._frame("texts", columns)

    def words(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The table of words, all of it, perhaps only some columns."""
        return self._frame("words", columns)

    def frames(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pandas.DataFrame]:
        """As `tables`, as data frames."""
        return (table.to_pandas() for table in self.tables(name, columns))

    def explanation(self, row: int, method: str | None = None) -> Explanation:
        """The text of that number as an explanation, whose tokens are the words (or units) that were scored."""
        if not 0 <= row < len(self):
            raise UsageError(f"there is no text {row}", f"texts are numbered from 0 to {len(self) - 1}")
        chosen = self._method(method)
        before = 0
        for receipt in self.shards:
            before += receipt.texts
            if row < before:
                return next(each for number, each in self._explanations(receipt, chosen, {row}) if number == row)
        raise AssertionError("the shards hold fewer texts than they say")

    def explanations(self, method: str | None = None) -> Iterator[Explanation]:
        """Every text that could be explained, in order, read as they are asked for."""
        chosen = self._method(method)
        for receipt in self.shards:
            yield from (explanation for _, explanation in self._explanations(receipt, chosen))

    def __iter__(self) -> Iterator[Explanation]:
        return self.explanations()

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        return f"<Corpus of {len(self):,} texts, {self.failed:,} of them failed{state}: {', '.join(self.methods)}>"

    def schema(self, name: str) -> pyarrow.Schema:
        """The columns of a table and their types."""
        manifest = self.manifest
        job = Job(
            folder=str(self.folder), model=ModelSource(None, {}, manifest.device), target=manifest.target, scale=None,
            methods=tuple(Asked(each.name, each.options, each.layers) for each in manifest.methods),
            units=manifest.units, seed=manifest.seed, batch_tokens=manifest.batch_tokens, format=manifest.format,
            paired=manifest.paired, labelled=manifest.labelled, kept=tuple(manifest.kept.items()),
            labels=manifest.labels,
        )  # fmt: skip
        return texts_schema(job) if name == "texts" else words_schema(job)

    def layer(self, method: str | None = None, layer: Layer | None = None) -> Layer:
        """A layer that the method was asked about; by default the one nearest the input."""
        layers = self._method(method).layers
        if layer is not None and layer not in layers:
            raise UnknownNameError(f"layer of {self._method(method).name}", layer, layers)
        return layers[0] if layer is None else layer

    def _frame(self, name: str, columns: Sequence[str] | None) -> pandas.DataFrame:
        import pyarrow as pa

        chosen = [field for field in self.schema(name) if columns is None or field.name in columns]
        return pa.concat_tables([pa.schema(chosen).empty_table(), *self.tables(name, columns)]).to_pandas()

    def _method(self, name: str | None) -> MethodRecord:
        for method in self.manifest.methods:
            if name in (None, method.name):
                return method
        raise UnknownNameError("method of this corpus", name, self.methods)

    def _table(self, receipt: Receipt, name: str, columns: Sequence[str] | None) -> pyarrow.Table:
        import pyarrow as pa

        path = self.folder / next(file for file in receipt.files if file.startswith(f"{name}/"))
        schema = self.schema(name)
        try:
            table = _READERS[self.manifest.format](path, schema)
            if table.schema != schema:
                raise ValueError("its columns are not those of the manifest")
        except (pa.ArrowException, OSError, ValueError, KeyError, FileError) as error:
            raise FileError(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}", ADVICE) from error
        return table if columns is None else table.select([each for each in schema.names if each in columns])

    def _explanations(
        self, receipt: Receipt, method: MethodRecord, rows: set[int] | None = None
    ) -> Iterator[tuple[int, Explanation]]:
        texts = self._table(receipt, "texts", None).to_pylist()
        frame = self._table(receipt, "words", None).to_pandas()
        groups = frame[frame["method"] == method.name].groupby("row", sort=False)
        members = groups.indices
        own = frame[frame["method"] == method.name]
        for text in texts:
            if rows is not None and text["row"] not in rows:
                continue
            if text["error"] is not None:
                if rows is not None:
                    raise UsageError(f"text {text['row']} has no explanation: {text['error']}", "choose another")
                continue
            yield text["row"], self._explanation(text, own.iloc[members.get(text["row"], [])], method)

    def _explanation(self, text: Mapping[str, Any], words: pandas.DataFrame, method: MethodRecord) -> Explanation:
        manifest, number = self.manifest, self.methods.index(method.name)
        scores, errors = (_rows(words, column, method.layers) for column in (score_column, error_column))
        tokens = _tokens(words, text["text"], text.get("pair"), of_tokens=manifest.units == "token")
        standard_errors = None if errors is None or np.isnan(errors).all() else errors
        units = None
        if manifest.units in ("sentence", "paragraph") and scores is not None:
            spans = tuple(Unit(each.start, each.end, each.segment, (at,)) for at, each in enumerate(tokens))
            units = UnitScores(manifest.units, spans, scores, standard_errors)
        label = text["prediction"]
        prefix = f"{method.name}: " if len(self.methods) > 1 else ""
        return Explanation(
            text=text["text"],
            pair=text.get("pair"),
            tokens=tokens,
            layers=method.layers,
            scores=scores if scores is not None else np.zeros((len(method.layers), 0), np.float32),
            meaning=method.meaning,
            prediction=Prediction(
                label,
                manifest.labels.index(label) if label in manifest.labels else 0,
                text["probability"],
                {each["label"]: each["probability"] for each in text["probabilities"]},
            ),
            target=ExplainedTarget(text["target"], method.scale, text["values"][number]),
            method=method.name,
            options=method.options,
            model=manifest.model,
            seed=manifest.seed,
            cost=Cost(text["forwards"], text["backwards"], 0.0),  # of all methods together; time is not written down
            warnings=tuple(each.removeprefix(prefix) for each in text["warnings"] if each.startswith(prefix)),
            notes=tuple(each.removeprefix(prefix) for each in text["notes"] if each.startswith(prefix)),
            standard_errors=standard_errors,
            whence_version=manifest.versions.get("whence", ""),
            units=units,
        )


def _rows(words: pandas.DataFrame, column: Any, layers: Sequence[Layer]) -> np.ndarray | None:
    if not len(words):
        return None
    found = np.stack([words[column(layer)].to_numpy(np.float32) for layer in layers])
    found.setflags(write=False)
    return found


def _tokens(words: pandas.DataFrame, text: str, pair: str | None, *, of_tokens: bool) -> tuple[Token, ...]:
    sources = (text, pair or "")
    spans = [word_spans(source) if of_tokens else [] for source in sources]
    found = []
    special = words["special"] if of_tokens else [False] * len(words)
    places = zip(words["word"], words["start"], words["end"], words["segment"], special, strict=True)
    for position, (word, start, end, segment, is_special) in enumerate(places):
        number = word_of(int(start), int(end), sources[segment], spans[segment]) if of_tokens else position
        number = None if is_special else number
        found.append(Token(word, -1, int(start), int(end), int(segment), special=bool(is_special), word=number))
    return tuple(found)


def _parquet(path: Path, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path).read()


def _json_lines(path: Path, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow as pa

    rows = [parse_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return pa.Table.from_pylist(rows, schema=schema)


def _separated(path: Path, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow as pa

    rows = []
    for _, row in separated(path, lines_with_ends(pieces(path)), delimiter=",").rows:
        if isinstance(row, FileError):
            raise row
        rows.append({field.name: _value(str(row[field.name]), field.type) for field in schema})
    return pa.Table.from_pylist(rows, schema=schema)


def _value(written: str, kind: Any) -> Any:
    """A value of a file of separated values, where nothing and an empty text look alike."""
    import pyarrow as pa

    if written == "":
        return None
    if pa.types.is_list(kind):
        return parse_json(written)
    if pa.types.is_boolean(kind):
        return written == "True"
    if pa.types.is_integer(kind):
        return int(written)
    return float(written) if pa.types.is_floating(kind) else written


_READERS = {"parquet": _parquet, "jsonl": _json_lines, "csv": _separated}
