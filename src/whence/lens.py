"""The lens: the words that a language-model head reads at each position of each layer."""

from __future__ import annotations

import warnings as python_warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from whence.errors import NonFiniteError, UsageError, WhenceWarning
from whence.explanation import Layer, ModelRecord, Token
from whence.models.batching import Text, encode, shortened
from whence.models.head import Head, head_of, log_denominators_, vocabulary_of
from whence.models.huggingface_tokenizer import HuggingFaceTokenizer
from whence.models.inputs import collate
from whence.models.layered import LayeredModel, Layers

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "whence.lens/1"


@dataclass(frozen=True, eq=False)
class Lens:
    """What a head reads off the states of a text.

    `words[i][j]` are the tokens that the head finds likeliest in the state of `tokens[j]` at `layers[i]`, likeliest
    first, as they are written in a text, with their `ids` and `probabilities`. `own_probabilities` and `own_ranks` tell
    the same of the token that stands there (rank 1 is the likeliest): where they are poor, the head does not read this
    layer, and what is decoded there means little. A head with `next_token` was trained to say what follows.
    """

    text: str
    pair: str | None
    tokens: tuple[Token, ...]
    layers: tuple[Layer, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]
    ids: Int[np.ndarray, "layer token rank"]
    probabilities: Float[np.ndarray, "layer token rank"]
    own_probabilities: Float[np.ndarray, "layer token"]
    own_ranks: Int[np.ndarray, "layer token"]
    model: ModelRecord
    head: str
    next_token: bool
    warnings: tuple[str, ...] = ()

    @property
    def read_back(self) -> Float[np.ndarray, " layer"]:
        """At each layer the share of the text's tokens, special ones left out, that the head reads as themselves."""
        mine = [not token.special for token in self.tokens]
        shares: Float[np.ndarray, " layer"] = (self.own_ranks[:, mine] == 1).mean(axis=1)
        return shares

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types."""
        return {
            "schema": SCHEMA,
            "text": self.text,
            "pair": self.pair,
            "tokens": [vars(token) for token in self.tokens],
            "layers": list(self.layers),
            "words": [[list(words) for words in layer] for layer in self.words],
            "ids": self.ids.tolist(),
            "probabilities": self.probabilities.tolist(),
            "own_probabilities": self.own_probabilities.tolist(),
            "own_ranks": self.own_ranks.tolist(),
            "read_back": self.read_back.tolist(),
            "model": vars(self.model),
            "head": self.head,
            "next_token": self.next_token,
            "warnings": list(self.warnings),
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """The lens as one self-contained page, returned and, if a path is given, written there."""
        from whence.files import write_whole
        from whence.render.page import page

        content = page([], lenses=[self], title="What the head reads at each layer")
        if path is not None:
            write_whole(content, path)
        return content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.lens import lens_view

        yield lens_view(self)

    def __repr__(self) -> str:
        return f"<Lens of {self.model.id} by {self.head}: {len(self.tokens)} tokens x {len(self.layers)} layers>"


def decode_layers(model: LayeredModel, text: Text, k: int = 5, layers: Layers = "all") -> Lens:
    """Read the states of a text as words: at each layer and position the k tokens that the head finds likeliest.

    >>> import whence
    >>> lens = decode_layers(whence.load(), "a gorgeous, witty film", k=3)
    >>> len(lens.layers), len(lens.tokens), lens.words[0][-2][0]
    (7, 7, 'film')

    Args:
        model: what `whence.load` gives, with a head.
        text: a text or a pair of texts.
        k: how many tokens.
        layers: "all" (0 … L), "embeddings", a number or several.
    """
    head = head_of(model)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= head.n_vocabulary:
        raise UsageError(f"k must be a whole number from 1 to {head.n_vocabulary}, got {k!r}", "give k=5")
    asked = model.layers(layers)
    encoding = encode(model, text, 0)
    anywhere = [0] if model.reading.one_position else None  # a language model's own logits are not looked at
    inputs = collate([encoding], model.tokenizer.padding, anywhere, model.device)
    head.check_ids(inputs.ids)
    states = model.states(inputs)
    found = [_read(head, states.at(layer)[0].detach(), inputs.ids[0], k) for layer in asked]
    ids, probabilities, own_probabilities, own_ranks = (np.stack(parts) for parts in zip(*found, strict=True))
    if not np.isfinite(probabilities).all():
        raise NonFiniteError("the head gives numbers that are not finite", "the model's numbers overflow; try float32")
    names = _names(model, set(ids.ravel().tolist()))
    warnings = []
    if encoding.cut:
        warnings.append(f"truncated: the model reads {len(encoding)} tokens, {encoding.cut} of the text were not seen")
    for warning in warnings:
        python_warnings.warn(f"{shortened(encoding.text)}: {warning}", WhenceWarning, stacklevel=2)
    return Lens(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        layers=asked,
        words=tuple(tuple(tuple(names[number] for number in top) for top in layer) for layer in ids.tolist()),
        ids=ids,
        probabilities=probabilities,
        own_probabilities=own_probabilities,
        own_ranks=own_ranks,
        model=model.record,
        head=head.name,
        next_token=head.next_token,
        warnings=tuple(warnings),
    )


def _read(
    head: Head, states: Float[Tensor, "token hidden"], own: Int[Tensor, " token"], k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each state the k likeliest ids with their probabilities, and the probability and rank of its own token."""
    parts = []
    for rows, logits in head.in_blocks(states):
        top = logits.topk(k, dim=-1)
        mine = logits.gather(1, own[rows, None])
        ranks = 1 + (logits > mine).sum(dim=-1)
        denominators = log_denominators_(logits)
        parts.append((top.indices, (top.values - denominators).exp(), (mine - denominators).exp()[:, 0], ranks))
    ids, probabilities, own_probabilities, own_ranks = (
        torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)
    )
    return ids, probabilities, own_probabilities, own_ranks


def _names(model: LayeredModel, ids: set[int]) -> dict[int, str]:
    """The tokens of these ids as they are written in a text; an id without a token (a padded table) as a number."""
    tokens = {number: token for token, number in vocabulary_of(model).items() if number in ids}
    written = model.tokenizer.written if isinstance(model.tokenizer, HuggingFaceTokenizer) else str
    return {number: written(tokens[number]) if number in tokens else f"<{number}>" for number in ids}
