"""Chats as prompts: the model's own template written around the messages, and where in the result each message stands.

What a message says is found by construction: the template is filled with signs that nobody writes, and then each sign
with what it stands for. So a message that holds the template's own control strings is still that message, and whatever
else the template writes is template.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whence.errors import InputError, UsageError
from whence.models.inputs import Messages, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_AS_WRITTEN: tuple[Callable[[str], str], ...] = (str, str.strip, str.rstrip, str.lstrip)
"""What templates do to a message: nothing, or they take the spaces off it."""


def rendered(tokenizer: PreTrainedTokenizerBase, messages: Messages) -> tuple[str, tuple[Turn, ...]]:
    """The prompt that the model's chat template makes of messages, up to where it answers, and its turns."""
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError("the model has no chat template, so it takes no messages", "give the prompt as one text")
    for number, message in enumerate(messages):
        _check(message, number)
    if not any(isinstance(message["content"], list) for message in messages):
        return _followed(tokenizer, messages)
    try:
        return _followed(tokenizer, messages)
    except InputError:  # not every template takes messages in pieces
        return _followed(tokenizer, [_in_one_piece(message) for message in messages])


def _followed(tokenizer: PreTrainedTokenizerBase, messages: Messages) -> tuple[str, tuple[Turn, ...]]:
    """What the template makes of the messages, and where each stands in it."""
    said = [(str(message["role"]), text) for message in messages for text in _texts(message)]
    whole = _written(tokenizer, messages)
    sign = next(sign for sign in _signs() if sign not in whole)
    signs = iter([f"{sign}{number}{sign}" if text else "" for number, (_, text) in enumerate(said)])
    template = _written(tokenizer, [_with_texts(message, signs) for message in messages])
    for change in _AS_WRITTEN:
        text, turns = _filled(template, sign, [(role, change(text)) for role, text in said])
        if text == whole and len(turns) == sum(bool(text) for _, text in said):
            return text, turns
    raise InputError(
        "the model's chat template changes what the messages say, so their words cannot be followed",
        "write the prompt out as one text, or give its token ids",
    )


def _in_one_piece(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same message for a template that takes no pieces."""
    return {**message, "content": "\n".join(_texts(message))}


def _check(message: Mapping[str, Any], number: int) -> None:
    if not isinstance(message.get("role"), str) or "content" not in message:
        raise InputError(
            f"message {number} has no role or no content", 'give each as {"role": "user", "content": "..."}'
        )
    content = message["content"]
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    if not all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts):
        raise InputError(f"message {number} holds something else than text", "whence explains texts alone")


def _texts(message: Mapping[str, Any]) -> list[str]:
    """What a message says, in one piece or several."""
    content = message["content"]
    return [part["text"] for part in content] if isinstance(content, list) else [content or ""]


def _with_texts(message: Mapping[str, Any], texts: Iterator[str]) -> Mapping[str, Any]:
    """The same message saying something else; where it says nothing, it goes on saying that."""
    changed = copy.deepcopy(dict(message))
    if isinstance(changed["content"], list):
        for part in changed["content"]:
            part["text"] = next(texts)
    else:
        changed["content"] = next(texts) or changed["content"]
    return changed


def _written(tokenizer: PreTrainedTokenizerBase, messages: Messages) -> str:
    import jinja2

    try:
        found: Any = tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
        )
    except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
        raise InputError(f"the model's chat template refuses these messages: {error}", "see its model card") from error
    return str(found)


def _signs() -> Iterator[str]:
    """Strings of characters that Unicode has given no meaning."""
    return (f"\ue000{number}\ue001" for number in itertools.count())


def _filled(template: str, sign: str, said: Sequence[tuple[str, str]]) -> tuple[str, tuple[Turn, ...]]:
    """The template with what was said in the place of the signs for it, and where that stands."""
    pieces = re.split(f"{sign}([0-9]+){sign}", template)
    text, turns = pieces[0], []
    for number, behind in zip(pieces[1::2], pieces[2::2], strict=True):
        role, own = said[int(number)]
        turns.append(Turn(role, len(text), len(text) + len(own)))
        text += own + behind
    return text, tuple(turns)
