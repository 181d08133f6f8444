"""What the commands take: their arguments, and what the words given there mean."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from whence.cli import completion
from whence.cli.reporting import say
from whence.errors import FileError, UsageError

if TYPE_CHECKING:
    from whence.models.layered import LayeredModel
    from whence.targets import Labels, Target

SomeTexts = Annotated[
    list[str] | None, Argument(metavar="[TEXT]...", help="Texts; - reads standard input, one text per line.")
]
SomeData = Annotated[
    str | None, Option("--data", metavar="FILE|NAME", help="Texts from a file or set; many are for `whence run`.")
]
OneText = Annotated[str, Argument(metavar="TEXT", help="A text; - reads standard input.")]
ModelName = Annotated[
    str | None,
    Option(
        "--model", "-m", metavar="M", help="A folder, a hub id or an embedded name.", autocompletion=completion.models
    ),
]
HeadName = Annotated[
    str | None, Option("--head", metavar="M", help="The language model whose head reads states as words.")
]
MethodName = Annotated[
    str | None,
    Option("--method", metavar="NAME", help="A name from `whence methods`.", autocompletion=completion.methods),
]
MethodNames = Annotated[
    str, Option("--methods", metavar="A,B,C", help="Names from `whence methods`.", autocompletion=completion.methods)
]
LayerNames = Annotated[
    str | None, Option("--layers", metavar="LAYERS", help="all, embeddings, or numbers such as 0,3,-1.")
]
UnitName = Annotated[
    str,
    Option(
        "--units",
        metavar="UNIT",
        help="What is scored: token, word, sentence, paragraph, turn (of a chat), or spans such as 0:12,13:40.",
        autocompletion=completion.units,
    ),
]
TargetName = Annotated[
    str | None,
    Option("--target", metavar="LABEL", help="The label to explain, by name or number; of a response: words, or 3:9."),
]
Against = Annotated[
    str | None, Option("--against", metavar="LABEL", help="Explain why not this label (or span, or response).")
]
ResponseText = Annotated[
    str | None, Option("--response", metavar="TEXT", help="What a decoder wrote after the text: explain that.")
]
Generate = Annotated[bool, Option("--generate", help="Let a decoder write a response, and explain that.")]
Sample = Annotated[
    bool, Option("--sample", help="Draw what is written by the model's own settings and --seed; else the likeliest.")
]
ResponseColumn = Annotated[
    str | None, Option("--response-column", metavar="NAME", help="The column of what a decoder wrote after each text.")
]
MaxNewTokens = Annotated[int | None, Option("--max-new-tokens", metavar="N", min=1, help="How much it writes at most.")]
MessagesFile = Annotated[
    Path | None, Option("--messages", metavar="FILE.json", help="A chat in place of a text: a list of messages.")
]
Whole = Annotated[
    bool,
    Option("--whole", help="Explain a response as a whole only: with gradients far faster than token by token."),
]
WithoutText = Annotated[
    str | None, Option("--without", metavar="TEXT", help="Part of the prompt: why so with it, rather than without it?")
]
ScaleName = Annotated[
    str | None,
    Option("--scale", metavar="UNIT", help="logit, probability or log_probability.", autocompletion=completion.scales),
]
Pair = Annotated[str | None, Option("--pair", metavar="TEXT", help="The second text: a context, a hypothesis.")]
SpanText = Annotated[str | None, Option("--span", metavar="START:END", help="An answer: characters of the pair.")]
EachWord = Annotated[
    bool, Option("--each-word", help="Of a tagger: explain the tag of every word; on the page one chooses.")
]
At = Annotated[int | None, Option("--at", metavar="CHARACTER", help="Explain the token at this character.")]
TaskName = Annotated[str | None, Option("--task", metavar="T", help="What the model is for, if it does not tell.")]
Revision = Annotated[str | None, Option("--revision", metavar="R", help="The branch, tag or commit of a hub model.")]
Trust = Annotated[bool, Option("--trust-remote-code", help="Let the model's own code run; without it, it never does.")]
DataName = Annotated[str, Option("--data", metavar="FILE|NAME", help="A file of texts, or a set such as sst2.")]
DataDir = Annotated[Path | None, Option("--data-dir", metavar="FOLDER", help="Where sets are; else WHENCE_DATA, hub.")]
Split = Annotated[str | None, Option("--split", metavar="NAME", help="Which part of the data: train, dev or test.")]
Limit = Annotated[int | None, Option("--limit", metavar="N", min=1, help="At most so many texts, drawn by --seed.")]
Options = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help="A method's option.")]
Probes = Annotated[
    Path | None, Option("--probes", metavar="FOLDER|HUB_ID", help="What `whence fit` wrote, here or on the hub.")
]
Json = Annotated[bool, Option("--json", help="Print one JSON object per line and nothing else.")]
Save = Annotated[Path | None, Option("--save", metavar="FILE", help="Write the explanation as JSON.")]
Html = Annotated[Path | None, Option("--html", metavar="FILE", help="Write a page that any browser shows.")]
BoardFolder = Annotated[
    Path | None,
    Option("--board", metavar="FOLDER", help="A board of this model, by whence evaluate: the page says what it found."),
]
Seed = Annotated[int, Option("--seed", metavar="N", help="Makes every random choice repeatable.")]
BatchTokens = Annotated[int | None, Option("--batch-tokens", metavar="N", help="Lower it if memory runs out.")]
Words = Annotated[bool, Option("--words/--tokens", help="One line per word, or per token.")]
AllTokens = Annotated[bool, Option("--all-tokens", help="Show every line of a long text.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]

_RENAMED = {"decoder": "head"}


def option_of_today(name: str) -> str:
    """The name of an option, given by what it is called or was called before; the latter is said."""
    if name not in _RENAMED:
        return name
    say(f"note: --{name} is now called --{_RENAMED[name]}; the old name will go")
    return _RENAMED[name]


def _warn_of_files(texts: Sequence[str]) -> None:
    """A text that is the name of a file is explained as a text; whoever meant what is in the file should know how."""
    from whence.data.tables import FORMATS

    for text in texts:
        path = Path(text)
        if len(text) > 255 or path.suffix.lower() not in FORMATS or not path.is_file():
            continue
        say(f"note: {text!r} is explained as a text, though there is a file of this name")
        if path.suffix.lower() == ".txt":
            say(f"      to explain its lines: whence explain - < {shlex.quote(text)}")
        else:
            say(f"      to explain the texts in it: whence explain --data {shlex.quote(text)}")


def read_texts(texts: Sequence[str]) -> list[str]:
    """The texts, with `-` replaced by the lines of standard input; blank lines are passed over, and that is said."""
    _warn_of_files(texts)
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
            say(f"note: {blank} blank line{'s' if blank > 1 else ''} of standard input passed over")
        found += [line for line in lines if line.strip()]
    if not found:
        raise UsageError("there is no text to explain", "give a text, or lines on standard input with -")
    for text in found:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError("a text is not valid Unicode", "give it in UTF-8")
    return found


MOST_AT_ONCE = 1_000  # texts of --data: all of them are held in memory


def read_sources(texts: Sequence[str], pair: str | None, data: str | None) -> list[str | tuple[str, str]]:
    """What is to be explained: the texts, each with the pair if there is one, or what the data holds."""
    if data is None:
        return [text if pair is None else (text, pair) for text in read_texts(texts)]
    if texts or pair is not None:
        raise UsageError("--data is where the texts are", "leave out other texts and --pair")
    from whence.data.records import records_of

    source = records_of(data, limit=MOST_AT_ONCE + 1)
    for note in source.notes:
        say(f"note: {note}")
    records = list(source.each())
    if len(records) > MOST_AT_ONCE:
        raise UsageError(
            f"{data!r} holds more than {MOST_AT_ONCE:,} texts",
            "whence run --data ... --out FOLDER takes any number",
        )
    for record in records:
        if record.error is not None:
            raise FileError(f"{record.source}: {record.error}", "mend it, or let `whence run` go on past such rows")
    return [record.text or "" if record.pair is None else (record.text or "", record.pair) for record in records]


def parse_settings(layers: str | None, scale: str | None, seed: int, batch_tokens: int | None) -> dict[str, Any]:
    """The settings of `whence.explain` that every explaining command takes."""
    return {"layers": parse_layers(layers), "scale": scale, "seed": seed, "batch_tokens": batch_tokens}


def parse_units(units: str) -> Any:
    """A kind of unit by name, or spans of characters.

    >>> parse_units("sentence"), parse_units("0:12,13:40")
    ('sentence', [(0, 12), (13, 40)])
    """
    if ":" not in units:
        return units
    spans = [_parse_span(span.strip()) for span in units.split(",")]
    return [(span.start, span.end) for span in spans]


def parse_layers(layers: str | None) -> list[int | str] | None:
    """The layers by number or name; what they must be is for the model to say."""
    if layers is None:
        return None
    names = [name.strip() for name in layers.split(",")]
    return [int(name) if name.removeprefix("-").isdecimal() else name for name in names]


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """The options by name; see `parse_value`."""
    found: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option!r} is not an option", "write NAME=VALUE, as in --option steps=50")
        found[name] = parse_value(value)
    return found


def parse_value(value: str) -> Any:
    """A whole number, a number, true, false, none, a list with commas, or else the string itself.

    >>> [parse_value(value) for value in ["50", "0.1", "true", "None", "0,pad", "mask"]]
    [50, 0.1, True, None, [0, 'pad'], 'mask']
    """
    known = {"true": True, "false": False, "none": None}
    if value.lower() in known:
        return known[value.lower()]
    if "," in value:
        return [parse_value(part.strip()) for part in value.split(",") if part.strip()]
    numbers: tuple[Callable[[str], Any], ...] = (int, float)
    for number in numbers:
        try:
            return number(value)
        except ValueError:
            pass
    return value


def known_methods(names: Sequence[str]) -> list[str]:
    """The names, checked before a model is loaded."""
    from whence.methods.names import method_named

    return [method_named(name).name for name in names]


def parse_target(labels: Labels, target: str | None, against: str | None, span: str | None, at: int | None) -> Target:
    """What --target, --against, --span and --at together ask to explain; without any, the predicted label."""
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


def tag_targets(model: LayeredModel, source: Any, target: Target) -> Iterator[Target]:
    """The tag of every word that the model reads, in place of one; `target` says which tag, if not its own."""
    from whence.targets import Label
    from whence.units import word_spans

    if model.reading.task != "token_classification":
        raise UsageError(f"--each-word is for taggers, and this model is for {model.reading.task}", "leave it out")
    if not isinstance(target, Label) or target.at is not None:
        raise UsageError("--each-word explains every word", "leave out --at, --span and --against")
    text, pair = source if isinstance(source, tuple) else (source, None)
    read = [token for token in model.encode(text, pair).tokens if token.segment == 0 and not token.special]
    for start, _ in word_spans(text):
        if any(token.start <= start < token.end for token in read):
            yield Label(target.label, start)


def parse_response_target(target: str | None, at: int | None) -> Target:
    """What --target says of a response: all of it, characters START:END, or words as they stand in it."""
    from whence.targets import Label

    start, colon, end = (target or "").partition(":")
    if colon and start.isdecimal() and end.isdecimal():
        return _parse_span(str(target))  # type: ignore[no-any-return]
    return Label(None if target in (None, "all", "predicted") else target, at)


def asked_of_response(
    response: str | None, foil: str | None, without: str | None, max_new_tokens: int | None, write: bool
) -> dict[str, Any]:
    """The settings of `whence.explain` that are about a response; a chat that is not to `write` may end with one."""
    given: dict[str, Any] = {"foil": foil, "without": without, "max_new_tokens": max_new_tokens}
    if response is not None or write:
        given["response"] = None if response is None else [response]
    return {name: value for name, value in given.items() if value is not None or name == "response"}


def asked_responses(response_column: str | None, generate: bool, max_new_tokens: int | None) -> dict[str, Any]:
    """The settings of `whence.evaluate` and of a fit that tell whether a decoder writes the responses to many texts."""
    if generate and response_column is not None:
        raise UsageError("--generate writes the responses that --response-column holds", "leave out one of them")
    if max_new_tokens is not None and not generate:
        raise UsageError("--max-new-tokens limits what a decoder writes", "give --generate with it")
    more = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    return {"responses": None, **more} if generate else {}


def read_messages(path: Path) -> list[dict[str, Any]]:
    """The messages in a file: a JSON list of them, alone or under "messages"."""
    from whence.json_records import parse_json

    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}", "give a JSON file of messages") from error
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is not JSON: {error}", "give a JSON file of messages") from error
    found = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found or not all(isinstance(message, dict) for message in found):
        raise UsageError(
            f"{str(path)!r} holds no messages", 'give a list such as [{"role": "user", "content": "Why?"}]'
        )
    return found


def _label(name: str, labels: Labels) -> str | int:
    """A label by name or, where no label has that name, by number."""
    if name.isdecimal():
        try:
            labels.index(name)
        except UsageError:
            return int(name)
    return name


def _parse_span(span: str) -> Any:
    from whence.targets import Span

    start, _, end = span.partition(":")
    if not (start.isdecimal() and end.isdecimal()):
        raise UsageError(f"{span!r} is not a span", "write START:END, as in --span 10:15")
    return Span(int(start), int(end))


def fetched(probes: Path | None) -> Path | None:
    """The folder of probes; those of the hub are fetched, so that what is done with them is known by their contents."""
    from whence.probes.hub import local_folder

    return None if probes is None else local_folder(probes)


def methods_of(probes: Path) -> tuple[str, ...]:
    """The methods that the probes in a folder are for, the usual one first."""
    from whence.probes import shapley
    from whence.probes.folder import schema_of

    return ("one_pass", "amortised_shapley") if schema_of(probes) == shapley.SCHEMA else ("diffmask",)
