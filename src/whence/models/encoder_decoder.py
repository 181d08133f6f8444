"""Two stacks as one: the encoder reads a source, and on top of it the decoder reads what was written so far.

A batch holds the source's tokens and behind them those that the decoder is given: the ones it begins with, and the
response. Layers are counted through, the encoder's first. At a layer of the encoder the states are those of the source;
the decoder's inputs are given and have none. At a layer of the decoder the states are its own, and at the source's
tokens what it reads there: the encoder's output. All that happens above depends on these and on nothing else, so that
the model can be resumed from them, and scores of both sides compare.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.explanation import Layer
from whence.models.inputs import WRITTEN, Inputs
from whence.models.own_thread import forwards_through, in_this_thread
from whence.models.stack import Stack, Trace

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_SOURCE = "encoder_hidden_states"  # how the blocks of transformers' decoders call what they read of the source


@dataclass(frozen=True)
class Side:
    """Some tokens of each text, close together in columns: `at` says where each column's token stands in the text,
    `real` which columns have one, `column` and `there` the same the other way round."""

    at: Int[Tensor, "batch column"]
    real: Bool[Tensor, "batch column"]
    column: Int[Tensor, "batch token"]
    there: Bool[Tensor, "batch token"]

    @classmethod
    def of(cls, there: Bool[Tensor, "batch token"]) -> Side:
        counts = there.sum(dim=1)
        width = max(1, int(counts.max()))
        at = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        real = torch.arange(width, device=there.device) < counts[:, None]
        return cls(at, real, (there.cumsum(dim=1) - 1).clamp(min=0), there)

    def of_tokens(self, values: Float[Tensor, "batch token hidden"]) -> Float[Tensor, "batch column hidden"]:
        return values.gather(1, self.at[..., None].expand(-1, -1, values.shape[-1]))

    def to_tokens(self, values: Float[Tensor, "batch column hidden"]) -> Float[Tensor, "batch token hidden"]:
        """Back to where the tokens stand; zero at all others."""
        spread = values.gather(1, self.column[..., None].expand(-1, -1, values.shape[-1]))
        return spread.masked_fill(~self.there[..., None], 0.0)

    def ids(self, inputs: Inputs, padding: int) -> Int[Tensor, "batch column"]:
        return inputs.ids.gather(1, self.at).masked_fill(~self.real, padding)


class Sides:
    """The tokens of a batch that go to the encoder, and those that go to the decoder."""

    def __init__(self, inputs: Inputs) -> None:
        marks = inputs.features.get(WRITTEN)
        written = torch.zeros_like(inputs.mask) if marks is None else marks.bool()
        self.source = Side.of(inputs.mask & ~written)
        self.written = Side.of(inputs.mask & written)

    def attention(
        self, weights: Float[Tensor, "batch attention_head query key"], queries: Side, keys: Side
    ) -> Float[Tensor, "batch attention_head token token"]:
        """Weights between columns as weights between tokens; zero at all others."""
        rows, columns = (side.column[:, None].expand(-1, weights.shape[1], -1) for side in (queries, keys))
        found = weights.gather(2, rows[..., None].expand(-1, -1, -1, weights.shape[3]))
        found = found.gather(3, columns[:, :, None].expand(-1, -1, rows.shape[2], -1))
        return found * (queries.there[:, None, :, None] & keys.there[:, None, None, :])


class EncoderDecoder:
    """The two stacks of an encoder–decoder; `reader` is the module that holds the encoder's."""

    def __init__(self, encoder: Stack, decoder: Stack, reader: nn.Module) -> None:
        self.encoder, self.decoder, self.reader = encoder, decoder, reader
        self.embedding = encoder.embedding
        self.blocks = (*encoder.blocks, *decoder.blocks)
        self.n_layers = encoder.n_layers + decoder.n_layers
        self._takes = {block: list(inspect.signature(block.forward).parameters) for block in decoder.blocks}
        if not all(_SOURCE in names for names in self._takes.values()):
            raise ModelError(
                f"the decoder's blocks ({type(decoder.blocks[0]).__name__}) are given no {_SOURCE}",
                "only encoder-decoders whose decoder reads the encoder's output can be explained",
            )

    @property
    def seen(self) -> bool:
        return self.encoder.seen and self.decoder.seen

    @property
    def carries(self) -> bool:
        return self.encoder.carries or self.decoder.carries

    def in_decoder(self, layer: Layer) -> bool:
        return isinstance(layer, int) and layer > self.encoder.n_layers

    def over(self, inputs: Inputs) -> BothSides:
        return BothSides(self, Sides(inputs))

    def name(self, layer: Layer) -> Layer:
        """What a layer is called: by its stack."""
        if isinstance(layer, str):
            return layer
        top = self.encoder.n_layers
        return f"encoder {layer}" if layer <= top else f"decoder {layer - top}"

    def number(self, name: Any) -> Any:
        """The layer that is called so; what is none of these names stays as it is."""
        found = re.fullmatch("(encoder|decoder) ([0-9]+)", str(name))
        if found is None:
            return name
        number, low = int(found[2]), found[1] == "encoder"
        stack = self.encoder if low else self.decoder
        if not (0 if low else 1) <= number <= stack.n_layers:
            return name
        return number if low else self.encoder.n_layers + number

    @contextmanager
    def computing_again(
        self, within: Callable[[], AbstractContextManager[Any]] = nullcontext, n_kept: int = 0
    ) -> Iterator[None]:
        above = min(n_kept, self.decoder.n_layers)
        with self.encoder.computing_again(within, n_kept - above), self.decoder.computing_again(within, above):
            yield

    @contextmanager
    def reading(self, source: Callable[[], Tensor | None]) -> Iterator[None]:
        """Inside, the decoder's blocks read what `source` gives in place of the encoder's output, if anything."""

        def run(block: nn.Module, forward: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            if (state := source()) is None:
                return forward(*args, **kwargs)
            place = self._takes[block].index(_SOURCE)
            if len(args) > place:
                return forward(*args[:place], state, *args[place + 1 :], **kwargs)
            return forward(*args, **{**kwargs, _SOURCE: state})

        with forwards_through(self.decoder.blocks, run):
            yield


class BothSides:
    """An encoder–decoder's stacks for the time of one forward pass over a batch: read and changed as one stack is."""

    def __init__(self, stacks: EncoderDecoder, sides: Sides) -> None:
        self._stacks, self.sides = stacks, sides
        self._source: Tensor | None = None  # what the decoder reads of the source from here on

    def there(self, layer: Layer) -> Bool[Tensor, "batch token"]:
        """The tokens that have a state at a layer."""
        source = self.sides.source.there
        return source | self.sides.written.there if self._stacks.in_decoder(layer) else source

    @contextmanager
    def recording(
        self, *, differentiable: bool = False, embeddings: Float[Tensor, "batch token embedding"] | None = None
    ) -> Iterator[Trace]:
        """Record the states of the one forward pass run inside, with other word embeddings of the source if given."""
        trace = Trace()

        def keep_embeddings(own: Tensor) -> Tensor:
            words = own if embeddings is None else embeddings
            trace.embeddings = words.detach().requires_grad_() if differentiable else words
            return trace.embeddings

        def keep(own: Tensor) -> Tensor:
            trace.hidden.append(own)
            return own

        with ExitStack() as contexts:
            contexts.enter_context(self.changing("embeddings", keep_embeddings))
            for layer in range(self._stacks.n_layers + 1):
                contexts.enter_context(self.changing(layer, keep))
            yield trace

    @contextmanager
    def resuming(self, layer: Layer, hidden: Float[Tensor, "batch token hidden"]) -> Iterator[None]:
        """Inside, a forward pass takes `hidden` for the states of `layer` and runs only the blocks above."""
        encoder, decoder = self._stacks.encoder, self._stacks.decoder
        with ExitStack() as contexts:
            if isinstance(layer, int):
                low = min(layer, encoder.n_layers)
                contexts.enter_context(encoder.skipping(low, self.sides.source.of_tokens(hidden)))
                if layer > low:
                    contexts.enter_context(decoder.skipping(layer - low, self.sides.written.of_tokens(hidden)))
            contexts.enter_context(self.changing(layer, lambda own: hidden))
            yield

    @contextmanager
    def changing(self, layer: Layer, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Inside, a forward pass goes on with `change` of its own states of `layer`."""
        low = self._stacks.encoder.n_layers
        if isinstance(layer, int) and layer > low:
            with self._changing_both(layer - low, change):
                yield
            return
        source, seen = self.sides.source, False

        def change_source(own: Tensor) -> Tensor:
            nonlocal seen
            if seen:  # one table of word embeddings for both: these are the decoder's
                return own
            seen = True
            return source.of_tokens(change(source.to_tokens(own)))

        with self._stacks.encoder.changing(layer, change_source):
            yield

    @contextmanager
    def _changing_both(self, layer: int, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """The same at a layer of the decoder, by its own number."""
        source, written = self.sides.source, self.sides.written

        def keep_source(module: nn.Module, args: Any, output: Any) -> None:
            self._source = output[0]

        def change_both(own: Tensor) -> Tensor:
            assert self._source is not None
            changed = change(source.to_tokens(self._source) + written.to_tokens(own))
            self._source = source.of_tokens(changed)
            return written.of_tokens(changed)

        with ExitStack() as contexts:
            handle = self._stacks.reader.register_forward_hook(in_this_thread(keep_source))
            contexts.callback(handle.remove)
            contexts.enter_context(self._stacks.reading(lambda: self._source))  # within what changes it
            contexts.enter_context(self._stacks.decoder.changing(layer, change_both))
            yield
