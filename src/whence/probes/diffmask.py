"""DiffMask's probes: small networks that read a token's states and say how likely it must be kept.

Each layer has its own. An input probe sees the word embedding beside the state and its gates multiply up over the
layers, so what is dropped once stays dropped; a hidden probe sees its own layer's state alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from whence import embedded
from whence.errors import UnknownNameError, UsageError
from whence.explanation import Layer, layer_of_file
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel, States
from whence.probes import folder as folders
from whence.probes.folder import Contents
from whence.probes.gates import HardConcrete
from whence.probes.networks import Form, Perceptron, all_at_once, network, on_device
from whence.probes.owner import Owner

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Kind = Literal["input", "hidden"]
KINDS: tuple[Kind, ...] = ("input", "hidden")
SCHEMA = "whence.diffmask/1"


class Probes(nn.Module):
    """The probes of every layer and the learned baselines that stand for what is dropped.

    `widths` gives each layer's number of features, the words first.
    """

    def __init__(self, kind: Kind, form: Form, widths: Mapping[Layer, int], n_hidden: int, start: float = 5.0) -> None:
        super().__init__()
        self.kind, self.form = kind, form
        self.widths, self.n_hidden = dict(widths), n_hidden
        self.layers: tuple[Layer, ...] = tuple(widths)
        n_word = widths["embeddings"] if kind == "input" else 0
        self.of_layer = nn.ModuleList(network(form, n_word, width, n_hidden, start) for width in widths.values())
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
                own if index == 0 else (own + sums[index - 1] / index) / 2 for index, own in enumerate(logits)
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
        return torch.stack([logs[asked.index(layer)] for layer in layers])  # a list of numbers would wait for a GPU


@dataclass(frozen=True)
class ModelProbes:
    """The trained probes of one model: whose they are, and whether they may mask special tokens."""

    probes: Probes
    special: bool
    owner: Owner

    @property
    def kind(self) -> Kind:
        return self.probes.kind

    def layers(self, model: LayeredModel) -> tuple[Layer, ...]:
        """Where the model's probes look."""
        self.owner.check(model)
        return self.probes.layers

    def keep_probabilities(
        self, model: LayeredModel, inputs: Inputs, states: States, layers: Sequence[Layer]
    ) -> Float[Tensor, "batch layer token"]:
        """The probability that a token must be kept, at each layer asked for; 1 for those that are never masked."""
        self.owner.check(model)
        probes = on_device(self.probes, model.device)
        if unknown := [layer for layer in layers if layer not in probes.layers]:
            raise UsageError(
                f"these probes know nothing of layer {', '.join(map(str, unknown))}",
                f"ask for: {', '.join(map(str, probes.layers))}",
            )
        known = {layer: states.at(layer).detach() for layer in probes.layers}
        with torch.no_grad():
            keep = probes.log_keep(known, layers).exp().transpose(0, 1)
        return torch.where(maskable(inputs, self.special)[:, None], keep, 1.0)

    @classmethod
    def load(cls, folder: str | Path) -> ModelProbes:
        """What a folder holds, as far as explaining needs it."""
        return folders.load(Path(folder), SCHEMA, cls.read)

    @classmethod
    def read(cls, contents: Contents) -> ModelProbes:
        config = contents.config
        widths: dict[Layer, int] = {layer_of_file(layer): int(width) for layer, width in config["widths"]}
        kind: Kind = KINDS[KINDS.index(config["kind"])]
        with torch.device("meta"):  # random weights would be drawn only to be replaced
            probes = Probes(kind, config["recipe"]["probe"], widths, config["n_hidden"])
        probes.load_state_dict(contents.weights, assign=True)
        return cls(probes.requires_grad_(False).eval(), config["recipe"]["special"], contents.owner)


def maskable(inputs: Inputs, special: bool) -> Bool[Tensor, "batch token"]:
    """The tokens that gates act on: all real ones, or only those of the text itself; never those of a response."""
    return inputs.mask & ~inputs.response if special else inputs.mask & ~inputs.special


def embedded_folder(name: str, kind: str) -> Path:
    """Where the probes of an embedded model are."""
    if name not in embedded.NAMES:
        raise UnknownNameError("embedded model", name, embedded.NAMES)
    if kind not in KINDS:
        raise UnknownNameError("kind", kind, KINDS)
    folder = embedded.probes_folder(name, kind)
    if not folder.is_dir():
        raise UsageError(
            f"no {kind} probes came with the embedded model {name!r}",
            "fit them (whence fit --model ... --data ... --out FOLDER) and give probes=FOLDER",
        )
    return folder
