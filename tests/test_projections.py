"""Projections onto the simplex: by hand, against a bisection solver, and as attention of transformers."""

import math
from typing import Any

import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertForSequenceClassification

import whence
from whence.errors import ModelError, UnknownNameError, UsageError
from whence.models.huggingface_attention import register_attention, use_attention
from whence.models.projections import entmax15, projection, softmax, sparsegen, sparsemax

NAMES = ["softmax", "sparsemax", "entmax15", "sparsegen(0.5)", "sparsegen(-3)"]
SPARSE = NAMES[1:4]
scores_of = st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=12)


def by_bisection(scores, sparsity=0.0):
    """argmin ‖p − z‖² − λ‖p‖² over the simplex, by halving the interval in which the threshold lies."""
    z = torch.tensor(scores, dtype=torch.float64) / (1 - sparsity)
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (z - middle).clamp(min=0).sum() > 1 else (low, middle)
    return (z - (low + high) / 2).clamp(min=0)


def entmax15_by_bisection(scores):
    """p = ((z / 2 − τ)₊)², the threshold found by halving."""
    z = torch.tensor(scores, dtype=torch.float64) / 2
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (z - middle).clamp(min=0).square().sum() > 1 else (low, middle)
    return (z - (low + high) / 2).clamp(min=0).square()


def test_by_hand():
    z = torch.tensor([1.0, 0.5, -1.0])
    assert torch.allclose(sparsemax(z), torch.tensor([0.75, 0.25, 0.0]))
    assert torch.allclose(sparsegen(z, sparsity=0.5), torch.tensor([1.0, 0.0, 0.0]))
    assert torch.allclose(sparsegen(z, sparsity=-1.0), torch.tensor([0.625, 0.375, 0.0]))
    assert torch.allclose(softmax(torch.tensor([0.0, math.log(3.0)])), torch.tensor([0.25, 0.75]))


@settings(max_examples=60)
@given(scores_of, st.floats(-20, 0.95))
def test_sparsegen_solves_its_problem(scores, sparsity):
    found = sparsegen(torch.tensor(scores, dtype=torch.float64), sparsity=sparsity)
    assert torch.allclose(found, by_bisection(scores, sparsity), atol=1e-9)


@settings(max_examples=60)
@given(scores_of)
def test_entmax_solves_its_problem(scores):
    found = entmax15(torch.tensor(scores, dtype=torch.float64))
    assert torch.allclose(found, entmax15_by_bisection(scores), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(scores=scores_of, shift=st.floats(-100, 100), seed=st.integers(0, 99))
def test_weights_are_a_distribution_that_follows_the_scores(name, scores, shift, seed):
    project, z = projection(name), torch.tensor(scores, dtype=torch.float64)
    weights = project(z)
    assert weights.min() >= 0
    assert weights.sum().item() == pytest.approx(1, abs=1e-6)
    assert torch.allclose(project(z + shift), weights, atol=1e-9)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(project(z[order]), weights[order], atol=1e-9)


@settings(max_examples=60)
@given(scores_of, st.lists(st.floats(-50, 0.99), min_size=2, max_size=5))
def test_larger_sparsity_never_widens_the_support(scores, sparsities):
    z = torch.tensor(scores, dtype=torch.float64)
    sizes = [int((sparsegen(z, sparsity=each) > 0).sum()) for each in sorted(sparsities)]
    assert sizes == sorted(sizes, reverse=True)


def test_limits_of_sparsegen():
    z = torch.tensor([0.3, 0.1, -0.5, 0.29], dtype=torch.float64)
    assert torch.equal(sparsegen(z, sparsity=0.0), sparsemax(z))
    assert torch.equal(sparsegen(z, sparsity=1 - 1e-6), torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))
    uniform = sparsegen(z, sparsity=-1e6)
    assert torch.allclose(uniform, torch.full_like(z, 0.25), atol=1e-5)
    assert not torch.allclose(uniform, softmax(z), atol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    z = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    mask = torch.tensor([[True] * 6, [True, True, False, True, True, False], [False, True] * 3])
    assert torch.autograd.gradcheck(lambda scores: projection(name)(scores, mask), z)


def test_gradient_of_sparsemax_by_hand():
    z = torch.tensor([1.0, 0.5, -1.0], dtype=torch.float64, requires_grad=True)
    pulled = torch.autograd.grad((sparsemax(z) * torch.tensor([3.0, 1.0, 7.0])).sum(), z)[0]
    assert torch.allclose(pulled, torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64))  # g less its mean on the support


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked_by", ["mask", "infinity"])
def test_masked_positions_get_exactly_nothing(name, masked_by):
    z = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()
    given_scores = z.clone() if masked_by == "mask" else z.masked_fill(~mask, -torch.inf)
    given_scores.requires_grad_()
    weights = projection(name)(given_scores, mask if masked_by == "mask" else None)
    assert (weights[~mask] == 0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.tensor([1.0, 0.0, 1.0, 1.0]), atol=1e-6)
    assert torch.allclose(weights[0, mask[0]], projection(name)(z[0, mask[0]]), atol=1e-6)
    gradient = torch.autograd.grad((weights * torch.arange(20.0).view(4, 5)).sum(), given_scores)[0]
    assert gradient.isfinite().all()
    assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_says_so_and_leaves_the_others_alone(name, bad):
    weights = projection(name)(torch.tensor([[1.0, bad], [1.0, 0.5]]))
    assert weights[0].isnan().all()
    assert weights[1].sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_computed_in_float32(name):
    z = torch.randn(3, 40, generator=torch.Generator().manual_seed(2)).bfloat16()
    assert projection(name)(z).dtype == torch.bfloat16
    assert torch.equal(projection(name)(z), projection(name)(z.float()).bfloat16())


def test_names_and_errors():
    assert torch.equal(projection("sparsegen( 0.25 )")(torch.ones(2)), torch.tensor([0.5, 0.5]))
    for wrong in ("hardmax", "sparsegen", "sparsegen(x)"):
        with pytest.raises(UnknownNameError, match="known: softmax, sparsemax, entmax15, sparsegen"):
            projection(wrong)
    for wrong in ("sparsegen(1)", "sparsegen(nan)", "sparsegen(-inf)"):
        with pytest.raises(UsageError, match="no sparsity in"):
            projection(wrong)
    with pytest.raises(UsageError, match="below 1"):
        sparsegen(torch.ones(2), sparsity=2.0)


FAMILIES = ["bert", "roberta", "distilbert", "albert", "modernbert", "gpt2", "llama", "gemma2"]


@pytest.mark.parametrize("family", FAMILIES)
def test_softmax_through_the_interface_is_the_usual_attention(family):
    """One text and a padded batch, so that the masks of encoders, decoders and sliding windows are all understood."""
    model = tiny_models.build(family)
    layered = whence.load(model, tiny_models.tokenizer_of(family))
    inputs = layered.collate([layered.encode(text) for text in tiny_models.TEXTS])
    with torch.no_grad():
        before = layered.run(inputs)
        use_attention(model, "softmax")
        assert torch.allclose(layered.run(inputs), before, atol=1e-5)


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_attention_of_a_hugging_face_model(name):
    model = tiny_models.build("bert")
    use_attention(model, name)
    layered = whence.load(model, tiny_models.wordpiece())
    inputs = layered.collate([layered.encode(text) for text in tiny_models.TEXTS])
    output = model(input_ids=inputs.ids, attention_mask=inputs.mask.long(), output_attentions=True)
    for weights in output.attentions:
        padding = ~inputs.mask[:, None, None, :].expand_as(weights)
        assert (weights[padding] == 0).all()
        assert torch.allclose(weights.sum(dim=-1), torch.ones(weights.shape[:-1]), atol=1e-5)
        assert ((weights == 0) & ~padding).any()
    alone = [layered.run(layered.collate([encoding])) for encoding in inputs.encodings]
    assert torch.allclose(torch.cat(alone), output.logits, atol=1e-5)


def test_a_sparse_model_learns():
    model = tiny_models.build("bert", attention_probs_dropout_prob=0.3)
    use_attention(model, "sparsemax")
    layered = whence.load(model, tiny_models.wordpiece())
    inputs = layered.collate([layered.encode(text) for text in tiny_models.TEXTS])
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(0)  # of dropout
    losses = []
    for _ in range(40):
        loss = model(input_ids=inputs.ids, attention_mask=inputs.mask.long(), labels=torch.tensor([0, 1, 2])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert model.bert.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0


def test_the_projection_is_saved_with_the_model_and_heeded_by_load(tmp_path):
    model = tiny_models.build("bert")
    use_attention(model, "sparsegen(0.25)")
    model.save_pretrained(tmp_path)
    tiny_models.wordpiece().save_pretrained(tmp_path)
    layered = whence.load(tmp_path)
    config: Any = layered.module.config
    assert config._attn_implementation == "sparsegen(0.25)"
    inputs = layered.collate([layered.encode(tiny_models.LONG)])
    assert torch.allclose(layered.run(inputs), model(input_ids=inputs.ids).logits, atol=1e-6)
    again = BertForSequenceClassification.from_pretrained(tmp_path)
    assert again.config._attn_implementation == "sdpa"
    use_attention(again)
    assert again.config._attn_implementation == "sparsegen(0.25)"


def test_whence_reads_the_sparse_weights_not_softmax_in_their_place():
    model = tiny_models.build("bert")
    use_attention(model, "sparsemax")
    explanation = whence.explain(whence.load(model, tiny_models.wordpiece()), tiny_models.LONG, method="attention")
    assert (explanation.scores == 0).any()
    assert model.config._attn_implementation == "sparsemax"


def test_the_usual_call_of_transformers_knows_a_registered_projection():
    register_attention("entmax15")
    config = tiny_models.build("bert").config
    model = BertForSequenceClassification._from_config(config, attn_implementation="entmax15")
    assert model.config._attn_implementation == "entmax15"


def test_models_that_cannot_take_a_projection():
    model = tiny_models.build("deberta-v2")
    with pytest.raises(ModelError, match="attention of its own"):
        use_attention(model, "sparsemax")
    assert model.config._attn_implementation == "eager"
    with pytest.raises(UsageError, match="names no projection"):
        use_attention(tiny_models.build("bert"))
    with pytest.raises(UnknownNameError, match="projection 'hardmax'"):
        use_attention(tiny_models.build("bert"), "hardmax")
