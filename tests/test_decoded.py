"""Decoded layer saliency: by hand, against a second implementation of its formula, and against captum."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from captum.attr import LayerGradCam, LayerGradientXActivation
from tiny_models import CASES, FAMILIES, SHORT, TEXTS, build, class_name, texts_for, tiny, tokenizer_of, wordpiece
from torch import nn

import whence
from whence import testing
from whence.methods import DECODED
from whence.methods.decoded import UniqueTokens, decode_layer, decoded, unique_token_scores, unique_tokens
from whence.models import head as heads
from whence.models.head import Head, module_head

HEADS = [(family, head) for family, head in CASES if head in ("masked_lm", "causal_lm")]
REPEATS = "the film , the film and the plot !"


def head_of(weights: torch.Tensor) -> Head:
    """A head whose logits are a state times a matrix with axes (vocabulary, hidden)."""
    linear = nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    linear.weight.data = weights.float()
    return module_head(linear, weights.shape[1])


def all_tokens(ids: list[int]) -> UniqueTokens:
    """One text whose tokens are these, none of them special."""
    order = list(dict.fromkeys(ids))
    places = torch.tensor([[order.index(number) for number in ids]])
    return UniqueTokens(torch.tensor([order]), torch.ones(1, len(order), dtype=torch.bool), places)


def brute_force(
    language_model: Any, states: torch.Tensor, scores: np.ndarray, ids: list[int], special: list[bool], tau: int | None
) -> dict[int, float]:
    """Equation 5 and Algorithm 1 literally, number by number in float64; the head by its own names, as BERT has it."""
    head = language_model.cls.double()
    table = head(states.double()).softmax(dim=-1).detach().numpy()
    head.float()
    unique = list(dict.fromkeys(number for number, added in zip(ids, special, strict=True) if not added))
    found = dict.fromkeys(unique, 0.0)
    for j in range(len(ids)):
        column = sorted((table[j, number] for number in unique), reverse=True)
        for number in unique:
            if tau is None or table[j, number] >= column[min(tau, len(unique)) - 1]:
                found[number] += table[j, number] * float(scores[j])
    return found


# by hand


def test_by_hand() -> None:
    """Two positions and three words; the head reads (1/2, 1/4, 1/4) at the first and (1/8, 3/8, 1/2) at the second."""
    shares = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]])
    head = head_of(shares.log().T)  # a state that is the j-th unit vector reads row j
    states, scores = torch.eye(2)[None], torch.tensor([[2.0, -4.0]])
    text = all_tokens([0, 1])  # the third word is not in the text: its column only shares the denominator
    expected = [2 * 0.5 - 4 * 0.125, 2 * 0.25 - 4 * 0.375]
    torch.testing.assert_close(decode_layer(head, states, scores, text, None), torch.tensor([expected]))
    torch.testing.assert_close(decode_layer(head, states, scores, text, 1), torch.tensor([[2 * 0.5, -4 * 0.375]]))


def test_the_printed_algorithm_would_not_decode() -> None:
    """Summing into s_j, as its line 9 has it, gives back each position's own score times the sum of its shares."""
    shares = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]])
    scores = torch.tensor([2.0, 1.0])
    literal = torch.zeros(2)
    for i in range(2):
        for j in range(2):
            literal[j] += shares[j, i] * scores[j]
    torch.testing.assert_close(literal, scores * shares[:, :2].sum(dim=1))
    ours = decode_layer(head_of(shares.log().T), torch.eye(2)[None], scores[None], all_tokens([0, 1]), None)[0]
    assert not torch.allclose(ours, literal)


def test_a_head_that_knows_every_token_gives_the_scores_back() -> None:
    ids = [3, 1, 3, 0]
    head = head_of(1e4 * torch.eye(5))
    states, scores = torch.eye(5)[ids][None], torch.tensor([[1.0, 2.0, 0.5, 4.0]])
    found = decode_layer(head, states, scores, all_tokens(ids), None)
    torch.testing.assert_close(found, torch.tensor([[1.5, 2.0, 4.0]]))  # token 3 stands at two places
    assert torch.equal(decode_layer(head, states, scores, all_tokens(ids), 1), found)


def test_a_head_that_knows_nothing_gives_everyone_the_same() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.5]])
    for tau in (None, 1, 2):  # as likely as the first: tau leaves none of them out
        found = decode_layer(head_of(torch.zeros(8, 4)), torch.randn(1, 3, 4), scores, all_tokens([5, 6, 7]), tau)
        torch.testing.assert_close(found, torch.full((1, 3), 3.5 / 8))


# laws


@pytest.fixture
def made() -> tuple[Head, torch.Tensor, UniqueTokens]:
    generator = torch.Generator().manual_seed(1)
    head = head_of(torch.randn(40, 8, generator=generator))
    return head, torch.randn(1, 12, 8, generator=generator), all_tokens([*range(7), 3, 3, 1, 20, 30])


def test_mass_sign_and_linearity(made: Any) -> None:
    head, states, text = made
    one, other = torch.rand(1, 12), torch.randn(1, 12)
    mine = decode_layer(head, states, one, text, None)
    shares = head(states).softmax(dim=-1)
    torch.testing.assert_close(shares.sum(dim=-1), torch.ones(1, 12))
    assert (mine >= 0).all()
    assert mine.sum() <= one.sum()
    torch.testing.assert_close(mine.sum(), (one * shares[..., text.ids[0]].sum(dim=-1)).sum())
    theirs = decode_layer(head, states, other, text, None)
    both = decode_layer(head, states, 2 * one - 3 * other, text, None)
    torch.testing.assert_close(both, 2 * mine - 3 * theirs)
    assert (theirs < 0).any()


def test_tau_only_adds(made: Any) -> None:
    head, states, text = made
    scores = torch.rand(1, 12)
    n_tokens = text.ids.shape[1]
    found = [decode_layer(head, states, scores, text, tau) for tau in range(1, n_tokens + 1)]
    for less, more in pairwise(found):
        assert (more >= less).all()
        assert more.sum() > less.sum()
    everything = decode_layer(head, states, scores, text, None)
    assert torch.equal(found[-1], everything)
    assert torch.equal(decode_layer(head, states, scores, text, 10_000), everything)
    largest = head(states).softmax(dim=-1)[..., text.ids[0]].amax(dim=-1)
    torch.testing.assert_close(found[0].sum(), (scores * largest).sum())


@pytest.mark.parametrize("tau", [None, 2])
def test_the_order_of_the_tokens_does_not_matter(made: Any, tau: int | None) -> None:
    head, states, text = made
    order = torch.randperm(text.ids.shape[1], generator=torch.Generator().manual_seed(0))
    turned = UniqueTokens(text.ids[:, order], text.present, text.indices)
    scores = torch.rand(1, 12)
    mine = decode_layer(head, states, scores, text, tau)
    torch.testing.assert_close(decode_layer(head, states, scores, turned, tau), mine[:, order])


def test_scores_do_not_depend_on_blocks(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    head, states, text = made
    scores = torch.rand(1, 12)
    whole = decode_layer(head, states, scores, text, 3)
    for rows in (1, 5):
        monkeypatch.setitem(heads.MOST_LOGITS, "cpu", rows * head.n_vocabulary)
        assert len(list(head.in_blocks(states[0]))) == -(-12 // rows)
        torch.testing.assert_close(decode_layer(head, states, scores, text, 3), whole)


def test_positions_without_a_score_are_not_shown_to_the_head(made: Any) -> None:
    head, states, text = made
    seen: list[int] = []
    head.module.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    scores = torch.rand(1, 12)
    scores[0, [2, 3, 7]] = 0
    decode_layer(head, states, scores, text, None)
    assert seen == [9]
    assert torch.equal(decode_layer(head, states, 0 * scores, text, None), torch.zeros(1, text.ids.shape[1]))
    assert seen == [9]


def test_large_and_tiny_logits_stay_finite() -> None:
    head = head_of(torch.tensor([[1e4], [-1e4], [0.0]]))
    found = decode_layer(head, torch.ones(1, 1, 1), torch.ones(1, 1), all_tokens([0, 1, 2]), None)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0, 0.0]]))


def test_the_head_s_own_tensor_is_not_written_to() -> None:
    class Constant(nn.Module):
        table: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(6.0))

        def forward(self, states: torch.Tensor) -> Any:
            return self.table[None] if len(states) == 1 else self.table.expand(len(states), 6)

    constant = Constant()
    head = module_head(constant, 4)
    for n_rows in (1, 3):
        decode_layer(head, torch.ones(1, n_rows, 4), torch.ones(1, n_rows), all_tokens(list(range(n_rows))), None)
    assert torch.equal(constant.table, torch.arange(6.0))


# a second route


@pytest.mark.parametrize("tau", [None, 1, 2, 99])
@pytest.mark.parametrize("score", ["grad_cam", "gradient_x_input", "attention", "leave_one_out"])
def test_against_brute_force(score: str, tau: int | None) -> None:
    language_model = build("bert", "masked_lm", seed=3)
    model = whence.load(build("bert"), wordpiece(), head=language_model)
    texts = [REPEATS, *TEXTS]
    layers = [1, 2, 3]
    plain = whence.explain(model, texts, score, layers=layers)
    for before, after in zip(plain, whence.explain(model, texts, decoded(score, tau), layers=layers), strict=True):
        special = [token.special for token in after.tokens]
        ids = [token.id for token in after.tokens]
        states = model.states(model.collate([model.encode(after.text)]))
        for place, layer in enumerate(layers):
            expected = brute_force(language_model, states.hidden[layer][0], before.scores[place], ids, special, tau)
            found = unique_token_scores(after, layer)
            assert list(found) == list(expected)
            np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-4, atol=1e-7)
            np.testing.assert_array_equal(
                after.row(layer),
                [0.0 if added else np.float32(found[n]) for n, added in zip(ids, special, strict=True)],
            )


def test_brute_force_can_fail() -> None:
    model = whence.load(build("bert"), wordpiece(), head=build("bert", "masked_lm", seed=3))
    states = model.states(model.collate([model.encode(SHORT)]))
    plain = whence.explain(model, SHORT, "grad_cam", layers=2)
    after = whence.explain(model, SHORT, "decoded_grad_cam", layers=2)
    flags = [token.special for token in after.tokens]
    other = brute_force(
        build("bert", "masked_lm", seed=4),
        states.hidden[2][0],
        plain.scores[0],
        [t.id for t in after.tokens],
        flags,
        None,
    )
    assert not np.allclose(list(unique_token_scores(after).values()), list(other.values()), rtol=1e-2)


# Grad-CAM, as the method defines it


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_layer_score_is_captum_s(family: str) -> None:
    model = tiny(family)
    base: Any = model.module.base_model
    for text in TEXTS:
        inputs = model.collate([model.encode(text)])
        target = int(model.module(inputs.ids).logits.argmax())
        found = whence.explain(model, text, "grad_cam")
        for layer, module in enumerate((base.embeddings, *base.encoder.layer)):
            captum = LayerGradientXActivation(lambda ids: model.module(ids).logits, module)
            theirs = captum.attribute(inputs.ids, target=target).sum(-1).clamp(min=0)[0]
            np.testing.assert_allclose(found.row(layer), theirs.detach().numpy(), atol=1e-5)


def test_it_is_not_the_pooled_grad_cam() -> None:
    """captum's LayerGradCam takes features for places; given places as places it averages the gradient over them."""

    class Turned(nn.Module):
        def forward(self, h: torch.Tensor) -> torch.Tensor:
            return h.transpose(1, 2)

    model, layer, turned = tiny("bert"), 2, Turned()
    base: Any = model.module.base_model
    inputs = model.collate([model.encode(SHORT)])
    hidden = model.states(inputs).hidden[layer]
    target = int(model.module(inputs.ids).logits.argmax())
    block = base.encoder.layer[layer - 1]
    plain = LayerGradCam(lambda ids: model.module(ids).logits, block).attribute(inputs.ids, target=target)
    assert plain.shape == (1, 1, hidden.shape[2])  # one number a feature
    captum = LayerGradCam(lambda h: model.resume(layer, turned(h).transpose(1, 2), inputs), turned)
    theirs = captum.attribute(hidden, target=target, attr_dim_summation=True)[0, 0].detach()
    h = hidden.clone().requires_grad_()
    gradient = torch.autograd.grad(model.resume(layer, h, inputs)[0, target], h)[0][0]
    torch.testing.assert_close(theirs, (gradient.mean(dim=0) * hidden[0]).sum(dim=-1), atol=1e-5, rtol=1e-4)
    ours = whence.explain(model, SHORT, "grad_cam", layers=layer).scores[0]
    assert not np.allclose(ours, theirs.clamp(min=0), atol=1e-3)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_at_the_top_only_the_first_position_has_a_score(family: str) -> None:
    for explanation in whence.explain(tiny(family), TEXTS, "gradient_x_input", layers=[2, 3]):
        assert explanation.row(3)[0] != 0
        assert not explanation.row(3)[1:].any()
        assert explanation.row(2)[1:].any()


def test_gradients_are_those_of_the_rest_of_the_network() -> None:
    """y(h + eps d) - y(h - eps d) = 2 eps grad . d, when the network is resumed from the layer, in float64."""
    model = whence.load(build("bert").double(), wordpiece())
    inputs = model.collate([model.encode(SHORT)])
    states = model.states(inputs)
    target = int(states.logits.argmax())
    for layer in (0, 1, 3):
        h = states.hidden[layer].clone().requires_grad_()
        gradient = torch.autograd.grad(model.resume(layer, h, inputs)[0, target], h)[0]
        step = torch.randn(h.shape, generator=torch.Generator().manual_seed(layer), dtype=torch.float64)
        ahead, behind = (model.resume(layer, h.detach() + sign * 1e-5 * step, inputs)[0, target] for sign in (1, -1))
        torch.testing.assert_close((ahead - behind) / 2e-5, (gradient * step).sum(), rtol=1e-6, atol=1e-9)
        ours = whence.explain(model, SHORT, "grad_cam", layers=layer).scores[0]
        np.testing.assert_allclose(ours, (gradient * h).sum(-1)[0].clamp(min=0).detach(), atol=1e-6)


# heads


@pytest.mark.parametrize(("family", "head"), HEADS)
def test_a_head_gives_what_its_model_gives(family: str, head: str) -> None:
    """On the language model's own last states, to the last bit, whatever stands between last block and logits."""
    model = tiny(family, head)
    ids = torch.tensor([model.encode(text).ids[:6] for text in texts_for(family, head)[1:]])
    with torch.no_grad(), model.stack.recording() as trace:  # type: ignore[union-attr]
        logits = model.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert model.head is not None
    assert torch.equal(model.head(trace.hidden[-1]), logits)
    assert not torch.allclose(model.head(trace.hidden[0]), logits, atol=1e-2)
    assert model.head.next_token == (head == "causal_lm")


def test_a_head_that_reads_more_than_states_is_refused() -> None:
    model, calls = tiny("bert", "masked_lm"), 0

    def forgetful(n_rows: int) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return calls + model.module(input_ids=torch.zeros(n_rows, 1, dtype=torch.long)).logits[:, 0]

    with pytest.raises(whence.ModelError, match="reads more than the last block's states"):
        heads.OwnHead(model.stack, forgetful)(torch.zeros(2, 16))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", [family for family in FAMILIES if class_name(family, "classification")])
def test_every_family_is_decoded(family: str) -> None:
    """A classifier with the head of a language model of its family: of each score a share goes to the text's tokens."""
    kind = "masked_lm" if class_name(family, "masked_lm") else "causal_lm"
    language_model = build(family, kind, seed=5)
    model = whence.load(build(family), tokenizer_of(family), head=(language_model, tokenizer_of(family)))
    for layer_score, explanation in zip(
        whence.explain(model, TEXTS, "gradient"), whence.explain(model, TEXTS, "decoded_gradient"), strict=True
    ):
        assert explanation.layers == tuple(range(model.n_layers + 1))
        for layer in explanation.layers:
            total = sum(unique_token_scores(explanation, layer).values())
            assert 0 < total <= layer_score.row(layer).sum()


def test_a_head_counts_as_no_pass_of_its_model() -> None:
    """A language model's own head is run without its blocks and without a call of the model."""
    model = whence.load(build("roberta", "masked_lm"), tokenizer_of("roberta"))
    texts = texts_for("roberta", "masked_lm")
    whence.explain(model, texts, "decoded_grad_cam")
    calls, blocks = [], []
    model.module.register_forward_hook(lambda module, args, output: calls.append(1))
    block: Any = model.stack.blocks[0]
    block.attention.register_forward_hook(lambda module, args, output: blocks.append(1))
    found = whence.explain(model, texts, "decoded_grad_cam")
    assert (len(calls), len(blocks)) == (1, 1)  # one batch
    assert [(each.cost.forwards, each.cost.backwards) for each in found] == [(1, 1)] * 3


def test_one_forward_one_backward_and_one_head_pass_a_layer(bert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"forward": 0, "backward": 0, "head": 0}
    whence.explain(bert, TEXTS, "decoded_grad_cam")
    bert.module.base_model.register_forward_hook(lambda *everything: counts.update(forward=counts["forward"] + 1))
    gradients, in_blocks = torch.autograd.grad, Head.in_blocks
    monkeypatch.setattr(
        torch.autograd, "grad", lambda *a, **k: counts.update(backward=counts["backward"] + 1) or gradients(*a, **k)
    )
    monkeypatch.setattr(Head, "in_blocks", lambda *a: counts.update(head=counts["head"] + 1) or in_blocks(*a))
    whence.explain(bert, TEXTS, "decoded_grad_cam")
    assert counts == {"forward": 1, "backward": 1, "head": bert.n_layers + 1}


def test_a_head_in_half_precision_has_its_softmax_in_float32() -> None:
    head = module_head(nn.Linear(4, 3000, bias=False).to(torch.bfloat16), 4)
    states = torch.randn(1, 6, 4)
    ids = list(range(6))
    found = decode_layer(head, states, torch.ones(1, 6), all_tokens(ids), None)
    logits = head.module(states[0].to(torch.bfloat16)).double()
    expected = logits.softmax(dim=-1)[:, ids].sum(dim=0)
    torch.testing.assert_close(found[0], expected.float(), rtol=1e-5, atol=0)


def test_the_embedded_head_follows_its_model() -> None:
    model = whence.load()
    before = whence.explain(model, "a witty film", "decoded_grad_cam", layers=3)
    model.module.to(torch.bfloat16)  # the shared matrix goes along, the rest of the head does not
    half = whence.explain(model, "a witty film", "decoded_grad_cam", layers=3)
    assert {weight.dtype for weight in model.head.module.parameters()} == {torch.bfloat16}  # type: ignore[union-attr]
    np.testing.assert_allclose(half.scores, before.scores, atol=0.2)


@pytest.mark.parametrize("method", ["decoded_grad_cam", "decoded_leave_one_out"])
def test_the_language_model_leaves_as_it_came(method: str) -> None:
    language_model = whence.load(build("bert", "masked_lm").train(), wordpiece())
    model = whence.load(build("bert"), wordpiece(), head=language_model)
    before = testing._snapshot(language_model)
    whence.explain(model, TEXTS, method, layers=[1, 3])
    testing._assert_same(before, testing._snapshot(language_model))
    assert language_model.module.training


# whence.load(head=)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language-model")
    build("bert", "masked_lm", seed=3).save_pretrained(path)
    wordpiece().save_pretrained(path)
    return path


def test_every_way_to_give_a_head_gives_the_same(folder: Path) -> None:
    language_model = build("bert", "masked_lm", seed=3)
    ways: list[Any] = [
        language_model,
        (language_model, wordpiece()),
        whence.load(language_model, wordpiece()),
        folder,
        str(folder),
        language_model.cls,
    ]
    classifier = build("bert")
    found = [
        whence.explain(whence.load(classifier, wordpiece(), head=way), SHORT, "decoded_grad_cam").scores for way in ways
    ]
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], atol=1e-6)


def test_a_head_by_name_keeps_its_head_only(folder: Path) -> None:
    model = whence.load(build("bert"), wordpiece(), head=folder)
    assert model.head is not None
    assert model.head.ours
    assert model.head.name == str(folder)
    module: Any = model.head.module
    blocks = module.base_model.encoder.layer
    assert not any(weight.numel() for weight in blocks.parameters())
    assert module.cls.predictions.decoder.weight.numel()


def test_a_classifier_from_a_folder_with_a_head_from_another(folder: Path, tmp_path: Path) -> None:
    build("bert").save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    assert whence.explain(whence.load(tmp_path, head=folder), SHORT, "decoded_grad_cam").scores.any()
    with pytest.raises(whence.ModelError, match=r"holds no weights for cls\.predictions"):
        whence.load(folder, task="masked_lm", head=tmp_path)  # a classifier holds no head


def test_an_embedded_name_is_a_head_too() -> None:
    model = whence.load("sentiment", head="topic")
    assert model.head is not None
    assert model.head.name == "whence/topic"


def test_a_plain_module_is_decoded_by_a_plain_head() -> None:
    torch.manual_seed(0)
    module = tiny_models.build_plain("gru")
    tokenizer = tiny_models.word_tokenizer()
    head = nn.Linear(16, len(tokenizer.vocabulary))
    model = whence.load(module, tokenizer, blocks=[module.first, module.second], labels=tiny_models.LABELS, head=head)
    explanation = whence.explain(model, SHORT, "decoded_gradient_x_input", layers=[1, 2])
    assert explanation.scores.any(axis=1).all()
    with pytest.raises(whence.UsageError, match="reads states of 16 features, these have 12"):
        whence.explain(model, SHORT, "decoded_gradient_x_input", layers=0)


def test_without_a_head_the_error_says_what_to_do() -> None:
    model = whence.load(build("bert"), wordpiece())
    with pytest.raises(whence.UsageError) as caught:
        whence.explain(model, SHORT, "decoded_grad_cam")
    assert caught.value.problem.startswith("BertForSequenceClassification has no head")
    assert "whence.load(..., head=NAME)" in caught.value.advice


def other_vocabulary() -> Any:
    tokenizer = tiny_models.TOKENIZERS["byte_level"]()
    return build("bert", "masked_lm", vocab_size=len(tokenizer)), tokenizer


@pytest.mark.parametrize(
    ("give", "problem"),
    [
        (lambda: build("bert", "masked_lm", hidden_size=32), "reads states of 32 features, Bert.* has 16"),
        (lambda: build("bert", "masked_lm", vocab_size=999), "knows 999 tokens, the tokenizer of .* 185"),
        (other_vocabulary, "has another vocabulary: id 0 is '<s>' there and '\\[PAD\\]' in the tokenizer"),
        (lambda: build("bert"), "BertForSequenceClassification has no language-model head"),
        (lambda: nn.Linear(5, 185), "Linear does not read states of 16 features"),
        (lambda: nn.Linear(16, 7), "knows 7 tokens"),
    ],
)  # fmt: skip
def test_a_head_that_does_not_fit_is_refused(give: Any, problem: str) -> None:
    with pytest.raises(whence.UsageError, match=problem):
        whence.load(build("bert"), wordpiece(), head=give())


def test_a_special_token_that_was_added_later_does_no_harm() -> None:
    """A padding token added to a decoder-style model: the head does not know it, and never has to."""
    tokenizer = tiny_models.bare.__wrapped__()
    language_model = (build("gpt2", "causal_lm"), tiny_models.bare())
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    classifier = build("gpt2", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    model = whence.load(classifier, tokenizer, head=language_model)
    assert all(each.scores.any() for each in whence.explain(model, TEXTS, "decoded_grad_cam", layers=1))
    tokenizer.add_tokens(["witty"])
    model = whence.load(build("gpt2", vocab_size=len(tokenizer), pad_token_id=340), tokenizer, head=language_model)
    with pytest.raises(whence.UsageError, match="knows 340 tokens, the text holds id 341"):
        whence.explain(model, "a witty film", "decoded_grad_cam", layers=2)


# the method


def test_special_tokens_are_positions_and_not_scored(bert: Any) -> None:
    """At the top only [CLS] has a score, and it is the words that get it."""
    explanation = whence.explain(bert, REPEATS, "decoded_gradient_x_input", layers=3)
    special = [token.special for token in explanation.tokens]
    assert not explanation.scores[0, special].any()
    assert (explanation.scores[0, np.logical_not(special)] != 0).all()
    assert "special tokens are not scored" in explanation.meaning.sentence


def test_unique_tokens_are_each_once(bert: Any) -> None:
    encodings = [bert.encode(REPEATS), bert.encode("film")]
    unique = unique_tokens(bert.collate(encodings))
    names = {number: token for token, number in wordpiece().get_vocab().items()}
    assert [names[number] for number in unique.ids[0].tolist()] == ["the", "film", ",", "and", "plot", "!"]
    assert unique.present.tolist() == [[True] * 6, [True] + [False] * 5]
    assert unique.indices[0].tolist() == [-1, 0, 1, 2, 0, 1, 3, 0, 4, 5, -1]
    assert unique.indices[1].tolist() == [-1, 0, *[-1] * 9]


def test_a_decoded_method_has_the_options_of_its_score(bert: Any) -> None:
    method = DECODED["decoded_integrated_gradients"]
    assert method.options == {"tau": None, **whence.METHODS["integrated_gradients"].options}
    assert decoded("integrated_gradients", tau=3).options["tau"] == 3
    explanation = whence.explain(bert, SHORT, "decoded_integrated_gradients", layers=2, steps=3, tau=2)
    assert explanation.method == "decoded_integrated_gradients"
    assert explanation.options["steps"] == 3
    assert explanation.options["tau"] == 2
    assert explanation.meaning.signed
    plain = whence.explain(bert, SHORT, "integrated_gradients", layers=2, steps=3)
    assert (explanation.cost.forwards, explanation.cost.backwards) == (plain.cost.forwards, plain.cost.backwards)
    with pytest.raises(whence.UnknownNameError, match="unknown option of decoded_grad_cam 'steps'"):
        whence.explain(bert, SHORT, "decoded_grad_cam", steps=3)


def test_the_same_score_by_name_by_method_and_as_the_named_default(bert: Any) -> None:
    found = [
        whence.explain(bert, REPEATS, method)
        for method in ("decoded_grad_cam", decoded("grad_cam"), decoded(whence.METHODS["grad_cam"]))
    ]
    assert {each.method for each in found} == {"decoded_grad_cam"}
    assert {each.layers for each in found} == {(0, 1, 2, 3)}
    assert all((each.scores == found[0].scores).all() for each in found)


def test_every_method_has_a_decoded_form() -> None:
    of_layers = {name for name, method in whence.METHODS.items() if not method.only_there}
    assert {f"decoded_{name}" for name in of_layers if not name.startswith("decoded_")} == {
        *DECODED,
        "decoded_grad_cam",
    }
    assert DECODED["decoded_attention"].layers == "blocks"


def test_a_method_of_one_s_own_can_be_decoded(bert: Any) -> None:
    def ones(question: whence.Question) -> whence.Scores:
        return whence.Scores(torch.ones(len(question.inputs), len(question.layers), question.inputs.ids.shape[1]))

    meaning = whence.Meaning("ones", "nothing", signed=False, additive=True, low=0.0)
    method = decoded(whence.Method(ones, meaning, needs="nothing", cost="1 forward"))
    together = whence.explain(bert, TEXTS, method, layers=[0, 2])
    assert together[0].method == "decoded_ones"
    for text, each in zip(TEXTS, together, strict=True):  # the ones at padding are not decoded
        np.testing.assert_allclose(whence.explain(bert, text, method, layers=[0, 2]).scores, each.scores, atol=1e-6)


@pytest.mark.parametrize("tau", [0, -1, 1.5, True, "all"])
def test_tau_must_be_a_count(bert: Any, tau: Any) -> None:
    with pytest.raises(whence.UsageError, match="tau must be a whole number of at least 1"):
        whence.explain(bert, SHORT, "decoded_grad_cam", tau=tau)


def test_an_unknown_score(bert: Any) -> None:
    with pytest.raises(whence.UnknownNameError, match="did you mean 'grad_cam'"):
        decoded("gradcam")
    with pytest.raises(whence.UnknownNameError, match="did you mean 'decoded_grad_cam'"):
        whence.explain(bert, SHORT, "decoded_gradcam")


def test_no_score_at_all_is_said(bert: Any) -> None:
    def nothing(question: whence.Question) -> whence.Scores:
        return whence.Scores(torch.zeros(len(question.inputs), len(question.layers), question.inputs.ids.shape[1]))

    method = whence.Method(nothing, whence.METHODS["grad_cam"].meaning, needs="nothing", cost="1 forward")
    explanation = whence.explain(bert, SHORT, decoded(method), layers=[1, 2])
    assert not explanation.scores.any()
    assert explanation.warnings == ("all scores are zero at layer 1, 2",)


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", ["decoded_attention", decoded("grad_cam", tau=2)])
def test_decoded_forms_keep_the_contract(method: Any, check: testing.Check, bert: Any) -> None:
    check(method, bert)


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
def test_decoded_shares_keep_the_contract(check: testing.Check) -> None:
    """In float64: decoding adds up shares that cancel, and what float32 rounds off may be 1.3e-5 of what is left."""
    model = whence.load(build("bert").double(), wordpiece(), head=tiny("bert", "masked_lm"))
    check("decoded_integrated_gradients", model)


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
def test_a_language_model_s_own_head_keeps_the_contract(check: testing.Check) -> None:
    check("decoded_grad_cam", tiny("gpt2", "causal_lm"))


def test_a_pair_of_texts_shares_its_tokens() -> None:
    model = whence.load(build("bert"), wordpiece(), head=tiny("bert", "masked_lm"))
    explanation = whence.explain(model, ("a film", "the film"), "decoded_grad_cam", layers=2)
    films = [
        score for token, score in zip(explanation.tokens, explanation.scores[0], strict=True) if token.text == "film"
    ]
    assert len(films) == 2
    assert films[0] == films[1] > 0
