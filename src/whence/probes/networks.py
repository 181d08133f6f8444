"""The network of one layer: it reads a token's states and gives the logit of its gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from whence.models.parts import first_weight

if TYPE_CHECKING:
    from jaxtyping import Float

    Features = Float[Tensor, "batch token features"]
    Logits = Float[Tensor, "batch token"]

Form = Literal["released", "released_plain", "paper"]
Module = TypeVar("Module", bound=nn.Module)


def on_device(module: Module, device: torch.device) -> Module:
    """The module there; torch looks at every weight of one that is there already."""
    return module if first_weight(module).device == device else module.to(device)


def network(form: Form, n_word: int, n_state: int, n_hidden: int, start: float) -> nn.Module:
    """A new one of this form, every gate at its start."""
    if form == "paper":
        return Bilinear(n_word, n_state, start)
    return Perceptron(n_word, n_state, n_hidden, start, bounded=form == "released")


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
