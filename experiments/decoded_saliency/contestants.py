"""Everything that takes part: the paper's explainers, the same with sane references, and the controls of decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

import whence
from whence.explanation import Meaning
from whence.methods.decoded import decoded
from whence.methods.grad_cam import grad_cam
from whence.methods.question import Method, Question, Scores
from whence.models.layered import Layers


@dataclass(frozen=True)
class Contestant:
    """A method with its options; with `layers` "all", a contestant for each layer.

    `unique` says that a token has one score, which stands wherever the token stands. `change` gives the model another
    head. `paper` names the row of the paper's tables.
    """

    group: str
    method: str | Method
    layers: Layers | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    unique: bool = False
    change: Callable[[whence.LayeredModel], whence.LayeredModel] | None = None
    paper: str | None = None
    about: str = ""


def _control(compute: Callable[[Question], Scores], name: str, *, differentiable: bool = True) -> Method:
    meaning = Meaning(name, f"a control: {name}", signed=False, additive=False)
    return Method(compute, meaning, needs="gradients", cost="", layers="all", differentiable=differentiable)


def ones(question: Question) -> Scores:
    """The same score everywhere: what is left is the decoding."""
    return Scores(torch.ones(len(question.inputs), len(question.layers), question.inputs.ids.shape[1]))


def shuffled_grad_cam(question: Question) -> Scores:
    """Grad-CAM's scores dealt out among the sentence's positions: the head reads another than the one scored."""
    values = grad_cam(question).values
    dealt = torch.zeros_like(values)
    for row, encoding in enumerate(question.inputs.encodings):
        order = torch.randperm(len(encoding), generator=question.generator(row)).to(values.device)
        dealt[row, :, : len(encoding)] = values[row][:, order]
    return Scores(dealt)


def pooled_grad_cam(question: Question) -> Scores:
    """Grad-CAM as it is known for images: the gradient is averaged over positions before it weighs the features."""
    mask = question.inputs.mask[..., None]
    scores = []
    for layer, gradient in zip(question.layers, question.state_gradients(), strict=True):
        pooled = (gradient * mask).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True)
        scores.append((pooled * question.states.at(layer).detach()).sum(dim=-1).relu())
    return Scores(torch.stack(scores, dim=1))


def with_shuffled_head(model: whence.LayeredModel) -> whence.LayeredModel:
    """A head that reads the right distribution and calls every word by another word's name."""
    head = model.head
    assert head is not None
    order = torch.randperm(head.n_vocabulary, generator=torch.Generator().manual_seed(0))

    def read(states: Tensor) -> Tensor:
        logits = head.read(states)
        return logits.index_select(-1, order.to(logits.device))

    return replace(model, head=replace(head, read=read, name="shuffled vocabulary"))


POOLED = _control(pooled_grad_cam, "pooled Grad-CAM")
SHUFFLED = _control(shuffled_grad_cam, "Grad-CAM at shuffled positions")
ONES = _control(ones, "ones", differentiable=False)

CONTESTANTS: dict[str, Contestant] = {
    # the paper's method, and its undecoded score at every layer (layer 0 is the paper's baseline)
    "Decoded Grad-CAM": Contestant("decoded", "decoded_grad_cam", "all", unique=True, paper="Decoded"),
    "Grad-CAM": Contestant(
        "undecoded", "grad_cam", "all", paper="Grad-CAM", about="the undecoded score at the position"
    ),
    # the paper's rivals, as those packages set them
    "Simple (AllenNLP)": Contestant("package", "allennlp_simple", paper="Simple"),
    "Smooth (AllenNLP)": Contestant(
        "package", "allennlp_smooth", paper="Smooth", about="zero but for rounding below a LayerNorm"
    ),
    "Integrated (AllenNLP)": Contestant("package", "allennlp_integrated", paper="Integrated (AllenNLP)"),
    "GradxAct (ThermoStat)": Contestant("package", "thermostat_gradient_x_activation", paper="GradxAct"),
    "Integrated (ThermoStat)": Contestant("package", "thermostat_integrated_gradients", paper="Integrated"),
    "LIME (ThermoStat)": Contestant("package", "thermostat_lime", paper="LIME"),
    "Occlusion (ThermoStat)": Contestant("package", "thermostat_occlusion", paper="Occlusion"),
    "Shapley (ThermoStat)": Contestant("package", "thermostat_shapley", paper="Shapely"),
    "DeepLiftShap (ThermoStat)": Contestant("package", "thermostat_deep_lift_shap", paper="DeepLiftShapely"),
    "GradientShap (ThermoStat)": Contestant("package", "thermostat_gradient_shap", paper="GradientShapely"),
    # the same ideas with the mask as reference, signed, and enough samples
    "gradient x input": Contestant("sane", "gradient_x_input", "embeddings"),
    "SmoothGrad": Contestant("sane", "smooth_grad", "embeddings"),
    "IG (mask)": Contestant("sane", "integrated_gradients", "embeddings", {"steps": 25, "baseline": "mask"}),
    "LIME (mask)": Contestant("sane", "lime", "embeddings", {"samples": 100, "baseline": "mask"}),
    "occlusion (mask)": Contestant("sane", "occlusion", "embeddings", {"baseline": "mask"}),
    "leave one out (mask)": Contestant("sane", "leave_one_out", "embeddings", {"baseline": "mask"}),
    "Shapley (mask)": Contestant("sane", "shapley", "embeddings", {"samples": 25, "baseline": "mask"}),
    "DeepLiftShap (mask)": Contestant("sane", "deep_lift_shap", "embeddings", {"baseline": "mask"}),
    "GradientShap (mask)": Contestant("sane", "gradient_shap", "embeddings", {"samples": 25, "baseline": "mask"}),
    # what if it were not the decoding?
    "ones decoded": Contestant("control", decoded(ONES), "all", unique=True, about="ones in place of the score"),
    "shuffled head": Contestant(
        "control", "decoded_grad_cam", "all", unique=True, change=with_shuffled_head,
        about="a head whose vocabulary is shuffled",
    ),
    "shuffled positions": Contestant(
        "control", decoded(SHUFFLED), "all", unique=True, about="scores dealt out among the sentence's positions"
    ),
    "pooled Grad-CAM": Contestant("control", POOLED, "all", about="Grad-CAM with the gradient averaged over positions"),
    "pooled Grad-CAM decoded": Contestant("control", decoded(POOLED), "all", unique=True, about="the same, decoded"),
    # the threshold that the paper does not state
    **{
        f"tau {tau}": Contestant("tau", "decoded_grad_cam", "all", {"tau": tau}, unique=True) for tau in (1, 3, 5, 10)
    },
}  # fmt: skip

GROUPS = tuple(dict.fromkeys(each.group for each in CONTESTANTS.values()))
RANDOM_ORDERS = 20


def label(name: str, layer: int | str, n_layers: int) -> str:
    """How a contestant at a layer is called; one without layers keeps its name."""
    return f"{name} l{layer}" if n_layers > 1 else name
