"""How a token is hidden from a model, and what stands in for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

Control = Literal["mask", "pad", "zero"]
COMMON_WORD = ("Ġthe", "▁the")
"""The word " the", as byte-level and SentencePiece tokenizers spell it."""
Hide = Literal["auto", "mask_and_attention", "attention", "mask", "pad", "zero", "delete"]
HIDES: tuple[Hide, ...] = ("auto", "mask_and_attention", "attention", "mask", "pad", "zero", "delete")
"""How a token is hidden.

"mask_and_attention" puts the mask's word embedding in its place and takes the token out of everyone's attention;
"attention" does only the latter, "mask", "pad" and "zero" only put the embedding of the mask, of the padding or zero
there. With "mask_and_attention" a language model that says the next token gets the embedding of a common word, and
another without a mask token the padding's, or zero; see `usual_stand_in`. "delete" takes the token out of the text, and
what stands behind it moves up; see `whence.models.deletion`. "auto" is "mask_and_attention" for models with attention,
and the stand-in alone for others.
"""


def usual_stand_in(model: LayeredModel) -> str:
    """What "auto" puts where a token was: the mask, else the padding, else zero; in a decoder's prompt a common word.

    A decoder's padding, and a mask that it was never trained with, are control tokens: the end of a turn in the middle
    of a sentence changes more than the token that went. `docs/decoder_baselines.md` compares what else may stand there.
    """
    words = (word for word in COMMON_WORD if model.tokenizer.id_of(word) is not None)
    return next(words, control_stand_in(model)) if model.reading.next_token else control_stand_in(model)


def control_stand_in(model: LayeredModel) -> Control:
    """The mask, else the padding, else zero."""
    if model.tokenizer.masking is not None:
        return "mask"
    return "zero" if model.tokenizer.padding is None else "pad"


def stand_in_word(model: LayeredModel, stand_in: str) -> Float[Tensor, " embedding"]:
    """The word embedding that takes a token's place, so that its id stays: some models count positions, or find the
    last token, by ids. It is that of the mask, of the padding, zero, or of a token."""
    known = {"mask": model.tokenizer.masking, "pad": model.tokenizer.padding}
    number = known[stand_in] if stand_in in known else model.tokenizer.id_of(stand_in)
    word = model.embed(torch.tensor([[0 if stand_in == "zero" or number is None else number]], device=model.device))
    return torch.zeros_like(word[0, 0]) if stand_in == "zero" else word[0, 0]


@dataclass(frozen=True)
class Hiding:
    """A way to hide, settled for one model: what stands in a hidden token's place, and whether attention skips it.

    Where nothing stands in its place and attention skips nothing, the token is deleted.
    """

    name: Hide
    stand_in: str | None
    from_attention: bool

    @property
    def told(self) -> str:
        """Its name, with the word that stands in a hidden token's place where that is a word."""
        known = (None, "mask", "pad", "zero")
        return self.name if self.stand_in in known else f"{self.name}, {self.stand_in}"

    @property
    def deletes(self) -> bool:
        return self.stand_in is None and not self.from_attention

    @classmethod
    def of(cls, model: LayeredModel, hide: Hide) -> Hiding:
        if hide not in HIDES:
            raise UnknownNameError("way to hide", hide, HIDES)
        usual = usual_stand_in(model)
        if hide == "auto":
            hide = "mask_and_attention" if model.attend is not None else control_stand_in(model)
        ids = {"mask": model.tokenizer.masking, "pad": model.tokenizer.padding}
        if hide in ("mask", "pad") and ids[hide] is None:
            advice = f"use hide={control_stand_in(model)!r}"
            raise UsageError(f"the model has no {hide} token to hide others behind", advice)
        if hide == "mask_and_attention":
            return cls(hide, usual, from_attention=True)
        if hide == "attention":
            return cls(hide, None, from_attention=True)
        if hide == "delete":
            return cls(hide, None, from_attention=False)
        return cls(hide, hide, from_attention=False)
