"""`whence.run`: a corpus of any size in, tables out; after a kill it goes on where it stopped."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from whence.corpus.corpus import Corpus
from whence.corpus.estimate import Estimate, measured, sample_of
from whence.corpus.explaining import prepare
from whence.corpus.job import FORMATS, Asked, Job, ModelSource, target_as_json, told_options
from whence.corpus.local import in_processes, in_this_process
from whence.corpus.manifest import (
    MANIFEST,
    Manifest,
    check_same,
    completed,
    method_record,
    model_fingerprint,
    read_manifest,
    versions,
    write_manifest,
)
from whence.corpus.shards import RECEIPTS, Receipt, Shard, Work, remove_others
from whence.corpus.tables import TABLES
from whence.corpus.worker import load_quietly
from whence.data.records import Record, records_of
from whence.errors import FileError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import Explanation, Scale
from whence.files import locked
from whence.json_records import plain
from whence.methods.explain import explain
from whence.methods.names import method_named
from whence.methods.options import at_least
from whence.models.batching import usual_batch_tokens
from whence.models.layered import LayeredModel, Layers
from whence.progress import Progress, Report, reporter
from whence.scoreboard.winner import believed_method
from whence.targets import ClassLabels, Target
from whence.units import UNITS

ENGINES = ("local", "ray")
BOARD = "board:"
SHARD_TEXTS = 1_000
Announce = Callable[[str], None]


def run(
    model: LayeredModel | str | Path,
    data: Any,
    out: str | Path,
    *,
    methods: str | Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    layers: Layers | None = None,
    units: str = "word",
    target: Target = "predicted",
    scale: Scale | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    keep_columns: Sequence[str] = (),
    data_format: str | None = None,
    data_dir: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    format: str = "parquet",
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    load_options: Mapping[str, Any] | None = None,
    shard_texts: int = SHARD_TEXTS,
    resume: bool = False,
    progress: Progress = None,
    announce: Announce | None = None,
) -> Corpus:
    """Explain a corpus of any size, shard by shard, into a folder of tables.

    >>> import tempfile
    >>> import whence
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "reviews.csv").write_text("review,stars\\na gorgeous film,5\\na dull plot,1\\n")
    >>> corpus = run("sentiment", folder / "reviews.csv", folder / "out", keep_columns=["stars"], workers=1)
    >>> corpus.texts()[["text", "stars", "prediction"]].values.tolist()
    [['a gorgeous film', '5', 'positive'], ['a dull plot', '1', 'negative']]

    Texts are read as a stream: memory does not grow with the corpus. A text that cannot be explained is a row with its
    error. The tables depend on the texts and settings alone: not on time, on the number of workers, on the engine, or
    on where a run was killed and resumed (on GPUs: as far as their arithmetic repeats itself).

    Args:
        model: a name, folder or hub id as for `whence.load`, which every worker loads; or a loaded model, which works
            in this process alone unless it is an embedded one.
        data: where the texts are, see `whence.data.records.records_of`; so for `text_column` and what follows it.
        out: the folder for the tables `texts` and `words` and the manifest.
        methods: names from `whence methods`, or "board:FOLDER" for the one that a scoreboard found most faithful; by
            default the usual one.
        options: the methods' own options, by method.
        layers: see `whence.explain`; so for target, scale, seed and batch_tokens.
        units: what a row of the table `words` is: "word", "sentence", "paragraph" or "token".
        format: "parquet", "jsonl" or "csv".
        engine: "local", or "ray" (an extra, `pip install whence[ray]`).
        workers: processes; by default one per CPU or, with GPUs, one per GPU.
        address: of an existing Ray cluster; by default one is started here.
        device: "cpu", "cuda" or "auto": a GPU if there is one.
        load_options: what `whence.load` is given beside the name.
        shard_texts: texts per shard: what is lost at most when a worker is.
        resume: go on with the run in `out`; what is finished there is not computed again.
        progress: True draws a bar, a function is called with ("explained", texts done, texts in all, perhaps about).
        announce: gets what is found out on the way, sentence by sentence.
    """
    say: Announce = announce or (lambda sentence: None)
    _check(format, engine, units, workers, shard_texts)
    folder = _folder(Path(out), resume)
    records = records_of(
        data, text_column=text_column, pair_column=pair_column, label_column=label_column, id_column=id_column,
        keep_columns=keep_columns, data_format=data_format, data_dir=data_dir, split=split, limit=limit,
    )  # fmt: skip
    if engine == "ray" and not records.again:
        raise UsageError("standard input cannot be read by another machine", "write it to a file, or --engine local")
    if address is not None and engine != "ray":
        raise UsageError("an address is that of a Ray cluster", "give --engine ray (engine='ray') too")
    for note in records.notes:
        say(note)
    loaded, source = _model(model, load_options or {}, device, say)
    if engine == "ray" and source.name is None:
        raise UsageError("workers elsewhere cannot be given a loaded model", "give its name, or engine='local'")
    prepare(loaded, records.columns.pair is not None)
    stream = records.each()
    head, sample = sample_of(stream)
    asked = _asked(loaded, methods, options or {}, layers, say)
    settings = {"target": target, "scale": scale, "units": units, "seed": seed}
    tried = [_tried(loaded, each, sample[0], settings) for each in asked]
    there = read_manifest(folder) if (folder / MANIFEST).exists() else None
    if there is not None and batch_tokens is None:
        batch_tokens = there.batch_tokens  # what suits a GPU depends on the memory that is free just now
    job = Job(
        folder=str(folder.absolute()),
        model=source,
        methods=tuple(
            replace(each, method=found.method, layers=found.layers) for each, found in zip(asked, tried, strict=True)
        ),
        target=target_as_json(target),
        scale=scale,
        units=units,
        seed=seed,
        batch_tokens=int(batch_tokens or usual_batch_tokens(loaded)),
        format=format,
        paired=records.columns.pair is not None,
        labelled=records.columns.label is not None,
        kept=tuple(zip(records.columns.kept, records.kinds, strict=True)),
        labels=loaded.reading.labels.names if isinstance(loaded.reading.labels, ClassLabels) else (),
    )
    manifest = Manifest(
        complete=False,
        model=loaded.record,
        fingerprint=model_fingerprint(loaded),
        device=loaded.device.type,
        dtype=str(next(loaded.module.parameters()).dtype).removeprefix("torch."),
        data={"name": records.name, "columns": plain(records.columns)},
        methods=tuple(method_record(found) for found in tried),
        shard_texts=shard_texts,
        versions=versions(),
        counts={},
        **{name: getattr(job, name) for name in _SHARED},
        kept=dict(job.kept),
    )
    job = replace(job, key=manifest.key)
    with locked(folder):
        if there is not None:
            check_same(there, manifest, folder)
        else:
            write_manifest(manifest, folder)
        _remove_unfinished(folder)
        n_workers = _workers(loaded, source, workers)
        say(str(Estimate(records.about, *measured(loaded, job, sample), n_workers)))
        work = Work(job, chain(head, stream), records.each, shard_texts, say)
        with reporter(progress) as report:
            receipts = _receipts(
                work, loaded, engine, workers if address else n_workers, address, records.about, report
            )
        _remove_unfinished(folder)
        remove_others(folder, sorted(receipts))
        write_manifest(completed(manifest, [receipts[index] for index in sorted(receipts)]), folder)
    return Corpus.open(folder)


_SHARED = ("target", "units", "seed", "batch_tokens", "format", "paired", "labelled", "labels")


def _check(format: str, engine: str, units: str, workers: int | None, shard_texts: int) -> None:
    for kind, name, known in (("format", format, FORMATS), ("engine", engine, ENGINES), ("unit", units, UNITS)):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    at_least("shard_texts", shard_texts, 1)
    if workers is not None:
        at_least("workers", workers, 1)


def _folder(folder: Path, resume: bool) -> Path:
    """The folder, made if need be; what somebody else's run left there is not touched unless it is to go on."""
    try:
        for name in (*TABLES, RECEIPTS):
            if not resume and (folder / name).exists() and any((folder / name).iterdir()):
                raise UsageError(
                    f"{str(folder)!r} holds a run already", "go on with it by --resume (resume=True), or choose another"
                )
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
    return folder


def _remove_unfinished(folder: Path) -> None:
    """What workers that were killed had begun to write, in an earlier run or in this one."""
    for name in (*TABLES, RECEIPTS):
        for path in (folder / name).glob(".part-*"):
            path.unlink(missing_ok=True)


def _model(
    model: LayeredModel | str | Path, options: Mapping[str, Any], device: str, say: Announce
) -> tuple[LayeredModel, ModelSource]:
    """The model, and how workers get it; one without a name works in this process alone."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(model, LayeredModel):
        source = ModelSource(str(model), told_options("load", options), device)
        return load_quietly(source), source
    if options:
        raise UsageError("load_options go with a model's name, not with a loaded model", "leave them out")
    source = ModelSource(model.record.embedded, {}, model.device.type)
    if source.name is not None and model_fingerprint(load_quietly(source)) == model_fingerprint(model):
        return model, source
    say("a loaded model works in this process alone: give its name for several workers")
    return model, replace(source, name=None)


def _workers(model: LayeredModel, source: ModelSource, workers: int | None) -> int:
    if source.name is None:
        return 1
    return workers or (torch.cuda.device_count() if model.device.type == "cuda" else os.cpu_count()) or 1


def _asked(
    model: LayeredModel,
    methods: str | Sequence[str] | None,
    options: Mapping[str, Mapping[str, Any]],
    layers: Layers | None,
    say: Announce,
) -> list[Asked]:
    """The methods by name, a board's winner among them; layers are those asked for, or none: what suits the method."""
    named = [None] if methods is None else [methods] if isinstance(methods, str) else list(methods)
    found: list[Asked] = []
    chosen = () if layers is None else model.layers(layers)
    for name in named:
        if name is None:
            found.append(Asked("", {}, chosen))
        elif name.startswith(BOARD):
            winner = believed_method(name.removeprefix(BOARD))
            say(f"the board says to believe {winner.method} at layer {winner.layer}")
            if winner.model != model.record.id:
                say(f"that board judged {winner.model!r}, not {model.record.id!r}")
            found.append(Asked(winner.method, winner.options, chosen or (winner.layer,)))
        else:
            found.append(Asked(method_named(name).name, told_options(name, options.get(name, {})), chosen))
    names = [each.method for each in found]
    if not names or len(set(names)) < len(names):
        raise UsageError("no method is named" if not names else "a method is named twice", "name each once")
    for name in options:
        if name not in names and method_named(name).name not in names:
            raise UnknownNameError("method with options", name, names)
    return found


def _tried(model: LayeredModel, asked: Asked, sample: Record, settings: Mapping[str, Any]) -> Explanation:
    """One explanation, which shows that the method works here, and where it looks if nobody says."""
    text = sample.text or "" if sample.pair is None else (sample.text or "", sample.pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhenceWarning)
        found: Explanation = explain(model, text, asked.method or None, layers=asked.layers or None,
                                     **settings, **asked.options)  # fmt: skip
    return found


def _receipts(
    work: Work,
    model: LayeredModel,
    engine: str,
    workers: int | None,
    address: str | None,
    about: int | None,
    report: Report,
) -> dict[int, Receipt]:
    """Every shard's receipt, by number; those of finished shards as they are passed over."""
    found: dict[int, Receipt] = {}
    if engine == "ray":
        from whence.corpus.ray_engine import on_ray

        made = on_ray(work, workers, address)
    else:
        todo = _unfinished(work.items(work.here), found)
        several = workers if work.job.model.name else 1
        made = (
            in_processes(work.job, todo, several, work.say)
            if several and several > 1
            else in_this_process(model, work.job, todo)
        )
    for receipt in made:
        found[receipt.index] = receipt
        done = sum(each.texts for each in list(found.values()))
        report("explained", done, max(about or 0, done))
    return found


def _unfinished(items: Iterator[Shard | Receipt], done: dict[int, Receipt]) -> Iterator[Shard]:
    for item in items:
        if isinstance(item, Receipt):
            done[item.index] = item
        else:
            yield item
