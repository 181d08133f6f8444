"""The lens: the words that a language-model head reads at each position of each layer."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor

from whence.errors import NonFiniteError, UsageError, WhenceWarning, warn_of_old_name
from whence.explanation import Layer, ModelRecord, Token
from whence.files import written
from whence.json_records import load_json, plain, save_json
from whence.lens_answer import LensAnswer, answer_of, place_of
from whence.lens_response import WrittenByLayer, settled_layers
from whence.models.batching import Text, encode, shortened
from whence.models.head import Head, head_of, log_denominators_, vocabulary_of
from whence.models.huggingface_tokenizer import HuggingFaceTokenizer
from whence.models.inputs import Encoding, Ids, Messages, collate
from whence.models.layered import LayeredModel, Layers
from whence.models.responses import (
    MAX_NEW_TOKENS,
    UNASKED,
    Unasked,
    answered_each,
    asked_view,
    given_texts,
)
from whence.models.vocabulary import VocabularyLabels
from whence.results import Results, Shown

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float, Int
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "whence.lens/1"


@dataclass(frozen=True, eq=False)
class Lens(Shown):
    """What a head reads off the states of a text.

    `words[i][j]` are the tokens that the head finds likeliest in the state of `tokens[j]` at `layers[i]`, likeliest
    first, as they are written in a text, with their `ids` and `probabilities`. `own_probabilities` and `own_ranks` tell
    the same of the token that stands there (rank 1 is the likeliest): where they are poor, a head that fills in tokens
    does not read this layer, and what is decoded there means little. A head with `next_token` was trained to say what
    follows, and is judged by that: `following_probabilities[i, j]` and `following_ranks[i, j]` tell of `tokens[j + 1]`
    in the state of `tokens[j]`, so they have one column less; for other heads they are None. `answer` is what the model
    itself says of the text, layer by layer, where that is one choice among labels.
    """

    text: str
    pair: str | None
    tokens: Sequence[Token]
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
    following_probabilities: Float[np.ndarray, "layer follower"] | None = None
    following_ranks: Int[np.ndarray, "layer follower"] | None = None
    answer: LensAnswer | None = None

    @property
    def decoder(self) -> str:
        warn_of_old_name("Lens.decoder", "Lens.head")
        return self.head

    @property
    def read_back(self) -> Float[np.ndarray, " layer"]:
        """At each layer the share of the text's tokens, special ones left out, that the head reads as themselves."""
        mine = [not token.special for token in self.tokens]
        shares: Float[np.ndarray, " layer"] = (self.own_ranks[:, mine] == 1).mean(axis=1)
        return shares

    @property
    def read_ahead(self) -> Float[np.ndarray, " layer"] | None:
        """At each layer the share of the text's tokens, special ones left out, that the head says before they come.

        None for a head that was not trained to say what follows, and where nothing follows.
        """
        mine = [not token.special for token in self.tokens[1:]]
        if self.following_ranks is None or not any(mine):
            return None
        shares: Float[np.ndarray, " layer"] = (self.following_ranks[:, mine] == 1).mean(axis=1)
        return shares

    @property
    def response(self) -> str | None:
        """What the model wrote after the text, where that was asked about."""
        return self.pair if self.model.task == "response" else None

    @property
    def written(self) -> WrittenByLayer | None:
        """What each layer would have written in the place of the response's tokens.

        None without a response, and for a head that was not trained to say what follows.
        """
        if self.response is None or self.following_ranks is None or self.following_probabilities is None:
            return None
        start = sum(token.segment == 0 for token in self.tokens)
        before = slice(start - 1, len(self.tokens) - 1)  # a token is read off at the one before it
        ranks = self.following_ranks[:, before]
        return WrittenByLayer(
            range(start, len(self.tokens)), tuple(layer[before] for layer in self.words),
            self.following_probabilities[:, before], ranks, settled_layers(ranks, self.layers),
        )  # fmt: skip

    @property
    def sought_probabilities(self) -> Float[np.ndarray, "layer token"]:
        """Of the token that the head is there to say: the one that stands there, or the next; 0 after the last."""
        return self._sought(self.own_probabilities, self.following_probabilities)

    @property
    def sought_ranks(self) -> Int[np.ndarray, "layer token"]:
        """The ranks that belong to `sought_probabilities`; 0 where there is no such token."""
        return self._sought(self.own_ranks, self.following_ranks)

    def _sought(self, own: np.ndarray, following: np.ndarray | None) -> np.ndarray:
        if not self.next_token:
            return own
        return np.zeros_like(own) if following is None else np.pad(following, ((0, 0), (0, 1)))

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
            "following_probabilities": _listed(self.following_probabilities),
            "following_ranks": _listed(self.following_ranks),
            "read_ahead": _listed(self.read_ahead),
            "written": None if self.written is None else self.written.to_dict(),
            "model": vars(self.model),
            "head": self.head,
            "next_token": self.next_token,
            "warnings": list(self.warnings),
            "answer": plain(self.answer),
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """The lens as one self-contained page, returned and, if a path is given, written there."""
        from whence.render.lens_page import lens_page

        return written(lens_page(self), path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Lens:
        """The lens that `to_dict` wrote; every field is checked."""
        from whence.lens_json import from_dict

        return from_dict(data)

    def save(self, path: str | Path) -> None:
        """Write the lens as JSON; a file already there is replaced only once the new one is whole."""
        save_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | Path) -> Lens:
        """Read a lens that `save` wrote; nothing in the file is executed."""
        return cls.from_dict(load_json(path))

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per layer, token and rank: layer, position, token, rank, word, id, probability."""
        import pandas

        return pandas.DataFrame(
            {
                "layer": layer,
                "position": position,
                "token": token.text,
                "rank": rank + 1,
                "word": word,
                "id": int(self.ids[i, position, rank]),
                "probability": float(self.probabilities[i, position, rank]),
            }
            for i, layer in enumerate(self.layers)
            for position, token in enumerate(self.tokens)
            for rank, word in enumerate(self.words[i][position])
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.lens import lens_view

        yield lens_view(self)

    def __repr__(self) -> str:
        return f"<Lens of {self.model.id} by {self.head}: {len(self.tokens)} tokens x {len(self.layers)} layers>"


@overload
def decode_layers(  # type: ignore[overload-overlap]
    model: LayeredModel, texts: Text | Ids | Messages, k: int = ..., layers: Layers = ..., *,
    response: str | Ids | Unasked | None = ..., max_new_tokens: int = ...,
) -> Lens: ...  # fmt: skip
@overload
def decode_layers(
    model: LayeredModel, texts: Iterable[Text | Ids | Messages], k: int = ..., layers: Layers = ..., *,
    response: Sequence[str | Ids] | Unasked | None = ..., max_new_tokens: int = ...,
) -> Results[Lens]: ...  # fmt: skip
def decode_layers(
    model: LayeredModel,
    texts: Text | Ids | Messages | Iterable[Text | Ids | Messages],
    k: int = 5,
    layers: Layers = "all",
    *,
    response: str | Ids | Sequence[str | Ids] | Unasked | None = UNASKED,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> Lens | Results[Lens]:
    """Read the states of a text as words: at each layer and position the k tokens that the head finds likeliest.

    >>> import whence
    >>> lens = decode_layers(whence.load(), "a gorgeous, witty film", k=3)
    >>> len(lens.layers), len(lens.tokens), lens.words[0][-2][0]
    (7, 7, 'film')

    Args:
        model: what `whence.load` gives, with a head.
        texts: a text or a pair of texts gives a lens; several give a list in the same order.
        k: how many tokens.
        layers: "all" (0 … L), "embeddings", a number or several.
        response: what a decoder wrote after the text, as for `whence.explain`; None: it writes one now. `Lens.written`
            then tells what each layer would have written in the place of every token.
        max_new_tokens: how much it writes at most.
    """
    given, single = given_texts(texts)
    model = asked_view(model, given, response)
    if model.reading.responds:
        encodings = answered_each(model, given, [response] if single else response, max_new_tokens, seed=0)
    else:
        encodings = [encode(model, text, index) for index, text in enumerate(given)]
    found = Results(_lens(model, encoding, k, layers) for encoding in encodings)
    return found[0] if single else found


def _lens(model: LayeredModel, encoding: Encoding, k: int, layers: Layers) -> Lens:
    head = head_of(model)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= head.n_vocabulary:
        raise UsageError(f"k must be a whole number from 1 to {head.n_vocabulary}, got {k!r}", "give k=5")
    asked = _read_by_head(model, layers)
    position = place_of(model, encoding)
    read_at = [position or 0] if model.reading.reads_vocabulary else None
    inputs = collate([encoding], model.tokenizer.padding, read_at, model.device)
    head.check_ids(inputs.ids)
    states = model.states(inputs)
    own = inputs.ids[0]
    sought = torch.stack([own, own.roll(-1)] if head.next_token else [own], dim=1)
    found = [_read(head, states.at(layer)[0].detach(), sought, k) for layer in asked]
    ids, probabilities, chances, ranks = (np.stack(parts) for parts in zip(*found, strict=True))
    if not np.isfinite(probabilities).all():
        raise NonFiniteError("the head gives numbers that are not finite", "the model's numbers overflow; try float32")
    names = _names(model, set(ids.ravel().tolist()))
    warnings = []
    if encoding.cut:
        warnings.append(f"truncated: the model reads {len(encoding)} tokens, {encoding.cut} of the text were not seen")
    if model.encoder_decoder:
        warnings.append("at the source's tokens the head reads the encoder's output, which it was not trained to read")
    for warning in warnings:
        python_warnings.warn(f"{shortened(encoding.text)}: {warning}", WhenceWarning, stacklevel=3)
    return Lens(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        layers=model.layer_names(asked),
        words=tuple(tuple(tuple(names[number] for number in top) for top in layer) for layer in ids.tolist()),
        ids=ids,
        probabilities=probabilities,
        own_probabilities=chances[..., 0],
        own_ranks=ranks[..., 0],
        model=model.record,
        head=head.name,
        next_token=head.next_token,
        warnings=tuple(warnings),
        following_probabilities=chances[:, :-1, 1] if head.next_token else None,
        following_ranks=ranks[:, :-1, 1] if head.next_token else None,
        answer=answer_of(model, states, inputs, asked, position),
    )


def _read_by_head(model: LayeredModel, layers: Layers) -> tuple[Layer, ...]:
    """The layers asked for; of an encoder–decoder those of its decoder, whose states its head reads."""
    asked = model.layers(layers)
    if model.encoder_decoder and layers == "all":
        return tuple(layer for layer in asked if model.in_decoder(layer))
    others = [layer for layer in asked if model.encoder_decoder and not model.in_decoder(layer)]
    if others:
        named = ", ".join(map(str, model.layer_names(others)))
        raise UsageError(
            f"the head of an encoder-decoder reads its decoder's states, not {named}",
            "ask for layers such as 'decoder 1'",
        )
    return asked


def _read(
    head: Head, states: Float[Tensor, "token hidden"], sought: Int[Tensor, "token which"], k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each state the k likeliest ids with their probabilities, and the probability and rank of each token sought."""
    parts = []
    for rows, logits in head.in_blocks(states):
        top = logits.topk(k, dim=-1)
        mine = logits.gather(1, sought[rows])
        ranks = 1 + torch.stack([(logits > each[:, None]).sum(dim=-1) for each in mine.unbind(1)], dim=1)
        denominators = log_denominators_(logits)
        parts.append((top.indices, (top.values - denominators).exp(), (mine - denominators).exp(), ranks))
    ids, probabilities, chances, all_ranks = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
    return ids, probabilities, chances, all_ranks


def _listed(table: np.ndarray | None) -> list[Any] | None:
    return None if table is None else table.tolist()


def _names(model: LayeredModel, ids: set[int]) -> dict[int, str]:
    """The tokens of these ids as they are written in a text; an id without a token (a padded table) as a number."""
    if isinstance(model.tokenizer, HuggingFaceTokenizer):
        labels = VocabularyLabels(model.tokenizer.tokenizer)
        return {number: labels.written(number) for number in ids}
    tokens = {number: token for token, number in vocabulary_of(model).items() if number in ids}
    return {number: tokens.get(number, f"<{number}>") for number in ids}
