"""Feature importance of attention classifiers: closed forms, brute force, padding, and what is undefined."""

import numpy as np
import pytest
import torch

from whence.attention.classifier import AttentionClassifier, ClassifierConfig, readable
from whence.attention.documents import Documents
from whence.attention.importance import (
    REMOVALS,
    attention_weights,
    gradient_shares,
    influence_shares,
    input_removal_shares,
    state_removal_shares,
)
from whence.attention.vocabulary import Vocabulary
from whence.errors import UnknownNameError
from whence.metrics.entropy import normalised_entropy
from whence.metrics.rank_correlation import kendall_tau

ENCODERS = ["bilstm", "transformer"]
PROJECTIONS = ["softmax", "sparsemax", "sparsegen(-1)", "entmax15"]
CPU = torch.device("cpu")
RANDOM = np.random.default_rng(0)
DOCUMENTS = Documents(
    tuple((2, *RANDOM.integers(4, 40, n).tolist(), 3) for n in (7, 12, 9, 5)), (0, 1, 0, 1)
)  # fmt: skip
IDS, MASK = DOCUMENTS.padded(CPU)
WORDS = readable(IDS, MASK)
VOCABULARY = Vocabulary([f"w{number}" for number in range(36)])


def build(encoder, projection="softmax", seed=0):
    torch.manual_seed(seed)
    config = ClassifierConfig(
        encoder, projection=projection, embedding_size=6, hidden_size=5, feed_forward_size=5, dropout=0.5
    )
    model = AttentionClassifier(VOCABULARY, config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def rows_of(shares):
    return [row[words] for row, words in zip(shares, WORDS, strict=True)]


def every_measure(model, ids, mask):
    of_words, of_states = gradient_shares(model, ids, mask)
    yield "gradient of words", of_words
    yield "gradient of states", of_states
    yield "removal of words", input_removal_shares(model, ids, mask)
    for removal in REMOVALS:
        yield removal, state_removal_shares(model, ids, mask, removal=removal)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_shares_add_up_and_do_not_depend_on_the_batch_or_its_size(encoder, projection):
    model = build(encoder, projection)
    together = dict(every_measure(model, IDS, MASK))
    for row in range(len(DOCUMENTS)):
        ids, mask = DOCUMENTS.take([row]).padded(CPU)
        for name, alone in every_measure(model, ids, mask):
            shares = together[name][row, : ids.shape[1]]
            torch.testing.assert_close(shares, alone[0], atol=1e-9, rtol=1e-6, msg=name)
            assert shares.sum().item() == pytest.approx(1), name
            assert (together[name][row][~WORDS[row]] == 0).all(), name
    small = input_removal_shares(model, IDS, MASK, batch_tokens=1)
    torch.testing.assert_close(small, together["removal of words"], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", ["softmax", "sparsemax", "sparsegen(-1)"])
def test_gradient_at_the_states_has_its_closed_form(encoder, projection):
    """Softmax: α_i (w + w·(h_i − c) s_i); sparsegen(λ): α_i w + 1[i ∈ S] w·(h_i − mean_S h) s_i / (1 − λ)."""
    model = build(encoder, projection)
    found = gradient_shares(model, IDS, MASK)[1]
    sparsity = {"sparsemax": 0.0, "sparsegen(-1)": -1.0}.get(projection)
    for row, words in enumerate(WORDS):
        states = model.encode(model.embedding(IDS[[row]]), MASK[[row]])[0, words].detach().requires_grad_()
        slopes = torch.autograd.grad(model.alignment(states[None]).sum(), states)[0]
        states = states.detach()
        weights = attention_weights(model, IDS[[row]], MASK[[row]])[0, words]
        w = model.output.weight[0].detach()
        if sparsity is None:
            pulls = weights * ((states - weights @ states) @ w)
        else:
            support = weights > 0
            pulls = support * ((states - states[support].mean(dim=0)) @ w) / (1 - sparsity)
            assert (found[row, words][~support] == 0).all()
        norms = (weights[:, None] * w + pulls[:, None] * slopes).norm(dim=-1)
        torch.testing.assert_close(found[row, words], norms / norms.sum())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_with_attention_detached_the_states_gradient_is_the_attention(encoder, projection):
    model = build(encoder, projection)
    found = gradient_shares(model, IDS, MASK, detach_attention=True)[1]
    torch.testing.assert_close(found, attention_weights(model, IDS, MASK))
    assert not torch.allclose(found, gradient_shares(model, IDS, MASK)[1], atol=1e-3)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_gradient_of_the_probability_has_the_same_shares(encoder):
    model = build(encoder)
    words = model.embedding(IDS).detach().requires_grad_()
    chance = model.pool(model.encode(words, MASK), WORDS).logit.sigmoid()
    norms = torch.autograd.grad(chance.sum(), words)[0].norm(dim=-1) * WORDS
    torch.testing.assert_close(gradient_shares(model, IDS, MASK)[0], norms / norms.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradient_at_the_words_is_that_of_finite_differences(encoder):
    model = build(encoder)
    words = model.embedding(IDS[:1]).detach()
    slopes = torch.zeros_like(words)
    for token in range(words.shape[1]):
        for place in range(words.shape[2]):
            step = torch.zeros_like(words)
            step[0, token, place] = 1e-5
            up, down = (model.pool(model.encode(words + sign * step, MASK[:1]), WORDS[:1]).logit for sign in (1, -1))
            slopes[0, token, place] = ((up - down) / 2e-5).item()
    norms = slopes.norm(dim=-1) * WORDS[:1]
    torch.testing.assert_close(gradient_shares(model, IDS[:1], MASK[:1])[0], norms / norms.sum(), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_removal_of_words_is_that_of_shorter_documents(encoder, projection):
    """One document at a time, each word deleted from the list of ids, nothing batched."""
    model = build(encoder, projection)
    found = rows_of(input_removal_shares(model, IDS, MASK))

    def chance(ids):
        rows = torch.tensor([ids])
        return model.read(rows, rows > 0).logit.sigmoid().item()

    for ids, shares in zip(DOCUMENTS.ids, found, strict=True):
        moved = np.array([abs(chance(ids) - chance(ids[:i] + ids[i + 1 :])) for i in range(1, len(ids) - 1)])
        np.testing.assert_allclose(shares.numpy(), moved / moved.sum(), rtol=1e-6, atol=1e-9)


def test_removal_of_states_has_its_closed_form_for_softmax():
    """The logit moves by α_i / (1 − α_i) · w·(c − h_i)."""
    model = build("bilstm")
    with torch.no_grad():
        states = model.encode(model.embedding(IDS), MASK)
        pooled = model.pool(states, WORDS)
        odds = pooled.weights / (1 - pooled.weights)
        change = odds * ((pooled.context[:, None] - states) @ model.output.weight[0])
        moved = (pooled.logit[:, None].sigmoid() - (pooled.logit[:, None] + change).sigmoid()).abs() * WORDS
    torch.testing.assert_close(state_removal_shares(model, IDS, MASK), moved / moved.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("removal", ["attention", "weight"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_removing_what_has_no_weight_changes_exactly_nothing(encoder, removal, dtype):
    model = build(encoder, "sparsemax").to(dtype)
    weights = attention_weights(model, IDS, MASK)
    assert ((weights == 0) & WORDS).any()
    shares = state_removal_shares(model, IDS, MASK, removal=removal)
    assert (shares[weights == 0] == 0).all()


def test_the_removals_differ_where_they_should():
    transformer = build("transformer")
    found = {removal: state_removal_shares(transformer, IDS, MASK, removal=removal) for removal in REMOVALS}
    names = list(found)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            assert not torch.allclose(found[one], found[other], atol=1e-3), (one, other)
    bilstm = build("bilstm")
    deleted = input_removal_shares(bilstm, IDS, MASK)
    for removal in ("last_block", "input"):  # one block and no positions: both delete the word
        torch.testing.assert_close(state_removal_shares(bilstm, IDS, MASK, removal=removal), deleted)
    with pytest.raises(UnknownNameError, match="known: attention, weight, last_block, input"):
        state_removal_shares(bilstm, IDS, MASK, removal="all")  # type: ignore[arg-type]


def test_removal_before_the_last_block_by_hand():
    model = build("transformer")
    ids, mask = DOCUMENTS.take([3]).padded(CPU)
    shares = state_removal_shares(model, ids, mask, removal="last_block")[0, 1:-1]
    with torch.no_grad():
        below = model.encoder.blocks[0](model.encoder.start(model.embedding(ids)), mask)
        whole = model.read(ids, mask).logit.sigmoid()
        moved = []
        for place in range(1, ids.shape[1] - 1):
            kept = [i for i in range(ids.shape[1]) if i != place]
            states = model.encoder.blocks[1](below[:, kept], mask[:, kept])
            moved.append((whole - model.pool(states, readable(ids, mask)[:, kept]).logit.sigmoid()).abs())
    torch.testing.assert_close(shares, torch.cat(moved) / torch.cat(moved).sum())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("form", ["norm", "coordinates"])
def test_influence_is_that_of_one_backward_pass_after_the_other(encoder, form):
    model = build(encoder)
    found = influence_shares(model, IDS, MASK, form=form, batch_tokens=100)
    for row, words in enumerate(WORDS):
        places = words.nonzero()[:, 0]
        assert found[row].shape == (len(places), len(places))
        torch.testing.assert_close(found[row].sum(dim=1), torch.ones(len(places), dtype=torch.float64))
        for state, place in enumerate(places):

            def target(words, place=place, row=row):
                h = model.encode(words, MASK[[row]])[0, place]
                return h.norm() if form == "norm" else h

            jacobian = torch.autograd.functional.jacobian(target, model.embedding(IDS[[row]]).detach())
            norms = jacobian.reshape(-1, *jacobian.shape[-2:]).square().sum(dim=(0, 2)).sqrt()[words]
            torch.testing.assert_close(found[row][state], norms / norms.sum())
    with pytest.raises(UnknownNameError, match="known: norm, coordinates"):
        influence_shares(model, IDS, MASK, form="sum")  # type: ignore[arg-type]


def test_both_forms_of_influence_rank_words_much_alike():
    """The appendix's claim, at toy size: the state itself comes first in both, and the ranks go together."""
    model = build("bilstm")
    taus = []
    for one, other in zip(
        influence_shares(model, IDS, MASK), influence_shares(model, IDS, MASK, form="coordinates"), strict=True
    ):
        taus += [kendall_tau(a[None].numpy(), b[None].numpy())[0, 0] for a, b in zip(one, other, strict=True)]
    assert np.mean(taus) > 0.7


def test_undefined_documents_are_marked():
    model = build("bilstm", "sparsemax")
    single = torch.tensor([[2, 7, 3, 0], [2, 8, 9, 3]])
    shares = input_removal_shares(model, single, single > 0)
    assert shares[0, 1].isnan()
    assert shares[1, 1:3].sum().item() == pytest.approx(1)
    with torch.no_grad():
        model.output.weight.zero_()
    assert gradient_shares(model, single, single > 0)[0][1, 1:3].isnan().all()
    assert state_removal_shares(model, single, single > 0)[1, 1:3].isnan().all()
    empty = torch.tensor([[2, 3]])
    assert state_removal_shares(model, empty, empty > 0).tolist() == [[0, 0]]


def test_an_untrained_model_is_a_control():
    """Before training, attention has little to do with what the gradient says, and entropies are high."""
    ids = torch.cat([torch.full((60, 1), 2), torch.randint(4, 40, (60, 25)), torch.full((60, 1), 3)], dim=1)
    torch.manual_seed(0)
    model = AttentionClassifier(VOCABULARY, ClassifierConfig(embedding_size=6, hidden_size=5)).double().eval()
    shares = gradient_shares(model, ids, ids > 0)[0][:, 1:-1].numpy()
    weights = attention_weights(model, ids, ids > 0)[:, 1:-1].numpy()
    taus = [kendall_tau(a[None], b[None])[0, 0] for a, b in zip(weights, shares, strict=True)]
    assert abs(np.mean(taus)) < 0.3
    assert normalised_entropy(shares).mean() > 0.9
