"""Long prompts: a text longer than the token budget is explained with the memory of one block, to the same scores."""

from __future__ import annotations

import contextlib
import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from tiny_models import LONG, SHORT, tiny
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import whence
from whence.methods import DECODED
from whence.methods.question import TRIED_TOKENS
from whence.models import attention_maps, batching, free_memory, huggingface, stack
from whence.models.shared_keys import FEW_TOKENS, CopiedKeys, copied_keys

FAMILIES = ["gpt2", "llama", "qwen3", "gemma3", "opt"]
FEW = {
    "smooth_grad": {"samples": 3},
    "integrated_gradients": {"steps": 4},
    "gradient_shap": {"samples": 3},
    "information_bottleneck": {"steps": 2},
    "noise_tolerance": {"steps": 2},
    "decoded_integrated_gradients": {"steps": 4},
}
GRADIENTS = [name for name, method in whence.METHODS.items() if "gradients" in method.needs]


@functools.cache
def long_model(family: str) -> whence.LayeredModel:
    """A tiny decoder that reads long texts."""
    name = "n_positions" if family == "gpt2" else "max_position_embeddings"
    module = tiny_models.build(family, "causal_lm", **{name: 1_024})
    return whence.load(module, tiny_models.tokenizer_of(family))


class Runs:
    """How often each block ran, told by the last matrix in it."""

    def __init__(self, model: whence.LayeredModel) -> None:
        self.count = 0
        matrices = [[part for part in block.modules() if hasattr(part, "weight")][-1] for block in model.stack.blocks]
        self.handles = [matrix.register_forward_hook(self._ran) for matrix in matrices]

    def _ran(self, *_: Any) -> None:
        self.count += 1

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", [*GRADIENTS, "decoded_integrated_gradients"])
def test_computed_again_the_scores_are_the_same(family: str, method: str) -> None:
    model = tiny(family, "causal_lm")
    options: dict[str, Any] = FEW.get(method, {})
    layers: dict[str, Any] = {} if method in DECODED else {"layers": [0, 2]}
    kept = whence.explain(model, [SHORT, LONG], method, **layers, **options)
    again = whence.explain(model, [SHORT, LONG], method, batch_tokens=1, **layers, **options)
    for one, other in zip(kept, again, strict=True):
        np.testing.assert_allclose(other.scores, one.scores, rtol=1e-5, atol=1e-5 * np.abs(one.scores).max())
        assert (other.cost.forwards, other.cost.backwards) == (one.cost.forwards, one.cost.backwards)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("method", ["gradient_x_input", "attn_lrp", "integrated_gradients"])
def test_computed_again_each_token_of_a_response_has_the_same_scores(family: str, method: str) -> None:
    model, options = long_model(family), dict[str, Any](FEW.get(method, {}))
    whole, lean = (
        whence.explain(model, LONG * 3, method, response=SHORT, batch_tokens=budget, **options) for budget in (4_096, 8)
    )
    assert whole.outputs is not None
    assert lean.outputs is not None
    assert len(whole.outputs.positions) >= 3
    np.testing.assert_allclose(lean.outputs.scores, whole.outputs.scores, atol=1e-5)
    np.testing.assert_allclose(lean.scores, whole.scores, atol=1e-5)


@pytest.mark.parametrize("method", ["gradient_x_input", "attn_lrp", "integrated_gradients"])
def test_of_a_text_longer_than_the_budget_the_blocks_that_do_not_fit_are_computed_again(method: str) -> None:
    model = tiny("llama", "causal_lm")
    length = len(model.encode(LONG))
    options: dict[str, Any] = FEW.get(method, {})
    whence.explain(model, LONG, method, **options)  # what is looked at once is behind us
    counts = []
    for budget in (length, length - 1, length // 2, 1):
        with Runs(model) as runs:
            whence.explain(model, LONG, method, batch_tokens=budget, **options)
        counts.append(runs.count)
    passes = 4 if method == "integrated_gradients" else 1
    assert model.n_layers == 3
    assert [count - counts[0] for count in counts] == [0, passes, 2 * passes, 3 * passes]


@pytest.mark.parametrize("family", FAMILIES)
def test_some_blocks_kept_and_some_computed_again_the_scores_are_the_same(family: str) -> None:
    model = tiny(family, "causal_lm")
    budget = len(model.encode(LONG)) // 2
    for method in ("gradient_x_input", "attn_lrp"):
        kept, some = (
            whence.explain(model, LONG, method, layers=[0, 1, 2, 3], batch_tokens=tokens) for tokens in (None, budget)
        )
        np.testing.assert_allclose(some.scores, kept.scores, rtol=1e-5, atol=1e-5 * np.abs(kept.scores).max())


def test_gradients_of_a_long_prompt_are_looked_at_on_how_it_begins() -> None:
    text = " ".join([LONG] * 20)
    expected = whence.explain(long_model("llama"), text, "gradient", layers="all").scores
    long_model.cache_clear()
    model = long_model("llama")
    assert len(model.encode(text)) > 2 * TRIED_TOKENS
    seen: list[int] = []
    block = model.stack.blocks[-1]
    handle = block.register_forward_pre_hook(lambda part, args: seen.append(args[0].shape[1]))
    try:
        found = whence.explain(model, text, "gradient", layers="all")
    finally:
        handle.remove()
    assert sorted(set(seen)) == [TRIED_TOKENS, len(model.encode(text))]
    assert seen.count(len(model.encode(text))) == 1, "the whole prompt is run once"
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)


class Blind(torch.autograd.Function):
    """Its value is right and its gradient is not."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 3 * gradient


def test_wrong_gradients_are_found_out_on_a_long_prompt_too() -> None:
    module: Any = tiny_models.build("llama", "causal_lm", max_position_embeddings=1_024)
    top: nn.Module = module.model.layers[-1].mlp
    top.register_forward_hook(lambda part, args, output: Blind.apply(output))
    model = whence.load(module, tiny_models.tokenizer_of("llama"))
    with pytest.raises(whence.ModelError, match="gradients are wrong"):
        whence.explain(model, " ".join([LONG] * 20), "gradient_x_input", layers="all")


def test_a_batch_that_another_thread_computes_again_follows_the_rules() -> None:
    """As on a GPU, whose backward pass runs in a thread of torch's own."""
    model = tiny("llama", "causal_lm")
    expected = whence.explain(model, LONG, "attn_lrp").scores
    grad, found = torch.autograd.grad, []

    def elsewhere(*args: Any, **kwargs: Any) -> Any:
        result: list[Any] = []
        worker = threading.Thread(target=lambda: result.append(grad(*args, **kwargs)))
        worker.start()
        worker.join()
        return result[0]

    torch.autograd.grad = elsewhere
    try:
        found.append(whence.explain(model, LONG, "attn_lrp", batch_tokens=1).scores)
    finally:
        torch.autograd.grad = grad
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batched", [False, True])
def test_a_graph_that_is_computed_again_serves_several_outputs(batched: bool) -> None:
    """One after the other from a graph that is kept, or all at once."""
    model = tiny("llama", "causal_lm")
    inputs = model.collate([model.encode(LONG)])
    found: list[torch.Tensor] = []
    with model.held(), torch.inference_mode(False):
        for context in (contextlib.nullcontext(), model.stack.computing_again()):
            with context:
                states = model.states(inputs, differentiable=True)
            outputs, h = states.logits[0, :3], states.at(1)
            if batched and found:
                found.append(torch.autograd.grad(outputs, h, torch.eye(3), is_grads_batched=True)[0])
            else:
                each = [torch.autograd.grad(outputs[i], h, retain_graph=i < 2)[0] for i in range(3)]
                found.append(torch.stack(each))
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)


class Sizes(TorchDispatchMode):
    """The largest tensor that anything gave, and all that graphs kept for their backward passes, in numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.kept = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(each, torch.Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return found

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.kept += tensor.nbytes
        return tensor


def sizes(length: int, budget: int, method: str) -> Sizes:
    model = long_model("llama")
    whence.explain(model, "a good film", method)  # what is looked at the first time is known then
    with Sizes() as found, torch.autograd.graph.saved_tensors_hooks(found.keep, lambda kept: kept):
        whence.explain(model, "a good film " * (length // 3), method, batch_tokens=budget)
    return found


@pytest.mark.parametrize("method", ["gradient_x_input", "attn_lrp", "held_still", "gradient", "grad_cam"])
def test_memory_grows_with_the_length_of_the_prompt_and_not_its_square(method: str) -> None:
    short, long, held = sizes(300, 64, method), sizes(600, 64, method), sizes(600, 4_096, method)
    assert long.largest < 2.2 * short.largest
    assert long.kept < 2.2 * short.kept
    assert held.kept > 1.5 * long.kept, "what is not computed again is held for all blocks"


@pytest.mark.parametrize("asked", [{}, {"response": " a film"}])
def test_attention_of_a_long_prompt_holds_rows_and_no_table_of_pairs(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = long_model("llama")

    def largest(length: int) -> int:
        with Sizes() as found:
            whence.explain(model, "a good film " * (length // 3), "attention", **asked)
        return found.largest

    largest(30)  # what is looked at the first time is known then
    assert largest(600) < 2.2 * largest(300)
    monkeypatch.setattr(attention_maps, "continues", lambda model, inputs: False)
    assert largest(600) > 3.5 * largest(300), "whole maps grow with the square"


class Attended(TorchFunctionMode):
    """What attention is asked for: how many heads, whether with a mask, whether causal, whether heads share keys."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, int, bool, bool, bool]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            query, key, *_ = args
            asked = (kwargs["attn_mask"] is not None, kwargs["is_causal"], bool(kwargs.get("enable_gqa")))
            self.calls.append((query.shape[1], key.shape[1], *asked))
        return func(*args, **kwargs)


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "opt"])
@pytest.mark.parametrize("budget", [4_096, 8])
def test_no_table_of_pairs_of_tokens_is_made_for_an_unpadded_prompt(family: str, budget: int) -> None:
    """So that kernels which hold none may run."""
    model = long_model(family)
    with Attended() as attended:
        whence.explain(model, LONG * 3, "gradient_x_input", response=SHORT, batch_tokens=budget)
    assert attended.calls
    assert {(masked, causal) for _, _, masked, causal, _ in attended.calls} == {(False, True)}


@pytest.mark.parametrize("method", ["gradient_x_input", "attn_lrp", "held_still", "leave_one_out"])
@pytest.mark.parametrize("budget", [4_096, 8])
def test_heads_that_share_keys_get_copies_of_them_to_the_same_scores(
    method: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU in float32 no kernel that holds no table takes shared keys; here as if this were one."""
    model = long_model("llama")
    asked: dict[str, Any] = {"response": SHORT, "batch_tokens": budget}
    with Attended() as attended:
        expected = whence.explain(model, LONG, method, **asked)
    assert any(sharing for *_, sharing in attended.calls), "transformers leaves it to torch to share keys out"
    for place in (huggingface, stack):
        monkeypatch.setattr(place, "copied_keys", lambda device, length: CopiedKeys())
    with Attended() as attended:
        found = whence.explain(model, LONG, method, **asked)
    assert all(heads == keys and not sharing for heads, keys, _, _, sharing in attended.calls)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-6)


def test_keys_are_copied_for_long_texts_on_a_gpu_unless_flash_attention_takes_them_shared() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert isinstance(copied_keys(gpu, FEW_TOKENS + 1), CopiedKeys)
    assert not isinstance(copied_keys(gpu, FEW_TOKENS), CopiedKeys)
    assert not isinstance(copied_keys(cpu, 32_000), CopiedKeys)
    for dtype in (torch.float32, torch.bfloat16):
        q, k = torch.zeros(1, 4, 3, 8, dtype=dtype), torch.zeros(1, 2, 3, 8, dtype=dtype)
        with Attended() as attended, CopiedKeys():
            nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=None, is_causal=True, enable_gqa=True)
        half = dtype == torch.bfloat16
        assert attended.calls == [(4, 2 if half else 4, False, True, half)]


def test_a_long_text_is_computed_again_however_large_the_budget_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its graph would be more than is to be kept, or than half of what is free; and not where it is less."""
    model = tiny("llama", "causal_lm")
    whence.explain(model, LONG, "gradient_x_input")
    graph = 34 * 16 * 4 * (model.n_layers + 1) * len(model.encode(LONG))
    counts = []
    for most, free in ((graph, 2 * graph), (graph - 1, 2 * graph), (graph, 2 * graph - 2), (0, 2 * graph), (graph, 0)):
        monkeypatch.setattr(batching, "MOST_KEPT", most)
        monkeypatch.setattr(batching, "free_bytes", lambda device, free=free: free)
        with Runs(model) as runs:
            whence.explain(model, LONG, "gradient_x_input", batch_tokens=65_536)
        counts.append(runs.count)
    assert [count - counts[0] for count in counts] == [0, 1, 1, model.n_layers, model.n_layers]


def test_4_000_tokens_of_a_small_decoder_are_kept_and_32_000_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2-135M, 576 features in 30 blocks: on a machine of 24 GB, and on a GPU with ten times that."""
    monkeypatch.setattr(batching, "_graph_of_a_token", lambda model: 34 * 576 * 4 * 31)
    model = tiny("llama", "causal_lm")
    for free, least, most in ((24 * 10**9, 4_000, 5_000), (240 * 10**9, 4_000, 5_000), (8 * 10**9, 1_000, 2_000)):
        monkeypatch.setattr(batching, "free_bytes", lambda device, free=free: free)
        assert least < batching.usual_kept_tokens(model, None) < most


def test_what_a_container_may_not_use_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, cpu = tmp_path / "meminfo", torch.device("cpu")
    machine.write_text("MemTotal: 3000 kB\nMemAvailable: 2000 kB\n")
    monkeypatch.setattr(free_memory, "_MACHINE", machine)
    monkeypatch.setattr(free_memory, "_CONTAINER", tmp_path)
    assert free_memory.free_bytes(cpu) == 2000 * 1_024, "no container"
    for most, used, free in (("max", "5", 2000 * 1_024), ("900", "500", 400), ("900", "1000", 0)):
        (tmp_path / "memory.max").write_text(most)
        (tmp_path / "memory.current").write_text(used)
        assert free_memory.free_bytes(cpu) == free
    machine.unlink()
    assert free_memory.free_bytes(cpu) == 0, "the container's limit holds on any machine"
    (tmp_path / "memory.max").unlink()
    assert free_memory.free_bytes(cpu) > 0, "a system that does not say"
