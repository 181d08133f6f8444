"""The methods by name."""

from __future__ import annotations

from whence.methods import (
    attention,
    decoded,
    deep_lift_shap,
    diffmask,
    grad_cam,
    gradient,
    gradient_shap,
    gradient_x_input,
    information_bottleneck,
    integrated_gradients,
    kernel_shap,
    leave_one_out,
    lime,
    noise_tolerance,
    occlusion,
    one_pass,
    random,
    relevance,
    shapley,
    smooth_grad,
)
from whence.methods.question import Method

METHODS: dict[str, Method] = {
    "gradient": gradient.METHOD,
    "gradient_x_input": gradient_x_input.METHOD,
    "grad_cam": grad_cam.METHOD,
    "smooth_grad": smooth_grad.METHOD,
    "integrated_gradients": integrated_gradients.METHOD,
    "gradient_shap": gradient_shap.METHOD,
    "deep_lift_shap": deep_lift_shap.METHOD,
    "attn_lrp": relevance.ATTN_LRP,
    "held_still": relevance.HELD_STILL,
    "leave_one_out": leave_one_out.METHOD,
    "occlusion": occlusion.METHOD,
    "shapley": shapley.METHOD,
    "lime": lime.METHOD,
    "kernel_shap": kernel_shap.METHOD,
    "information_bottleneck": information_bottleneck.METHOD,
    "noise_tolerance": noise_tolerance.METHOD,
    "one_pass": one_pass.METHOD,
    "amortised_shapley": one_pass.AMORTISED_SHAPLEY,
    "diffmask": diffmask.METHOD,
    "attention": attention.METHOD,
    "attention_rollout": attention.ROLLOUT,
    "decoded_grad_cam": decoded.decoded(grad_cam.METHOD),
    "random": random.METHOD,
}

# the same for every other score of layers, made by one rule and so not listed among the methods
DECODED: dict[str, Method] = {
    f"decoded_{name}": decoded.decoded(method)
    for name, method in METHODS.items()
    if f"decoded_{name}" not in METHODS and not method.meaning.decoded and not method.only_there
}
