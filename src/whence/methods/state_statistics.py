"""Mean and variance of a model's states over many texts, streamed: no state is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import InputError, NonFiniteError, UsageError
from whence.explanation import Layer
from whence.methods.options import at_least
from whence.models.batching import Text, batches, encode, micro_batches
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel, Layers

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Moments:
    """How many vectors were seen at each position, their mean and their summed squared deviations from it."""

    count: Float[Tensor, "position 1"]
    mean: Float[Tensor, "position hidden"]
    squares: Float[Tensor, "position hidden"]

    @classmethod
    def of(cls, states: Float[Tensor, "batch token hidden"], mask: Bool[Tensor, "batch token"]) -> Moments:
        """The moments at every position of a batch, over the texts that reach it."""
        values, real = states.detach().double(), mask[..., None].double()
        count = real.sum(dim=0)
        mean = (values * real).sum(dim=0) / count.clamp(min=1)
        return cls(count, mean, ((values - mean).square() * real).sum(dim=0))

    @property
    def variance(self) -> Float[Tensor, "position hidden"]:
        return self.squares / self.count.clamp(min=1)

    def pooled(self) -> Moments:
        """All positions as one (Chan, Golub & LeVeque, 1979)."""
        count = self.count.sum(dim=0, keepdim=True)
        mean = (self.count * self.mean).sum(dim=0, keepdim=True) / count.clamp(min=1)
        squares = self.squares + self.count * (self.mean - mean).square()
        return Moments(count, mean, squares.sum(dim=0, keepdim=True))

    def merged(self, other: Moments) -> Moments:
        """Both together, position by position; the one with fewer has seen nothing at the others."""
        length = max(len(self.count), len(other.count))
        ours, theirs = self._padded(length), other._padded(length)
        count = ours.count + theirs.count
        share = theirs.count / count.clamp(min=1)
        apart = theirs.mean - ours.mean
        squares = ours.squares + theirs.squares + apart.square() * ours.count * share
        return Moments(count, ours.mean + apart * share, squares)

    def _padded(self, length: int) -> Moments:
        return Moments(*(torch.nn.functional.pad(each, (0, 0, 0, length - len(each))) for each in vars(self).values()))


class StateStatistics:
    """What the states of a model usually are at each layer: mean and standard deviation of every feature.

    >>> import whence
    >>> from whence.methods.state_statistics import StateStatistics
    >>> model = whence.load()
    >>> usual = StateStatistics(layers=[3]).fit(model, ["a gorgeous, witty film", "far too long"])
    >>> whence.explain(model, "a witty film", "information_bottleneck", layers=3, statistics=usual, steps=3).layers
    (3,)

    Args:
        layers: the layers to learn.
        by_position: whether every position of a text has moments of its own; a position that fewer than two texts
            reach gets those of all positions together.
        batch_tokens: tokens a forward pass holds at most, padding included.
    """

    def __init__(
        self, layers: Layers | Literal["all"] = "all", *, by_position: bool = False, batch_tokens: int = 2_048
    ) -> None:
        at_least("batch_tokens", batch_tokens, 1)
        self.layers = layers
        self.by_position = by_position
        self.batch_tokens = batch_tokens
        self.n_texts_ = 0
        self.moments_: dict[Layer, Moments] = {}

    def fit(self, model: LayeredModel, texts: Iterable[Text]) -> StateStatistics:
        """Learn the moments of all real tokens of the texts, in one forward pass over them."""
        if isinstance(texts, (str, tuple)):
            raise InputError("texts is a single text", "give a list of texts")
        self.n_texts_, self.moments_ = 0, {}
        layers = model.layers(self.layers)
        for batch in self._batches(model, texts):
            inputs = model.collate(batch)
            states = model.states(inputs)
            for layer in layers:
                found = Moments.of(states.at(layer), inputs.mask)
                found = found if self.by_position else found.pooled()
                self.moments_[layer] = self.moments_[layer].merged(found) if layer in self.moments_ else found
            self.n_texts_ += len(batch)
        if not self.moments_:
            raise InputError("no text was given to learn statistics from", "give a list of texts")
        for layer, moments in self.moments_.items():
            if not moments.squares.isfinite().all():
                raise NonFiniteError(
                    f"some states at layer {layer} are not finite numbers", "look at the model's weights"
                )
        return self

    def at(self, layer: Layer, length: int) -> tuple[Float[Tensor, "token hidden"], Float[Tensor, "token hidden"]]:
        """Mean and standard deviation at the first `length` positions of a layer."""
        if layer not in self.moments_:
            known = ", ".join(map(str, self.moments_)) or "none: call fit(model, texts)"
            raise UsageError(f"the statistics do not know layer {layer}", f"layers they know: {known}")
        moments = self.moments_[layer]
        everywhere = moments.pooled()
        own = moments._padded(max(length, len(moments.count)))
        seen = own.count >= 2
        mean = torch.where(seen, own.mean, everywhere.mean) if self.by_position else everywhere.mean
        variance = torch.where(seen, own.variance, everywhere.variance) if self.by_position else everywhere.variance
        shape = (length, mean.shape[-1])
        return mean[:length].expand(shape).float(), variance[:length].sqrt().expand(shape).float()

    def __str__(self) -> str:
        where = "at each position" if self.by_position else "at all positions together"
        return f"statistics of {self.n_texts_} texts, {where}"

    def _batches(self, model: LayeredModel, texts: Iterable[Text]) -> Iterator[list[Encoding]]:
        """Consecutive texts, as many at a time as the token budget allows; of these, what may be padded together."""
        encodings = (encode(model, text, index) for index, text in enumerate(texts))
        for some in micro_batches(encodings, len, self.batch_tokens):
            for batch in batches(model, some, self.batch_tokens):
                yield [some[index] for index in batch]
