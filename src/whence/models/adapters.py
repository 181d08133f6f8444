"""Adapters (PEFT: LoRA and its kin): the model inside the wrapper, and which weights it computes with as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from whence.errors import ModelError
from whence.models.parts import parts_of


def without_wrapper(module: nn.Module) -> nn.Module:
    """The Hugging Face model inside a PeftModel, with the adapters in its layers; any other module as it is."""
    if not hasattr(module, "get_base_model") or not hasattr(module, "peft_config"):
        return module
    wrapper: Any = module
    for name in wrapper.active_adapters:
        config = wrapper.peft_config[name]
        kind = str(getattr(config.peft_type, "value", config.peft_type))
        outside = config.is_prompt_learning or kind in ("XLORA", "POLY")
        if outside or getattr(config, "alora_invocation_tokens", None):
            raise ModelError(
                f"the adapter {name!r} ({kind}) works outside the model's own layers, where whence does not see it",
                "give a model with adapters that change weights (LoRA, IA3, ...), or with these merged into it",
            )
    base: nn.Module = wrapper.get_base_model()
    return base


def active_adapters(module: nn.Module) -> tuple[str, ...]:
    """The names of the adapters that a model computes with."""
    return tuple(sorted({name for part in module.modules() for name in active_in(part)}))


def parameters_in_use(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters by name but those of adapters that are switched off."""
    idle = _idle(parts_of(module))
    return ((name, weight) for name, weight in module.named_parameters() if id(weight) not in idle)


def _idle(parts: Sequence[nn.Module]) -> set[int]:
    """The ids of the weights of adapters that are switched off."""
    return {
        id(weight)
        for part in adapted(parts)
        for kind in part.adapter_layer_names
        for name, adapter in getattr(part, kind, {}).items()
        if name not in active_in(part)
        for weight in (adapter.parameters() if isinstance(adapter, nn.Module) else (adapter,))
    }


def adapted(parts: Sequence[nn.Module]) -> list[Any]:
    """Those that hold adapters."""
    kinds = {kind for kind in set(map(type, parts)) if hasattr(kind, "adapter_layer_names")}
    return [part for part in parts if type(part) in kinds]


def adapter_scales(module: nn.Module) -> dict[str, float]:
    """By how much the active adapters are scaled, which no parameter tells."""
    return {
        f"{path}.scaling.{name}": float(scales[name])
        for path, part in module.named_modules()
        if isinstance(scales := getattr(part, "scaling", None), dict)  # of many an attention it is a number
        for name in active_in(part)
    }


def active_in(part: nn.Module) -> tuple[str, ...]:
    """The adapters of one layer that are in use; merged into its weights they are no longer."""
    if not hasattr(part, "adapter_layer_names"):
        return ()
    layer: Any = part
    if layer.disable_adapters or getattr(layer, "merged", False):
        return ()
    held = {name for kind in layer.adapter_layer_names for name in getattr(layer, kind, {})}
    return tuple(name for name in layer.active_adapters if name in held)
