"""The one abstraction: a model that turns a text into states h_0 … h_L and can be resumed from any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from numbers import Integral
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UnknownNameError, UsageError, warn_of_old_name
from whence.explanation import Layer, ModelRecord, height
from whence.models.as_found import AsFound, as_found
from whence.models.encoder_decoder import EncoderDecoder
from whence.models.head import Head
from whence.models.inputs import (
    EncodesResponses,
    Encoding,
    Ids,
    Inputs,
    KeysAndValues,
    Prompt,
    Tokenizer,
    collate,
    encode_each,
)
from whence.models.joining import Shared
from whence.models.parts import first_weight
from whence.models.stack import Stack, resuming_each
from whence.tasks.reading import Reading

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Layers = Layer | Iterable[Layer]
"""What may be given as `layers=`: "all" (0 … L), one layer, or several; negative numbers count from the top."""


@dataclass(frozen=True)
class States:
    """Everything one forward pass gives: the word embeddings, h_0 … h_L, and the logits."""

    embeddings: Float[Tensor, "batch token embedding"]
    hidden: tuple[Float[Tensor, "batch token hidden"], ...]
    logits: Float[Tensor, "batch *token label"]

    def at(self, layer: Layer) -> Float[Tensor, "batch token hidden"]:
        return self.embeddings if isinstance(layer, str) else self.hidden[layer]


@dataclass(frozen=True, eq=False)
class LayeredModel:
    """A text model as a stack of layers. `whence.load` makes one from whatever you have.

    `run` calls the module on a batch and returns its logits; `attend` returns each block's attention weights, or is
    None where there are none; `held()` keeps the model in evaluation mode over many calls; `reading` says what
    the logits mean; `head` is a language-model head that reads states as words, if
    one is known: a language model's own, or the one given to `whence.load`; `remember` gives the keys and values of a
    text for the texts that begin alike, or is None where a model has none to give.
    """

    module: nn.Module
    stack: Stack | EncoderDecoder
    tokenizer: Tokenizer
    reading: Reading
    record: ModelRecord
    run: Callable[[Inputs], Float[Tensor, "batch *token label"]]
    attend: Callable[[Inputs], list[Float[Tensor, "batch attention_head query key"]]] | None = None
    head: Head | None = None
    remember: Callable[[Inputs], KeysAndValues] | None = None
    held: AsFound = field(init=False, repr=False)
    _rehearsed: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", as_found(self.module))

    @property
    def decoder(self) -> Head | None:
        warn_of_old_name("LayeredModel.decoder", "LayeredModel.head")
        return self.head

    @property
    def n_layers(self) -> int:
        """L, the number of blocks; there are L + 1 layers, 0 … L."""
        return self.stack.n_layers

    @property
    def encoder_decoder(self) -> bool:
        """Whether the response is read by a stack of its own, on top of the one that reads the text."""
        return isinstance(self.stack, EncoderDecoder)

    def in_decoder(self, layer: Layer) -> bool:
        """Whether a layer is one of an encoder–decoder's decoder."""
        return isinstance(self.stack, EncoderDecoder) and self.stack.in_decoder(layer)

    @property
    def device(self) -> torch.device:
        return first_weight(self.stack.embedding).device

    def layers(self, layers: Layers) -> tuple[Layer, ...]:
        """The layers asked for, checked, lowest first, each once."""
        several = isinstance(layers, Iterable) and not isinstance(layers, str)
        asked: list[Any] = list(layers) if several else [layers]  # type: ignore[arg-type]
        found: set[Layer] = set()
        for layer in asked:
            if layer == "words":
                warn_of_old_name('layer "words"', 'layer "embeddings"')
                layer = "embeddings"
            layer = self.stack.number(layer)
            if layer == "embeddings":
                found.add("embeddings")
            elif str(layer) == "all":
                found.update(range(self.n_layers + 1))
            elif _is_whole(layer) and -self.n_layers - 1 <= layer <= self.n_layers:
                found.add(int(layer) % (self.n_layers + 1))
            else:
                raise UnknownNameError("layer", layer, ["all", *self.layer_names(self._all_layers)])
        if not found:
            raise UsageError("no layer was asked for", "give layers='all' or a list such as [0, 3]")
        return tuple(sorted(found, key=height))

    @property
    def _all_layers(self) -> list[Layer]:
        return ["embeddings", *range(self.n_layers + 1)]

    def share_above(self, layer: Layer) -> float:
        """How much of a forward pass is run where the model is resumed at a layer, counted in blocks."""
        return 1.0 if isinstance(layer, str) else 1.0 - layer / self.n_layers

    def layer_names(self, layers: Iterable[Layer]) -> tuple[Layer, ...]:
        """What layers are called: by their number or, in an encoder–decoder, by their stack."""
        return tuple(self.stack.name(layer) for layer in layers)

    def scored(self, layer: Layer, inputs: Inputs) -> Bool[Tensor, "batch token"]:
        """The tokens that have a score at a layer: those of the text, since a response is no reason for itself.

        In an encoder–decoder they are the source's; at a layer of the decoder also the tokens that it was given, for
        what their states have already taken up.
        """
        if isinstance(self.stack, EncoderDecoder):
            return self.stack.over(inputs).there(layer)
        return inputs.mask & ~inputs.response if self.reading.responds else inputs.mask

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """One text (and its pair) as the model reads it."""
        return self.encode_each([(text, pair)])[0]

    def encode_each(self, texts: Sequence[tuple[str, str | None]]) -> list[Encoding]:
        """Many texts with their pairs (or None) as the model reads them."""
        for text, pair in texts:
            self.reading.check(text, pair)
        if self.reading.responds:
            return [self.encode_response(text, pair or "") for text, pair in texts]
        if not self.reading.pair_apart:
            return encode_each(self.tokenizer, texts)
        alone = encode_each(self.tokenizer, [(text, None) for text, _ in texts])
        return [replace(encoding, pair=pair) for encoding, (_, pair) in zip(alone, texts, strict=True)]

    def encode_prompt(self, prompt: Prompt) -> Encoding:
        """A text, token ids or messages as the model reads them, ready to be answered."""
        return self._writing().encode_prompt(prompt)

    def encode_response(self, prompt: Prompt, response: str | Ids) -> Encoding:
        """A prompt and what was written after it, as a text or as token ids, as the model reads them."""
        return self._writing().encode_response(prompt, response)

    def _writing(self) -> EncodesResponses:
        if not isinstance(self.tokenizer, EncodesResponses):
            raise ModelError(
                f"{self.record.id} writes no text, so it has no response", "load a decoder (GPT-2, Llama) or T5, BART"
            )
        return self.tokenizer

    def collate(self, encodings: Sequence[Encoding], at: int | None = None) -> Inputs:
        """A padded batch on the model's device; `at` is the character at which a masked language model is read."""
        read_at: Sequence[int] | Sequence[Sequence[int]] | None = None
        if self.reading.responds:
            read_at = _before_each(encodings)
        elif self.reading.one_position:
            read_at = [self.reading.position(encoding, at) for encoding in encodings]
        inputs = collate(encodings, self.tokenizer.padding, read_at, self.device)
        return replace(inputs, reference=self._reference(encodings)) if self.reading.pair_apart else inputs

    def _reference(self, encodings: Sequence[Encoding]) -> Float[Tensor, "batch hidden"]:
        """What the pairs are read as by themselves, never padded: a model may read its padding."""
        pairs = encode_each(self.tokenizer, [(encoding.pair or "", None) for encoding in encodings])
        rows = sorted(range(len(pairs)), key=lambda row: len(pairs[row]))
        found: dict[int, Tensor] = {}
        with self.held(), torch.inference_mode(False), torch.no_grad():
            for _, some in groupby(rows, key=lambda row: len(pairs[row])):
                same = list(some)
                alike = collate([pairs[row] for row in same], self.tokenizer.padding, None, self.device)
                found |= dict(zip(same, self.run(alike), strict=True))
        return torch.stack([found[row] for row in range(len(pairs))])

    def states(
        self,
        inputs: Inputs,
        *,
        embeddings: Float[Tensor, "batch token embedding"] | None = None,
        differentiable: bool = False,
    ) -> States:
        """h_0 … h_L and the logits in one forward pass, from other word embeddings if given.

        Differentiable from the word embeddings up if asked; if not, and inside of `torch.inference_mode`, never.
        """
        with (
            self.held(),
            torch.inference_mode(False) if differentiable else nullcontext(),
            torch.set_grad_enabled(differentiable),
            self.stack.over(inputs).recording(differentiable=differentiable, embeddings=embeddings) as trace,
        ):
            logits = self.run(inputs)
        if trace.embeddings is None:
            raise ModelError("the word embedding was not called in the forward pass", "give it as embedding=")
        return States(trace.embeddings, tuple(trace.hidden), logits)

    def embed(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token embedding"]:
        """The raw word embeddings of any ids."""
        table = getattr(self.stack.embedding, "weight", None)
        if table is not None and not ((ids >= 0) & (ids < len(table))).all():
            wrong = int(ids.max() if ids.max() >= len(table) else ids.min())
            raise UsageError(f"the model has no token with id {wrong}", f"ids go from 0 to {len(table) - 1}")
        with self.held(), torch.no_grad():
            words: Tensor = self.stack.embedding(ids)
            return words

    def resume(
        self, layer: Layer, hidden: Float[Tensor, "batch token hidden"], inputs: Inputs
    ) -> Float[Tensor, "batch *token label"]:
        """The rest of the forward pass from `hidden` in place of h_layer: logits, differentiable in `hidden`."""
        return self.resume_each([layer], [hidden], inputs)[0]

    def resume_each(
        self, layers: Sequence[Layer], hidden: Sequence[Float[Tensor, "batch token hidden"]], inputs: Inputs
    ) -> Float[Tensor, "layer batch *token label"]:
        """`resume` at several layers, the lowest first, in one pass over as many copies of the batch.

        Far fewer and larger steps, for processors that wait for work. A block runs on the copies that have come so far;
        of models whose blocks are given what cannot be told apart, on all of them from the lowest layer up.
        """
        for layer in layers:
            self._check(layer)
        with self.held():
            if not self.stack.seen or (self.stack.carries and not self._rehearsed):
                self._rehearse(inputs)
            numbers = list(range(len(inputs))) * len(layers)
            copies = inputs if len(layers) == 1 else inputs.rows(torch.tensor(numbers).to(inputs.ids.device), numbers)
            shared = self._shared_by_texts(inputs) if layers[0] != layers[-1] else None
            with resuming_each(self.stack.over(copies), layers, hidden, shared):
                logits = self.run(copies)
            return logits.reshape(len(layers), -1, *logits.shape[1:])

    def changed(
        self,
        layer: Layer,
        change: Callable[[Float[Tensor, "batch token hidden"]], Float[Tensor, "batch token hidden"]],
        inputs: Inputs,
    ) -> Float[Tensor, "batch *token label"]:
        """The logits of one forward pass that goes on with `change(h_layer)` from there: a state read and replaced."""
        self._check(layer)
        with self.held(), self.stack.over(inputs).changing(layer, change):
            return self.run(inputs)

    def _check(self, layer: Layer) -> None:
        if layer not in self._all_layers:
            raise UnknownNameError("layer", layer, self._all_layers)

    def _rehearse(self, inputs: Inputs) -> None:
        """See how the blocks return their state and, where they return more, that the model can do without that."""
        with torch.inference_mode():
            with self.stack.over(inputs).recording() as trace:
                whole = self.run(inputs)
            for layer in range(1, self.n_layers + 1) if self.stack.carries else ():
                try:
                    with self.stack.over(inputs).resuming(layer, trace.hidden[layer]):
                        same = torch.allclose(self.run(inputs), whole, rtol=1e-3, atol=1e-3, equal_nan=True)
                except (AttributeError, TypeError):  # None stands in for what is missing
                    same = False
                if not same:
                    raise ModelError(
                        f"{self.record.architecture} cannot be resumed at layer {layer}: its blocks hand on more",
                        "give as blocks= modules whose first output is all that the modules after them read",
                    )
        object.__setattr__(self, "_rehearsed", True)

    def _shared_by_texts(self, inputs: Inputs) -> Shared | None:
        """What the arguments of the blocks are that all texts share; None where copies cannot join a pass one by one.

        It is looked up once, and believed if two copies that join at the ends then say what each says by itself.
        """
        if isinstance(self.stack, EncoderDecoder) or self.stack.carries or self.stack.hands_on or inputs.past:
            return None
        if self not in _SHARED:
            with torch.inference_mode():
                _SHARED[self] = self._looked_up(self.stack, inputs)
        return _SHARED[self]

    def _looked_up(self, stack: Stack, inputs: Inputs) -> Shared | None:
        def first_text(count: int) -> Inputs:
            return inputs.rows(torch.zeros(count, dtype=torch.long, device=inputs.ids.device), [0] * count)

        found = stack.shared_arguments(lambda count: self.run(first_text(count)))
        if found is None:
            return None
        states = self.states(first_text(1))
        layers: list[Layer] = ["embeddings", self.n_layers]
        try:
            with resuming_each(stack, layers, [states.embeddings, states.hidden[-1]], found):
                said = self.run(first_text(2))
        except RuntimeError:  # something beside the blocks has a row for each text, too
            return None
        apart = (said - torch.cat([states.logits] * 2)).abs().max()
        return found if apart <= ROUNDING * states.logits.abs().max() else None


ROUNDING = 0.02  # of the largest logit: what bfloat16 on a GPU makes of it, while zeros for states do far more
_SHARED: WeakKeyDictionary[LayeredModel, Shared | None] = WeakKeyDictionary()


def _before_each(encodings: Sequence[Encoding]) -> list[list[int]]:
    """The token before each of a response's, as many for each text: shorter ones repeat their last."""
    longest = max(len(encoding.response) for encoding in encodings)
    before = [[position - 1 for position in encoding.response] for encoding in encodings]
    return [[*own, *own[-1:] * (longest - len(own))] for own in before]


def _is_whole(layer: object) -> bool:
    """A whole number, of Python or numpy; True is none."""
    return isinstance(layer, Integral) and not isinstance(layer, bool)
