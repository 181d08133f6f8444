"""`whence run`: a corpus of any size, explained into tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from whence.cli import completion
from whence.cli.arguments import (
    Against,
    At,
    BatchTokens,
    DataDir,
    Debug,
    HeadName,
    LayerNames,
    ModelName,
    Probes,
    Revision,
    ScaleName,
    Seed,
    SpanText,
    Split,
    TargetName,
    TaskName,
    Trust,
    fetched,
    methods_of,
    parse_layers,
)
from whence.cli.evaluate import SECONDS_BETWEEN_LINES, MethodOptions, parse_method_options
from whence.cli.reporting import errors_reported, say
from whence.progress import Report

Data = Annotated[
    list[str],
    Option(
        "--data", metavar="FILE|NAME|GLOB", help="Files (csv, tsv, jsonl, txt, parquet; compressed), folders, sets; -."
    ),
]
Folder = Annotated[Path, Option("--out", metavar="FOLDER", help="Where the tables go.")]
SomeMethods = Annotated[
    str | None,
    Option(
        "--methods",
        metavar="A,B",
        help="Names from `whence methods`, or board:FOLDER; by default the usual one.",
        autocompletion=completion.methods,
    ),
]
TextColumn = Annotated[str | None, Option("--text-column", metavar="NAME", help="The column of texts; else found.")]
PairColumn = Annotated[str | None, Option("--pair-column", metavar="NAME", help="The column of second texts.")]
LabelColumn = Annotated[str | None, Option("--label-column", metavar="NAME", help="The column of gold labels.")]
IdColumn = Annotated[str | None, Option("--id-column", metavar="NAME", help="The column of ids; else numbers.")]
KeepColumns = Annotated[str | None, Option("--keep-columns", metavar="A,B", help="Columns to keep in the tables.")]
DataFormat = Annotated[
    str | None, Option("--data-format", metavar="F", help="csv, tsv, jsonl, txt, parquet, if the name does not say.")
]
Units = Annotated[str, Option("--units", metavar="UNIT", help="A row of words is: word, sentence, paragraph or token.")]
Format = Annotated[str, Option("--format", metavar="F", help="parquet, jsonl or csv.")]
Engine = Annotated[str, Option("--engine", metavar="E", help="local, or ray.")]
Workers = Annotated[int | None, Option("--workers", metavar="N", min=1, help="Processes; else one per CPU or GPU.")]
Address = Annotated[str | None, Option("--address", metavar="A", help="Of a Ray cluster; else one is started here.")]
Device = Annotated[str, Option("--device", metavar="D", help="cpu, cuda or auto.")]
ShardTexts = Annotated[int, Option("--shard-texts", metavar="N", min=1, help="Texts to a shard.")]
Resume = Annotated[bool, Option("--resume", help="Go on with a run that was ended.")]
FirstTexts = Annotated[int | None, Option("--limit", metavar="N", min=1, help="The first so many texts.")]


def run(
    data: Data, out: Folder, model: ModelName = None, methods: SomeMethods = None, layers: LayerNames = None,
    units: Units = "word", text_column: TextColumn = None, pair_column: PairColumn = None,
    label_column: LabelColumn = None, id_column: IdColumn = None, keep_columns: KeepColumns = None,
    data_format: DataFormat = None, data_dir: DataDir = None, split: Split = None, limit: FirstTexts = None,
    target: TargetName = None, against: Against = None, span: SpanText = None, at: At = None,
    scale: ScaleName = None, option: MethodOptions = None, probes: Probes = None, format: Format = "parquet",
    engine: Engine = "local", workers: Workers = None, address: Address = None, device: Device = "auto",
    shard_texts: ShardTexts = 1_000, resume: Resume = False, task: TaskName = None, revision: Revision = None,
    head: HeadName = None, trust: Trust = False, seed: Seed = 0, batch_tokens: BatchTokens = None,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Explain a corpus of any size into tables, shard by shard.

    A run that was ended, however it was, goes on with --resume. A text that cannot be explained is a row with its
    error; the exit code is then 1.
    """
    with errors_reported(debug):
        from whence.corpus.run import run as run_corpus

        probes = fetched(probes)
        named = None if methods is None else _names(methods)
        if named is None and probes is not None:
            named = [methods_of(probes)[0]]
        options = parse_method_options(option or [], probes, named)
        loading = {"task": task, "revision": revision, "head": head, "trust_remote_code": trust}
        started = time.monotonic()
        with progress_of_texts() as report:
            corpus = run_corpus(
                model or "sentiment", data[0] if len(data) == 1 else data, out,
                methods=named, options=options, layers=parse_layers(layers),
                units=units, target=_target(target, against, span, at), scale=scale, seed=seed,  # type: ignore[arg-type]
                batch_tokens=batch_tokens, text_column=text_column, pair_column=pair_column,
                label_column=label_column, id_column=id_column, keep_columns=_names(keep_columns or ""),
                data_format=data_format, data_dir=data_dir, split=split, limit=limit, format=format, engine=engine,
                workers=workers, address=address, device=device, shard_texts=shard_texts, resume=resume,
                load_options={name: value for name, value in loading.items() if value},
                progress=report, announce=lambda sentence: say(f"note: {sentence}"),
            )  # fmt: skip
        say(f"{len(corpus):,} texts in {clock(time.monotonic() - started)}: {out.absolute()}")
        if corpus.failed:
            say(f"{corpus.failed:,} of them could not be explained: see the column 'error' of the table of texts")
            raise typer.Exit(1)


def _names(listing: str) -> list[str]:
    return [name.strip() for name in listing.split(",") if name.strip()]


def _target(target: str | None, against: str | None, span: str | None, at: int | None) -> Any:
    """What --target and its kin ask for; a number is a label's, unless the model has one of that name."""
    from whence.cli.arguments import parse_target
    from whence.targets import ClassLabels

    return parse_target(ClassLabels(()), target, against, span, at)


@contextmanager
def progress_of_texts() -> Iterator[Report]:
    """A bar with the rate and the time left on a terminal; elsewhere a line every few seconds."""
    if not sys.stderr.isatty():
        yield TextLines(say)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading")
        lines = TextLines(lambda line: bars.update(task, description=line), seconds=0)

        def report(step: str, done: int, total: int) -> None:
            lines(step, done, total)
            bars.update(task, completed=done, total=total)

        yield report


class TextLines:
    """How many texts are done, how fast it goes, and how long it will take still; a line every few seconds at most."""

    def __init__(
        self,
        say: Callable[[str], None],
        seconds: float = SECONDS_BETWEEN_LINES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._seconds, self._clock = say, seconds, clock
        self._first: tuple[float, int] | None = None
        self._said = clock()

    def __call__(self, step: str, done: int, total: int) -> None:
        now = self._clock()
        first = self._first = self._first or (now, done)  # what was done before, and the start, do not count
        if now - self._said < self._seconds and done < total:
            return
        self._said = now
        rate = (done - first[1]) / (now - first[0]) if now > first[0] else 0.0
        left = f", {rate:,.0f} a second, {clock((total - done) / rate)} left" if rate else ""
        self._say(f"{step} {done:,} of {total:,} texts{left}")


def clock(seconds: float) -> str:
    """
    >>> clock(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
