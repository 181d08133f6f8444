"""The command `whence`. Everything heavy loads inside the commands, so that help comes at once."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from whence.errors import UnknownNameError, UsageError, WhenceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.explanation import Explanation
    from whence.models.layered import LayeredModel
    from whence.targets import Labels, Target

app = typer.Typer(
    name="whence",
    help="Which words a text model's decision rests on, at every layer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Texts = Annotated[list[str], Argument(metavar="TEXT", help="Texts; - reads standard input, one text a line.")]
OneText = Annotated[str, Argument(metavar="TEXT", help="A text; - reads standard input.")]
ModelName = Annotated[str | None, Option("--model", "-m", metavar="M", help="A folder, a hub id or an embedded name.")]
MethodName = Annotated[str | None, Option("--method", metavar="NAME", help="A name from `whence methods`.")]
MethodNames = Annotated[str, Option("--methods", metavar="A,B,C", help="Names from `whence methods`.")]
LayerNames = Annotated[str | None, Option("--layers", metavar="LAYERS", help="all, words, or numbers such as 0,3,-1.")]
TargetName = Annotated[str | None, Option("--target", metavar="LABEL", help="The label to explain, by name or number.")]
Against = Annotated[str | None, Option("--against", metavar="LABEL", help="Explain why not this label (or span).")]
ScaleName = Annotated[str | None, Option("--scale", metavar="UNIT", help="logit, probability or log_probability.")]
Pair = Annotated[str | None, Option("--pair", metavar="TEXT", help="The second text: a context, a hypothesis.")]
SpanText = Annotated[str | None, Option("--span", metavar="START:END", help="An answer: characters of the pair.")]
At = Annotated[int | None, Option("--at", metavar="CHARACTER", help="Explain the token at this character.")]
TaskName = Annotated[str | None, Option("--task", metavar="T", help="What the model is for, if it does not tell.")]
Revision = Annotated[str | None, Option("--revision", metavar="R", help="The branch, tag or commit of a hub model.")]
Options = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help="A method's option.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object a line and nothing else.")]
Save = Annotated[Path | None, Option("--save", metavar="FILE", help="Write the explanation as JSON.")]
Html = Annotated[Path | None, Option("--html", metavar="FILE", help="Write a page that any browser shows.")]
Seed = Annotated[int, Option("--seed", metavar="N", help="Makes every random choice repeatable.")]
BatchTokens = Annotated[int | None, Option("--batch-tokens", metavar="N", help="Lower it if memory runs out.")]
Words = Annotated[bool, Option("--words/--tokens", help="One line a word or a token.")]
AllTokens = Annotated[bool, Option("--all-tokens", help="Show every line of a long text.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]


def main() -> None:
    """The console entry point."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets its code, not a traceback
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="whence")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"whence {version('whence')}")
        raise typer.Exit


@app.callback()
def _whence(
    _: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def explain(
    texts: Texts, model: ModelName = None, method: MethodName = None, layers: LayerNames = None,
    target: TargetName = None, against: Against = None, scale: ScaleName = None, pair: Pair = None,
    span: SpanText = None, at: At = None, task: TaskName = None, revision: Revision = None, option: Options = None,
    as_json: Json = False, save: Save = None, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    words: Words = True, all_tokens: AllTokens = False, debug: Debug = False,
) -> None:  # fmt: skip
    """Tell which words of each text the model's decision rests on.

    Write -- before a text that begins with a dash.
    """
    with _errors_reported(debug):
        given = _read_texts(texts)
        if save is not None and len(given) != 1:
            raise UsageError(f"--save holds one explanation, but there are {len(given)} texts", "use --json > FILE")
        _check_folder(html)
        settings = _settings(layers, scale, seed, batch_tokens)
        options = _parse_options(option or [])
        method = _known_methods([method] if method else [])[0]
        loaded = _load(model, task, revision)
        wanted = _target(loaded.reading.labels, target, against, span, at)
        explanations = _explain(loaded, given, pair, method, target=wanted, **settings, **options)
        if save is not None:
            explanations[0].save(save)
        if as_json:
            _print_json(explanations)
        else:
            from whence.render.terminal import explanation_view

            _print(explanation_view(each, words=words, everything=all_tokens) for each in explanations)
        _repeat_warnings(explanations, as_json)
        _write_page(explanations, html)


@app.command()
def compare(
    text: OneText, methods: MethodNames, model: ModelName = None, layers: LayerNames = None,
    target: TargetName = None, against: Against = None, scale: ScaleName = None, pair: Pair = None,
    span: SpanText = None, at: At = None, task: TaskName = None, revision: Revision = None, option: Options = None,
    as_json: Json = False, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    all_tokens: AllTokens = False, debug: Debug = False,
) -> None:  # fmt: skip
    """Put several methods side by side on one text.

    Below the words stands how far the methods agree. An option goes to every method that has it.
    """
    with _errors_reported(debug):
        given = _read_texts([text])
        if len(given) != 1:
            raise UsageError(f"one text is compared at a time, but there are {len(given)}", "give one line")
        _check_folder(html)
        names = _known_methods([name.strip() for name in methods.split(",") if name.strip()])
        settings = _settings(layers, scale, seed, batch_tokens)
        shares = _shared_options(names, _parse_options(option or []))
        loaded = _load(model, task, revision)
        settings["target"] = _target(loaded.reading.labels, target, against, span, at)
        explanations = [
            _explain(loaded, given, pair, name, **settings, **options)[0]
            for name, options in zip(names, shares, strict=True)
        ]
        if as_json:
            _print_json(explanations)
        else:
            from whence.render.terminal import comparison_view

            _print([comparison_view(explanations, everything=all_tokens)])
        _repeat_warnings(explanations, as_json)
        _write_page(explanations, html)


@app.command()
def methods(as_json: Json = False, debug: Debug = False) -> None:
    """List what scores say, need and cost, by method."""
    with _errors_reported(debug):
        from whence.methods import METHODS
        from whence.methods.presets import PRESETS
        from whence.render.terminal import methods_view

        if not as_json:
            _print([methods_view()])
            return
        for name, method in METHODS.items():
            about = {"name": name, "kind": "method", "meaning": vars(method.meaning), "needs": method.needs}
            _print_line({**about, "cost": method.cost, "layers": method.layers, "options": method.options})
        for name, preset in PRESETS.items():
            _print_line({"name": name, "kind": "preset", **vars(preset)})
        sys.stdout.flush()


@contextmanager
def _errors_reported(debug: bool) -> Iterator[None]:
    """Errors as plain text on standard error with their exit code; nothing of the libraries' own chatter."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    with warnings.catch_warnings():
        warnings.simplefilter("default" if debug else "ignore")
        try:
            yield
        except BrokenPipeError:
            # Whoever read our output has left (`| head`): what is still in the buffer must go somewhere at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except WhenceError as error:
            if debug:
                raise
            _print_error(error.problem, error.advice)
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if debug:
                raise
            _print_error(f"{type(error).__name__}: {error}", "this was not foreseen: --debug shows where it happened")
            raise typer.Exit(1) from None


def _print_error(problem: str, advice: str) -> None:
    from whence.render.visible import visible

    lines = [visible(f"error: {problem.strip()}"), *(visible(line) for line in advice.splitlines())]
    typer.echo("\n".join(lines), err=True)


def _read_texts(texts: Sequence[str]) -> list[str]:
    """The texts, with `-` replaced by the lines of standard input; blank lines are passed over, and that is said."""
    found: list[str] = []
    for text in texts:
        if text != "-":
            found.append(text)
            continue
        try:
            lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"standard input is not UTF-8 at byte {error.start}", "convert it, as with iconv"
            ) from error
        lines = [line.removesuffix("\r") for line in lines]
        blank = sum(not line.strip() for line in lines[:-1])
        if blank:
            typer.echo(f"note: {blank} blank line{'s' if blank > 1 else ''} of standard input passed over", err=True)
        found += [line for line in lines if line.strip()]
    if not found:
        raise UsageError("there is no text to explain", "give a text, or lines on standard input with -")
    for text in found:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError("a text is not valid Unicode", "give it in UTF-8")
    return found


def _settings(layers: str | None, scale: str | None, seed: int, batch_tokens: int | None) -> dict[str, Any]:
    return {"layers": _parse_layers(layers), "scale": scale, "seed": seed, "batch_tokens": batch_tokens}


def _parse_layers(layers: str | None) -> list[int | str] | None:
    if layers is None:
        return None
    names = [name.strip() for name in layers.split(",")]
    return [int(name) if name.removeprefix("-").isdecimal() else name for name in names]


def _parse_options(options: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option!r} is not an option", "write NAME=VALUE, as in --option steps=50")
        found[name] = _parse_value(value)
    return found


def _parse_value(value: str) -> Any:
    """A whole number, a number, true, false, none, a list with commas, or else the string itself.

    >>> [_parse_value(value) for value in ["50", "0.1", "true", "None", "0,pad", "mask"]]
    [50, 0.1, True, None, [0, 'pad'], 'mask']
    """
    known = {"true": True, "false": False, "none": None}
    if value.lower() in known:
        return known[value.lower()]
    if "," in value:
        return [_parse_value(part.strip()) for part in value.split(",") if part.strip()]
    numbers: tuple[Callable[[str], Any], ...] = (int, float)
    for number in numbers:
        try:
            return number(value)
        except ValueError:
            pass
    return value


def _known_methods(names: Sequence[str]) -> list[str]:
    """The names, checked before a model is loaded; without any, the usual method."""
    from whence.methods import METHODS
    from whence.methods.explain import DEFAULT_METHOD
    from whence.methods.presets import PRESETS

    for name in names:
        if name not in METHODS and name not in PRESETS:
            raise UnknownNameError("method", name, [*METHODS, *PRESETS])
    return list(names) or [DEFAULT_METHOD]


def _shared_options(names: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """For each method those options that it has; every option must be known to one of them."""
    from whence.methods import METHODS
    from whence.methods.presets import PRESETS

    known = [METHODS[PRESETS[name].method if name in PRESETS else name].options for name in names]
    for option in options:
        if not any(option in each for each in known):
            raise UnknownNameError(
                f"option of {', '.join(names)}", option, sorted({name for each in known for name in each})
            )
    return [{option: value for option, value in options.items() if option in each} for each in known]


def _load(name: str | None, task: str | None, revision: str | None) -> LayeredModel:
    from rich.console import Console
    from transformers.utils import logging

    from whence.models.loading import load

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    settings: dict[str, Any] = {"task": task, "revision": revision}
    with Console(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty()).status("loading the model"):
        return load(**settings) if name is None else load(name, **settings)


def _target(labels: Labels, target: str | None, against: str | None, span: str | None, at: int | None) -> Target:
    from whence.targets import Contrast, Label

    if span is not None and (target is not None or at is not None):
        raise UsageError("--span is a target of its own", "leave out --target and --at")
    if span is not None:
        this: Any = _parse_span(span)
        that: Any = None if against is None else _parse_span(against)
    else:
        this = Label(None if target in (None, "predicted") else _label(str(target), labels), at)
        that = None if against is None else Label(_label(against, labels), at)
    return this if that is None else Contrast(this, that)


def _label(name: str, labels: Labels) -> str | int:
    """A label by name or, where no label has that name, by number."""
    if name.isdecimal():
        try:
            labels.index(name)
        except UnknownNameError:
            return int(name)
    return name


def _parse_span(span: str) -> Any:
    from whence.targets import Span

    start, _, end = span.partition(":")
    if not (start.isdecimal() and end.isdecimal()):
        raise UsageError(f"{span!r} is not a span", "write START:END, as in --span 10:15")
    return Span(int(start), int(end))


def _explain(
    model: LayeredModel, texts: Sequence[str], pair: str | None, method: str, **settings: Any
) -> list[Explanation]:
    from rich.console import Console
    from rich.progress import Progress

    from whence.methods.explain import explain as explain_texts

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(method, total=len(texts))
        return explain_texts(
            model,
            [text if pair is None else (text, pair) for text in texts],
            method,
            progress=lambda done, total: progress.update(bar, completed=done),
            **settings,
        )


def _check_folder(html: Path | None) -> None:
    """Before the model runs, so that no work is lost for want of a folder."""
    if html is not None and not html.parent.is_dir():
        raise UsageError(f"there is no folder {str(html.parent)!r} for the page", "make it, or choose another file")
    if html is not None and html.is_dir():
        raise UsageError(f"{str(html)!r} is a folder", "name a file, as in --html why.html")


def _write_page(explanations: Sequence[Explanation], html: Path | None) -> None:
    if html is None:
        return
    from whence.files import write_whole
    from whence.render.page import page
    from whence.render.visible import visible

    write_whole(page(explanations), html)
    typer.echo(visible(f"page: {html.absolute()}"), err=True)


def _print_json(explanations: Sequence[Explanation]) -> None:
    for explanation in explanations:
        _print_line(explanation.to_dict())
    sys.stdout.flush()


def _print_line(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=True, allow_nan=False, default=str) + "\n")


def _print(views: Sequence[RenderableType] | Iterator[RenderableType]) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    for place, view in enumerate(views):
        if place:
            console.print()
        console.print(view)
    sys.stdout.flush()


def _repeat_warnings(explanations: Sequence[Explanation], as_json: bool) -> None:
    """On standard error too, unless they were just read on the same terminal."""
    from whence.render.visible import visible

    if sys.stdout.isatty() and not as_json:
        return
    for explanation in explanations:
        for warning in explanation.warnings:
            shown = explanation.text if len(explanation.text) <= 40 else f"{explanation.text[:39]}…"
            typer.echo(visible(f"warning: {explanation.method}, {shown!r}: {warning}"), err=True)
