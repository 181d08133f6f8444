"""Boards of responses: what games measure, against runs on what is left of a prompt, and what cannot be judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch

import whence
from whence.data import read
from whence.engine.asking import Contestant, ask, may_go
from whence.engine.play import play
from whence.metrics.answered import BOARD_POINTS
from whence.models.hiding import Hiding
from whence.models.responses import generate, generate_each, responding
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import evaluate

PROMPTS = ["the plot was not bad, but long", "a witty film so very sad", "she could not say why"]
RESPONSES = [" too long and sad", " the end", " it was dull"]


def decoder() -> whence.LayeredModel:
    return tiny_models.tiny("llama", "causal_lm")


def judged(prompts: Any = PROMPTS, responses: Any = RESPONSES, **settings: Any) -> Scoreboard:
    given = {"methods": ["leave_one_out", "gradient_x_input"], "metrics": ["faithfulness"], "layer": "embeddings"}
    return evaluate(decoder(), prompts, responses=responses, **{**given, **settings})


def rerun(ids: list[int], response: list[int]) -> tuple[float, list[int]]:
    """The geometric mean of the response's probabilities after these ids, and what would be written there instead."""
    module: Any = decoder().module
    with torch.no_grad():
        logits = module(torch.tensor([ids + response])).logits[0, len(ids) - 1 : -1].double()
    chances = logits.softmax(-1).gather(1, torch.tensor(response)[:, None])
    return float(chances.prod() ** (1 / len(response))), logits.argmax(-1).tolist()


def test_what_is_asked_of_a_response_is_a_fresh_run_on_what_is_left() -> None:
    model = responding(decoder())
    encodings = [model.encode(*pair) for pair in zip(PROMPTS, RESPONSES, strict=True)]
    rows = [np.random.default_rng(0).random((12, int(may_go(each).sum()))) < 0.6 for each in encodings]
    hiding = Hiding.of(model, "delete")
    for index, told in ask(model, encodings, lambda index: rows[index], hiding=hiding, batch_tokens=200):
        encoding = encodings[index]
        response = encoding.ids[encoding.response.start :]
        whole, says = rerun(encoding.ids[: encoding.response.start], response)
        assert told.whole == pytest.approx(whole, rel=1e-4)
        for row, probability, same in zip(rows[index], told.probability, told.same, strict=True):
            stays = ~may_go(encoding)
            stays[may_go(encoding)] = row
            left = [encoding.ids[i] for i in np.flatnonzero(stays) if i < encoding.response.start]
            expected, now_says = rerun(left or [model.tokenizer.beginning], response)  # type: ignore[attr-defined]
            assert probability == pytest.approx(expected, rel=1e-4)
            assert bool(same) == (now_says == says)


def test_a_response_among_others_gets_what_it_gets_alone() -> None:
    together = judged(metrics=["faithfulness", "lds", "set_agreement", "batch_difference"])
    for number, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        alone = judged([prompt], [response], metrics=["faithfulness", "lds", "set_agreement"])
        for metric in ("faithfulness", "lds", "set_agreement"):
            np.testing.assert_allclose(
                together.per_text(metric)[:, number], alone.per_text(metric)[:, 0], rtol=1e-3, atol=1e-5
            )
    assert np.nanmax(together.per_text("batch_difference")) < 1e-4
    assert together.settings["target"] == "response"
    assert [text.pair for text in together.texts] == RESPONSES
    own = whence.explain(decoder(), PROMPTS[0], "leave_one_out", response=RESPONSES[0])
    np.testing.assert_allclose(together.explanations("leave_one_out")[0].row(), own.row(), rtol=1e-4, atol=1e-5)


def test_games_are_played_on_prompts_with_their_responses() -> None:
    model = responding(decoder())
    pairs: Any = list(zip(PROMPTS, RESPONSES, strict=True))
    scores = [each.row() for each in whence.explain(model, pairs, "leave_one_out")]
    ids = [(encoding.ids[: encoding.response.start], encoding.ids[encoding.response.start :])
           for encoding in (model.encode(*pair) for pair in pairs)]  # fmt: skip
    by_text, by_ids = (
        play(model, texts, {"one": Contestant(scores)}, grid=BOARD_POINTS.grid)["one"] for texts in (pairs, ids)
    )
    for game in ("hiding", "revealing"):
        np.testing.assert_array_equal(by_text[game].per_text("probability"), by_ids[game].per_text("probability"))


def test_the_model_writes_what_is_judged_where_no_response_is_given() -> None:
    model = decoder()
    ids = [model.encode_prompt(prompt).ids for prompt in [*PROMPTS, "a witty film so very dull"]]
    alone = [generate(model, each, max_new_tokens=6) for each in ids]
    assert generate_each(model, ids, max_new_tokens=6) == alone
    board = judged(PROMPTS[:2], None, max_new_tokens=6)
    assert [[token.id for token in text.tokens if token.segment == 1] for text in board.texts] == alone[:2]


def test_responses_that_end_at_different_places_are_each_cut_where_they_end() -> None:
    """In one batch what stands behind the end of the shorter is filled up, with a token that is not its own."""
    model = decoder()
    ids = [model.encode_prompt(text).ids for text in ("a witty film so very sad", "a witty film so very dull")]
    assert len(ids[0]) == len(ids[1])
    both = [generate(model, each, max_new_tokens=12) for each in ids]
    config: Any = model.module.generation_config
    before = config.eos_token_id
    config.eos_token_id = next(number for number in both[0][2:] if number not in both[1])
    try:
        ended = [generate(model, each, max_new_tokens=12) for each in ids]
        assert generate_each(model, ids, max_new_tokens=12) == ended
        assert len(ended[0]) < len(ended[1]) == 12
    finally:
        config.eos_token_id = before


def test_layers_are_chosen_on_prompts_with_their_responses() -> None:
    held_out: Any = [("a very dull end", " it was sad"), "the film was not long"]
    board = judged(layer="best", methods=["gradient_x_input"], held_out=held_out, max_new_tokens=3)
    assert board.settings["n_held_out"] == 2
    assert board.entries[0].chosen_from == tuple(range(decoder().n_layers + 1))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"responses": RESPONSES[:2]}, "3 prompts have not one response each"),
        ({"responses": "too long"}, "3 prompts have not one response each"),
        ({"responses": [*RESPONSES[:2], " "]}, "the response is empty"),
        ({"responses": [*RESPONSES[:2], []]}, "the response is empty"),
        ({"responses": [*RESPONSES[:2], " dull" * 300]}, "the model reads"),
        ({"responses": [*RESPONSES[:2], [10**6]]}, "no token with id 1000000"),
        ({"labels": [0, 1, 0]}, "a response has no gold label"),
        ({"responses": None, "max_new_tokens": 0}, "max_new_tokens must be a number of at least 1"),
    ],
)
def test_what_cannot_be_judged_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(whence.WhenceError, match=problem):
        judged(**changes)


def test_a_classifier_writes_nothing_to_judge(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.WhenceError, match="it writes no response"):
        evaluate(bert, PROMPTS, responses=RESPONSES)


def test_a_column_of_responses(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    rows = [{"text": "a film", "answer": " it was dull"}, {"text": "no", "answer": [5, 6]}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [each.response for each in read(path, response_column="answer")] == [" it was dull", (5, 6)]
    assert read(path)[0].response is None
    with pytest.raises(whence.WhenceError, match="has no column 'reply'"):
        read(path, response_column="reply")
    path.write_text(json.dumps({"text": "a film", "answer": [True]}), encoding="utf-8")
    with pytest.raises(whence.WhenceError, match="is not a text but list"):
        read(path, response_column="answer")
