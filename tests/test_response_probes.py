"""Probes fitted on responses: what they are trained on, against runs by themselves, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from quick_probes import quick, quick_shares

import whence
from whence.learned.shapley.asked import asked
from whence.models.responses import generate, responding
from whence.probes.diffmask import maskable
from whence.probes.shapley import _where_read

PROMPTS = ["the plot was not bad, but long", "a witty film", "she could not say why"]
RESPONSES = [" too long and sad", " dull", " it was the end"]

pytestmark = pytest.mark.filterwarnings("ignore::whence.WhenceWarning")


def decoder() -> whence.LayeredModel:
    return tiny_models.tiny("llama", "causal_lm")


@pytest.fixture(scope="module")
def shares() -> whence.ShapleyProbes:
    return quick_shares(decoder(), PROMPTS * 4, responses=RESPONSES * 4)


def test_a_response_is_learnt_as_a_whole_and_by_some_of_its_tokens() -> None:
    """Beside it: the log-probability of each token by a run of its own on all that stands before it."""
    model = responding(decoder())
    module: Any = model.module
    encodings = [model.encode(*pair) for pair in zip(PROMPTS, RESPONSES, strict=True)]
    inputs = model.collate(encodings)
    with torch.no_grad():
        logits = model.run(inputs)
    chance = torch.rand(inputs.ids.shape, generator=torch.Generator().manual_seed(0))
    selection = asked(model, inputs, logits, "log_probability", chance)
    parts = selection.parts(logits, inputs.mask)
    assert selection.counted is not None
    places = _where_read(inputs, selection)
    for row, encoding in enumerate(encodings):
        expected = []
        for position in encoding.response:
            with torch.no_grad():
                told = module(torch.tensor([encoding.ids[:position]])).logits[0, -1].log_softmax(-1)
            expected.append(float(told[encoding.ids[position]]))
        assert float(parts[row, 0]) == pytest.approx(sum(expected), abs=1e-4)
        for part in range(1, parts.shape[1]):
            (number,) = selection.counted[row, part].nonzero()[0].tolist()
            assert float(parts[row, part]) == pytest.approx(expected[number], abs=1e-4)
        for number, position in enumerate(encoding.response):
            assert places[row, 0, number].tolist() == [position - 1, encoding.ids[position]]


def test_shares_of_a_response_add_up_to_what_the_prompt_makes_of_it(shares: whence.ShapleyProbes) -> None:
    """Σ log p with the whole prompt less that with a common word in the place of every token."""
    model = decoder()
    found = whence.explain(model, PROMPTS[0], "amortised_shapley", response=RESPONSES[0], probes=shares)
    module: Any = model.module
    ids = [token.id for token in found.tokens]
    kept = [token.id if token.special else model.tokenizer.id_of("▁the") for token in found.tokens]
    first = sum(token.segment == 0 for token in found.tokens)
    told = []
    for each in (ids, kept):
        with torch.no_grad():
            logits = module(torch.tensor([each])).logits[0, first - 1 : -1].log_softmax(-1)
        told.append(float(logits.gather(1, torch.tensor(ids[first:])[:, None]).sum()))
    assert float(found.scores.sum()) == pytest.approx(told[0] - told[1], abs=1e-3)
    assert found.cost.forwards == 2


def test_probes_learn_the_shapley_values_of_responses() -> None:
    """After some hundred steps they come near to what a long run of sampling tells of held-out prompts."""
    words = ["plot", "film", "end", "year"]
    prompts = [f"the {one} was not {two} but very {three}" for one in words for two in words for three in words]
    probes = whence.ShapleyProbes(
        steps=120, width=32, warm_up=10, step_tokens=200, pairs=4, held_still=0.0, checked_texts=6, checked_orders=20,
        learning_rate=3e-3,
    )  # fmt: skip
    probes.fit(decoder(), prompts, responses=[" it was sad"] * len(prompts), progress=False, validations=2)
    fitted = probes.fitted_
    assert fitted is not None
    assert fitted.history[-1]["loss"] < fitted.history[-1]["even_split"]
    assert fitted.calibration.loss < 1.5 * fitted.calibration.floor
    assert fitted.calibration.correlation > 0.8


def test_responses_of_different_length_weigh_each_token_once() -> None:
    model = responding(decoder())
    encodings = [model.encode(*pair) for pair in zip(PROMPTS, RESPONSES, strict=True)]
    together = model.collate(encodings)
    changed = torch.where(together.special[..., None], model.embed(together.ids), 0.0)
    told = [model.run(together), model.resume("embeddings", changed, together)]
    for row, encoding in enumerate(encodings):
        alone = model.collate([encoding])
        own = [model.run(alone), model.resume("embeddings", changed[row : row + 1, : len(encoding)], alone)]
        for measure in (model.reading.divergence, model.reading.agreement):
            torch.testing.assert_close(
                measure(told[0], told[1], together.counted)[row], measure(own[0], own[1], alone.counted)[0],
                rtol=1e-4, atol=1e-5,
            )  # fmt: skip


def test_what_is_explained_is_never_masked() -> None:
    model = responding(decoder())
    inputs = model.collate([model.encode(*pair) for pair in zip(PROMPTS, RESPONSES, strict=True)])
    for special in (True, False):
        assert not (maskable(inputs, special) & inputs.response).any()
    probes = quick("input", decoder(), PROMPTS * 4, responses=RESPONSES * 4, special=True)
    one = probes.explain(decoder(), PROMPTS[0], response=RESPONSES[0])
    several = probes.explain(decoder(), PROMPTS, response=RESPONSES)
    np.testing.assert_allclose(several[0].scores, one.scores, atol=1e-5)
    assert not one.scores[:, [token.segment == 1 for token in one.tokens]].any()
    assert probes.fitted_ is not None
    assert probes.fitted_.model.task == "response"


def test_the_model_writes_what_probes_are_trained_on(shares: whence.ShapleyProbes) -> None:
    model = decoder()
    own = [generate(model, model.encode_prompt(prompt).ids, max_new_tokens=3) for prompt in PROMPTS]
    written, given = (
        quick_shares(model, PROMPTS * 4, **settings)
        for settings in ({"responses": None, "max_new_tokens": 3}, {"responses": own * 4})
    )
    for name, weight in written.shares.contents().weights.items():
        torch.testing.assert_close(weight, given.shares.contents().weights[name])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"responses": RESPONSES}, "12 prompts have not one response each"),
        ({"responses": [" "] * 12}, "the response is empty"),
        ({"responses": [" dull" * 300] * 12}, "the model reads"),
    ],
)
def test_responses_that_cannot_be_learnt(settings: dict[str, Any], problem: str) -> None:
    for fit in (quick_shares, lambda *given, **more: quick("input", *given, **more)):
        with pytest.raises(whence.WhenceError, match=problem):
            fit(decoder(), PROMPTS * 4, **settings)


def test_a_target_outside_the_response(shares: whence.ShapleyProbes) -> None:
    for target in (whence.Span(3, 400), "never said"):
        with pytest.raises(whence.UsageError, match="not in the response"):
            whence.explain(decoder(), PROMPTS[0], "one_pass", response=RESPONSES[0], probes=shares, target=target)
