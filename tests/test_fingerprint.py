"""A model's fingerprint: the same in every dtype, another for every other model."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tiny_models
import torch
from torch import nn

from whence.models.fingerprint import SAMPLES, fingerprint, first_difference
from whence.models.unchanged import Seen

every_family = pytest.mark.parametrize("family", tiny_models.FAMILIES)


@every_family
def test_another_dtype_is_the_same_model_and_another_seed_is_not(family: str) -> None:
    model = tiny_models.build(family)
    own = fingerprint(model)
    assert first_difference(own, fingerprint(model)) is None
    halves = {dtype: fingerprint(copy.deepcopy(model).to(dtype)) for dtype in (torch.bfloat16, torch.float16)}
    for half in halves.values():
        assert first_difference(own, half) is None
        assert first_difference(half, own) is None
    assert first_difference(halves[torch.bfloat16], halves[torch.float16]) is None
    other = fingerprint(tiny_models.build(family, seed=1))
    assert first_difference(own, other) is not None


def test_two_families_differ() -> None:
    prints = {family: fingerprint(tiny_models.build(family)) for family in ("bert", "roberta", "gpt2", "llama")}
    for one in prints:
        for other in prints:
            assert (first_difference(prints[one], prints[other]) is None) == (one == other)


def test_every_parameter_counts_and_the_first_one_that_differs_is_named() -> None:
    model: Any = tiny_models.build("bert")
    own = fingerprint(model)
    assert own.keys() == dict(model.named_parameters()).keys()
    for name, weight in model.named_parameters():
        before = weight.detach().clone()
        with torch.no_grad():
            weight.mul_(1.02)
        assert first_difference(own, fingerprint(model)) == name
        with torch.no_grad():
            weight.copy_(before)
    assert first_difference(own, fingerprint(model)) is None


def test_a_few_steps_of_fine_tuning_make_another_model() -> None:
    model: Any = tiny_models.build("bert")
    own = fingerprint(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.tensor([[2, 7, 9, 3]])
    for _ in range(5):
        optimiser.zero_grad()
        model(ids, labels=torch.tensor([1])).loss.backward()
        optimiser.step()
    assert first_difference(own, fingerprint(model)) is not None


def test_numbers_are_few_plain_and_spread_over_the_whole_tensor() -> None:
    module = nn.ParameterList([torch.arange(1000.0), torch.tensor(3.0), torch.arange(5.0).bfloat16(), torch.zeros(0)])
    found = fingerprint(module)
    assert {values.dtype for values in found.values()} == {torch.float32}
    assert [len(values) for values in found.values()] == [SAMPLES, 1, 5, 0]
    assert found["0"][0] == 0
    assert found["0"][-1] == 999
    assert found["2"].tolist() == [0, 1, 2, 3, 4]
    assert not any(values.requires_grad for values in found.values())


@pytest.mark.parametrize("change", ["missing", "another shape"])
def test_another_build_differs(change: str) -> None:
    own = fingerprint(nn.Linear(3, 2))
    other = fingerprint(nn.Linear(3, 2, bias=change != "missing") if change == "missing" else nn.Linear(4, 2))
    assert first_difference(own, other) in ("bias", "weight")
    assert first_difference(other, own) in ("bias", "weight")


def test_zeros_equal_zeros_only() -> None:
    zeros, small = ({"w": torch.zeros(4)}, {"w": torch.full((4,), 1e-3)})
    assert first_difference(zeros, {"w": torch.zeros(4)}) is None
    assert first_difference(zeros, small) == "w"
    assert first_difference({"w": torch.full((4,), torch.nan)}, zeros) == "w"


def test_a_weight_put_where_none_was_is_seen() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    seen = Seen(module)
    assert seen.holds()
    module[1].register_parameter("scale", nn.Parameter(torch.ones(1)))
    assert not seen.holds()
