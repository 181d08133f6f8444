"""Shapley probes in the shared loop: the network goes down the squared error of what coalitions earn.

(v(nobody) + Σ of the values of those who are there - v(those who are there))², over coalitions drawn anew each step,
values shifted so that all add up to v(everybody) - v(nobody) (FastSHAP; Jethani et al., 2022). Beside it the squared
error of a second output to the shares that tokens have by relevance (`whence.methods.relevance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.errors import ModelError, NonFiniteError
from whence.explanation import Scale
from whence.learned.checkpoint import Parts
from whence.learned.schedule import generator
from whence.learned.shapley.asked import asked
from whence.learned.shapley.coalitions import coalitions
from whence.learned.shapley.recipe import Recipe
from whence.learned.training import Batch
from whence.models.held_still import Products, check_ruled, held_still
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel, States
from whence.probes.shapley import Relevance, raw_shares
from whence.probes.shares import Shares
from whence.probes.token_game import BatchPlayers, earned
from whence.selection import Selection

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

JUDGED_PAIRS = 16  # coalitions, and complements, on which each held-out text is judged
PRODUCTS: dict[Relevance, Products] = {"held_still": "gated", "attn_lrp": "shared"}


class ShapleyLearner:
    """A network of shares while it is trained."""

    def __init__(self, model: LayeredModel, network: Shares, recipe: Recipe, scale: Scale, batch_tokens: int) -> None:
        self.model, self.probe, self.recipe, self.scale = model, network, recipe, scale
        self.batch_tokens = batch_tokens
        self.relevance = recipe.taught(model.reading)
        self.optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
        self.running: list[float] = []  # mean losses of the last batches, for the progress

    @property
    def settings(self) -> dict[str, Any]:
        return {"explainer": "shapley", "kind": None, **self.recipe.told()}

    def begin(self, texts: Sequence[Encoding]) -> None:
        """Refuse a model that cannot be held still, or says nothing finite, before the first step."""
        shortest = min(texts, key=len)
        states = self._states(self.model.collate([shortest]), graph=self.relevance is not None)
        if not states.logits.isfinite().all():
            raise NonFiniteError(
                "the model's output is not finite, so nothing can be trained on it",
                "look for NaN weights (broken checkpoint or overflow in half precision)",
            )
        if self.relevance is not None:
            try:
                check_ruled(states.logits)
            except ModelError as error:
                raise ModelError(error.problem, "fit Shapley values alone: held_still=0") from error

    def add_gradients(self, batch: Batch) -> Float[Tensor, " losses"]:
        """Of the batch's texts the sums of both losses."""
        inputs, device = batch.inputs, self.model.device
        chance = torch.rand(
            (batch.n_texts, self.recipe.pairs + 1, batch.longest + 1),
            generator=generator(batch.seed, "coalitions", batch.step),
        )[batch.rows, :, : inputs.ids.shape[1] + 1].to(device)
        states = self._states(inputs, graph=self.relevance is not None)
        selection = asked(self.model, inputs, states.logits.detach(), self.scale, chance[:, -1, 1:])
        taught = self._shares_by_relevance(inputs, states, selection, chance[:, -1, 0])
        game = self._game(inputs, states, selection, chance[:, :-1])
        with torch.enable_grad(), torch.autocast(device.type, enabled=False):
            raw = raw_shares(self.model, self.probe, inputs, states, selection)
            losses = [game.errors(raw[0])]
            if taught is not None:
                losses.append(_error_to(taught, raw[1], game.players))
            else:
                losses.append(torch.zeros_like(losses[0]))
            total = losses[0].sum() + self.recipe.held_still * losses[1].sum()
            (total / batch.n_texts).backward()  # type: ignore[no-untyped-call]
        return torch.stack([loss.detach().sum() for loss in losses])

    def update(self, batch: Batch, means: Float[Tensor, " losses"]) -> None:
        torch.nn.utils.clip_grad_norm_(self.probe.parameters(), 1.0)
        self.optimiser.step()
        now = means.tolist()
        self.running = [
            before + 0.05 * (mean - before) for before, mean in zip(self.running or now, now, strict=True)
        ]  # fmt: skip

    @torch.no_grad()
    def validate(self, held_out: Sequence[Sequence[Encoding]]) -> dict[str, Any]:
        """The squared error of coalitions, and how much of what they earn beyond an even split it leaves open."""
        errors, even = [], []
        for index, texts in enumerate(held_out):
            inputs = self.model.collate(texts)
            chance = torch.rand(
                (len(texts), JUDGED_PAIRS + 1, inputs.ids.shape[1] + 1), generator=generator(0, "judged", index)
            ).to(self.model.device)
            states = self._states(inputs, graph=False)
            selection = asked(self.model, inputs, states.logits, self.scale, chance[:, -1, 1:])
            game = self._game(inputs, states, selection, chance[:, :-1])
            with torch.autocast(self.model.device.type, enabled=False):
                raw = raw_shares(self.model, self.probe, inputs, states, selection)[0]
                errors.append(game.errors(raw))
                even.append(game.errors(torch.zeros_like(raw)))
        return {"loss": float(torch.cat(errors).mean()), "even_split": float(torch.cat(even).mean())}

    def merit(self, validation: Mapping[str, Any]) -> float:
        return -float(validation["loss"]) / max(float(validation["even_split"]), 1e-12)

    def is_under_way(self, validation: Mapping[str, Any]) -> bool:
        return True

    def state(self) -> tuple[Parts, dict[str, Any]]:
        return {}, {"running": self.running}

    def restore(self, parts: Parts, values: Mapping[str, Any]) -> None:
        self.running = values["running"]

    def _states(self, inputs: Inputs, *, graph: bool) -> States:
        """Of the network held still if its graph is wanted: the same numbers."""
        with held_still(self.model.module, PRODUCTS[self.relevance]) if graph and self.relevance else nullcontext():
            return self.model.states(inputs, differentiable=graph)

    def _game(
        self, inputs: Inputs, states: States, selection: Selection, chance: Float[Tensor, "batch pair some"]
    ) -> Game:
        players = BatchPlayers.of(inputs, self.recipe.units)
        drawn = coalitions(players.number, chance)
        nobody = torch.zeros_like(drawn[:, :1])
        present = players.tokens(torch.cat([drawn, nobody], dim=1))
        value = earned(self.model, inputs, selection, present, self.batch_tokens)
        everybody = selection.parts(states.logits.detach(), inputs.mask)
        return Game(players, present[:, :-1], value[:, :-1], value[:, -1], everybody)

    def _shares_by_relevance(
        self, inputs: Inputs, states: States, selection: Selection, chance: Float[Tensor, " batch"]
    ) -> Taught | None:
        """Of one target of each text, the one that the model says every other time."""
        if self.relevance is None:
            return None
        reading = selection.reading
        of_chances = reading.responds or (reading.next_token and self.relevance == "attn_lrp")
        n_parts = selection.indices.shape[1]
        part = ((2 * chance - 1).clamp(min=0) * n_parts).long().clamp(max=n_parts - 1)
        rows = torch.arange(len(inputs), device=part.device)
        with torch.enable_grad():
            value = Selection(
                reading, "log_probability" if of_chances else "logit",
                torch.ones(1, device=part.device), selection.indices[rows, part][:, None], selection.descriptions,
                None if selection.counted is None else selection.counted[rows, part][:, None],
            ).of(states.logits, inputs.mask)  # fmt: skip
            gradient = torch.autograd.grad(value.sum(), states.embeddings)[0]
        scores = (states.embeddings.detach().float() * gradient.float()).sum(dim=-1)
        return Taught(part, scores)


@dataclass(frozen=True, eq=False)
class Game:
    """What coalitions of the texts of a batch earn, and how far any values are from telling it."""

    players: BatchPlayers
    present: Bool[Tensor, "batch set token"]
    value: Float[Tensor, "batch set part"]
    nobody: Float[Tensor, "batch part"]
    everybody: Float[Tensor, "batch part"]

    def errors(self, values: Float[Tensor, "batch part token"]) -> Float[Tensor, " batch"]:
        """The mean squared error over coalitions and targets, once the values add up."""
        shared = self.players.efficient(values, self.everybody - self.nobody)
        told = torch.einsum("bpt,bst->bsp", shared, (self.present & self.players.free[:, None]).to(shared))
        return (self.nobody[:, None] + told - self.value).square().mean(dim=(1, 2))


@dataclass(frozen=True, eq=False)
class Taught:
    """Scores of one target of each text by relevance, and the target's index among those asked."""

    part: Int[Tensor, " batch"]
    scores: Float[Tensor, "batch token"]


def _error_to(
    taught: Taught, values: Float[Tensor, "batch part token"], players: BatchPlayers
) -> Float[Tensor, " batch"]:
    """The squared distance to the scores, each divided by the text's sum of sizes."""
    scores = torch.where(players.free, taught.scores, 0.0)
    shares = scores / scores.abs().sum(dim=1, keepdim=True).clamp(min=1e-12)
    own = values[torch.arange(len(values), device=values.device), taught.part]
    return (torch.where(players.free, own, 0.0) - shares).square().sum(dim=1)
