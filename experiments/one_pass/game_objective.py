"""The game itself as the objective: probes that already tell shares are moved towards orders that the game rewards.

Scores are changed by noise, both ways; the game is played with both orders at a few shares of the tokens; and the
network is moved along the noise by how much better the one order did than the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

import whence
from whence.learned.schedule import Batches, generator
from whence.learned.shapley.asked import asked
from whence.learned.training import precision
from whence.models.batching import usual_batch_tokens
from whence.models.inputs import Encoding, Inputs
from whence.probes.shares import Shares
from whence.probes.token_game import BatchPlayers, earned
from whence.selection import Selection

POINTS = 3  # shares of the tokens at which each game is stopped, drawn anew each step
NOISE = 0.5  # of the scores' own spread


def train_on_the_game(
    model: whence.LayeredModel, network: Shares, texts: list[Encoding], *, steps: int, batch_size: int, seed: int,
    learning_rate: float = 2e-4,
) -> None:  # fmt: skip
    """Move the network, in place."""
    network.requires_grad_(True)
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=0.0)
    batches = Batches([len(text) for text in texts], batch_size, seed)
    with model.held(), precision(model):
        for step in range(steps):
            _step(model, network, [texts[index] for index in batches[step]], generator(seed, "game", step))
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * min(1, (step + 1) / 20) * (1 - step / steps)
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
    network.requires_grad_(False)


def _step(model: whence.LayeredModel, network: Shares, texts: list[Encoding], chance: torch.Generator) -> None:
    inputs, device = model.collate(texts), model.device
    with torch.no_grad():
        states = model.states(inputs)
    players = BatchPlayers.of(inputs, "token")
    none = torch.zeros(inputs.ids.shape, device=device)
    selection = asked(model, inputs, states.logits, "probability", none)
    with torch.enable_grad(), torch.autocast(device.type, enabled=False):
        read = {layer: states.at(layer).detach().float() for layer in network.layers}
        raw = network(read, inputs.lengths, selection.indices, None)[:, :, 0]
        shares = torch.where(players.free, raw, 0.0)
        shares = shares / shares.abs().sum(dim=-1, keepdim=True).clamp(min=1e-9)
        scores = shares.mean(dim=0)
        noise = torch.randn(scores.shape, generator=chance).to(device)
        spread = scores.detach().std(dim=1, keepdim=True).clamp(min=1e-6)
        at = torch.rand((POINTS,), generator=chance).tolist()
        one, other = (
            _won(model, inputs, selection, players, scores.detach() + side * NOISE * spread * noise, at)
            for side in (1, -1)
        )
        along = (torch.where(players.free, noise, 0.0) * scores / spread).sum(dim=1)
        (-(one - other) * along).mean().backward()


def _won(
    model: whence.LayeredModel, inputs: Inputs, selection: Selection,
    players: BatchPlayers, scores: Tensor, at: list[float],
) -> Tensor:  # fmt: skip
    """What an order earns: the decision's probability with its first tokens alone, less that without them."""
    ranks = scores.masked_fill(~players.free, -torch.inf).argsort(dim=1, descending=True).argsort(dim=1)
    sets = []
    for share in at:
        first = ranks < (share * players.number[:, None]).round()
        sets += [first, ~first]
    present = torch.stack(sets, dim=1) | ~players.free[:, None]
    value = earned(model, inputs, selection, present, usual_batch_tokens(model))[..., 0]
    return value[:, 0::2].mean(dim=1) - value[:, 1::2].mean(dim=1)
