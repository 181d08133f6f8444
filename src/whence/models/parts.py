"""A module's parts and weights, for what is looked at in every call: torch's own walks make names that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


def parts_of(module: nn.Module) -> list[nn.Module]:
    """The module and all inside it, each once."""
    found, seen = [module], {module}
    for part in found:
        for inner in part._modules.values():
            if inner is not None and inner not in seen:
                seen.add(inner)
                found.append(inner)
    return found


def first_weight(module: nn.Module) -> nn.Parameter:
    """The first of a module's parameters: it tells the device and the dtype."""
    own = next(iter(module._parameters.values()), None)
    return next(module.parameters()) if own is None else own


def weights_of(parts: Iterable[nn.Module]) -> list[nn.Parameter]:
    """The parameters that these hold themselves, each once."""
    held = (weight for part in parts for weight in part._parameters.values() if weight is not None)
    return list({id(weight): weight for weight in held}.values())
