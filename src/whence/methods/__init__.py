"""The methods by name."""

from __future__ import annotations

from whence.methods import (
    attention,
    deep_lift_shap,
    grad_cam,
    gradient,
    gradient_shap,
    gradient_x_input,
    integrated_gradients,
    kernel_shap,
    leave_one_out,
    lime,
    occlusion,
    random,
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
    "leave_one_out": leave_one_out.METHOD,
    "occlusion": occlusion.METHOD,
    "shapley": shapley.METHOD,
    "lime": lime.METHOD,
    "kernel_shap": kernel_shap.METHOD,
    "attention": attention.METHOD,
    "attention_rollout": attention.ROLLOUT,
    "random": random.METHOD,
}
