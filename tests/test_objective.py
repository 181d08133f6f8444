"""What probes are trained for, against straightforward second routes: divergences, penalties, one masked pass."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pytest
import tiny_models
import torch
from scipy import special, stats
from tiny_models import PAIRS, TEXTS, tiny
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence

import whence
from whence.learned.diffmask.learner import DiffMaskLearner
from whence.learned.diffmask.lookahead import Lookahead
from whence.learned.diffmask.objective import PULL, MaskedPasses, drawn_layer, drawn_noise, mixed, penalty
from whence.learned.diffmask.recipes import PENALTIES, Penalty, Recipe, recipe_for
from whence.learned.schedule import Batches, Pace, learning_rate_share
from whence.learned.texts import Texts
from whence.learned.training import Training
from whence.models.inputs import Inputs
from whence.models.layered import States
from whence.probes.diffmask import Kind, Probes, maskable
from whence.probes.networks import Form
from whence.targets import ClassLabels
from whence.tasks import TASKS
from whence.tasks.classification import PlainNumber, SeveralLabels
from whence.tasks.reading import Reading

LABELS = ClassLabels(("a", "b", "c"))
CASES = [("bert", "classification"), ("electra", "classification"), ("deberta-v2-conv", "classification"),
         ("gpt2", "causal_lm"), ("llama", "classification"), ("bert", "question_answering"),
         ("roberta", "token_classification"), ("modernbert", "masked_lm")]  # fmt: skip
every_case = pytest.mark.parametrize(("family", "head"), CASES, ids=["-".join(case) for case in CASES])


READINGS: dict[str, Any] = {**TASKS, "several labels": SeveralLabels, "plain number": PlainNumber}


def reading(name: str) -> Reading:
    made: Reading = READINGS[name](LABELS)
    return made


def logits(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator), 2 * torch.randn(shape, generator=generator)


def batch(model: whence.LayeredModel, texts: list[Any]) -> Inputs:
    return model.collate([model.encode(*(text if isinstance(text, tuple) else (text, None))) for text in texts])


def probes_for(model: whence.LayeredModel, kind: Kind, form: Form = "released", start: float = 0.5) -> Probes:
    states = model.states(batch(model, texts_of(model)[:1]))
    widths: dict[whence.Layer, int] = {
        layer: states.at(layer).shape[-1] for layer in ("embeddings", *range(model.n_layers + 1))
    }
    torch.manual_seed(0)
    return Probes(kind, form, widths, 8, start)


def texts_of(model: whence.LayeredModel) -> list[Any]:
    if model.reading.task == "question_answering":
        return list(PAIRS)
    return ["a [MASK] film"] if model.reading.task == "masked_lm" else list(TEXTS)


# Divergences and agreement

MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])
ALL = torch.ones(2, 4, dtype=torch.bool)


def test_a_classifier_diverges_by_the_categorical_kl() -> None:
    p, q = logits(2, 3)
    found = reading("classification").divergence(p, q, ALL)
    torch.testing.assert_close(found, kl_divergence(Categorical(logits=p), Categorical(logits=q)))
    by_scipy = [
        stats.entropy(special.softmax(a), special.softmax(b)) for a, b in zip(p.numpy(), q.numpy(), strict=True)
    ]
    assert found.tolist() == pytest.approx(by_scipy, rel=1e-5)


def test_yes_or_no_labels_add_up() -> None:
    p, q = logits(2, 3)
    found = reading("several labels").divergence(p, q, ALL)
    torch.testing.assert_close(found, kl_divergence(Bernoulli(logits=p), Bernoulli(logits=q)).sum(dim=-1))


def test_an_answer_diverges_by_start_plus_end_without_padding() -> None:
    p, q = logits(2, 4, 2)
    found = reading("question_answering").divergence(p, q, MASK)
    for row, length in enumerate((4, 2)):
        one, other = (Categorical(logits=each[row, :length].T) for each in (p, q))
        assert float(found[row]) == pytest.approx(float(kl_divergence(one, other).sum()), rel=1e-5)


def test_gradients_are_finite_where_padding_has_no_probability() -> None:
    p, q = logits(2, 4, 2)
    q.requires_grad_()
    (gradient,) = torch.autograd.grad(reading("question_answering").divergence(p, q, MASK).sum(), q)
    assert gradient.isfinite().all()
    assert (gradient[~MASK] == 0).all()
    assert (gradient[MASK] != 0).any()


def test_a_tagger_diverges_by_the_mean_over_real_tokens() -> None:
    p, q = logits(2, 4, 3)
    found = reading("token_classification").divergence(p, q, MASK)
    each = kl_divergence(Categorical(logits=p), Categorical(logits=q))
    assert found.tolist() == pytest.approx([float(each[0].mean()), float(each[1, :2].mean())], rel=1e-5)


def test_a_plain_number_diverges_by_the_squared_distance() -> None:
    found = reading("plain number").divergence(torch.tensor([[2.0]]), torch.tensor([[-1.0]]), ALL[:1])
    assert found.tolist() == [9.0]


def test_divergences_are_taken_in_single_precision() -> None:
    p, q = (each.bfloat16() for each in logits(2, 3))
    assert reading("classification").divergence(p, q, ALL).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "shape"),
    [("classification", (2, 3)), ("several labels", (2, 3)), ("plain number", (2, 1)), ("causal_lm", (2, 9)),
     ("question_answering", (2, 4, 2)), ("token_classification", (2, 4, 3)), ("masked_lm", (2, 9))],
)  # fmt: skip
def test_no_change_is_no_divergence_and_padding_does_not_matter(name: str, shape: Any) -> None:
    p, q = logits(*shape)
    how = reading(name)
    assert how.divergence(p, p, MASK).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert (how.divergence(p, q, MASK) > 0).all()
    if len(shape) == 3:
        other = q.masked_fill(~MASK[..., None], 100.0)
        torch.testing.assert_close(how.divergence(p, other, MASK), how.divergence(p, q, MASK))
        torch.testing.assert_close(how.agreement(p, other, MASK), how.agreement(p, q, MASK))


def test_agreement_by_hand() -> None:
    p = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, -1.0]])
    q = torch.tensor([[5.0, 4.0, 4.5], [0.0, 3.0, 3.5]])
    assert reading("classification").agreement(p, q, ALL).tolist() == [1, 0]
    assert reading("several labels").agreement(p, q, ALL).tolist() == [0, 0]
    assert reading("several labels").agreement(p, 2 * p, ALL).tolist() == [1, 1]
    answers, moved = torch.zeros(1, 4, 2), torch.zeros(1, 4, 2)
    answers[0, 1, 0] = answers[0, 2, 1] = moved[0, 1, 0] = moved[0, 3, 1] = 1
    moved[0, 2, 1] = 0.5
    assert reading("question_answering").agreement(answers, moved, ALL[:1]).tolist() == [0]
    assert reading("question_answering").agreement(answers, moved, torch.tensor([[1, 1, 1, 0]]).bool()).tolist() == [1]
    tags, others = torch.eye(3)[None, [0, 1, 2, 0]], torch.eye(3)[None, [0, 1, 1, 0]]
    assert reading("token_classification").agreement(tags, others, ALL[:1]).tolist() == [0.75]
    with pytest.raises(whence.UsageError, match="a plain number has no class to agree on"):
        reading("plain number").agreement(p, q, ALL)


# Penalties


@pytest.mark.parametrize("form", PENALTIES)
def test_penalties_by_loops(form: Penalty) -> None:
    log_keep = -torch.rand(2, 4, generator=torch.Generator().manual_seed(0))
    found = penalty(form, log_keep, MASK).tolist()
    for row, length in enumerate((4, 2)):
        chances = [math.exp(float(each)) for each in log_keep[row, :length]]
        expected = {
            "log": sum(math.log(chance) for chance in chances) / length,
            "share": sum(chances) / length,
            "count": sum(chances),
        }[form]
        assert found[row] == pytest.approx(expected, rel=1e-5)


def test_a_text_without_a_maskable_token_costs_nothing() -> None:
    assert penalty("share", torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool)).tolist() == [0]


# One masked pass


def released_objective(
    model: whence.LayeredModel, text: Any, probes: Probes, recipe: Recipe, layer: whence.Layer, noise: Tensor
) -> tuple[float, float]:
    """Divergence and penalty of one text, step by step as the method is described, without batches."""
    inputs = batch(model, [text])
    states = model.states(inputs)
    indices = range(probes.layers.index(layer) + 1)
    z, log_keep = torch.ones(len(inputs.encodings[0])), torch.zeros(len(inputs.encodings[0]))
    pulled = torch.zeros(len(z))
    used = indices if probes.kind == "input" else [indices[-1]]
    for index in used:
        state = states.at(probes.layers[index])
        word = states.embeddings if probes.kind == "input" else None
        logit = probes.of_layer[index](word, state)[0].detach()
        u = noise[index if probes.kind == "input" else 0]
        concrete = torch.sigmoid((torch.log(u) - torch.log(1 - u) + logit) / 0.2)
        z = z * (-0.2 + 1.2 * concrete).clamp(0, 1)
        log_keep = log_keep - torch.nn.functional.softplus(0.2 * math.log(0.2) - logit)
        if recipe.limit is not None:
            pulled = pulled + (logit.abs() - recipe.limit).relu() ** 2 / len(used)
    where = "embeddings" if probes.kind == "input" else layer
    b = probes.baselines[0 if probes.kind == "input" else indices[-1]].detach()
    hidden = torch.stack([z[i] * h + (1 - z[i]) * b for i, h in enumerate(states.at(where)[0])])[None]
    moved = model.reading.divergence(states.logits, model.resume(where, hidden, inputs), inputs.mask)
    cost = {"log": log_keep.mean(), "share": log_keep.exp().mean(), "count": log_keep.exp().sum()}[recipe.penalty]
    return float(moved), float(cost + PULL * pulled.mean())


@every_case
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_acceptance_7_a_padded_batch_equals_each_text_by_itself(kind: Kind, family: str, head: str) -> None:
    """And both equal the objective written down step by step: padding never changes the loss."""
    model = tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    probes = probes_for(model, kind)
    inputs = batch(model, texts)
    generator = torch.Generator().manual_seed(3)
    furthest = 0.0
    for number, layer in enumerate(probes.layers):
        recipe = Recipe(penalty=PENALTIES[number % 3], limit=0.1 if number % 2 else None, hard=False)
        noise = torch.rand(len(probes.layers), *inputs.ids.shape, generator=generator)
        moved, cost, kept = masked(model, probes, recipe, layer, inputs, noise)
        for row, text in enumerate(texts):
            one = batch(model, [text])
            own = noise[:, row : row + 1, : one.ids.shape[1]]
            alone = masked(model, probes, recipe, layer, one, own)
            used = [probes.layers.index(each) for each in probes.needed(layer)]
            expected = released_objective(model, text, probes, recipe, layer, own[used, 0])
            for found in ((moved[row], cost[row]), alone[:2]):
                assert [float(each.detach()) for each in found] == pytest.approx(expected, rel=2e-4, abs=2e-5)
            assert float(alone[2]) == pytest.approx(float(kept[row]), rel=1e-5)
        assert ((kept > 0) & (kept < 1)).all()
        furthest = max(furthest, float(moved.detach().max()))
    assert furthest > 1e-3  # something was masked


def masked(
    model: whence.LayeredModel,
    probes: Probes,
    recipe: Recipe,
    layer: whence.Layer,
    inputs: Inputs,
    noise: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The divergence, penalty and share kept of each text at one layer."""
    passes = MaskedPasses(model, probes, recipe, [layer], inputs, noise)
    return passes.moved([layer], passes.gates)[0], passes.costs[0], passes.kept[0]


class Opened(torch.nn.Module):
    """A probe that keeps everything, or nothing."""

    def __init__(self, logit: float) -> None:
        super().__init__()
        self.logit = logit

    def forward(self, word: Tensor | None, state: Tensor) -> Tensor:
        return torch.full(state.shape[:2], self.logit)


def forced(model: whence.LayeredModel, kind: Kind, logit: float) -> Probes:
    probes = probes_for(model, kind)
    probes.of_layer = torch.nn.ModuleList(Opened(logit) for _ in probes.layers)
    return probes


@every_case
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_acceptance_4_open_gates_change_nothing_at_any_layer(kind: Kind, family: str, head: str) -> None:
    model = tiny(family, head)
    inputs = batch(model, tiny_models.texts_for(family, head))
    states = model.states(inputs)
    probes = forced(model, kind, 1000.0)
    for layer in probes.layers:
        where = probes.masked_layer(layer)
        gates = torch.stack([gate.rsample() for gate in probes.gates(probes.needed(layer), states_by_layer(states))])
        assert (gates == 1).all()
        hidden = mixed(states.at(where), gates.prod(dim=0), probes.baseline(layer), inputs.mask)
        torch.testing.assert_close(model.resume(where, hidden, inputs), states.logits, rtol=1e-5, atol=1e-5)


def states_by_layer(states: States) -> dict[whence.Layer, Tensor]:
    return {"embeddings": states.embeddings, **dict(enumerate(states.hidden))}


@every_case
def test_acceptance_4_closed_gates_at_the_words_are_a_text_of_baselines(family: str, head: str) -> None:
    model = tiny(family, head)
    inputs = batch(model, tiny_models.texts_for(family, head))
    probes = forced(model, "input", -1000.0)
    b = probes.baselines[0].detach()
    embedding: Any = model.module.get_input_embeddings()  # type: ignore[operator]
    handle = embedding.register_forward_hook(
        lambda module, args, output: torch.where(inputs.mask[..., None], b.expand_as(output), output)
    )
    try:
        with torch.no_grad():
            expected = model.run(inputs)
    finally:
        handle.remove()
    original = model.states(inputs).logits
    noise = torch.rand(len(probes.layers), *inputs.ids.shape)
    moved, _, _ = masked(model, probes, Recipe(limit=None), model.n_layers, inputs, noise)
    torch.testing.assert_close(moved, model.reading.divergence(original, expected, inputs.mask), rtol=1e-4, atol=1e-5)
    assert (moved > 1e-4).all()


@pytest.mark.parametrize("special", [True, False])
def test_special_tokens_are_masked_only_where_they_may_be(special: bool) -> None:
    model = tiny("bert")
    inputs = batch(model, TEXTS)
    free = maskable(inputs, special)
    assert free.sum(dim=1).tolist() == [len(each) - (0 if special else 2) for each in inputs.encodings]
    assert not (free & ~inputs.mask).any()
    hidden = torch.randn(*inputs.ids.shape, 4)
    changed = mixed(hidden, torch.zeros(inputs.ids.shape), torch.ones(4), free)
    assert torch.equal(changed[~free], hidden[~free])
    assert (changed[free] == 1).all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "deberta-v2-conv", "albert"])
@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("form", ["released", "released_plain", "paper"])
def test_all_layers_at_once_equal_each_by_itself(form: Form, kind: Kind, family: str) -> None:
    model = tiny(family)
    inputs = batch(model, TEXTS)
    probes = probes_for(model, kind, form)
    noise = torch.rand(len(probes.layers), *inputs.ids.shape, generator=torch.Generator().manual_seed(0))
    together = MaskedPasses(model, probes, Recipe(limit=0.2), probes.layers, inputs, noise)
    moved = together.moved(probes.layers, together.gates)
    for index, layer in enumerate(probes.layers):
        alone = masked(model, probes, Recipe(limit=0.2), layer, inputs, noise)
        in_company = moved[index], together.costs[index], together.kept[index]
        torch.testing.assert_close(in_company, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("every_layer", "at_once"), [(True, 1), (True, 3), (True, 99), (False, 1)])
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_the_gradient_of_a_step_is_that_of_the_objective(
    kind: Kind, every_layer: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step forgets each pass before the next; what reaches the probes is the gradient of the whole sum."""
    monkeypatch.setattr(DiffMaskLearner, "_layers_at_once", lambda self, inputs: at_once)
    model = tiny("bert")
    encodings = [model.encode(text) for text in TEXTS]
    probes = probes_for(model, kind)
    recipe = Recipe(batch_size=len(TEXTS), every_layer=every_layer, relative=False, limit=0.2)
    learner = DiffMaskLearner(model, probes, recipe, batch_tokens=999)
    training = Training(model, learner, Texts(encodings, encodings), Pace(9, len(TEXTS), seed=5), batch_tokens=999)
    seen: list[list[Tensor | None]] = []
    learner.optimiser.step = lambda: seen.append(  # type: ignore[method-assign,assignment]
        [None if weight.grad is None else weight.grad.clone() for weight in probes.parameters()]
    )
    with model.held(), torch.no_grad():
        training.train_step()
    rows = training.batches[0]
    inputs = model.collate([encodings[row] for row in rows])
    noise = drawn_noise(5, 0, (len(probes.layers), len(rows), inputs.ids.shape[1]))
    indices = range(len(probes.layers)) if every_layer else [drawn_layer(5, 0, len(probes.layers))]
    probes.zero_grad()
    with model.held():
        for index in indices:
            moved, cost, _ = masked(model, probes, recipe, probes.layers[index], inputs, noise)
            rise = recipe.first_margin + (1 - recipe.first_margin) * index / (len(probes.layers) - 1)
            loss = recipe.multiplier * (moved - recipe.margin * rise) + cost
            loss.mean().backward()
    expected = [weight.grad for weight in probes.parameters()]
    assert sum(each is not None for each in expected) > 3
    for found, wanted in zip(seen[0], expected, strict=True):
        assert (found is None) == (wanted is None)
        if found is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_hard_gates_are_zero_or_one_with_the_gradient_of_soft_ones() -> None:
    model = tiny("bert")
    inputs = batch(model, TEXTS)
    probes = probes_for(model, "hidden")
    noise = torch.rand(len(probes.layers), *inputs.ids.shape, generator=torch.Generator().manual_seed(0))
    soft, hard = (
        MaskedPasses(model, probes, Recipe(hard=hard), probes.layers, inputs, noise).gates for hard in (False, True)
    )
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(hard.detach(), (soft > 0.5).float())
    assert ((soft > 0) & (soft < 1)).any()
    weights = list(probes.of_layer.parameters())
    torch.testing.assert_close(torch.autograd.grad(hard.sum(), weights), torch.autograd.grad(soft.sum(), weights))


# Recipes


def test_acceptance_9_the_papers_and_the_released_settings_are_apart() -> None:
    """The two columns for SST of the fact sheet's table, and what else is known of either."""
    released, paper = (asdict(recipe_for(name, "input")) for name in ("released", "paper"))
    shared = {"start": 5.0, "relative": False, "rectified": False, "hard": False, "special": True, "limit": None,
              "baseline": "released", "optimiser": "lookahead_rmsprop", "learning_rate": 3e-4, "multiplier": 1.0,
              "multiplier_limit": 200.0, "warm_up": 1_200, "cool_down": 0.0, "batch_size": 64,
              "first_margin": 1.0, "width": None, "every_layer": False, "layers": None, "minutes": None}  # fmt: skip
    own = {"probe": ("released", "paper"), "penalty": ("log", "count"), "margin": (0.1, 0.5),
           "baseline_learning_rate": (1e-3, 3e-4), "multiplier_learning_rate": (0.3, 0.1),
           "steps": (40_200, 6_700)}  # fmt: skip
    assert {name: released[name] for name in shared} == shared
    assert {name: paper[name] for name in shared} == shared
    assert {name: (released[name], paper[name]) for name in own} == own
    assert released.keys() == shared.keys() | own.keys()


def test_recipes_are_checked() -> None:
    with pytest.raises(whence.UnknownNameError, match="unknown recipe 'papers'"):
        recipe_for("papers", "input")
    with pytest.raises(whence.UnknownNameError, match=r"unknown setting of a recipe 'margins'\n.*'margin'"):
        Recipe().changed(margins=0.1)
    for name, value in {"probe": "mlp", "penalty": "l0", "optimiser": "sgd", "baseline": "zero"}.items():
        with pytest.raises(whence.UnknownNameError, match=f"unknown {name} '{value}'"):
            Recipe().changed(**{name: value})
    for name in ("margin", "steps", "batch_size", "learning_rate"):
        with pytest.raises(whence.UsageError, match=f"{name} must be above 0, got 0"):
            Recipe().changed(**{name: 0})
    assert Recipe().changed(steps=7) == replace(Recipe(), steps=7)


# Lookahead and the schedule


def test_lookahead_by_hand_on_a_parabola() -> None:
    """x² from 1 with steps of 0.1: x → 0.8 x; after every second step half-way back to where it came from."""
    x = torch.nn.Parameter(torch.tensor(0.0))
    optimiser = Lookahead(torch.optim.SGD([x], lr=0.1), period=2, share=0.5)
    with torch.no_grad():
        x.fill_(1.0)  # weights may be set until the first step
    found = []
    for _ in range(4):
        optimiser.optimiser.zero_grad()
        (x * x).backward()
        optimiser.step()
        found.append(x.item())
    first = (1 + 0.8 * 0.8) / 2
    assert found == pytest.approx([0.8, first, 0.8 * first, first * first], rel=1e-6)


def test_lookahead_goes_on_from_what_it_saved() -> None:
    def run(*stops: int) -> float:
        x = torch.nn.Parameter(torch.tensor(1.0))
        optimiser = Lookahead(torch.optim.SGD([x], lr=0.1), period=3)
        for step in range(8):
            if step in stops:
                saved = {name: tensor.clone() for name, tensor in optimiser.tensors().items()}
                optimiser = Lookahead(torch.optim.SGD([x], lr=0.1), period=3)
                optimiser.restore(saved)
            optimiser.optimiser.zero_grad()
            (x * x).backward()
            optimiser.step()
        return x.item()

    assert run(1, 2, 3, 7) == run()


def test_every_text_comes_once_an_epoch_with_others_of_its_length() -> None:
    lengths = [5 + number % 7 for number in range(40)]
    batches = Batches(lengths, 8, seed=1)
    for epoch in range(3):
        rows = [batches[5 * epoch + index] for index in range(5)]
        assert sorted(row for batch in rows for row in batch) == list(range(40))
        spread = [max(lengths[row] for row in batch) - min(lengths[row] for row in batch) for batch in rows]
        assert sum(spread) / len(spread) <= 2  # of 6 that chance would give
    assert batches[0] != batches[5]  # another epoch, another order
    assert [Batches(lengths, 8, seed=1)[step] for step in (7, 2, 12)] == [batches[step] for step in (7, 2, 12)]
    assert [Batches(lengths, 8, seed=2)[step] for step in range(5)] != [batches[step] for step in range(5)]
    assert len(Batches(lengths[:3], 8, seed=1)[9]) == 3  # fewer texts than a batch holds


def test_chance_depends_on_the_seed_and_the_step_alone() -> None:
    drawn = [drawn_layer(0, step, 8) for step in range(4_000)]
    counts = torch.bincount(torch.tensor(drawn), minlength=8)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3  # uniform over the layers
    assert drawn == [drawn_layer(0, step, 8) for step in range(4_000)]
    assert drawn[:50] != [drawn_layer(1, step, 8) for step in range(50)]
    noise = drawn_noise(0, 3, (2, 3, 4))
    assert torch.equal(noise, drawn_noise(0, 3, (2, 3, 4)))
    assert not torch.equal(noise, drawn_noise(0, 4, (2, 3, 4)))
    assert not torch.equal(noise, drawn_noise(1, 3, (2, 3, 4)))


def test_the_learning_rate_rises_stays_and_falls() -> None:
    shares = [learning_rate_share(step, warm_up=4, cooling_from=6, steps=10) for step in range(10)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert learning_rate_share(0, warm_up=0, cooling_from=5, steps=5) == 1
