"""Deleting tokens is running the model on the ids that are left."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from tiny_models import tiny, tiny_plain
from torch import nn

import whence
from whence.engine.asking import Contestant
from whence.engine.masked import MaskedTexts
from whence.engine.play import hiding_game, play
from whence.models import shared_beginning
from whence.models.deletion import Deletion
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.shared_beginning import continues
from whence.testing import METHOD_CHECKS, Check, check_a_layer_alone_equals_the_layer_among_others

CASES = [
    ("bert", "classification"), ("roberta", "classification"), ("deberta-v2", "classification"),
    ("deberta-v3", "classification"), ("electra", "classification"), ("modernbert", "classification"),
    ("mpnet", "classification"), ("gpt2", "classification"), ("llama", "classification"), ("opt", "classification"),
    ("qwen2", "classification"), ("bert", "question_answering"), ("roberta", "question_answering"),
    ("bert", "token_classification"), ("gpt2", "token_classification"), ("bert", "masked_lm"),
    ("roberta", "masked_lm"), ("gpt2", "causal_lm"), ("gpt-neox", "causal_lm"), ("llama", "causal_lm"),
    ("qwen3", "causal_lm"), ("gemma2", "causal_lm"), ("gemma3", "causal_lm"), ("opt", "causal_lm"),
]  # fmt: skip
PREFIXED = [(family, head) for family, head in CASES if tiny_models.FAMILIES[family].tokenizer in ("bare", "metaspace")]


def shorter(encoding: Encoding, keep: np.ndarray) -> Encoding:
    """The encoding that a tokenizer would have given, had the other tokens never been there."""
    tokens = tuple(token for token, stays in zip(encoding.tokens, keep, strict=True) if stays)
    features = {
        name: [value for value, stays in zip(values, keep, strict=True) if stays]
        for name, values in encoding.features.items()
    }
    return Encoding(encoding.text, encoding.pair, tokens, features)


def encodings_of(model: whence.LayeredModel, family: str, head: str) -> list[Encoding]:
    texts = tiny_models.texts_for(family, head)
    return [model.encode(*((text,) if isinstance(text, str) else text)) for text in texts]


def random_sets(encodings: list[Encoding], per_text: int, share: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Rows and sets: special tokens always stay, and at least one more."""
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(len(encodings)), per_text)
    keep = generator.random((len(rows), max(map(len, encodings)))) < share
    for row, encoding in enumerate(encodings):
        own = keep[rows == row]
        own[:, : len(encoding)] |= [token.special for token in encoding.tokens]
        own[:, len(encoding) - 2] = True
        own[:, len(encoding) :] = False
        keep[rows == row] = own
    return rows, keep


@torch.no_grad()
def fresh(model: whence.LayeredModel, encoding: Encoding, keep: np.ndarray) -> torch.Tensor:
    """The model's own answer on the ids that are left, by themselves."""
    with model.held():
        return model.run(model.collate([shorter(encoding, keep[: len(encoding)])]))[0]


@pytest.mark.parametrize(("family", "head"), CASES)
def test_deletion_is_a_fresh_run_on_the_shortened_ids(family: str, head: str) -> None:
    model = tiny(family, head)
    encodings = encodings_of(model, family, head)
    rows, keep = random_sets(encodings, per_text=4)
    keep[::4] = True  # whole texts too
    deletion = Deletion(model, model.collate(encodings), batch_tokens=60)
    seen = 0
    with model.held(), torch.inference_mode():
        for batch, logits in deletion.logits(torch.from_numpy(rows), torch.from_numpy(keep)):
            for index, found in zip(batch.tolist(), logits, strict=True):
                encoding = encodings[rows[index]]
                if model.reading.per_token:
                    stays = keep[index, : len(encoding)]
                    assert (found[: len(encoding)][~stays] == -torch.inf).all()
                    found = found[: len(encoding)][stays]
                torch.testing.assert_close(found, fresh(model, encoding, keep[index]), atol=1e-5, rtol=1e-5)
                seen += 1
    assert seen == len(rows)


@pytest.mark.parametrize("name", ["gru", "mlp"])
def test_plain_modules_too(name: str) -> None:
    model = tiny_plain(name)
    encodings = [model.encode(text) for text in tiny_models.TEXTS]
    rows, keep = random_sets(encodings, per_text=3)
    deletion = Deletion(model, model.collate(encodings), batch_tokens=20)
    with torch.inference_mode():
        for batch, logits in deletion.logits(torch.from_numpy(rows), torch.from_numpy(keep)):
            for index, found in zip(batch.tolist(), logits, strict=True):
                torch.testing.assert_close(found, fresh(model, encodings[rows[index]], keep[index]))


def leave_one_out_sets(encodings: list[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([[row] * len(encoding) for row, encoding in enumerate(encodings)])
    width = max(map(len, encodings))
    keep = np.concatenate([~np.eye(len(encoding), width, dtype=bool) for encoding in encodings])
    for index, row in enumerate(rows):
        keep[index, len(encodings[row]) :] = False
    return rows, keep


def asked(model: whence.LayeredModel, encodings: list[Encoding], sets: Any) -> tuple[torch.Tensor, int, Deletion]:
    """The logits of all rows in order, and how many tokens the model was given for them, padding included."""
    tokens = 0

    def count(module: nn.Module, args: Any, output: Any) -> None:
        nonlocal tokens
        tokens += output.shape[0] * output.shape[1]

    deletion = Deletion(model, model.collate(encodings), batch_tokens=16)
    rows, keep = (torch.from_numpy(each) for each in sets)
    found: list[Any] = [None] * len(rows)
    with model.held(), torch.inference_mode():
        continues(model, model.collate(encodings))  # looks at the model once
        handle = model.stack.embedding.register_forward_hook(count)
        try:
            for batch, logits in deletion.logits(rows, keep):
                for index, row in zip(batch.tolist(), logits, strict=True):
                    found[index] = row
        finally:
            handle.remove()
    return torch.stack(found), tokens, deletion


@pytest.mark.parametrize(("family", "head"), [case for case in PREFIXED if case[1] != "token_classification"])
def test_sharing_the_beginning_changes_nothing_and_saves_tokens(
    family: str, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(family, head)
    encodings = encodings_of(model, family, head)[1:]
    sets = leave_one_out_sets(encodings)
    shared, few, deletion = asked(model, encodings, sets)
    assert deletion.passes.tolist() == [len(encoding) + 1 for encoding in encodings], "a pass for each text's beginning"
    monkeypatch.setattr(shared_beginning, "continues", lambda model, inputs: False)
    apart, many, other = asked(model, encodings, sets)
    assert other.passes.tolist() == [len(encoding) for encoding in encodings]
    torch.testing.assert_close(shared, apart, atol=1e-5, rtol=1e-5)
    assert few < 0.75 * many, (few, many)
    for index in (0, len(encodings[0]) // 2, len(encodings[0]) - 1):
        torch.testing.assert_close(shared[index], fresh(model, encodings[0], sets[1][index]), atol=1e-5, rtol=1e-5)


def test_what_stands_behind_the_token_that_is_read_is_never_run() -> None:
    """The token at character 20 is foretold from what is left of those before it."""
    model = whence.load(tiny_models.build("gpt2", "causal_lm"), tiny_models.bare())
    text = tiny_models.LONG
    found = whence.explain(model, text, "leave_one_out", baseline="delete", target=whence.Label(at=20))
    encoding = model.encode(text)
    read = next(i for i, token in enumerate(encoding.tokens) if token.start <= 20 < token.end)
    ids = torch.tensor([encoding.ids[:read]])
    with torch.no_grad():
        whole = model.module(input_ids=ids).logits[0, -1]
        without = [model.module(input_ids=ids[:, torch.arange(read) != gone]).logits[0, -1] for gone in range(read)]
    expected = [float(whole.max() - each[whole.argmax()]) for each in without]
    np.testing.assert_allclose(found.scores[0, :read], expected, atol=1e-5)
    assert np.abs(found.scores[0, read:]).max() < 1e-6
    with model.held(), torch.inference_mode():
        assert continues(model, model.collate([encoding], at=20))


def test_nothing_is_shared_where_it_does_not_pay() -> None:
    model = tiny("gpt2", "causal_lm")
    encodings = encodings_of(model, "gpt2", "causal_lm")
    keep = np.ones((6, max(map(len, encodings))), dtype=bool)
    keep[:, 0] = False
    keep[np.arange(6), np.arange(1, 7)] = False
    _, _, deletion = asked(model, encodings, (np.full(6, 2), keep))
    assert deletion.passes.tolist() == [0, 0, 6]


@pytest.mark.parametrize(("family", "head"), [("bert", "classification"), ("gpt2", "token_classification")])
def test_models_without_a_past_share_nothing(family: str, head: str) -> None:
    model = tiny(family, head)
    encodings = encodings_of(model, family, head)
    _, _, deletion = asked(model, encodings[1:2], leave_one_out_sets(encodings[1:2]))
    assert not continues(model, model.collate(encodings))
    assert deletion.passes.tolist() == [len(encodings[1])]


def test_a_model_whose_past_is_wrong_is_found_out() -> None:
    """A decoder that forgets what it is told runs every text whole, and is right."""
    module = tiny_models.build("llama", "causal_lm")
    model = whence.load(module, tiny_models.tokenizer_of("llama"))
    forward = module.model.forward

    def forgets(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if past_key_values is not None and past_key_values.get_seq_length():
            for layer in past_key_values.layers:
                layer.values = torch.zeros_like(layer.values)
        return forward(*args, past_key_values=past_key_values, **kwargs)

    module.model.forward = forgets
    encodings = encodings_of(model, "llama", "causal_lm")[2:]
    sets = leave_one_out_sets(encodings)
    found, _, _ = asked(model, encodings, sets)
    assert not continues(model, model.collate(encodings))
    torch.testing.assert_close(found[5], fresh(model, encodings[0], sets[1][5]), atol=1e-5, rtol=1e-5)


# nothing left -------------------------------------------------------------------------------------------------------


def nothing(model: whence.LayeredModel, text: str) -> torch.Tensor:
    encoding = model.encode(text)
    keep = torch.zeros(1, len(encoding), dtype=torch.bool)
    with model.held(), torch.inference_mode():
        [(_, logits)] = Deletion(model, model.collate([encoding]), 100).logits(torch.zeros(1, dtype=torch.long), keep)
    return logits[0]


@pytest.mark.parametrize("head", ["classification", "causal_lm"])
def test_of_nothing_the_token_stays_with_which_texts_begin(head: str) -> None:
    model = tiny("llama", head)
    begin = model.tokenizer.beginning  # type: ignore[attr-defined]
    assert begin == 1
    with torch.no_grad():
        ids = torch.tensor([[begin]])
        expected = model.module(input_ids=ids).logits.reshape(-1)
    torch.testing.assert_close(nothing(model, "a witty film"), expected)


@pytest.mark.parametrize("head", ["classification", "causal_lm"])
def test_without_such_a_token_one_zero_embedding_stays(head: str) -> None:
    model = tiny("gpt2", head)
    assert (model.tokenizer.padding, model.tokenizer.masking) == (None, None)
    with torch.no_grad():
        expected = model.module(inputs_embeds=torch.zeros(1, 1, 16)).logits.reshape(-1)
    torch.testing.assert_close(nothing(model, "a witty film"), expected)
    torch.testing.assert_close(nothing(model, "the worst of the year"), expected)


def test_of_an_encoder_the_special_tokens_stay() -> None:
    model = tiny("bert")
    found = hiding_game(model, whence.explain(model, ["a witty film", "not bad"], "random"), grid=[0, 1], hide="delete")
    with torch.no_grad():
        empty = model.module(input_ids=torch.tensor([[2, 3]])).logits[0].softmax(dim=-1)
    says = [
        model.reading.labels.index(each.prediction.label)
        for each in whence.explain(model, ["a witty film", "not bad"], "random")
    ]
    np.testing.assert_allclose(found.per_text("probability")[:, 1], empty[says], atol=1e-6)


# games --------------------------------------------------------------------------------------------------------------


def test_a_class_is_played_as_by_loops() -> None:
    """Pairs, token types and all: the ids of the tokens that stay, given to the module by hand."""
    model = tiny("bert")
    encodings = [model.encode(*pair) for pair in tiny_models.PAIRS]
    encodings = [
        replace(encoding, features={"token_type_ids": [token.segment for token in encoding.tokens]})
        for encoding in encodings
    ]
    rows, keep = random_sets(encodings, per_text=5)
    answers = MaskedTexts(model, encodings, Hiding.of(model, "delete"), 60).answers(rows, keep)
    for index, row in enumerate(rows):
        stays = keep[index, : len(encodings[row])]
        ids = torch.tensor([encodings[row].ids])[:, stays]
        types = torch.tensor([encodings[row].features["token_type_ids"]])[:, stays]
        with torch.no_grad():
            chances = model.module(input_ids=ids, token_type_ids=types).logits[0].softmax(dim=-1)
            whole = model.run(model.collate([encodings[row]]))[0].argmax()
        assert answers.said[index, 0] == chances.argmax()
        assert answers.probability[index] == pytest.approx(float(chances[whole]), abs=1e-6)


def test_answer_spans_are_found_where_they_stood() -> None:
    model = tiny("bert", "question_answering")
    encodings = [model.encode(*pair) for pair in tiny_models.PAIRS]
    asking = MaskedTexts(model, encodings, Hiding.of(model, "delete"), 2048)
    rows, keep = random_sets(encodings, per_text=8, share=0.8)
    answers = asking.answers(rows, keep)
    gone = 0
    for index, row in enumerate(rows):
        stays = keep[index, : len(encodings[row])]
        places = stays.nonzero()[0]
        logits = fresh(model, encodings[row], keep[index])
        first, last = asking.whole.said[row]
        if not (stays[first] and stays[last]):
            gone += 1
            assert answers.said[index].tolist() == [-1, -1]
            assert answers.probability[index] == 0
            continue
        short = shorter(encodings[row], stays)
        said = model.reading.answers(logits[None], [short], torch.zeros(1, dtype=torch.long))[0].tolist()
        assert answers.said[index].tolist() == places[said].tolist()
        chances = logits.softmax(dim=0)
        expected = chances[places.tolist().index(first), 0] * chances[places.tolist().index(last), 1]
        assert answers.probability[index] == pytest.approx(float(expected), abs=1e-6)
    assert 0 < gone < len(rows)


def test_a_tag_goes_with_its_token() -> None:
    model = tiny("bert", "token_classification")
    encodings = [model.encode(text) for text in tiny_models.TEXTS]
    asking = MaskedTexts(model, encodings, Hiding.of(model, "delete"), 2048)
    rows, keep = random_sets(encodings, per_text=6)
    at = asking._selection.positions.tolist()
    answers = asking.answers(rows, keep)
    for index, row in enumerate(rows):
        if not keep[index, at[row]]:
            assert (answers.said[index, 0], answers.probability[index]) == (-1, 0)
            continue
        logits = fresh(model, encodings[row], keep[index])[keep[index, : at[row]].sum()]
        assert answers.said[index, 0] == logits.argmax()
        assert answers.probability[index] == pytest.approx(
            float(logits.softmax(dim=-1)[asking.whole.said[row, 0]]), abs=1e-6
        )


def test_a_mask_is_filled_where_it_comes_to_stand() -> None:
    model = tiny("bert", "masked_lm")
    encodings = encodings_of(model, "bert", "masked_lm")
    asking = MaskedTexts(model, encodings, Hiding.of(model, "delete"), 2048)
    rows, keep = random_sets(encodings, per_text=4)
    answers = asking.answers(rows, keep)
    for index, row in enumerate(rows):
        stays = keep[index, : len(encodings[row])]
        ids = torch.tensor([encodings[row].ids])[:, stays]
        with torch.no_grad():
            logits = model.module(input_ids=ids).logits[0, ids[0].tolist().index(model.tokenizer.masking)]
        assert answers.said[index, 0] == logits.argmax()


@pytest.mark.parametrize(
    ("family", "head"), [("bert", "question_answering"), ("gpt2", "causal_lm"), ("llama", "classification")]
)
def test_games_are_the_same_alone_and_together(family: str, head: str) -> None:
    model = tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    generator = np.random.default_rng(0)
    scores = [generator.normal(size=len(encoding)) for encoding in encodings_of(model, family, head)]
    together = play(model, texts, {"any": Contestant(scores)}, hide="delete")["any"]
    for game, found in together.items():
        assert found.settings["hide"] == "delete"
        for row, (text, own) in enumerate(zip(texts, scores, strict=True)):
            alone = play(model, [text], {"any": Contestant([own])}, hide="delete", batch_tokens=1)["any"][game]
            np.testing.assert_allclose(alone.per_text("probability")[0], found.per_text("probability")[row], atol=1e-5)


# methods ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_hand(model: whence.LayeredModel, encoding: Encoding, keep: np.ndarray) -> float:
    """The logit of what the model says of the whole text, on the ids that are left."""
    whole = model.run(model.collate([encoding]))[0]
    return float(fresh(model, encoding, keep)[whole.argmax()])


@pytest.mark.parametrize(
    ("family", "head"),
    [("bert", "classification"), ("roberta", "classification"), ("gpt2", "causal_lm"), ("llama", "causal_lm"),
     ("bert", "masked_lm"), ("llama", "classification")],
)  # fmt: skip
def test_leave_one_out_deletes(family: str, head: str) -> None:
    model = tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    for encoding, found in zip(
        encodings_of(model, family, head), whence.explain(model, texts, "leave_one_out", baseline="delete"), strict=True
    ):
        assert found.options["baseline"] == "delete"
        players = [position for position, token in enumerate(encoding.tokens) if not token.special]
        expected = np.zeros(len(encoding))
        for position in players:
            keep = np.arange(len(encoding)) != position
            expected[position] = found.target.value - by_hand(model, encoding, keep)
        np.testing.assert_allclose(found.scores[0], expected, atol=1e-5 * max(1, abs(found.target.value)))


def test_shapley_values_of_deletion_by_brute_force() -> None:
    model = tiny("llama", "causal_lm")
    text = "a witty film was"
    encoding = model.encode(text)
    players = [position for position, token in enumerate(encoding.tokens) if not token.special]
    assert len(players) == 4
    worth = {}
    for members in range(16):
        keep = np.array([token.special for token in encoding.tokens])
        keep[[player for bit, player in enumerate(players) if members >> bit & 1]] = True
        worth[members] = by_hand(model, encoding, keep)
    expected = np.zeros(len(encoding))
    for order in itertools.permutations(range(4)):
        members = 0
        for bit in order:
            expected[players[bit]] += (worth[members | 1 << bit] - worth[members]) / 24
            members |= 1 << bit
    for method in ("shapley", "kernel_shap"):
        found = whence.explain(model, text, method, baseline="delete")
        np.testing.assert_allclose(found.scores[0], expected, atol=2e-5, err_msg=method)
    windows = whence.explain(model, text, "occlusion", baseline="delete", window=2, stride=2).scores[0]
    assert windows[players[0]] == pytest.approx(worth[15] - worth[12], abs=1e-5)
    assert windows[players[3]] == pytest.approx(worth[15] - worth[3], abs=1e-5)


def test_lime_sees_deleted_texts() -> None:
    model = tiny("gpt2", "causal_lm")
    found = whence.explain(model, "a witty film", "lime", baseline="delete", samples=400, ridge=0.0)
    other = whence.explain(model, "a witty film", "lime", samples=400, ridge=0.0)
    assert np.abs(found.scores - other.scores).max() > 0.01
    assert found.cost.forwards >= 400


@pytest.mark.parametrize(
    ("family", "head", "target"),
    [("bert", "question_answering", "predicted"), ("bert", "token_classification", "predicted"),
     ("bert", "masked_lm", whence.Label(at=2))],
)  # fmt: skip
def test_tokens_at_which_the_target_is_read_stay(family: str, head: str, target: Any) -> None:
    model = tiny(family, head)
    text = ("what was dull", "the story was dull and long") if head == "question_answering" else "a witty film was bad"
    found = whence.explain(model, text, "leave_one_out", baseline="delete", target=target)
    quiet = [position for position, score in enumerate(found.scores[0]) if abs(score) < 1e-5]
    words = [position for position, token in enumerate(found.tokens) if not token.special]
    read = [position for position in words if position in quiet]
    assert 1 <= len(read) <= 2, "all others matter to a random model"
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("method", ["integrated_gradients", "gradient_shap", "deep_lift_shap"])
def test_methods_that_put_something_in_a_tokens_place_refuse_deletion(method: str) -> None:
    with pytest.raises(whence.UsageError, match="stands for a deleted token"):
        whence.explain(tiny("bert"), "a witty film", method, baseline="delete")


def test_only_the_text_can_be_deleted_from() -> None:
    with pytest.raises(whence.UsageError, match="no state of layer 2 stands for a deleted token"):
        whence.explain(tiny("bert"), "a witty film", "shapley", baseline="delete", layers=[2])


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("method", ["leave_one_out", "shapley"])
def test_methods_that_delete_keep_the_contract(method: str, family: str, check: Check) -> None:
    if check is check_a_layer_alone_equals_the_layer_among_others:
        return  # there is one layer only
    own = whence.METHODS[method]
    check(replace(own, compute=functools.partial(own.compute, baseline="delete")), tiny(family))
