"""Amortised Shapley values of one model: what its network says of a text, how far off that is, and on which texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from whence.columns import Later
from whence.errors import UsageError
from whence.explanation import Layer, Scale
from whence.models.inputs import Inputs, moved
from whence.models.layered import LayeredModel, States
from whence.probes import folder as folders
from whence.probes.folder import Contents
from whence.probes.networks import on_device
from whence.probes.owner import Owner
from whence.probes.shares import Shares
from whence.probes.token_game import BatchPlayers, Nobody
from whence.selection import Selection
from whence.tasks.response import Response
from whence.units import UnitName

if TYPE_CHECKING:
    from jaxtyping import Float, Int

SCHEMA = "whence.shapley/1"
Relevance = Literal["held_still", "attn_lrp"]
"""The method of relevance whose shares probes learn beside Shapley values."""
NINETY = 1.6449  # standard errors to either side of a score in which nine of ten truths lie
TINY = 1e-4  # of a share, below which sizes make no difference


@dataclass(frozen=True)
class ErrorScale:
    """How far a player's Shapley value may be off, foretold from what held-out texts showed.

    The logarithm of the error is linear in those of the value's own size, of the mean size of the text's values and of
    the number of players; `spread` makes the interval of ± NINETY standard errors hold nine of ten held-out values.
    """

    constant: float
    own: float
    mean: float
    players: float
    spread: float

    def of(self, values: Float[Tensor, "batch player"], number: Int[Tensor, " batch"]) -> Float[Tensor, "batch player"]:
        """The standard error of each player's value, where each text has so many players and all other values are 0."""
        own, mean, count = log_sizes(values, number)
        alike = torch.add(self.mean * mean, count, alpha=self.players)
        return self.spread / NINETY * exp(self.constant) * torch.add(alike, own, alpha=self.own).exp()


def log_sizes(
    values: Float[Tensor, "batch player"], number: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, "batch player"], Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
    """What an error is foretold from: the logarithms of each value's size, of their mean, and of their number."""
    sizes, count = values.abs(), number.to(values)[:, None]
    mean = sizes.sum(dim=-1, keepdim=True) / count + TINY
    return (sizes + TINY).log(), mean.log(), count.log()


@dataclass(frozen=True, eq=False)
class Familiar:
    """What the texts of the training look like: where the mean of a text's last states lies, and how long texts are.

    A text is unlike them when its mean state lies farther out, along their main directions and beyond these, than
    nearly every held-out one.
    """

    centre: Float[Tensor, " features"]
    directions: Float[Tensor, "features direction"]
    scales: Float[Tensor, " direction"]
    beyond: float
    farthest: float
    longest: int

    def distance(self, means: Float[np.ndarray, "batch features"]) -> Float[np.ndarray, " batch"]:
        """How far out texts lie: the mean square along the directions and in the rest, 1 being usual."""
        centre, directions, usual = self._in_memory
        away = means - centre
        # by torch: numpy's threads look out for more work long after, and hold up torch's in the batches that follow
        along = np.square((torch.from_numpy(away) @ directions).numpy())
        rest = np.maximum(np.square(away).sum(axis=-1) - along.sum(axis=-1), 0) / self.beyond
        found: Float[np.ndarray, " batch"] = ((along * usual).sum(axis=-1) + rest) / 2
        return found

    @cached_property
    def _in_memory(self) -> tuple[np.ndarray, Float[Tensor, "features direction"], np.ndarray]:
        usual = 1 / (self.scales.square() * len(self.scales))  # of a mean over directions
        return self.centre.float().numpy(), self.directions.float(), usual.float().numpy()

    def warnings(self, inputs: Inputs, last: Float[Tensor, "batch token features"]) -> Sequence[Sequence[str]]:
        """Why the learned answer on a text may be worth little."""
        means = mean_states(last, inputs)
        lengths = inputs.lengths
        return Later(
            len(lengths), lambda: list(map(self._doubts, self.distance(means.cpu().numpy()).tolist(), lengths))
        )

    def _doubts(self, distance: float, length: int) -> list[str]:
        told = []
        if distance > self.farthest:
            told.append("the text is unlike those that the probes were trained on; their answer may be worth little")
        if length > self.longest:
            told.append(f"the text has {length} tokens, the probes were trained on at most {self.longest}")
        return told


def mean_states(last: Float[Tensor, "batch token features"], inputs: Inputs) -> Float[Tensor, "batch features"]:
    sums = (inputs.mask.to(last)[:, None] @ last)[:, 0].float()
    return sums / moved(np.array(inputs.lengths, np.float32)[:, None], last.device)


@dataclass(frozen=True, eq=False)
class Learned:
    """What probes say of a batch, from one pass: Shapley values (of each part of the target), shares by relevance."""

    shapley: Float[Tensor, "batch part token"]
    relevance: Float[Tensor, "batch part token"]
    players: BatchPlayers
    passes: Int[Tensor, " batch"]


@dataclass(frozen=True)
class ModelShares:
    """The trained network of one model: whose it is, what its players and its values are, and whose relevance it
    learnt, if any."""

    network: Shares
    units: UnitName
    scale: Scale
    relevance: Relevance | None
    errors: ErrorScale
    familiar: Familiar
    owner: Owner
    nobody: Nobody = field(default_factory=Nobody, compare=False, repr=False)

    def told(
        self,
        model: LayeredModel,
        inputs: Inputs,
        states: States,
        selection: Selection,
        everybody: Float[Tensor, "batch part"],
        batch_tokens: int,
    ) -> Learned:
        """Each token's part in each part of the target, which are `everybody`; those that are no players have none."""
        self.owner.check(model)
        self._check_answer(model)
        network = on_device(self.network, model.device)
        players = BatchPlayers.of(inputs, self.units)
        with torch.no_grad():
            raw = raw_shares(model, network, inputs, states, selection)
            nobody, passes = self.nobody.earned(model, inputs, selection, players, batch_tokens)
            shapley, relevance = players.played(raw)
            shapley = players.shifted(shapley, everybody - nobody)
        return Learned(shapley, relevance, players, passes)

    def _check_answer(self, model: LayeredModel) -> None:
        """Refuse whole responses if one answer was learnt, and one answer if responses were."""
        learnt = self.owner.record.task == Response.task
        if model.reading.responds and not learnt:
            raise UsageError(
                "these probes were trained on one answer, not on all the tokens of a response",
                "fit probes with responses=, or explain the response by shapley or leave_one_out",
            )
        if learnt and not model.reading.responds:
            raise UsageError(
                "these probes were trained on responses, not on the next token",
                "give response= (None: the model writes one), or fit probes without responses",
            )

    @classmethod
    def load(cls, folder: str | Path) -> ModelShares:
        """What a folder holds, as far as explaining needs it."""
        return folders.load(Path(folder), SCHEMA, cls.read)

    @classmethod
    def read(cls, contents: Contents) -> ModelShares:
        config = contents.config
        weights = dict(contents.weights)
        centre, directions, scales = (weights.pop(f"familiar.{name}") for name in ("centre", "directions", "scales"))
        familiar = Familiar(centre, directions, scales, **config["familiar"])
        with torch.device("meta"):  # random weights would be drawn only to be replaced
            network = Shares(dict(config["widths"]), **config["network"])
        network.load_state_dict(weights, assign=True)
        return cls(
            network.requires_grad_(False).eval(), config["units"], config["scale"],
            config.get("relevance", "held_still") if config["both"] else None,  # there was one alone at first
            ErrorScale(**config["errors"]), familiar, contents.owner,
        )  # fmt: skip

    def contents(self, **more: Any) -> Contents:
        """What goes into a folder."""
        network, familiar = self.network, self.familiar
        weights = {
            **network.state_dict(),
            "familiar.centre": familiar.centre, "familiar.directions": familiar.directions,
            "familiar.scales": familiar.scales,
        }  # fmt: skip
        config = {
            "widths": [[layer, width] for layer, width in network.widths.items()],
            "network": {
                "width": network.width, "n_blocks": network.n_blocks, "n_labels": network.n_labels,
                "by_token": network.by_token,
            },
            "units": self.units, "scale": self.scale, "both": self.relevance is not None,
            "relevance": self.relevance, "errors": asdict(self.errors),
            "familiar": {"beyond": familiar.beyond, "farthest": familiar.farthest, "longest": familiar.longest},
        }  # fmt: skip
        return Contents(weights, self.owner, {**config, **more})


def raw_shares(
    model: LayeredModel, network: Shares, inputs: Inputs, states: States, selection: Selection
) -> Float[Tensor, "2 batch part token"]:
    """What the network says of each token's part in each part of the target, before anything must add up."""
    read = {layer: states.at(layer) for layer in network.layers}
    words = _label_words(model, network, selection)
    found: Tensor = network(read, inputs.lengths, _where_read(inputs, selection), words, selection.counted)
    return found


def _where_read(inputs: Inputs, selection: Selection) -> Int[Tensor, "batch part index 2"]:
    """The tokens and labels of a target; a token of a response stands where it is read off, at the one before it."""
    if inputs.read_at is None or inputs.read_at.ndim == 1:
        return selection.indices
    numbers, labels = selection.indices.unbind(dim=-1)
    places = inputs.read_at.gather(1, numbers.flatten(1)).reshape(numbers.shape)
    return torch.stack([places, labels], dim=-1)


def _label_words(
    model: LayeredModel, network: Shares, selection: Selection
) -> Float[Tensor, "batch part index embedding"] | None:
    """The embeddings of the labels asked about, where these are words."""
    if network.n_labels is not None:
        return None
    labels = selection.indices[..., 1]
    return model.embed(labels.flatten(1)).float().reshape(*labels.shape, -1)


def layers_to_read(model: LayeredModel, most: int = 8) -> Sequence[Layer]:
    """The embeddings and layers 0 … L, or so many of them evenly spread, the last among them."""
    layers: list[Layer] = ["embeddings", *range(model.n_layers + 1)]
    if len(layers) <= most:
        return layers
    return [layers[round(index * (len(layers) - 1) / (most - 1))] for index in range(most)]
