"""`whence fit`: train probes for a model, of either kind of learned explainer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from whence.cli.arguments import (
    BatchTokens,
    DataDir,
    DataName,
    Debug,
    Generate,
    Json,
    Limit,
    MaxNewTokens,
    ModelName,
    ResponseColumn,
    Revision,
    Seed,
    Split,
    TaskName,
    Trust,
    asked_responses,
    parse_options,
)
from whence.cli.progress import load_model
from whence.cli.reporting import errors_reported, print_line, print_views, say
from whence.errors import UnknownNameError, UsageError, WhenceWarning

if TYPE_CHECKING:
    from whence.learned.diffmask import DiffMask
    from whence.learned.shapley import ShapleyProbes
    from whence.models.batching import Asked
    from whence.models.layered import LayeredModel

    Bar = AbstractContextManager[Callable[[Any], None] | None]

SHORT, LONG = 60, 3_600  # seconds of training: what is worth a word, and what is worth another recipe
EXPLAINERS = ("diffmask", "shapley")
Folder = Annotated[
    Path, Option("--out", metavar="FOLDER", help="Where the probes go; a killed run goes on from there.")
]
ExplainerName = Annotated[
    str, Option("--explainer", metavar="NAME", help="diffmask (what is not needed) or shapley (each word's share).")
]
KindName = Annotated[
    str | None, Option("--kind", metavar="KIND", help="Of diffmask: input (what a layer knows) or hidden (stores).")
]
RecipeName = Annotated[
    str, Option("--recipe", metavar="NAME", help="whence, sparing; diffmask: released, paper; shapley: quick.")
]
Steps = Annotated[int | None, Option("--steps", metavar="N", min=1, help="Training steps.")]
Minutes = Annotated[
    float | None, Option("--minutes", metavar="N", min=0, help="End the training then, with the steps it has had.")
]
Margin = Annotated[float | None, Option("--margin", metavar="X", help="Of diffmask: how far the output may move.")]
BatchSize = Annotated[int | None, Option("--batch-size", metavar="N", min=1, help="Of diffmask: texts per step.")]
Settings = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help="A recipe's setting.")]
HeldOut = Annotated[
    str | None, Option("--held-out", metavar="FILE|NAME", help="Texts to judge by; else a tenth of --data.")
]


def fit(
    data: DataName, out: Folder, model: ModelName = None, explainer: ExplainerName = "diffmask",
    kind: KindName = None, recipe: RecipeName = "whence", steps: Steps = None, minutes: Minutes = None,
    margin: Margin = None, batch_size: BatchSize = None, option: Settings = None,
    held_out: HeldOut = None, data_dir: DataDir = None, split: Split = None, limit: Limit = None,
    task: TaskName = None, revision: Revision = None, trust: Trust = False, as_json: Json = False, seed: Seed = 0,
    batch_tokens: BatchTokens = None, debug: Debug = False, response_column: ResponseColumn = None,
    generate: Generate = False, max_new_tokens: MaxNewTokens = None,
) -> None:  # fmt: skip
    """Train probes that explain the model in one pass: each word's share, or which words it can do without.

    On the GPU if there is one, on several with torchrun. Labels are not needed. Of a decoder they explain the next
    token, or its responses: those of a column, or what it generates.
    Then: whence explain TEXT --model M --probes FOLDER
    """
    with errors_reported(debug):
        from accelerate import PartialState  # type: ignore[import-untyped]

        from whence.learned.checkpoint import free_folder
        from whence.models.responses import responding

        given = {"kind": kind, "steps": steps, "minutes": minutes, "margin": margin, "batch_size": batch_size}
        settings = {name: value for name, value in given.items() if value is not None}
        probes = _probes(explainer, recipe, settings, parse_options(option or []))
        free_folder(out)
        responses = asked_responses(response_column, generate, max_new_tokens)
        texts = _texts(data, data_dir, split or _training_split(data), limit, seed, response_column)
        judging = None if held_out is None else _texts(held_out, data_dir, None, None, seed, response_column)
        loaded = load_model(model, task, revision, trust=trust)
        if response_column is not None:
            loaded = responding(loaded)
        processes = PartialState()
        if processes.device.type == "cuda":
            loaded.module.to(processes.device)
        bar = _bar(processes.is_main_process)
        _fit(probes, loaded, texts, out, bar, held_out=judging, seed=seed, batch_tokens=batch_tokens, **responses)
        if not processes.is_main_process:
            return
        if as_json:
            print_line({"folder": str(out.absolute()), "explainer": explainer, **_facts(probes)})
            sys.stdout.flush()
        else:
            from whence.render.fit_progress import fit_view

            print_views([fit_view(probes)])
        say(f"probes: {out.absolute()}")


def _probes(explainer: str, recipe: str, settings: dict[str, Any], options: dict[str, Any]) -> DiffMask | ShapleyProbes:
    from whence.learned.diffmask import DiffMask
    from whence.learned.shapley import ShapleyProbes

    if explainer == "diffmask":
        return DiffMask(settings.pop("kind", "input"), recipe, **{**options, **settings})
    if explainer != "shapley":
        raise UnknownNameError("explainer", explainer, EXPLAINERS)
    for name in ("kind", "margin", "batch_size"):
        if name in settings:
            raise UsageError(f"--{name.replace('_', '-')} is a setting of diffmask", "leave it out for shapley")
    return ShapleyProbes(recipe, **{**options, **settings})


def _bar(main: bool) -> Bar:
    """Shows where the run stands, in the one process that reports it."""
    if not main:
        return nullcontext()
    from whence.render.fit_progress import fit_bar

    return fit_bar()


def _training_split(data: str) -> str | None:
    """Of a known set the part to train on, of a file everything."""
    from whence.data import KNOWN

    return "train" if data in KNOWN else None


def _texts(
    data: str, data_dir: Path | None, split: str | None, limit: int | None, seed: int, response_column: str | None
) -> list[Asked]:
    """The texts of the data, with their responses where these have a column."""
    from whence.data import KNOWN, read

    where = data_dir if data in KNOWN else None
    examples = read(data, data_dir=where, split=split, limit=limit, seed=seed, response_column=response_column)
    return [
        example.as_input if example.response is None else (example.text, example.response) for example in examples
    ]  # fmt: skip


def _fit(
    probes: DiffMask | ShapleyProbes, model: LayeredModel, texts: Sequence[Asked], out: Path, bar: Bar, **settings: Any
) -> None:
    from whence.learned.checkpoint import NAME as CHECKPOINT

    if (out / CHECKPOINT).exists():
        say(f"note: going on with the fit begun in {out}")
    if probes.recipe.minutes is not None:
        say(f"note: training ends after {probes.recipe.minutes:g} minutes; what came out is judged then")
    try:
        with warnings.catch_warnings(record=True) as caught, bar as watch:
            warnings.simplefilter("always", WhenceWarning)
            limited = probes.recipe.minutes is not None
            watched = watch if watch is None or limited else _saying_what_it_costs(watch, model.device.type)
            probes.fit(model, texts, folder=out, progress=False, watch=watched, **settings)
    except KeyboardInterrupt:
        from_there = "goes on from there" if (out / CHECKPOINT).exists() else "begins anew, as nothing was saved yet"
        say(f"stopped: the same command {from_there}")
        raise typer.Exit(1) from None
    for warning in caught:
        if issubclass(warning.category, WhenceWarning):
            say(f"warning: {warning.message}")


def _saying_what_it_costs(watch: Callable[[Any], None], device: str) -> Callable[[Any], None]:
    """`watch`, and after the first step how long the others will take, while it is early enough to think again."""
    said = False

    def watched(standing: Any) -> None:
        nonlocal said
        watch(standing)
        if not said:
            said = True
            each = standing.seconds / standing.step
            left = each * (standing.steps - standing.step)
            told = f"{left / 3600:.1f} hours" if left > LONG else f"{left / 60:.0f} minutes"
            less = "; --recipe sparing takes less, and so does a GPU" if left > LONG else ""
            if left > SHORT:
                say(f"note: a step takes {each:.1f} s on the {device}; all {standing.steps:,} take {told}{less}")

    return watched


def _facts(probes: DiffMask | ShapleyProbes) -> dict[str, Any]:
    """What --json prints of finished probes."""
    from whence.learned.diffmask import DiffMask

    fitted = probes.fitted_
    assert fitted is not None, "fit has just set it"
    shared = {"model": fitted.model.id, "n_texts": fitted.n_texts, "seconds": round(fitted.seconds, 1)}
    if isinstance(probes, DiffMask):
        of_diffmask = probes.fitted_
        assert of_diffmask is not None
        results = [result.to_dict() for result in of_diffmask.results]
        return {"kind": probes.kind, **shared, "margin": of_diffmask.margin, "results": results}
    of_shapley = probes.fitted_
    assert of_shapley is not None
    steps = of_shapley.steps
    return {"units": probes.recipe.units, **shared, "steps": steps, "calibration": asdict(of_shapley.calibration)}
