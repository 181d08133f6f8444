"""Long texts on a GPU: attention that never holds a table of all pairs of tokens, whatever precision a model is in.

In many decoders several heads share their keys and values, and transformers leaves it to torch to share them out. Of
torch's kernels on a GPU only FlashAttention, for half precision, and the plain one take shared keys
(`scaled_dot_product_attention`, `enable_gqa`). In float32 that leaves the plain one, which holds, for each head of each
block, a number for every pair of tokens: SmolLM2-135M would need 1.1 TB for the gradients of 32,000 tokens. With a copy
of its keys and values for every head the memory-efficient kernel takes over, and memory grows with the length alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

FEW_TOKENS = 512  # of a text, up to which that table is small, and asking about every operation costs more
FOR_FLASH = (torch.float16, torch.bfloat16)


class CopiedKeys(TorchFunctionMode):
    """Inside, in this thread, heads that share keys and values are given copies, unless FlashAttention can run."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is functional.scaled_dot_product_attention and kwargs.get("enable_gqa"):
            query, key, value, *rest = args
            if query.dtype not in FOR_FLASH:
                n_sharing = query.shape[1] // key.shape[1]
                args = (query, *(each.repeat_interleave(n_sharing, dim=1) for each in (key, value)), *rest)
                del kwargs["enable_gqa"]
        return func(*args, **kwargs)


def copied_keys(device: torch.device, length: int) -> AbstractContextManager[Any]:
    """For a pass over texts of so many tokens: where it is worth it, `CopiedKeys`."""
    return CopiedKeys() if device.type == "cuda" and length > FEW_TOKENS else nullcontext()
