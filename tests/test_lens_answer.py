"""What a model says, followed through its layers: against the model's own modules, by hand, and in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_lens import made_lens
from test_page import HOSTILE, data_of
from tiny_models import SHORT, build, tiny, wordpiece

import whence
from whence.lens import Lens, decode_layers
from whence.lens_answer import LensAnswer
from whence.render.lens_page import sentence, settled_at


def answered(
    ranks: tuple[int, ...] = (3, 2, 1), said: tuple[str, ...] = ("bad", "7", "good"), **changes: Any
) -> LensAnswer:
    settings: dict[str, Any] = {
        "label": "good",
        "probability": 0.75,
        "position": None,
        "layers": tuple(range(len(ranks))),
        "said": said,
        "probabilities": np.linspace(0.1, 0.75, len(ranks), dtype=np.float32),
        "ranks": np.array(ranks),
    }
    return LensAnswer(**{**settings, **changes})


def test_of_a_classifier_it_is_the_classifier_on_every_layer(bert: whence.LayeredModel) -> None:
    answer = decode_layers(bert, SHORT).answer
    assert answer is not None
    states = bert.states(bert.collate([bert.encode(SHORT)]))
    module: Any = bert.module.eval()
    with torch.no_grad():
        logits = [module.classifier(module.bert.pooler(hidden))[0] for hidden in states.hidden]
    chances = torch.stack(logits).softmax(dim=-1)
    index = int(chances[-1].argmax())
    assert answer.label == bert.reading.labels.name(index)
    assert answer.layers == tuple(range(bert.n_layers + 1))
    assert answer.position is None
    np.testing.assert_allclose(answer.probabilities, chances[:, index].numpy(), atol=1e-6)
    assert answer.probability == pytest.approx(float(chances[-1, index]), abs=1e-6)
    order = (-chances).argsort(dim=-1, stable=True)
    assert answer.ranks.tolist() == [1 + row.tolist().index(index) for row in order]
    assert answer.said == tuple(bert.reading.labels.name(int(row[0])) for row in order)


@pytest.mark.parametrize(("family", "task"), [("gpt2", "causal_lm"), ("bert", "masked_lm")])
def test_of_a_language_model_it_is_what_the_lens_reads_where_it_answers(family: str, task: str) -> None:
    """Two routes: the whole model resumed at its last block, and the head alone on one state."""
    model = tiny(family, task)
    text = SHORT if task == "causal_lm" else "a [MASK] film"
    lens = decode_layers(model, text, k=1)
    answer = lens.answer
    assert answer is not None
    assert answer.position == (len(lens.tokens) - 1 if task == "causal_lm" else 2)
    np.testing.assert_allclose(
        answer.probabilities[answer.ranks == 1],
        lens.probabilities[answer.ranks == 1, answer.position, 0],
        atol=1e-6,
    )
    assert answer.ranks[-1] == 1
    assert answer.probability == pytest.approx(float(lens.probabilities[-1, answer.position, 0]), abs=1e-6)
    assert answer.said[-1] == answer.label == whence.explain(model, text, "random").prediction.label


def test_there_is_none_where_nothing_is_asked(bert: whence.LayeredModel) -> None:
    assert decode_layers(tiny("bert", "masked_lm"), "a good film").answer is None  # no mask to fill in
    head = tiny("bert", "masked_lm")
    tagger = whence.load(build("bert", "token_classification"), wordpiece(), head=head)
    assert decode_layers(tagger, SHORT).answer is None
    assert decode_layers(bert, SHORT, layers="embeddings").answer is None
    chosen = decode_layers(bert, SHORT, layers=["embeddings", 1]).answer
    assert chosen is not None
    assert chosen.layers == (1,)


def test_it_is_saved_and_lenses_of_before_still_load() -> None:
    lens = made_lens(answer=answered(position=2))
    again = Lens.from_dict(lens.to_dict())
    assert again.to_dict() == lens.to_dict()
    assert again.answer is not None
    assert again.answer.position == 2
    before = {name: value for name, value in lens.to_dict().items() if name != "answer"}
    assert Lens.from_dict(before).answer is None
    broken = {**lens.to_dict()["answer"], "said": ["bad"]}
    with pytest.raises(whence.FileError, match="answer: expected 3 of each"):
        Lens.from_dict({**lens.to_dict(), "answer": broken})


@pytest.mark.parametrize(
    ("ranks", "first"), [((3, 2, 1), 2), ((1, 1, 1), 0), ((1, 2, 1), 2), ((2, 1, 1), 1), ((1, 1, 2), None)]
)
def test_settled_is_the_layer_from_which_on_it_stays_likeliest(ranks: tuple[int, ...], first: int | None) -> None:
    assert settled_at(answered(ranks)) == first


def test_the_sentence_is_true_of_the_ranks() -> None:
    assert sentence(made_lens(answer=answered())) == (
        "Read off layer by layer, that is the likeliest from layer 2 on; just below, 7 is."
    )
    always = sentence(made_lens(answer=answered((1, 1, 1))))
    assert always == "Read off layer by layer, that is the likeliest at every one looked at."
    never = answered((1, 1, 2), ("good", "good", "bad"))
    assert (
        sentence(made_lens(answer=never)) == "Read off at layer 2, the highest looked at, the likeliest is still bad."
    )
    assert sentence(made_lens()) == "What some/head reads in each token, layer by layer."


@pytest.mark.parametrize("task", ["classification", "causal_lm", "masked_lm"])
def test_every_kind_of_head_has_a_caption_of_its_own(task: str) -> None:
    record = whence.explanation.ModelRecord("some/model", None, "Some", task)
    data = data_of(made_lens(answer=answered(), model=record).to_html())
    caption = {"classification": "classifier", "causal_lm": "the next token", "masked_lm": "the mask"}[task]
    assert caption in data["answer"]["caption"]
    assert data["answer"]["ranks"] == [3, 2, 1]
    assert data["answer"]["probability"] == 0.75


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_answer_is_data_and_only_data(poison: str) -> None:
    content = made_lens(answer=answered(label=poison, said=(poison,) * 3)).to_html()
    assert content.count("<script") == 2
