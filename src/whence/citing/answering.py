"""A question about documents, put to a decoder, and its answer: written by the model, or given."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from whence.citing.ablations import Ablations
from whence.citing.documents import SourcedPrompt
from whence.errors import InputError
from whence.models import responses
from whence.models.inputs import Encoding, Ids
from whence.models.layered import LayeredModel
from whence.models.responses import log_probabilities_without, responding
from whence.units import Span, sentence_spans

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_CUE = "\n\nAnswer:"  # where a model has no chat template


@dataclass(frozen=True, eq=False)
class Answer:
    """What a decoder was asked and what it wrote, as tokens: `sentences` are characters of the answer, each with the
    positions of its tokens among those of the answer in `tokens`."""

    model: LayeredModel
    prompt: SourcedPrompt
    encoding: Encoding
    sentences: tuple[Span, ...]
    tokens: tuple[Int[np.ndarray, " _token"], ...]

    @property
    def text(self) -> str:
        return self.encoding.pair or ""

    @property
    def prompt_spans(self) -> list[Span | None]:
        """Where each token stands in the prompt's own text; None for those of a template or of the answer."""
        begin = self.encoding.turns[-1].start if self.encoding.turns else 0
        end = begin + len(self.prompt.text)
        return [
            (max(token.start - begin, 0), token.end - begin)
            if token.segment == 0 and begin <= token.start < token.end <= end
            else None
            for token in self.encoding.tokens
        ]

    def ablations(
        self, batch_tokens: int | None = None, known: dict[bytes, Float[np.ndarray, " token"]] | None = None
    ) -> Ablations:
        """What the model says of this answer when only some sources are there."""
        spans = self.prompt_spans

        def ask(sets: Bool[np.ndarray, "set source"]) -> Float[np.ndarray, "set token"]:
            keep = torch.from_numpy(self.prompt.keep(spans, sets))
            found: Float[np.ndarray, "set token"] = (
                log_probabilities_without(self.model, self.encoding, keep, batch_tokens).double().cpu().numpy()
            )
            return found

        return Ablations(ask, len(self.prompt.sources), known)

    def source_tokens(self) -> list[Int[np.ndarray, " _token"]]:
        """The positions of each source's tokens among those of the prompt and the answer."""
        owners = self.prompt.owners(self.prompt_spans)
        return [np.flatnonzero(owners == number) for number in range(len(self.prompt.sources))]


def answered(
    model: LayeredModel,
    prompt: SourcedPrompt,
    given: str | Ids | None = None,
    *,
    max_new_tokens: int,
    seed: int = 0,
    sample: bool = False,
) -> Answer:
    """The model's answer, or the one that is given, cut into sentences."""
    if given is not None and len(given) == 0:
        raise InputError("the answer is empty", "leave it out, and the model writes one")
    view = responding(model)
    asked = [{"role": "user", "content": prompt.text}] if _chats(view) else prompt.text + _CUE
    encoding = responses.answered(view, asked, given, max_new_tokens=max_new_tokens, seed=seed, sample=sample)
    spans = sentence_spans(encoding.pair or "")
    own = [token for token in encoding.tokens if token.segment == 1]
    # a token carries the space before a word, not the one behind: it belongs to the sentence that it first reaches into
    firsts = [next(i for i, token in enumerate(own) if token.end > start) for start, _ in spans[1:]]
    tokens = [np.arange(first, end) for first, end in pairwise([0, *firsts, len(own)])]
    told = [(span, found) for span, found in zip(spans, tokens, strict=True) if len(found)]
    return Answer(view, prompt, encoding, tuple(span for span, _ in told), tuple(found for _, found in told))


def _chats(model: LayeredModel) -> bool:
    """Whether the model has a template for chats."""
    return bool(getattr(getattr(model.tokenizer, "tokenizer", None), "chat_template", None))
