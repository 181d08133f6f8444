"""What a request may ask, under the names that `whence.explain` has for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from whence.errors import UsageError
from whence.explanation import Scale
from whence.methods.explain import explain
from whence.models.responses import MAX_NEW_TOKENS
from whence.serving.limits import Limits, TooLargeError
from whence.targets import Contrast, Label, Span, Target

Option = bool | int | float | str | None
"""A plain value: nothing that a request says is ever taken for a file."""


_HALF = re.compile(r"[\ud800-\udfff]")  # of a surrogate pair
_SECOND = "the second text of models that read two: of a question, its context"


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Message(_Asked):
    """One message of a chat."""

    role: str = Field(max_length=100)
    content: str


class AskedLabel(_Asked):
    """A class, a vocabulary token or a tag; `at` is a character of the text."""

    label: str | int | None = None
    at: int | None = None

    def target(self) -> Label:
        return Label(self.label, self.at)


class AskedSpan(_Asked):
    """Characters of the pair, or of a response."""

    start: int
    end: int

    def target(self) -> Span:
        return Span(self.start, self.end)


Side = str | int | AskedLabel | AskedSpan


class AskedContrast(_Asked):
    """Why `this` rather than `that`."""

    this: Side
    that: Side

    def target(self) -> Contrast:
        return Contrast(*(side if isinstance(side, (str, int)) else side.target() for side in (self.this, self.that)))


class AskedPrediction(_Asked):
    """What does the model say of a text?"""

    model: str | None = Field(None, description="one of /api/models; by default the first")
    text: str
    pair: str | None = Field(None, description=_SECOND)

    def strings(self) -> Iterator[str]:
        """Every text in it."""
        yield self.text
        yield self.pair or ""


class AskedExplanation(_Asked):
    """What does the model's decision, or a decoder's response, rest on? The names are those of `whence.explain`."""

    model: str | None = Field(None, description="one of /api/models; by default the first")
    text: str | list[Message] = Field(description="a text, or the messages of a chat")
    pair: str | None = Field(None, description=_SECOND)
    method: str | None = Field(None, max_length=100, description="one of /api/methods; by default the usual one")
    target: str | int | AskedLabel | AskedSpan | AskedContrast = Field(
        "predicted", description="a label by name or number, a part of the answer, or why one rather than another"
    )
    scale: Scale | None = Field(None, description="of the target; by default what suits the method")
    layers: int | str | list[int | str] | None = Field(
        None, description="`all`, `embeddings`, a number or several; by default what suits the method"
    )
    units: Literal["token", "word", "sentence", "paragraph", "turn"] | list[tuple[int, int]] = Field(
        "token", description="what gets a score; pairs are characters of the text, from and up to"
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="of methods that draw")
    response: str | None = Field(
        None, description="what a decoder wrote after the text; null: it writes one now; left out: its next token"
    )
    foil: str | None = Field(None, description="another response: why this one rather than that")
    without: str | None = Field(None, description="a part of the text: what does the response rest on with it?")
    max_new_tokens: int = Field(MAX_NEW_TOKENS, ge=1, description="of a response that it writes")
    sample: bool = Field(False, description="of a response that it writes: drawn, in place of the likeliest token")
    each_token: bool = Field(True, description="of a response: whether each of its tokens is explained by itself, too")
    options: dict[str, Option | list[Option]] = Field({}, description="the method's own")

    def strings(self) -> Iterator[str]:
        """Every text in it."""
        if isinstance(self.text, str):
            yield self.text
        else:
            yield from (message.content for message in self.text)
        yield from (each or "" for each in (self.pair, self.response, self.foil, self.without))

    @property
    def responds(self) -> bool:
        """Whether it is about a response, which is written or read token by token."""
        return "response" in self.model_fields_set or not isinstance(self.text, str)

    @property
    def source(self) -> Any:
        """The text as `whence.explain` takes it."""
        if not isinstance(self.text, str):
            return [message.model_dump() for message in self.text]
        return self.text if self.pair is None else (self.text, self.pair)

    @property
    def settings(self) -> dict[str, Any]:
        """The other arguments of `whence.explain`."""
        target: Target = self.target if isinstance(self.target, (str, int)) else self.target.target()
        found: dict[str, Any] = {
            "method": self.method, "target": target, "scale": self.scale, "layers": self.layers, "units": self.units,
            "seed": self.seed, "max_new_tokens": self.max_new_tokens, "sample": self.sample,
            "each_token": self.each_token, **self.options,
        }  # fmt: skip
        if "response" in self.model_fields_set:
            found["response"] = self.response
        return found | {name: value for name in ("foil", "without") if (value := getattr(self, name)) is not None}

    @property
    def alike(self) -> Hashable:
        """The same for requests that one call of `whence.explain` can answer; None: it needs one of its own."""
        if self.responds or not isinstance(self.units, str):
            return None
        return repr((self.method, self.target, self.scale, self.layers, self.units, self.seed, self.options))


class AskedPage(_Asked):
    """Explanations, as this server gave them, to be made into one page."""

    explanations: list[dict[str, Any]] = Field(min_length=1, max_length=200)
    title: str | None = Field(None, max_length=500)


_ARGUMENTS = frozenset(inspect.signature(explain).parameters) - {"options"}


def check(asked: AskedPrediction | AskedExplanation, limits: Limits) -> None:
    """Refuse what is too long, what is no Unicode, and options that are files or beyond all measure."""
    length = 0
    for text in asked.strings():
        length += len(text)
        if _HALF.search(text):
            raise UsageError("a text is not valid Unicode", "send whole characters, not halves of a surrogate pair")
    if length > limits.characters:
        raise TooLargeError(f"the texts have {length:,} characters", f"this server takes {limits.characters:,} at once")
    if isinstance(asked, AskedPrediction):
        return
    if asked.max_new_tokens > limits.new_tokens:
        raise TooLargeError(f"{asked.max_new_tokens:,} new tokens are asked for", f"at most {limits.new_tokens} come")
    for name, value in asked.options.items():
        if name == "probes" or name in _ARGUMENTS:
            raise UsageError(f"{name!r} cannot be an option of a request", "probes are those that came with the model")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, (int, float)) and not abs(each) <= limits.option:
                raise TooLargeError(f"{name} is {each}", f"options go up to {limits.option:,} here")
