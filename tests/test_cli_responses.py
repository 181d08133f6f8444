"""The command on responses: prompts, chats, targets, foils, and what it says when something is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner, Result

import whence
from whence.cli import app
from whence.units import word_spans

pytestmark = pytest.mark.usefixtures("quiet_only_here")
PROMPT = "the plot was not bad. but it is too long!"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHAT = [{"role": "system", "content": "say one word."}, {"role": "user", "content": "was it \x1b[31mlong? why?"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny decoder with a chat template, saved as any user's would be."""
    path = tmp_path_factory.mktemp("decoder")
    special = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_models._byte_level(special), bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        additional_special_tokens=special[3:], model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, pad_token_id=2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    tiny_models.shaken(LlamaForCausalLM(config)).save_pretrained(path)
    return str(path)


@pytest.fixture
def chat_file(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments], prog_name="whence")


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def explained(*arguments: str) -> list[whence.Explanation]:
    lines = done(*arguments, "--json").stdout.splitlines()
    return [whence.Explanation.from_dict(json.loads(line)) for line in lines]


def test_a_response_stands_above_what_it_rests_on(folder: str) -> None:
    shown = done(PROMPT, "--model", folder, "--response", " she could not say why").stdout
    assert shown.index("response") < shown.index("she could not say why") < shown.index("rests on")
    assert shown.index("rests on") < shown.index("the plot was not bad.")
    assert "each part of the response, and what it rests on most" in shown
    assert "log probability of she could not say why" in shown
    assert "Ġ" not in shown
    assert "Ċ" not in shown


def test_a_part_of_a_response_rests_on_what_is_clear(folder: str) -> None:
    """Beside the strongest, nothing is named that has less than a tenth of its score."""
    command = [PROMPT, "--model", folder, "--response", " she could not say why"]
    shown = done(*command).stdout
    told = shown[shown.index("what it rests on most") : shown.index("scores  ")]
    (found,) = explained(*command)
    named = 0
    for word in word_spans(found.response or ""):
        top = found.part(word).top(3)
        named += sum(abs(each.score) >= abs(top[0].score) / 10 for each in top)
    assert len(re.findall(r"[-+]\d\S*|\b0\b", told)) == named


def test_json_is_of_schema_2_and_the_same_as_in_python(folder: str) -> None:
    (line,) = done(PROMPT, "--model", folder, "--response", " the film", "--json").stdout.splitlines()
    assert json.loads(line)["schema"] == "whence.explanation/2"
    found = whence.Explanation.from_dict(json.loads(line))
    same = whence.explain(whence.load(folder), PROMPT, response=" the film")
    np.testing.assert_allclose(found.scores, same.scores, rtol=1e-5, atol=1e-6)
    assert found.response == " the film"


def test_the_model_writes_where_it_is_told_to(folder: str) -> None:
    texts = [PROMPT, "who made it?"]
    found = explained(*texts, "--model", folder, "--generate", "--max-new-tokens", "3", "--method", "gradient")
    assert [each.text for each in found] == texts
    assert all(each.outputs is not None and len(each.outputs.positions) <= 3 for each in found)
    (next_token,) = explained(PROMPT, "--model", folder, "--method", "gradient")
    assert next_token.response is None


def test_a_response_as_a_whole_only(folder: str) -> None:
    command = [PROMPT, "--model", folder, "--response", " she could not say", "--method", "gradient_x_input"]
    (apart,), (whole,) = explained(*command), explained(*command, "--whole")
    assert whole.outputs is None
    np.testing.assert_allclose(whole.scores, apart.scores, rtol=1e-5, atol=1e-7)
    assert "she could not say" in done(*command, "--whole").stdout


def test_targets_of_a_response(folder: str) -> None:
    command = [PROMPT, "--model", folder, "--response", " she could not say", "--method", "gradient_x_input"]
    (words,) = explained(*command, "--target", "could not")
    (span,) = explained(*command, "--target", "5:14")
    assert words.target.description == span.target.description == "could not"
    (whole,) = explained(*command, "--target", "all")
    assert whole.target.description == "she could not say"
    (contrast,) = explained(*command, "--against", " they say")
    assert contrast.target.description == "she could not say rather than they say"
    (context,) = explained(*command, "--without", "the plot was not bad.")
    assert "rather than without it" in context.target.description


def test_a_response_is_drawn_and_units_are_spans(folder: str) -> None:
    command = [PROMPT, "--model", folder, "--generate", "--max-new-tokens", "6", "--method", "gradient"]
    drawn = [explained(*command, "--sample", "--seed", seed)[0].response for seed in ("1", "1", "2")]
    assert drawn[0] == drawn[1] != drawn[2]
    (found,) = explained(PROMPT, "--model", folder, "--response", " no", "--units", "0:21, 22:41")
    assert found.units is not None
    assert [(unit.start, unit.end) for unit in found.units.units] == [(0, 21), (22, 41)]


def test_a_chat_is_read_from_a_file(folder: str, chat_file: str) -> None:
    (found,) = explained("--messages", chat_file, "--model", folder, "--response", " no", "--units", "turn")
    assert found.units is not None
    assert [found.text[unit.start : unit.end] for unit in found.units.units] == [each["content"] for each in CHAT]
    shown = done("--messages", chat_file, "--model", folder, "--max-new-tokens", "4", "--units", "sentence").stdout
    assert "\x1b" not in shown
    assert "<|im_start|>system↵" in shown


def test_a_chat_that_ends_with_an_answer_is_explained_as_it_went(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "went.json"
    path.write_text(json.dumps({"messages": [*CHAT, {"role": "assistant", "content": "no"}]}))
    (found,) = explained("--messages", str(path), "--model", folder, "--method", "gradient")
    assert found.response == "no"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--response", ""], "the response is empty"),
        (["--response", " so" * 200], "prompt and response take"),
        (["--response", " no", "--target", "4:9"], "characters 4 to 9 are not in the response, which has 3"),
        (["--response", " no", "--target", "yes"], "'yes' is not in the response"),
        (["--response", " no", "--generate"], "--response is that of one text"),
        (["another", "--response", " no"], "--response is that of one text"),
        (["--without", "the plot"], "--without asks about a response"),
        (["--whole"], "--whole asks about a response"),
        (["--sample"], "--sample is a way to write a response"),
        (["--response", " no", "--sample"], "--sample is a way to write a response"),
        (["--response", " no", "--units", "0:x"], "'0:x' is not a span"),
        (["--response", " no", "--without", "a spoon"], "'a spoon' is not in the prompt"),
        (["--response", " no", "--units", "turn"], "a text has no turns"),
        (["--response", " no", "--against", " yes", "--method", "gradient"], "gradient cannot say why one response"),
        (["--messages", "nowhere.json"], "cannot read 'nowhere.json'"),
    ],
)
def test_what_cannot_be_is_said(folder: str, arguments: list[str], complaint: str) -> None:
    result = run(PROMPT, "--model", folder, *arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {complaint}")
    assert len(result.stderr.splitlines()) >= 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "is not JSON"), ("[]", "holds no messages"), ('["hello"]', "holds no messages"), ("3", "holds no messages")],
)
def test_a_file_that_holds_no_chat(folder: str, tmp_path: Path, content: Any, complaint: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(content)
    result = run("--messages", str(path), "--model", folder)
    assert result.exit_code == 2
    assert complaint in result.stderr.splitlines()[0]
    both = run("a text", "--messages", str(path), "--model", folder)
    assert both.exit_code == 2


def test_no_chat_template(chat_file: str, tmp_path: Path) -> None:
    tiny_models.build("gpt2", "causal_lm").save_pretrained(tmp_path)
    tiny_models.tokenizer_of("gpt2").save_pretrained(tmp_path)
    result = run("--messages", chat_file, "--model", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the model has no chat template")


def test_a_classifier_does_not_respond() -> None:
    result = run(PROMPT, "--response", " no")
    assert result.exit_code == 1
    assert "it writes no response" in result.stderr


def judged(folder: str, data: Path, out: Path, *arguments: str) -> Result:
    command = ["evaluate", "--model", folder, "--data", str(data), "--out", str(out), "--methods", "gradient_x_input",
               "--metrics", "faithfulness", "--layer", "embeddings", *arguments]  # fmt: skip
    return CliRunner().invoke(app, command, prog_name="whence")


def test_a_board_of_responses(folder: str, tmp_path: Path) -> None:
    data = tmp_path / "said.jsonl"
    rows = [{"text": PROMPT, "answer": " she could not", "label": 1}, {"text": "who made it?", "answer": [10, 11, 12]}]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = judged(folder, data, tmp_path / "board", "--response-column", "answer", "--json")
    assert result.exit_code == 0, (result.stderr, result.exception)
    board = whence.Scoreboard.load(tmp_path / "board")
    assert board.settings["target"] == json.loads(result.stdout)["settings"]["target"] == "response"
    assert board.texts[0].pair == " she could not"
    assert [token.id for token in board.texts[1].tokens if token.segment == 1] == [10, 11, 12]
    shown = (tmp_path / "board" / "texts.html").read_text(encoding="utf-8")
    assert "she could not" in shown
    result = judged(folder, data, tmp_path / "written", "--generate", "--max-new-tokens", "2")
    assert result.exit_code == 0, (result.stderr, result.exception)
    written = whence.Scoreboard.load(tmp_path / "written")
    assert all(1 <= sum(token.segment == 1 for token in text.tokens) <= 2 for text in written.texts)
    for arguments, problem in {
        ("--response-column", "reply"): "has no column 'reply'",
        ("--response-column", "answer", "--generate"): "leave out one of them",
        ("--max-new-tokens", "2"): "give --generate with it",
    }.items():
        refused = judged(folder, data, tmp_path / "none", *arguments)
        assert refused.exit_code != 0
        assert problem in refused.stderr


def test_probes_fitted_on_a_column_of_responses_explain_others(folder: str, tmp_path: Path) -> None:
    data = tmp_path / "said.csv"
    rows = "".join(f"a film of {number} days, it was dull\n" for number in range(12))
    data.write_text(f"text,answer\n{rows}", encoding="utf-8")
    quick = ("steps=2", "width=16", "warm_up=1", "step_tokens=60", "pairs=2", "checked_texts=4", "checked_orders=2")
    command = ["fit", "--model", folder, "--data", str(data), "--explainer", "shapley", "--response-column", "answer"]
    for each in quick:
        command += ["-o", each]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "probes")], prog_name="whence")
    assert result.exit_code == 0, (result.stderr, result.exception)
    probes = whence.ShapleyProbes.load(tmp_path / "probes")
    assert probes.shares.owner.record.task == "response"
    asked = [PROMPT, "--model", folder, "--probes", str(tmp_path / "probes")]
    (found,) = explained(*asked, "--response", " she could not")
    assert found.method == "one_pass"
    assert found.outputs is not None
    same = whence.explain(whence.load(folder), PROMPT, "one_pass", response=" she could not", probes=probes)
    np.testing.assert_allclose(found.scores, same.scores, rtol=1e-5, atol=1e-6)
    refused = run(*asked, "--scale", "log_probability")
    assert "trained on responses, not on the next token" in refused.stderr
