"""Probes: small networks that read a token's states and say how likely it must be kept.

Each layer has its own. An input probe sees the word embedding beside the state and its gates multiply up over the
layers, so what is dropped once stays dropped; a hidden probe sees its own layer's state alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from whence.explanation import Layer
from whence.learned.gates import HardConcrete

if TYPE_CHECKING:
    from jaxtyping import Float

    Features = Float[Tensor, "batch token features"]
    Logits = Float[Tensor, "batch token"]

Kind = Literal["input", "hidden"]
Form = Literal["released", "released_plain", "paper"]
KINDS: tuple[Kind, ...] = ("input", "hidden")


class Probe(Protocol):
    """The gate logits of each token from its word embedding (None for hidden states) and its state."""

    def __call__(self, word: Features | None, state: Features) -> Logits: ...


class Perceptron(nn.Module):
    """The released code's probe: two weight-normed layers with tanh between.

    `bounded` squashes the logits to `start` ± 10, so that no gate can close beyond reach; the plain form is what the
    released code takes for the hidden states of question answering.
    """

    def __init__(self, n_word: int, n_state: int, n_hidden: int, start: float, *, bounded: bool) -> None:
        super().__init__()
        self.bounded = bounded
        self.inner = weight_norm(nn.Linear(n_word + n_state, n_hidden))
        self.outer = weight_norm(nn.Linear(n_hidden, 1, bias=False))
        self.start = nn.Parameter(torch.tensor(start))

    def forward(self, word: Features | None, state: Features) -> Logits:
        features = state if word is None else torch.cat([word, state], dim=-1)
        logits = self.outer(torch.tanh(self.inner(features))).squeeze(-1)
        return (10 * torch.tanh(logits) if self.bounded else logits) + self.start


def all_at_once(probes: Sequence[Perceptron], word: Features | None, states: Sequence[Features]) -> list[Logits]:
    """Each probe's logits for its own state, in a few large steps in place of many small ones."""

    def weights(layers: Sequence[nn.Module]) -> Float[Tensor, "probe out in"]:
        size, direction = (
            torch.stack([getattr(layer.parametrizations.weight, name) for layer in layers])  # type: ignore[union-attr]
            for name in ("original0", "original1")
        )
        normed: Tensor = direction * (size / direction.norm(dim=-1, keepdim=True))
        return normed

    inner, outer = weights([probe.inner for probe in probes]), weights([probe.outer for probe in probes])
    n_word = 0 if word is None else word.shape[-1]
    hidden = torch.baddbmm(
        torch.stack([probe.inner.bias for probe in probes])[:, None],
        torch.stack(list(states)).flatten(1, 2),
        inner[..., n_word:].transpose(1, 2),
    )
    if word is not None:
        of_word = word.flatten(0, 1) @ inner[..., :n_word].flatten(0, 1).T
        hidden = hidden + of_word.reshape(-1, len(probes), hidden.shape[-1]).transpose(0, 1)
    logits = (torch.tanh(hidden) @ outer.transpose(1, 2)).reshape(len(probes), *states[0].shape[:2])
    starts = torch.stack([probe.start for probe in probes])[:, None, None]
    return list(((10 * torch.tanh(logits) if probes[0].bounded else logits) + starts).unbind())


class Bilinear(nn.Module):
    """The paper's probe: x'W h / √d + w[x; h] + b, the √d ours for a step size that suits any width.

    It starts at b, every gate open alike.
    """

    def __init__(self, n_word: int, n_state: int, start: float) -> None:
        super().__init__()
        self.product = nn.Parameter(torch.zeros(n_word or n_state, n_state))
        self.linear = nn.Linear((n_word or n_state) + n_state, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, start)

    def forward(self, word: Features | None, state: Features) -> Logits:
        first = state if word is None else word
        both = ((first @ self.product) * state).sum(dim=-1) / state.shape[-1] ** 0.5
        logits: Tensor = both + self.linear(torch.cat([first, state], dim=-1)).squeeze(-1)
        return logits


class Probes(nn.Module):
    """The probes of every layer and the learned baselines that stand for what is dropped.

    `widths` gives each layer's number of features, the words first.
    """

    def __init__(self, kind: Kind, form: Form, widths: Mapping[Layer, int], n_hidden: int, start: float = 5.0) -> None:
        super().__init__()
        self.kind, self.form = kind, form
        self.layers: tuple[Layer, ...] = tuple(widths)
        n_word = widths["embeddings"] if kind == "input" else 0
        self.of_layer = nn.ModuleList(_probe(form, n_word, width, n_hidden, start) for width in widths.values())
        masked = widths.values() if kind == "hidden" else [widths["embeddings"]]
        self.baselines = nn.ParameterList(nn.init.normal_(torch.empty(width), std=width**-0.5) for width in masked)

    def baseline(self, layer: Layer) -> Float[Tensor, " features"]:
        """What stands for a dropped token: of the words for an input probe, of the layer for a hidden one."""
        baseline: Tensor = self.baselines[0 if self.kind == "input" else self.layers.index(layer)]
        return baseline

    def masked_layer(self, layer: Layer) -> Layer:
        """Where the gates of `layer` act: always at the words for an input probe."""
        return "embeddings" if self.kind == "input" else layer

    def needed(self, layer: Layer) -> tuple[Layer, ...]:
        """The layers whose probes are asked for the gates of `layer`."""
        cumulative = self.kind == "input" or self.form == "paper"
        return self.layers[: self.layers.index(layer) + 1] if cumulative else (layer,)

    def gates(
        self, layers: Sequence[Layer], states: Mapping[Layer, Float[Tensor, "batch token _"]]
    ) -> list[HardConcrete]:
        """The gates of each of these layers alone, from the states of the unchanged text.

        The paper's probes average over the layers below, so its `layers` must be the lowest ones, in order.
        """
        with torch.autocast(states[layers[0]].device.type, enabled=False):  # as they are when they explain
            word = states["embeddings"].float() if self.kind == "input" else None
            probes = [self.of_layer[self.layers.index(layer)] for layer in layers]
            read = [states[layer].float() for layer in layers]
            perceptrons = [probe for probe in probes if isinstance(probe, Perceptron)]
            if len(perceptrons) == len(probes) and len({state.shape[-1] for state in read}) == 1:
                logits = all_at_once(perceptrons, word, read)
            else:
                logits = [probe(word, state) for probe, state in zip(probes, read, strict=True)]
        if self.form == "paper":
            sums = torch.stack(logits).cumsum(dim=0)
            logits = [
                own if place == 0 else (own + sums[place - 1] / place) / 2 for place, own in enumerate(logits)
            ]  # fmt: skip
        return [HardConcrete(each) for each in logits]

    def log_keep(
        self, states: Mapping[Layer, Float[Tensor, "batch token _"]], layers: Sequence[Layer]
    ) -> Float[Tensor, "layer batch token"]:
        """The log keep probability at each of `layers`: what one forward pass of the model explains."""
        needed = self.needed(max(layers, key=self.layers.index)) if self.form == "paper" or self.kind == "input" else ()
        asked = needed or tuple(layers)
        logs = torch.stack([gate.log_nonzero for gate in self.gates(asked, states)])
        if self.kind == "input":
            logs = logs.cumsum(dim=0)
        return logs[[asked.index(layer) for layer in layers]]


def _probe(form: Form, n_word: int, n_state: int, n_hidden: int, start: float) -> nn.Module:
    if form == "paper":
        return Bilinear(n_word, n_state, start)
    return Perceptron(n_word, n_state, n_hidden, start, bounded=form == "released")
