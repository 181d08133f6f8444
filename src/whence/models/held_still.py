"""The network held still: a forward pass with the model's own values whose gradients follow the rules of relevance.

Layer-wise relevance propagation multiplies a state by the gradient of a network in which what is not linear is held at
its value: the scales of norms, the slopes φ(x)/x of activations and, in one of its forms, the attention. Nothing of
the model is replaced and no family is known here: the rules act on the tensor operations that the model's own code
calls, in this thread alone (`TorchFunctionMode`), and on modules that work on each number by itself. Afterwards the
graph of the pass is walked: an operation on the way that is neither linear nor ruled is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from whence.errors import ModelError
from whence.models.own_thread import forwards_through
from whence.models.parts import parts_of

if TYPE_CHECKING:
    from jaxtyping import Float

Products = Literal["shared", "gated"]
"""What becomes of a product of two states: "shared" gives each factor half of its worth; "gated" holds one of them
still: the weights of attention, the opened gate of a gated layer, the weight that a router gives an expert."""

_LAYER_NORMS = {functional.layer_norm, torch.layer_norm}
_RMS_NORMS = {functional.rms_norm, torch.rms_norm}
_ROOTS = {torch.rsqrt, Tensor.rsqrt, torch.sqrt, Tensor.sqrt}  # of a norm that is written out: the size of a state
_ACTIVATIONS = {
    functional.gelu, functional.silu, functional.mish, functional.softplus, functional.elu, functional.selu,
    functional.celu, functional.hardswish, functional.logsigmoid, functional.tanh, functional.sigmoid, torch.tanh,
    torch.sigmoid, Tensor.tanh, Tensor.sigmoid,
}  # fmt: skip
_SOFTMAXES = {torch.softmax, Tensor.softmax, functional.softmax}
_PRODUCTS = {
    torch.mul, torch.multiply, torch.matmul, torch.bmm, Tensor.mul, Tensor.multiply, Tensor.__mul__, Tensor.__rmul__,
    Tensor.matmul, Tensor.__matmul__, Tensor.bmm,
}  # fmt: skip
_QUOTIENTS = {torch.div, torch.true_divide, Tensor.div, Tensor.div_, Tensor.__truediv__, Tensor.__itruediv__}

# Nodes of the graph that are linear in what they are given, or only pick from it.
_LINEAR = {
    "AccumulateGrad", "Add", "Alias", "AsStrided", "BroadcastTensors", "Cat", "Clone", "ConstantPadNd",
    "Convolution", "Copy", "CopySlices", "Cumsum", "Diagonal", "Expand", "Flip", "Gather", "Index", "IndexAdd",
    "IndexCopy", "IndexPut", "IndexSelect", "MaskedFill", "MaskedScatter", "Max", "Maximum", "Mean", "Min", "Neg",
    "Pad", "Permute", "Relu", "Repeat", "RepeatInterleave", "ReshapeAlias", "Roll", "Scatter", "ScatterAdd",
    "Select", "SelectScatter", "Slice", "SliceScatter", "Split", "SplitWithSizes", "SqueezeDim", "Squeeze", "Stack",
    "Sub", "Sum", "T", "ToCopy", "Topk", "Transpose", "Tril", "Triu", "Unbind", "Unfold", "UnsafeSplit",
    "UnsafeView", "Unsqueeze", "View", "Where",
}  # fmt: skip
# Nodes that are linear as long as not both of these factors carry gradients (of a quotient: not what is below).
_BILINEAR = {
    "Mul": (0, 1), "Mm": (0, 1), "Bmm": (0, 1), "Mv": (0, 1), "Dot": (0, 1), "Addmm": (1, 2), "Baddbmm": (1, 2),
    "GroupedMm": (0, 1), "Div": (1, 1),
}  # fmt: skip


class HeldStill(TorchFunctionMode):
    """Inside, operations on states that carry gradients follow the rules. `ruled` counts those that were."""

    def __init__(self, products: Products) -> None:
        super().__init__()
        self.products = products
        self.ruled = 0
        self._opened: list[ref[Tensor]] = []  # what activations gave, while it is there: in a gated layer, the gate

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        rule = _RULES.get(func)
        if rule is None or not torch.is_grad_enabled() or not any(map(_moves, (*args, *kwargs.values()))):
            return func(*args, **kwargs)
        return rule(self, func, *args, **kwargs)

    def layer_norm(
        self, func: Any, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
        bias: Tensor | None = None, eps: float = 1e-5, *rest: Any,
    ) -> Tensor:  # fmt: skip
        self.ruled += 1
        exact, _, scale = torch.native_layer_norm(input.detach(), normalized_shape, weight, bias, eps)
        return _valued(input, exact, [weight, scale], centred=len(normalized_shape))

    def rms_norm(
        self, func: Any, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
        eps: float | None = None,
    ) -> Tensor:  # fmt: skip
        self.ruled += 1
        axes = tuple(range(-len(normalized_shape), 0))
        least = torch.finfo(input.dtype).eps if eps is None else eps
        scale = (input.detach().float().square().mean(dim=axes, keepdim=True) + least).rsqrt().to(input.dtype)
        exact = func(input.detach(), normalized_shape, weight, eps)
        return _valued(input, exact, [weight, scale])

    def root(self, func: Any, *args: Any, **kwargs: Any) -> Tensor:
        self.ruled += 1
        found: Tensor = func(*args, **kwargs)
        return found.detach()

    def activation(self, func: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """x times its slope φ(x)/x, which is held still; at 0 the slope is the derivative there."""
        self.ruled += 1
        given = x.detach()
        exact = func(given, *args, **kwargs)
        low, high = func(torch.tensor([-1e-3, 1e-3]), *args, **kwargs).tolist()
        slope = torch.where(given == 0, (high - low) / 2e-3, exact / given)
        found = _valued(x, exact, [slope])
        self._opened = [*(each for each in self._opened if each() is not None), ref(found)]
        return found

    def softmax(self, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The weights of attention, or of experts: shared products need no rule for them."""
        self.ruled += 1
        if self.products == "gated":
            found: Tensor = func(input.detach(), *args, **kwargs)
            return found
        return _ruled(func(_worth(input, 1.0), *args, **kwargs))

    def attention(self, func: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self.ruled += 1
        if self.products == "gated":
            query, key, value = query.detach(), key.detach(), _worth(value, 1.0)
        else:  # half of the product of weights and values, and of that product's half half again
            query, key, value = _worth(query, 0.25), _worth(key, 0.25), _worth(value, 0.5)
        return _ruled(func(query, key, value, *args, **kwargs))

    def product(self, func: Any, *args: Any, **kwargs: Any) -> Tensor:
        factors = [each for each in args if _moves(each)]
        if len(factors) == 2:
            self.ruled += 1
            if self.products == "shared":
                return _ruled(func(*(_worth(each, 0.5) if _moves(each) else each for each in args), **kwargs))
            gates = [each for each in factors if any(each is opened() for opened in self._opened)]
            if len(gates) == 1:  # else the graph shows a product without a rule
                args = tuple(each.detach() if each is gates[0] else each for each in args)
        found: Tensor = func(*args, **kwargs)
        return found

    def quotient(self, func: Any, above: Any, below: Any, *args: Any, **kwargs: Any) -> Tensor:
        if _moves(below):
            self.ruled += 1
            below = below.detach()
        found: Tensor = func(above, below, *args, **kwargs)
        return found


_RULES: dict[Any, Callable[..., Tensor]] = {
    **dict.fromkeys(_LAYER_NORMS, HeldStill.layer_norm),
    **dict.fromkeys(_RMS_NORMS, HeldStill.rms_norm),
    **dict.fromkeys(_ROOTS, HeldStill.root),
    **dict.fromkeys(_ACTIVATIONS, HeldStill.activation),
    **dict.fromkeys(_SOFTMAXES, HeldStill.softmax),
    **dict.fromkeys(_PRODUCTS, HeldStill.product),
    **dict.fromkeys(_QUOTIENTS, HeldStill.quotient),
    functional.scaled_dot_product_attention: HeldStill.attention,
}


class _Worth(torch.autograd.Function):
    """The same value with a share of its gradient: where a rule begins."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.share = share
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return (gradient if ctx.share == 1 else gradient * ctx.share), None


class _Valued(torch.autograd.Function):
    """The value of `exact` with the gradient of x, without its mean over some axes, times `factors` held still."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, exact: Tensor, centred: int, *factors: Tensor) -> Tensor:
        ctx.centred = centred
        ctx.save_for_backward(*factors)
        return exact.view_as(exact)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        factors = ctx.saved_tensors  # asked for once: a block that is computed again hands them out once
        for factor in factors:
            gradient = gradient * factor
        if ctx.centred:
            gradient = gradient - gradient.mean(dim=tuple(range(-ctx.centred, 0)), keepdim=True)
        return gradient, None, None, *[None] * len(factors)


class _Ruled(torch.autograd.Function):
    """The same value and gradient: where a rule ends."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def _worth(x: Tensor, share: float) -> Tensor:
    found: Tensor = _Worth.apply(x, share)  # type: ignore[no-untyped-call]
    return found


def _ruled(x: Tensor) -> Tensor:
    found: Tensor = _Ruled.apply(x)  # type: ignore[no-untyped-call]
    return found


def _valued(x: Tensor, exact: Tensor, factors: Sequence[Tensor | None], centred: int = 0) -> Tensor:
    """`exact`, as that many last axes of x less their mean (if any), times the factors, and a constant."""
    held = [factor.detach().to(x.dtype) for factor in factors if factor is not None]
    found: Tensor = _Valued.apply(x, exact, centred, *held)  # type: ignore[no-untyped-call]
    return found


_CHANGES_EACH: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def _moves(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


@contextmanager
def held_still(module: nn.Module, products: Products) -> Iterator[HeldStill]:
    """Inside, a forward pass of the module that records gradients records those of the network held still."""
    mode = HeldStill(products)

    def ruled(part: nn.Module, forward: Callable[..., Tensor], args: Any, kwargs: Any) -> Tensor:
        follow = torch.is_grad_enabled() and _moves(args[0] if args else None)
        return mode.activation(forward, *args, **kwargs) if follow else forward(*args, **kwargs)

    with forwards_through(filter(is_activation, parts_of(module)), ruled), mode:
        yield mode


def is_activation(module: nn.Module) -> bool:
    """Whether a module changes each number by itself: tried once, on two pairs of numbers that share the first."""
    inside = (*module._modules.values(), *module._parameters.values())
    if module.training or any(each is not None for each in inside):
        return False
    if module not in _CHANGES_EACH:
        _CHANGES_EACH[module] = _changes_each(module)
    return _CHANGES_EACH[module]


def _changes_each(module: nn.Module) -> bool:
    given = torch.tensor([[0.5, 1.0], [0.5, -2.0]])
    try:
        with torch.no_grad():
            found = torch.cat([module(row[None]) for row in given])
        return found.shape == given.shape and bool(found[0, 0] == found[1, 0]) and not torch.equal(found, given)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):  # it wants something else than numbers
        return False


def check_ruled(logits: Float[Tensor, "batch *token label"]) -> None:
    """Refuse a pass in which an operation on the way from the word embeddings is neither linear nor ruled."""
    missed = sorted(set(_unruled(logits)))
    if missed:
        raise ModelError(
            f"the model does something that relevance has no rule for: {', '.join(missed)}",
            "use integrated_gradients or leave_one_out, which take any model",
        )


@cache
def _kind(name: str) -> str:
    """A node's operation, from its name."""
    return re.sub(r"^.*::|Backwards?\d*$", "", name)


def _unruled(logits: Tensor) -> Iterator[str]:
    seen: set[tuple[Any, bool]] = set()
    todo: list[tuple[Any, bool]] = [(logits.grad_fn, False)]  # nodes, and whether they lie inside a rule
    while todo:
        node, inside = todo.pop()
        if node is None or (node, inside) in seen:
            continue
        seen.add((node, inside))
        below = [following for following, _ in node.next_functions]
        kind = _kind(node.name())
        if kind == _Worth.__name__:
            inside = False
        elif kind == _Ruled.__name__:
            inside = True
        elif not inside and kind in _BILINEAR:
            one, other = _BILINEAR[kind]
            if below[one] is not None and below[other] is not None:
                yield f"{kind} of two states"
        elif not inside and kind not in _LINEAR and kind != _Valued.__name__:
            yield kind
        todo += [(following, inside) for following in below]
