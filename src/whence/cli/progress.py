"""The slow steps that commands share, with their progress on standard error where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.explanation import Explanation
    from whence.lens import Lens
    from whence.models.layered import LayeredModel


def load_model(
    name: str | None, task: str | None, revision: str | None, head: str | None = None, trust: bool = False
) -> LayeredModel:
    """The model of that name, or the embedded one, without the chatter of the libraries that load it."""
    from rich.console import Console
    from transformers.utils import logging

    from whence.models.loading import load

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    settings: dict[str, Any] = {"task": task, "revision": revision, "head": head, "trust_remote_code": trust}
    with Console(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty()).status("loading the model"):
        return load(**settings) if name is None else load(name, **settings)


def lenses_of(model: LayeredModel, explanations: Sequence[Explanation]) -> list[Lens]:
    """A lens of each text with decoded scores, which mean nothing where the head does not read the states."""
    from whence.lens import decode_layers

    decoded = [each for each in explanations if each.meaning.decoded and each.response is None]
    texts = dict.fromkeys(each.text if each.pair is None else (each.text, each.pair) for each in decoded)
    return decode_layers(model, list(texts))
