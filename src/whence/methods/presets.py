"""The exact settings of other packages, so that their numbers can be had again, on one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whence.explanation import Layer, Scale


@dataclass(frozen=True)
class Preset:
    """A method with options, layer and scale fixed; `shares` makes scores absolute and adding up to one."""

    method: str
    about: str
    layers: tuple[Layer, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    scale: Scale = "logit"
    shares: bool = False


# AllenNLP takes the gradient of the cross-entropy loss of the predicted class at the raw word embeddings. The loss is
# minus the log-probability, and the sign is lost in the absolute value.
_ALLENNLP: dict[str, Any] = {"layers": ("embeddings",), "scale": "log_probability", "shares": True}

# ThermoStat replaces every token that is not special by padding; embedding methods look at the whole embedding module,
# layer 0. RoBERTa's id 0, captum's default baseline for ids, is its start token.
PRESETS: dict[str, Preset] = {
    "allennlp_simple": Preset("gradient_x_input", "AllenNLP's SimpleGradient", **_ALLENNLP),
    "allennlp_smooth": Preset(
        "smooth_grad", "AllenNLP's SmoothGradient", options={"samples": 10, "noise": 0.01, "reduce": "sum"}, **_ALLENNLP
    ),
    "allennlp_integrated": Preset(
        "integrated_gradients",
        "AllenNLP's IntegratedGradient",
        options={"steps": 10, "rule": "left", "baseline": "zero", "special": True},
        **_ALLENNLP,
    ),
    "thermostat_gradient_x_activation": Preset("gradient_x_input", "ThermoStat's LayerGradientXActivation", (0,)),
    "thermostat_integrated_gradients": Preset(
        "integrated_gradients", "ThermoStat's LayerIntegratedGradients", (0,), {"steps": 25, "baseline": "pad"}
    ),
    "thermostat_lime": Preset(
        "lime",
        "ThermoStat's LimeBase: ids as features, similarity over 512 positions",
        ("embeddings",),
        {
            "samples": 25, "keep_probability": 0.7, "kernel": "share", "share_of": 512, "features": "ids", "ridge": 1.0,
            "baseline": "pad",
        },
    ),
    "thermostat_occlusion": Preset(
        "occlusion",
        "ThermoStat's Occlusion: id 0 in place of three tokens, special ones too",
        ("embeddings",),
        {"window": 3, "baseline": 0, "special": True, "overhang": True},
    ),
    "thermostat_shapley": Preset(
        "shapley", "ThermoStat's ShapleyValueSampling", ("embeddings",), {"samples": 25, "baseline": "pad"}
    ),
    "thermostat_deep_lift_shap": Preset(
        "deep_lift_shap", "ThermoStat's LayerDeepLiftShap", (0,), {"baseline": (0, "pad"), "special": True}
    ),
    "thermostat_gradient_shap": Preset(
        "gradient_shap", "ThermoStat's LayerGradientShap: points between ids", (0,),
        {"samples": 5, "baseline": "pad", "between": "ids"},
    ),
}  # fmt: skip
