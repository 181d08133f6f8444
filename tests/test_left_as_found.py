"""The user's model is left exactly as found, also when it raises in the middle of a block."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import tiny_models
import torch
from tiny_models import TEXTS
from torch import nn
from torch.utils.checkpoint import checkpoint

import whence

METHODS: dict[str, dict[str, Any]] = {
    "gradient_x_input": {},
    "integrated_gradients": {"steps": 5, "layers": ["embeddings", 0, 2]},
    "leave_one_out": {"layers": ["embeddings", 0, 1]},
    "attention": {},
}
# the pass in which the model raises: over the whole texts, or the resumed (or attending) one after it
BREAKS = [(method, call) for method in METHODS for call in (1, 2) if (method, call) != ("gradient_x_input", 2)]
CALLERS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plainly": nullcontext,
    "in no_grad": torch.no_grad,
    "in inference_mode": torch.inference_mode,
}


class BrokenError(RuntimeError):
    """What the model raises in these tests."""


@contextmanager
def breaking(model: nn.Module, call: int) -> Iterator[None]:
    """The model raises in the middle of its second block, the nth time it gets there."""
    calls = 0

    def fail(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise BrokenError

    block = next(part for part in model.modules() if isinstance(part, nn.ModuleList))[1]
    matrix = [part for part in block.modules() if not list(part.children())][-2]
    handle = matrix.register_forward_pre_hook(fail)
    try:
        yield
    finally:
        handle.remove()


def hooks(model: nn.Module) -> Any:
    """Everything registered on any module; the names torch gives to the dictionaries are the only thing relied on."""
    return {
        (name, kind): list(registered.values())
        for name, part in model.named_modules()
        for kind, registered in vars(part).items()
        if kind.endswith("_hooks") and registered
    }


def forwards(model: nn.Module) -> Any:
    """What stands in the instances themselves beside parameters, buffers and modules: a wrapped forward would."""
    return {
        name: {key: id(value) for key, value in vars(part).items() if key == "forward"}
        for name, part in model.named_modules()
    }


def attributes(model: nn.Module) -> Any:
    return {name: sorted(vars(part)) for name, part in model.named_modules()}


def gradients(model: nn.Module) -> Any:
    return {name: None if part.grad is None else part.grad.clone() for name, part in model.named_parameters()}


def flags(model: nn.Module) -> Any:
    return {name: part.requires_grad for name, part in model.named_parameters()}


def modes(model: nn.Module) -> Any:
    return {name: part.training for name, part in model.named_modules()}


def implementations(model: nn.Module) -> Any:
    configs = {name: part.config for name, part in model.named_modules() if hasattr(part, "config")}
    return {name: config._attn_implementation for name, config in configs.items()}


def config(model: nn.Module) -> Any:
    return model.config.to_dict()  # type: ignore[union-attr,operator]


def padding(model: nn.Module) -> Any:
    return (model.config.pad_token_id, "pad_token_id" in vars(model.config))  # type: ignore[union-attr]


def weights(model: nn.Module) -> Any:
    return {name: value.clone() for name, value in model.state_dict().items()}


def random_state(model: nn.Module) -> Any:
    return torch.get_rng_state()


def with_gradients(model: nn.Module) -> None:
    for part in model.parameters():
        if part.grad is None:
            part.grad = torch.zeros_like(part)


@dataclass(frozen=True)
class Watched:
    """One thing about a model, how it is seen, and how it can be lost."""

    look: Callable[[nn.Module], Any]
    spoil: Callable[[Any], Any]


WATCHED = {
    "hooks": Watched(hooks, lambda model: model.register_forward_hook(lambda *_: None)),
    "forwards": Watched(forwards, lambda model: setattr(model.get_input_embeddings(), "forward", lambda ids: ids)),
    "attributes": Watched(attributes, lambda model: setattr(model, "left_behind", 1)),
    "gradients": Watched(
        gradients, lambda model: next(p for p in model.parameters() if p.grad is not None).grad.add_(1)
    ),
    "gradients that were none": Watched(gradients, with_gradients),
    "requires_grad": Watched(flags, lambda model: model.requires_grad_(False)),
    "modes": Watched(modes, lambda model: model.eval()),
    "attention implementation": Watched(implementations, lambda model: model.set_attn_implementation("eager")),
    "config": Watched(config, lambda model: model.config.update({"hidden_act": "relu"})),
    "padding": Watched(padding, lambda model: setattr(model.config, "pad_token_id", 1)),
    "weights": Watched(weights, lambda model: next(model.parameters()).data.view(-1)[0].add_(1e-6)),
    "random state": Watched(random_state, lambda model: torch.rand(1)),
}


def same(one: Any, other: Any) -> bool:
    """Equal bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    return bool(one == other)


def lived_in(family: str = "gpt2") -> Any:
    """A model in use: hooks, gradients, frozen parts, parts in training, a forward of its own; and no padding."""
    model = tiny_models.build(family)
    model.set_attn_implementation("sdpa")
    parts = list(model.modules())
    parameters = list(model.parameters())
    for i, part in enumerate(parts):
        part.training = i % 3 == 0
        if isinstance(part, nn.Dropout):
            part.p = 0.0  # in training, but with the same outcome
    for i, parameter in enumerate(parameters):
        parameter.requires_grad_(i % 2 == 0)
        if i % 4 == 0:
            parameter.grad = torch.full_like(parameter, float(i))
    parts[-1].register_forward_hook(lambda module, args, output: None)
    parts[-1].register_full_backward_hook(lambda module, before, after: None)
    block = next(part for part in parts if isinstance(part, nn.ModuleList))[0]
    own = type(block).forward
    block.forward = lambda *args, **kwargs: own(block, *args, **kwargs)
    return model


@pytest.fixture
def used() -> tuple[Any, whence.LayeredModel]:
    """New for each test: what an earlier one lost could not be lost again."""
    model = lived_in()
    return model, whence.load(model, tiny_models.bare())


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize("method", METHODS)
def test_after_success(used: Any, method: str, caller: Any, watched: Watched) -> None:
    model, layered = used
    before = watched.look(model)
    with caller():
        explanations = whence.explain(layered, TEXTS, method, **METHODS[method])
    assert len(explanations) == len(TEXTS)
    assert same(watched.look(model), before)


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize(("method", "call"), BREAKS)
def test_after_an_exception_in_the_middle(used: Any, method: str, call: int, caller: Any, watched: Watched) -> None:
    model, layered = used
    before = watched.look(model)
    with caller(), breaking(model, call), pytest.raises(BrokenError):
        whence.explain(layered, TEXTS, method, **METHODS[method])
    assert same(watched.look(model), before)


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
def test_after_an_exception_in_the_backward_pass(used: Any, watched: Watched) -> None:
    model, layered = used

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, h: torch.Tensor) -> torch.Tensor:
            return h.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            raise BrokenError

    before = watched.look(model)
    handle = model.score.register_forward_pre_hook(lambda module, args: (Raises.apply(args[0]),))
    try:
        with pytest.raises(BrokenError):
            whence.explain(layered, TEXTS, "gradient_x_input")
    finally:
        handle.remove()
    assert same(watched.look(model), before)


def fitted(layered: whence.LayeredModel, kind: Any) -> whence.DiffMask:
    probes = whence.DiffMask(kind, steps=4, batch_size=2, start=0.0)
    return probes.fit(layered, TEXTS * 2, validations=2)


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_after_a_fit(used: Any, kind: str, caller: Any) -> None:
    model, layered = used
    before = [watched.look(model) for watched in WATCHED.values()]
    with caller():
        probes = fitted(layered, kind)
        scores = probes.explain(layered, TEXTS[0]).scores
    for watched, was in zip(WATCHED.values(), before, strict=True):
        assert same(watched.look(model), was), watched.look.__name__
    assert (fitted(layered, kind).explain(layered, TEXTS[0]).scores == scores).all()


@pytest.mark.parametrize("call", range(1, 14, 3))  # statistics, the unmasked outputs, training, validation
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_after_an_exception_in_the_middle_of_a_fit(used: Any, kind: str, call: int) -> None:
    model, layered = used
    before = [watched.look(model) for watched in WATCHED.values()]
    with breaking(model, call), pytest.raises(BrokenError):
        fitted(layered, kind)
    for watched, was in zip(WATCHED.values(), before, strict=True):
        assert same(watched.look(model), was), watched.look.__name__


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
def test_a_change_is_seen(watched: Watched) -> None:
    """Each look can tell, so the tests above can fail."""
    model = lived_in()
    before = watched.look(model)
    assert same(watched.look(model), before)
    watched.spoil(model)
    assert not same(watched.look(model), before)


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_every_family_is_left_as_found(family: str) -> None:
    """Attention is the method that changes most: the implementation, in every part of the model."""
    model = tiny_models.build(family)
    model.train()
    looks = [watched.look for watched in WATCHED.values()]
    before = [look(model) for look in looks]
    layered = whence.load(model, tiny_models.tokenizer_of(family))
    whence.explain(layered, TEXTS, "attention")
    with breaking(model, 2) if len(layered.stack.blocks) > 1 else nullcontext():
        try:
            whence.explain(layered, TEXTS, "attention")
        except BrokenError:
            pass
        else:
            assert len(layered.stack.blocks) == 1, "the model did not break"
    for look, found in zip(looks, before, strict=True):
        assert same(look(model), found), look.__name__


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_a_config_that_asks_for_more_is_left_as_found(asked: str) -> None:
    settings: dict[str, Any] = {"attn_implementation": "eager", asked: True}
    model = tiny_models.build("bert", **settings)
    looks = [watched.look for watched in WATCHED.values()]
    before = [look(model) for look in looks]
    layered = whence.load(model, tiny_models.wordpiece())
    whence.explain(layered, TEXTS, "gradient_x_input")
    assert whence.explain(layered, TEXTS[0], "attention").scores.any()
    for look, found in zip(looks, before, strict=True):
        assert same(look(model), found), look.__name__


@pytest.mark.parametrize("name", tiny_models.PLAIN)
def test_plain_modules_are_left_as_found(name: str) -> None:
    module: Any = tiny_models.build_plain(name)
    module.train()
    looks = [hooks, forwards, attributes, gradients, flags, modes, weights, random_state]
    before = [look(module) for look in looks]
    layered = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=tiny_models.LABELS
    )
    for method in ("gradient_x_input", "leave_one_out"):
        whence.explain(layered, TEXTS, method)
    for look, found in zip(looks, before, strict=True):
        assert same(look(module), found), look.__name__


def test_scores_do_not_depend_on_the_mode_it_was_found_in() -> None:
    model = tiny_models.build("bert")
    layered = whence.load(model, tiny_models.wordpiece())
    quiet = whence.explain(layered, TEXTS[0], "gradient_x_input").scores
    model.train()
    assert (whence.explain(layered, TEXTS[0], "gradient_x_input").scores == quiet).all()
    assert model.training


def test_the_callers_grad_mode_does_not_change_scores(used: Any) -> None:
    _, layered = used
    for method, options in METHODS.items():
        scores = [whence.explain(layered, TEXTS[0], method, **options).scores]
        for caller in (torch.no_grad, torch.inference_mode):
            with caller():
                scores.append(whence.explain(layered, TEXTS[0], method, **options).scores)
        assert (scores[0] == scores[1]).all()
        assert (scores[0] == scores[2]).all()


@pytest.mark.parametrize("wrappers", [1, 2], ids=["one layered model", "two of the same module"])
def test_two_threads_at_the_same_time(wrappers: int) -> None:
    model = lived_in()
    looks = [watched.look for watched in WATCHED.values()]
    before = [look(model) for look in looks]
    layered = [whence.load(model, tiny_models.bare()) for _ in range(wrappers)] * (3 - wrappers)
    alone = {method: whence.explain(layered[0], TEXTS, method, **METHODS[method]) for method in METHODS}
    start = threading.Barrier(2)
    found: dict[str, Any] = {}
    failures: list[BaseException] = []

    def work(mine: whence.LayeredModel, methods: list[str]) -> None:
        try:
            start.wait()
            for method in methods * 3:
                found[method] = whence.explain(mine, TEXTS, method, **METHODS[method])
        except BaseException as error:
            failures.append(error)

    names = list(METHODS)
    threads = [
        threading.Thread(target=work, args=(layered[0], names[:2])),
        threading.Thread(target=work, args=(layered[1], names[2:])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for method in METHODS:
        for one, other in zip(found[method], alone[method], strict=True):
            assert (one.scores == other.scores).all()
    for look, was in zip(looks, before, strict=True):
        assert same(look(model), was), look.__name__


IN_COMPANY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a token budget of ten": ("bert", "classification", {"method": "leave_one_out", "batch_tokens": 10}),
    "integrated gradients": ("bert", "classification", {"method": "integrated_gradients"}),
    "no padding token": ("gpt2", "classification", {"method": "leave_one_out"}),
    "one token of the vocabulary": ("gpt2", "causal_lm", {"method": "gradient_x_input"}),
    "another attention": ("bert", "classification", {"method": "attention"}),
    "a convolution beside the blocks": ("deberta-v2-conv", "classification", {"method": "leave_one_out", "layers": 0}),
}


@pytest.mark.parametrize("case", IN_COMPANY.values(), ids=IN_COMPANY)
def test_another_thread_may_use_the_model_meanwhile(case: tuple[str, str, dict[str, Any]]) -> None:
    """While one thread explains, every answer of the model in another is the one it gives in quiet."""
    family, head, settings = case
    attention: dict[str, Any] = {"attn_implementation": "sdpa"} if family in ("bert", "gpt2") else {}
    model = tiny_models.build(family, head, **attention)
    layered = whence.load(model, tiny_models.tokenizer_of(family))
    looks = [watched.look for watched in WATCHED.values()]
    before = [look(model) for look in looks]
    texts = [torch.tensor([layered.encode(text).ids]) for text in TEXTS]
    texts += [torch.tensor([[0]]), torch.tensor([[7, 0]])]  # ids that may be lent for padding
    with torch.no_grad():
        quiet = [model(ids).logits for ids in texts]
    expected = whence.explain(layered, TEXTS, **settings)
    answers: list[tuple[int, Any]] = []
    done = threading.Event()

    def use() -> None:
        while not done.is_set():
            for number, ids in enumerate(texts):
                try:
                    with torch.no_grad():
                        answers.append((number, model(ids).logits))
                except Exception as error:
                    answers.append((number, error))

    user = threading.Thread(target=use)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # so that threads meet in the middle of a forward pass
    user.start()
    try:
        found: list[Any] = []
        while len(found) < 8 or (len(answers) <= 20 and len(found) < 200):  # until the threads have met often enough
            found.append(whence.explain(layered, TEXTS, **settings))
    finally:
        done.set()
        user.join()
        sys.setswitchinterval(interval)
    assert len(answers) > 20, "the other thread did run"
    wrong = [
        number for number, answer in answers if not (isinstance(answer, torch.Tensor) and same(answer, quiet[number]))
    ]
    assert wrong == []
    for each in found:
        assert all((one.scores == other.scores).all() for one, other in zip(each, expected, strict=True))
    for look, was in zip(looks, before, strict=True):
        assert same(look(model), was), look.__name__
    assert type(model.config) is type(tiny_models.build(family, head).config)


def test_blocks_that_run_in_other_threads_are_refused() -> None:
    """A module that farms its blocks out, as DataParallel does: nobody could see or change their states."""
    module: Any = tiny_models.build_plain("mlp")
    own = type(module).forward

    class Farming(type(module)):  # type: ignore[misc]
        away = False

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            if not self.away:
                return own(self, ids, mask)
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(own, self, ids, mask).result()

    module.__class__ = Farming
    layered = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=tiny_models.LABELS
    )
    inputs = layered.collate([layered.encode(text) for text in TEXTS])
    states = layered.states(inputs)
    module.away = True
    with pytest.raises(whence.ModelError, match="counted 0"):
        whence.explain(layered, TEXTS, "gradient_x_input")
    for layer in ("embeddings", 0, 1, 2):
        with pytest.raises(whence.ModelError, match="in this thread"):
            layered.resume(layer, states.at(layer), inputs)


def test_gradient_checkpointing_is_refused() -> None:
    """It would run a block again in the backward pass, when the state that was put in is gone."""
    module: Any = tiny_models.build_plain("mlp")
    forward = module.second.forward
    module.second.__class__ = type(
        "Checkpointed",
        (type(module.second),),
        {"__call__": lambda self, x: checkpoint(partial(nn.Sequential.__call__, self), x, use_reentrant=False)},
    )
    layered = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=tiny_models.LABELS
    )
    assert whence.explain(layered, TEXTS[0], "leave_one_out", layers=1).scores.any()
    assert whence.explain(layered, TEXTS[0], "gradient_x_input").scores.any()
    with pytest.raises(whence.ModelError, match="checkpointing"):
        whence.explain(layered, TEXTS[0], "integrated_gradients", layers=1)
    assert module.second.forward == forward


def test_tokenizing_in_two_threads_never_cuts_in_silence() -> None:
    """A fast tokenizer remembers the truncation last asked for, by whichever thread."""
    short = whence.load(tiny_models.build("bert", max_position_embeddings=8), tiny_models.wordpiece())
    long = whence.load(tiny_models.build("bert", max_position_embeddings=64), tiny_models.wordpiece())
    text = " ".join(tiny_models.WORDS[:40])
    lengths: dict[str, set[tuple[int, int]]] = {"short": set(), "long": set()}

    def work(name: str, model: whence.LayeredModel) -> None:
        for _ in range(200):
            encoding = model.encode(text)
            lengths[name].add((len(encoding), encoding.cut))

    threads = [threading.Thread(target=work, args=pair) for pair in (("short", short), ("long", long))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == {"short": {(8, 34)}, "long": {(42, 0)}}
