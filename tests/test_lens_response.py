"""The lens over a response: what each layer would have written, against the head on states of a run by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from rich.console import Console
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.lens import Lens, decode_layers
from whence.lens_response import settled_layers
from whence.models.responses import generate

PROMPT, RESPONSE = "the plot was not bad, but long", " she could not say"


def decoder() -> whence.LayeredModel:
    return tiny_models.tiny("llama", "causal_lm")


@pytest.fixture(scope="module")
def lens() -> Lens:
    return decode_layers(decoder(), PROMPT, k=3, response=RESPONSE)


def test_every_layer_is_read_where_a_token_was_written(lens: Lens) -> None:
    """Beside it: transformers' own states, cut after each token, under the model's own norm and head."""
    module: Any = decoder().module
    ids = [token.id for token in lens.tokens]
    written = lens.written
    assert written is not None
    assert lens.response == RESPONSE
    assert [lens.tokens[position].segment for position in written.positions] == [1] * len(written.positions)
    assert [token.segment for token in lens.tokens].count(1) == len(written.positions)
    for number, position in enumerate(written.positions):
        with torch.no_grad():
            output = module(torch.tensor([ids[:position]]), output_hidden_states=True)
            states = output.hidden_states[:-1]  # the last of them has been through the norm
            logits = [*(module.lm_head(module.model.norm(each[0, -1])) for each in states), output.logits[0, -1]]
        for layer, row in enumerate(logits):
            chances = row.softmax(-1)
            told = written.probabilities[layer, number]
            assert told == pytest.approx(float(chances[ids[position]]), rel=1e-4)
            assert written.ranks[layer, number] == 1 + int((row > row[ids[position]]).sum())
            assert int(lens.ids[layer, position - 1, 0]) == int(row.argmax())
            assert written.words[layer][number] == lens.words[layer][position - 1]
    np.testing.assert_allclose(written.shares, (written.ranks == 1).mean(axis=1))


def test_a_token_is_settled_from_where_it_stays_the_likeliest() -> None:
    ranks = np.array([[1, 3, 2, 1], [2, 1, 2, 1], [1, 1, 4, 1]])
    assert settled_layers(ranks, ("embeddings", 3, 7)) == (7, 3, None, "embeddings")


def test_what_the_model_wrote_itself_is_what_its_last_layer_would_have_written() -> None:
    model = decoder()
    found = decode_layers(model, PROMPT, k=1, response=None, max_new_tokens=4)
    assert found.written is not None
    own = generate(model, model.encode_prompt(PROMPT).ids, max_new_tokens=4)
    assert [found.tokens[position].id for position in found.written.positions] == own
    assert (found.written.ranks[-1] == 1).all()
    assert all(layer is not None for layer in found.written.settled)


def test_several_responses_are_read_as_each_alone(lens: Lens) -> None:
    several = decode_layers(decoder(), ["a film", PROMPT], k=3, response=[" it was dull", RESPONSE])
    np.testing.assert_allclose(several[1].probabilities, lens.probabilities, rtol=1e-5, atol=1e-7)
    assert several[1].words == lens.words
    by_ids = decode_layers(
        decoder(), [token.id for token in lens.tokens if token.segment == 0], k=3,
        response=[token.id for token in lens.tokens if token.segment == 1],
    )  # fmt: skip
    np.testing.assert_allclose(by_ids.probabilities, lens.probabilities, rtol=1e-6)


def test_it_is_written_and_read_and_shown(lens: Lens, tmp_path: Path) -> None:
    lens.save(tmp_path / "lens.json")
    again = Lens.load(tmp_path / "lens.json")
    assert again.written is not None
    assert lens.written is not None
    assert again.written.to_dict() == lens.written.to_dict() == lens.to_dict()["written"]
    console = Console(width=120, record=True, force_terminal=False)
    console.print(again)
    shown = console.export_text()
    assert "what each layer would have written in the place of each token of the response" in shown
    assert "was written" in shown
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line.split()]
    assert [word for word in ("she", "could", "not", "say") if any(word in line for line in lines)]
    assert not any(line.startswith("plot") for line in lines), "the prompt is not what was written"
    for mark in "ĠĊ▁":
        assert mark not in shown
    page = lens.to_html()
    assert "she" in page


def test_without_a_response_a_lens_is_as_before() -> None:
    found = decode_layers(decoder(), PROMPT, k=1)
    assert found.written is None
    assert found.response is None
    assert found.to_dict()["written"] is None


@pytest.mark.parametrize(
    ("response", "problem"),
    [(" ", "the response is empty"), (" dull" * 300, "the model reads"), ([10**6], "no token with id 1000000")],
)
def test_responses_that_cannot_be_read(response: Any, problem: str) -> None:
    with pytest.raises(whence.WhenceError, match=problem):
        decode_layers(decoder(), PROMPT, response=response)


def test_a_classifier_wrote_nothing(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.WhenceError, match="it writes no response"):
        decode_layers(bert, PROMPT, response=RESPONSE)


def test_the_command(tmp_path: Path) -> None:
    model = decoder()
    folder = tmp_path / "decoder"
    module: Any = model.module
    module.save_pretrained(folder)
    tiny_models.tokenizer_of("llama").save_pretrained(folder)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["lens", PROMPT, "--model", str(folder), *arguments], prog_name="whence")

    result = run("--response", RESPONSE, "--json", "--top", "2")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert len(json.loads(result.stdout)["written"]["settled"]) == len(model.encode_response(PROMPT, RESPONSE).response)
    result = run("--generate", "--max-new-tokens", "2")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert "each layer would have written" in result.stdout
    assert "leave out one of them" in run("--response", RESPONSE, "--generate").stderr
