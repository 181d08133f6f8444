"""Does the gradient say how the output changes? Looked at once per model and layer, before anybody believes it.

A quantised model, or one compiled behind our back, computes its output by ways that autograd does not see: it hands
back no gradient, or part of one, without a word. So the slope is measured as well, by two central differences in a
direction. Where the gradient is further from them than bends and rounding explain, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.explanation import Layer
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

    Value = Callable[[Float[Tensor, "row token hidden"]], Float[Tensor, " row"]]

STEPS = (0.01, 1e-3, 1e-4, 1e-5, 1e-6)  # how far to go, as a share of the state's length; the first is mostly enough
TOLERANCE = 0.25  # the share of the slope by which a gradient may be off
JITTERS = 4  # states a hair's breadth away: how much the target moves from rounding alone
TIMES_ROUNDING = 8  # what the target must move beyond that before it counts

_CHECKED: WeakKeyDictionary[LayeredModel, set[Layer]] = WeakKeyDictionary()


def is_checked(model: LayeredModel, layer: Layer) -> bool:
    return layer in _CHECKED.get(model, ())


def check_gradient(
    model: LayeredModel,
    layer: Layer,
    hidden: Float[Tensor, "1 token hidden"],
    gradient: Float[Tensor, "1 token hidden"] | None,
    value: Value,
) -> None:
    """Refuse a model whose gradient at a state is not the slope of the target, which `value` gives for any states.

    No gradient at all, as torch gives it for what it believes to be unused, is right where even a state full of noise
    leaves the target as it is. In half precision that is all that can be told: short steps drown in rounding, and long
    ones leave the straight.
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1 + JITTERS, *hidden.shape[1:], generator=generator).to(hidden)
    with torch.inference_mode():
        hair = 2 * torch.finfo(hidden.dtype).eps
        near = value(torch.cat([hidden, hidden + hair * hidden.abs() * noise[1:].sign()])).double()
        rounding = TIMES_ROUNDING * ((near - near[0]).abs().max() + hair * near[0].abs())
        if gradient is None:
            disturbed = value(hidden + noise[:1] * hidden.norm() / noise[:1].norm()).double()
            if (disturbed - near[0]).abs() > rounding:
                raise _refusal(model.stack.name(layer), 0.0)
        elif hidden.dtype not in (torch.float16, torch.bfloat16):
            for direction in [noise[:1], gradient] if gradient.any() else [noise[:1]]:
                _compare(model.stack.name(layer), hidden, gradient, direction, value, rounding)
    _CHECKED.setdefault(model, set()).add(layer)


def _compare(layer: Layer, hidden: Tensor, gradient: Tensor, direction: Tensor, value: Value, rounding: Tensor) -> None:
    """Refuse a gradient that no step bears out: where the output bends sharply, only short ones can."""
    ratios: list[float] = []
    for share in STEPS:
        step = (direction.double() * (share * hidden.double().norm() / direction.double().norm())).to(hidden)
        points = torch.cat([hidden + step, hidden - step, hidden + 2 * step, hidden - 2 * step])
        values = value(points).double()
        near, far = values[0] - values[1], values[2] - values[3]
        told = ((points[0] - points[1]).double() * gradient.double()).sum()  # of the step as rounded
        seen, bend = (8 * near - far) / 6, (far / 2 - near).abs()
        drowned = torch.maximum(told.abs(), seen.abs()) < 2 * rounding and share != STEPS[0]
        if drowned:  # so short a step says nothing against what a longer one said
            break
        if (told - seen).abs() <= TOLERANCE * seen.abs() + 2 * bend + rounding:
            return
        ratios.append(float(told / seen))
    raise _refusal(layer, ratios[0])


def _refusal(layer: Layer, share: float) -> ModelError:
    said = "that it does not" if share == 0 else f"of {share:.2g} times the change"
    return ModelError(
        f"the model's gradients are wrong: its output changes with the states of layer {layer}, but they tell {said}",
        "quantised weights and compiled code hide their gradients: explain the model as it was before, or use a "
        "method without gradients, such as leave_one_out or shapley",
    )
