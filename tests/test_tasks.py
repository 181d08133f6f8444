"""Tasks: each is one class, and one of a user's own is as good as those of whence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from complaints import complaint
from rich.console import Console
from tiny_models import LABELS, PAIRS, SHORT, TEXTS, tiny
from torch import Tensor, nn
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.engine.play import hiding_game
from whence.targets import ClassLabels, EncodedText, Label, Labels, Span
from whence.tasks import TASKS
from whence.tasks.classification import class_part
from whence.tasks.reading import Part, Reading
from whence.tasks.similarity import Similarity, pooling_of
from whence.testing import METHOD_CHECKS

# A task as a user adds it: one class, one call.


@dataclass(frozen=True)
class NextWordIs(Reading):
    """Whether a decoder goes on with one word or another: two of its tokens as classes."""

    labels: Labels
    ids: tuple[int, ...]

    task = "next_word_is"
    auto_class = "AutoModelForCausalLM"
    one_position = True
    next_token = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Any) -> Reading:
        words = (" so", " the")
        return cls(ClassLabels(words), tuple(vocabulary.index(word) for word in words))

    def position(self, text: EncodedText, at: int | None) -> int:
        return len(text.tokens) - 1

    def read(self, output: Mapping[str, Tensor], mask: Tensor, reference: Tensor | None = None) -> Tensor:
        return output["logits"][:, list(self.ids)]

    def part(self, target: Label | Span, logits: Tensor, text: EncodedText) -> Part:
        return class_part(self.labels, target, logits)


def token(word: str) -> int:
    (number,) = tiny_models.bare()(word, add_special_tokens=False)["input_ids"]
    return int(number)


@pytest.fixture(scope="module")
def next_word() -> whence.LayeredModel:
    reading = NextWordIs(ClassLabels((" so", " the")), (token(" so"), token(" the")))
    return whence.load(tiny_models.build("gpt2", "causal_lm"), tiny_models.bare(), task=reading)


def test_a_task_of_ones_own_is_explained(next_word: whence.LayeredModel) -> None:
    module: Any = next_word.module
    for text, explanation in zip(TEXTS, whence.explain(next_word, TEXTS, "gradient_x_input"), strict=True):
        with torch.no_grad():
            logits = module(**tiny_models.bare()(text, return_tensors="pt")).logits[0, -1]
        own = logits[[token(" so"), token(" the")]]
        best = int(own.argmax())
        assert explanation.prediction.label == (" so", " the")[best]
        assert explanation.prediction.probability == pytest.approx(float(own.softmax(-1)[best]), rel=1e-5)
        assert explanation.target.value == pytest.approx(float(own[best]), rel=1e-4)
        assert explanation.model.task == "next_word_is"


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_a_task_of_ones_own_keeps_the_contract(next_word: whence.LayeredModel, check: Any) -> None:
    check("gradient_x_input", next_word)


def test_a_task_of_ones_own_is_played_judged_and_shown(next_word: whence.LayeredModel) -> None:
    explanations = whence.explain(next_word, TEXTS, "leave_one_out")
    game = hiding_game(next_word, explanations, [" so", 1, " the"], grid=[0, 0.5, 1])
    assert len(game.curve().mean) == 3
    board = whence.evaluate(next_word, TEXTS, methods=["leave_one_out"], metrics=["sufficiency"])
    assert np.isfinite(board.interval("leave_one_out", "sufficiency").mean)  # type: ignore[union-attr]
    console = Console(record=True, width=100)
    console.print(explanations[0])
    assert "next word is" in console.export_text()
    assert "next_word_is" in explanations[0].to_html()


def test_a_task_in_the_table_loads_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a new file of whence would be: one class, one entry."""
    monkeypatch.setitem(TASKS, NextWordIs.task, NextWordIs)
    tiny_models.build("gpt2", "causal_lm").save_pretrained(tmp_path)
    tiny_models.bare().save_pretrained(tmp_path)
    model = whence.load(tmp_path, task="next_word_is")
    assert model.record.task == "next_word_is"
    options = ["--task", "next_word_is", "--target", " so", "--method", "random"]
    result = CliRunner().invoke(app, ["explain", SHORT, "-m", str(tmp_path), *options])
    assert result.exit_code == 0, result.output


def test_a_plain_module_takes_a_reading_too() -> None:
    module: Any = tiny_models.build_plain("mlp")
    reading = TASKS["classification"](ClassLabels(LABELS))  # type: ignore[call-arg]
    model = whence.load(module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], task=reading)
    assert whence.explain(model, SHORT, "random").prediction.label in LABELS


def test_every_task_says_what_it_is() -> None:
    for name, reading in TASKS.items():
        assert reading.task == name
        assert hasattr(transformers, reading.auto_class)
        assert reading.__doc__


def test_an_unknown_task() -> None:
    problem, advice = complaint(whence.UnknownNameError, whence.load, "sentiment", task="classifcation")
    assert problem == "unknown task 'classifcation'"
    assert advice.endswith(f"known: {', '.join(TASKS)}")


# A question without a context.


@pytest.mark.parametrize("door", ["explain", "evaluate", "games", "command"])
def test_a_question_without_a_context_is_refused(door: str, tmp_path: Path) -> None:
    model = tiny("bert", "question_answering")
    if door == "explain":
        problem, advice = complaint(whence.InputError, whence.explain, model, "who made it")
    elif door == "evaluate":
        problem, advice = complaint(whence.InputError, whence.evaluate, model, ["who made it", "why"])
    elif door == "games":
        alone = [whence.Explanation.from_scores("who made it", ["who", "made", "it"], [1, 0, 0])]
        problem, advice = complaint(whence.InputError, hiding_game, model, alone)
    else:
        tiny_models.build("bert", "question_answering").save_pretrained(tmp_path)
        tiny_models.wordpiece().save_pretrained(tmp_path)
        result = CliRunner().invoke(app, ["explain", "who made it", "-m", str(tmp_path)])
        assert result.exit_code == 2
        problem, advice = result.output.strip().removeprefix("error: ").splitlines()[-2:]
    assert problem.strip().endswith("question answering takes two texts, here is one")
    assert "('question', 'context')" in advice
    assert "--pair" in advice


# Similarity.

ENCODERS = ["bert", "roberta", "mpnet", "distilbert", "modernbert", "llama"]


def encoder(family: str) -> Any:
    config = tiny_models.build(family).config
    torch.manual_seed(0)
    return tiny_models.shaken(transformers.AutoModel.from_config(config))


def by_hand(module: Any, family: str, first: str, second: str) -> float:
    """The cosine of the means over tokens, each text by itself, without whence."""
    tokenizer = tiny_models.tokenizer_of(family)
    with torch.no_grad():
        one, other = (
            module(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0) for text in (first, second)
        )
    return float(torch.cosine_similarity(one, other, dim=0))


@pytest.mark.parametrize("family", ENCODERS)
def test_the_similarity_of_two_texts(family: str) -> None:
    module = encoder(family)
    model = whence.load(module, tiny_models.tokenizer_of(family), task="similarity")
    explanations = whence.explain(model, PAIRS, "gradient_x_input", layers="all")
    for (first, second), explanation in zip(PAIRS, explanations, strict=True):
        expected = by_hand(module, family, first, second)
        assert explanation.target.value == pytest.approx(expected, abs=1e-5)
        assert explanation.target.description == "similarity"
        assert explanation.prediction.label == f"similarity {expected:.3f}"
        assert (explanation.text, explanation.pair) == (first, second)
        assert {token.segment for token in explanation.tokens} == {0}
        alone = whence.explain(model, (first, second), "gradient_x_input", layers="all")
        np.testing.assert_allclose(alone.scores, explanation.scores, atol=1e-5)


def test_scores_of_a_similarity_are_what_a_token_is_worth() -> None:
    """Without a token the cosine is what it is with that token's word embedding taken away."""
    module = encoder("bert")
    model = whence.load(module, tiny_models.wordpiece(), task="similarity")
    first, second = PAIRS[1]
    whole = whence.explain(model, (first, second), "leave_one_out", baseline="mask")
    position = next(i for i, token in enumerate(whole.tokens) if token.text == "dull")
    without = by_hand(module, "bert", first.replace("dull", "[MASK]"), second)
    assert whole.row()[position] == pytest.approx(by_hand(module, "bert", first, second) - without, abs=1e-5)
    assert whole.cost.forwards == 2 + len([token for token in whole.tokens if not token.special])


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_similarity_without_a_word(family: str) -> None:
    module = encoder(family)
    model = whence.load(module, tiny_models.tokenizer_of(family), task="similarity")
    whole = whence.explain(
        model, ("the plot was dull", "a long plot"), "leave_one_out", baseline="delete", units="word"
    )
    without = by_hand(module, family, "the plot was", "a long plot")
    score = whole.gathered()[-1].score
    assert score == pytest.approx(by_hand(module, family, "the plot was dull", "a long plot") - without, abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_poolings(pooling: Any) -> None:
    module, tokenizer = encoder("bert"), tiny_models.wordpiece()
    model = whence.load(module, tokenizer, task=Similarity.pooled(pooling))
    vectors: list[torch.Tensor] = []
    for text in PAIRS[0]:
        with torch.no_grad():
            states = module(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        vectors.append(
            {"mean": states.mean(0), "cls": states[0], "max": states.amax(0), "lasttoken": states[-1]}[pooling]
        )
    explanations = whence.explain(model, [PAIRS[0], PAIRS[2]], "random")
    one, other = vectors
    assert explanations[0].target.value == pytest.approx(float(torch.cosine_similarity(one, other, dim=0)), abs=1e-5)


MODULES = """[
 {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Last", "type": "sentence_transformers.models.%s"}
]"""


@pytest.fixture
def sentence_folder(tmp_path: Path) -> Path:
    """As sentence-transformers writes them, pooled by the first token."""
    encoder("bert").save_pretrained(tmp_path)
    tiny_models.wordpiece().save_pretrained(tmp_path)
    (tmp_path / "modules.json").write_text(MODULES % "Normalize")
    (tmp_path / "1_Pooling").mkdir()
    flags = '{"word_embedding_dimension": 16, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    (tmp_path / "1_Pooling" / "config.json").write_text(flags)
    return tmp_path


def test_a_folder_of_sentence_transformers(sentence_folder: Path) -> None:
    model = whence.load(sentence_folder, task="similarity")
    assert model.reading == Similarity.pooled("cls")
    problem, advice = complaint(whence.UsageError, whence.load, sentence_folder)
    assert "does not say what it is for (architectures: BertModel)" in problem
    assert advice.endswith("; sentence embeddings are for similarity")
    (sentence_folder / "modules.json").write_text(MODULES % "Dense")
    problem, _ = complaint(whence.ModelError, whence.load, sentence_folder, task="similarity")
    assert problem == "this sentence transformer has a Dense module, which whence does not run"


def test_similarity_on_the_command_line(sentence_folder: Path) -> None:
    command = ["explain", PAIRS[0][0], "-m", str(sentence_folder), "--task", "similarity", "--method", "random"]
    result = CliRunner().invoke(app, [*command, "--pair", PAIRS[0][1]])
    assert result.exit_code == 0, result.output
    assert "similarity" in result.stdout
    assert CliRunner().invoke(app, command).exit_code == 2


@pytest.mark.parametrize("settings", [{}, {"pooling_mode_weightedmean_tokens": True},
                                      {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}])  # fmt: skip
def test_a_pooling_that_is_not_known(settings: dict[str, bool]) -> None:
    problem, _ = complaint(whence.ModelError, pooling_of, settings)
    assert problem.startswith("sentence embeddings pooled by ")


def test_other_names_of_poolings() -> None:
    assert pooling_of({"pooling_mode": "lasttoken"}) == "lasttoken"
    assert pooling_of({"pooling_mode": "mean", "pooling_mode_mean_tokens": True}) == "mean"
    assert pooling_of({"pooling_mode_mean_sqrt_len_tokens": True}) == "mean"


class Transformer(nn.Module):
    """The first module of a SentenceTransformer."""

    def __init__(self, auto_model: nn.Module) -> None:
        super().__init__()
        self.auto_model = auto_model


class Pooling(nn.Module):
    """The second."""

    def get_config_dict(self) -> dict[str, Any]:
        return {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


class SentenceTransformer(nn.Sequential):
    """As far as whence looks at one."""

    tokenizer = tiny_models.wordpiece()


def test_a_sentence_transformer_is_recognised() -> None:
    module = encoder("bert")
    model = whence.load(SentenceTransformer(Transformer(module), Pooling()))
    assert model.module is module
    assert model.reading == Similarity.pooled("cls")
    assert whence.explain(model, PAIRS[0], "random").target.description == "similarity"


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", ["gradient_x_input", "leave_one_out"])
def test_methods_keep_the_contract_on_similarities(method: str, check: Any) -> None:
    check(method, whence.load(encoder("bert"), tiny_models.wordpiece(), task="similarity"))


def test_a_similarity_is_shown_with_the_text_it_is_compared_with() -> None:
    model = whence.load(encoder("bert"), tiny_models.wordpiece(), task="similarity")
    explanation = whence.explain(model, PAIRS[0], "gradient_x_input")
    console = Console(record=True, width=100)
    console.print(explanation)
    assert "similarity" in console.export_text()
    assert PAIRS[0][1] in explanation.to_html()
    assert whence.Explanation.from_dict(explanation.to_dict()) == explanation


def test_a_similarity_decides_nothing() -> None:
    model = whence.load(encoder("bert"), tiny_models.wordpiece(), task="similarity")
    for scale in ("probability", "log_probability"):
        problem, _ = complaint(whence.UsageError, whence.explain, model, PAIRS[0], "random", scale=scale)
        assert problem == "this model's output is a plain number, not a probability"
    problem, _ = complaint(whence.UsageError, whence.evaluate, model, PAIRS)
    assert problem == "the model gives a plain number, so it takes no decision to explain"
