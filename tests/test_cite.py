"""`whence.cite`: the same numbers as fresh runs on shortened prompts, what is reported of them, and what is refused."""

from __future__ import annotations

import functools
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from rich.console import Console
from test_bad_input import HOSTILE
from typer.testing import CliRunner

import whence
from whence.citing.ablations import Ablations
from whence.citing.answering import Answer, answered
from whence.citing.citations import Citation, CitedSentence
from whence.citing.documents import sourced_prompt
from whence.citing.one_pass import ONE_PASS
from whence.citing.scoring import LEAST
from whence.citing.surrogate import logit_of
from whence.cli import app
from whence.errors import FileError, InputError, ModelError, UnknownNameError, UsageError
from whence.render.citations_page import page_data

DOCUMENTS = {"first": "She made a film. It was dull.", "second": "They say it is long. The end was sad."}
QUESTION = "What was the film?"
ANSWER = "The film was dull. She made it."
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"


@functools.cache
def decoder(chat: bool = False) -> whence.LayeredModel:
    """A tiny random GPT-2 that reads 512 tokens."""
    tokenizer: Any = tiny_models.tokenizer_of("gpt2")
    if chat:
        tokenizer = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, chat_template=TEMPLATE)
    return whence.load(tiny_models.build("gpt2", "causal_lm", n_positions=512), tokenizer)


def asked(chat: bool = False, answer: str = ANSWER) -> Answer:
    return answered(decoder(chat), sourced_prompt(QUESTION, DOCUMENTS), answer, max_new_tokens=8)


@pytest.mark.parametrize("chat", [False, True])
def test_sets_of_sources_are_fresh_runs_on_the_prompt_without_the_others(chat: bool) -> None:
    found = asked(chat)
    tokenizer, module = found.model.tokenizer.tokenizer, found.model.module  # type: ignore[attr-defined]
    response = [found.encoding.ids[position] for position in found.encoding.response]
    around = ("<user>", "\n<assistant>") if chat else ("", "\n\nAnswer:")
    texts = {
        (True, True, True, True): " She made a film. It was dull.\n\nThey say it is long. The end was sad.",
        (False, True, False, False): " It was dull.",
        (True, False, True, False): " She made a film.\n\nThey say it is long.",
    }
    told = found.ablations().log_probabilities(np.array(list(texts)))
    for row, rest in zip(told, texts.values(), strict=True):
        text = f"{around[0]}Context:{rest}\n\nQuery: {QUESTION}{around[1]}"
        ids = tokenizer(text)["input_ids"] + response
        with torch.no_grad():
            logits = module(torch.tensor([ids])).logits[0, -len(response) - 1 : -1].double().log_softmax(-1)
        expected = logits.gather(1, torch.tensor(response)[:, None])[:, 0]
        np.testing.assert_allclose(row, expected.numpy(), atol=1e-5)


def test_sentences_of_the_answer_share_out_its_tokens() -> None:
    found = asked()
    assert [found.text[start:end] for start, end in found.sentences] == ["The film was dull.", "She made it."]
    assert np.concatenate(found.tokens).tolist() == list(range(len(found.encoding.response)))
    first_of_second = found.encoding.tokens[found.encoding.response[int(found.tokens[1][0])]]
    assert first_of_second.start <= found.sentences[1][0] < first_of_second.end


def test_scores_are_mean_gains_by_brute_force() -> None:
    found = whence.cite(decoder(), QUESTION, DOCUMENTS, answer=ANSWER, budget=16)
    answer = asked()
    sets = (np.arange(16)[:, None] >> np.arange(4)) % 2 == 1
    values = answer.ablations().log_probabilities(sets)
    for sentence, tokens in zip(found.sentences, answer.tokens, strict=True):
        chance = np.exp(values[:, tokens].sum(axis=1))
        worth = np.log(chance) - np.log1p(-chance)
        for each in sentence.ranked:
            there = sets[:, each.source]
            assert each.score == pytest.approx(worth[there].mean() - worth[~there].mean(), abs=1e-5)
            assert each.low == each.high == each.score
        assert sentence.log_probability == pytest.approx(values[-1, tokens].sum())
        assert [each.score for each in sentence.ranked] == sorted(
            (each.score for each in sentence.ranked), reverse=True
        )
        assert sentence.cited == tuple(each.source for each in sentence.ranked if each.score > LEAST)
    assert found.cost.forwards == 16
    assert found.settled


@pytest.mark.parametrize("method", ["balanced", "context_cite", "leave_one_out", "shapley", *ONE_PASS])
def test_every_method_gives_citations_that_can_be_kept(method: str, tmp_path: Path) -> None:
    found = whence.cite(decoder(), QUESTION, DOCUMENTS, answer=ANSWER, method=method, budget=8, seed=3)
    again = whence.cite(decoder(), QUESTION, DOCUMENTS, answer=ANSWER, method=method, budget=8, seed=3)
    assert [each.ranked for each in found.sentences] == [each.ranked for each in again.sentences]
    found.save(tmp_path / "kept.json")
    assert whence.Citations.load(tmp_path / "kept.json") == found
    assert all((sentence.cited is None) == (method in ONE_PASS) for sentence in found.sentences)
    assert all(len(sentence.ranked) == 4 for sentence in found.sentences)
    assert len(found.to_dataframe()) == 8


def test_the_model_writes_the_answer_where_none_is_given() -> None:
    with pytest.warns(whence.WhenceWarning, match="the answer was cut after 6 tokens"):
        found = whence.cite(decoder(), QUESTION, DOCUMENTS, budget=4, max_new_tokens=6)
    assert found.written
    assert found.answer == answered(decoder(), sourced_prompt(QUESTION, DOCUMENTS), None, max_new_tokens=6).text


def test_an_answer_may_be_drawn() -> None:
    cite = functools.partial(whence.cite, decoder(), QUESTION, DOCUMENTS, method="random", max_new_tokens=6)
    with pytest.warns(whence.WhenceWarning, match="the answer was cut"):
        drawn = [cite(sample=True, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0].answer == drawn[1].answer != drawn[2].answer
    assert drawn[0].options["sample"] is True


@pytest.mark.parametrize("worth", [8.0, 0.5])
def test_sources_of_which_any_will_do_are_said_to_matter_together(
    worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four sources that say the same: hardly ever does one of them matter, and yet without all of them all is lost."""

    def made_up(self: Answer, *_: object) -> Ablations:
        share = np.ones((1, len(self.encoding.response))) / len(self.tokens[0])
        return Ablations(
            lambda sets: (worth * np.asarray(sets.any(axis=1))[:, None] - 10.0) * share, len(self.prompt.sources)
        )

    monkeypatch.setattr(Answer, "ablations", made_up)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", whence.WhenceWarning)
        found = whence.cite(decoder(), QUESTION, DOCUMENTS, answer="The film was dull.")
    assert found.settled
    assert found.sentences[0].cited == ()
    odds = math.exp(logit_of(np.array(worth - 10)) - logit_of(np.array(-10.0)))
    expected = [f"all of them together make its odds {odds:,.0f} times as large"] if worth > LEAST else []
    assert len(found.warnings) == len(said) == len(expected)
    assert all(words in told for words, told in zip(expected, found.warnings, strict=True))


def test_a_text_that_is_the_name_of_a_file_is_a_text_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    with pytest.warns(whence.WhenceWarning, match="'notes' is taken for a text, though there is a file of this name"):
        found = whence.cite(decoder(), QUESTION, "notes", answer=ANSWER, method="random")
    assert found.documents == {"1": "notes"}


def test_sources_may_be_documents() -> None:
    found = whence.cite(decoder(), QUESTION, DOCUMENTS, answer=ANSWER, sources="document")
    assert [source.text for source in found.sources] == list(DOCUMENTS.values())
    assert found.cost.forwards == 4  # every set of two


def test_gradients_are_of_the_sentence_summed_over_sources() -> None:
    answer = asked()
    found = ONE_PASS["gradient_x_input"](answer, 0).scores
    module: Any = answer.model.module
    ids, first = torch.tensor([answer.encoding.ids]), answer.encoding.response.start
    words = module.get_input_embeddings()(ids).detach().requires_grad_()
    chances = module(inputs_embeds=words).logits[0].log_softmax(-1)
    sentence = sum(chances[first + token - 1, ids[0, first + token]] for token in answer.tokens[1].tolist())
    (gradient,) = torch.autograd.grad(sentence, words)
    products = (gradient * words).sum(dim=-1)[0].detach().numpy()
    expected = [products[tokens].sum() for tokens in answer.source_tokens()]
    np.testing.assert_allclose(found[1], expected, rtol=1e-4, atol=1e-5)


def test_attention_is_read_where_a_sentence_is_written() -> None:
    answer = asked()
    found = ONE_PASS["attention"](answer, 0).scores
    model = answer.model
    assert model.attend is not None
    with model.held(), torch.no_grad():
        weights = model.attend(model.collate([answer.encoding]))
    place = answer.encoding.response.start - 1
    expected = np.mean(
        [
            [float(block[0, head, place + token, answer.source_tokens()[2]].sum()) for token in answer.tokens[0]]
            for block in weights
            for head in range(block.shape[1])
        ]
    )
    assert found[0, 2] == pytest.approx(expected, rel=1e-5)


def test_similarity_is_of_words() -> None:
    answer = asked(answer="Dull.")
    weights = {"it": 1 + math.log(4 / 2), "was": 1 + math.log(4 / 2), "dull": 1 + math.log(4)}
    size = math.sqrt(sum(weight**2 for weight in weights.values()))
    assert ONE_PASS["similarity"](answer, 0).scores[0].tolist() == pytest.approx([0, weights["dull"] / size, 0, 0])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "guess"}, UnknownNameError, "unknown citing method 'guess'"),
        ({"sources": "word"}, UnknownNameError, "unknown unit of sources 'word'"),
        ({"budget": 1}, UsageError, "budget must be a number of at least 2"),
        ({"budget": "many"}, UsageError, "budget must be a number or 'auto', got 'many'"),
        ({"seed": -1}, UsageError, "seed must be a whole number"),
        ({"answer": ""}, InputError, "the answer is empty"),
        ({"answer": []}, InputError, "the answer is empty"),
        ({"answer": "  "}, InputError, "the response is empty"),
        ({"documents": []}, InputError, "there is no document to cite"),
        ({"documents": ["a film " * 600]}, InputError, "tokens, the model reads 512"),
        ({"question": " "}, InputError, "the question is empty"),
        ({"question": None}, InputError, "the question is NoneType"),
        ({"least": math.nan}, UsageError, "least must be a number of at least 0, got nan"),
        ({"least": "much"}, UsageError, "least must be a number of at least 0, got 'much'"),
    ],
)
def test_what_cannot_be_cited(change: dict[str, Any], error: type[Exception], message: str) -> None:
    settings: dict[str, Any] = {"question": QUESTION, "documents": DOCUMENTS, "answer": ANSWER, **change}
    with pytest.raises(error, match=message):
        whence.cite(decoder(), **settings)


def test_a_classifier_writes_no_answer() -> None:
    with pytest.raises(ModelError, match="it writes no response"):
        whence.cite(tiny_models.tiny("bert"), QUESTION, DOCUMENTS)


def made(*, cited: tuple[int, ...] | None = (1,), text: str = "It was dull.") -> whence.Citations:
    """Citations of one sentence with two sources, put together by hand."""
    found = whence.cite(decoder(), QUESTION, {"1": f"One. {text}"}, answer=ANSWER, sources="sentence", budget=4)
    ranked = (Citation(1, 4.0, 3.0, 5.0), Citation(0, -0.5, None, None))
    sentence = CitedSentence(0, 18, -3.5, ranked, cited)
    return whence.Citations(**{**vars(found), "sentences": (sentence,), "warnings": ("look out",)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "whence.lens/1"}, "not citations of schema"),
        ({"answer": "short"}, "one is not in the answer"),
        ({"documents": {"1": "Another text altogether."}}, "is not where the file says"),
        ({"least": "much"}, "least: expected a finite number"),
        ({"more": 1}, "missing or unknown field more"),
        ({"sources": []}, "expected every source once"),
    ],
)
def test_broken_files_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=message):
        whence.Citations.from_dict({**made().to_dict(), **change})


def shown(citations: whence.Citations) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(citations)
    return console.export_text()


def test_the_terminal_shows_the_answer_and_what_it_rests_on() -> None:
    view = shown(made())
    assert "The film was dull. [2]" in view
    assert "4.00 3.00 … 5.00 It was dull." in view
    assert "look out" in view
    assert "none of them; the strongest is [2] with 4.00" in shown(made(cited=()))
    assert "does not tell whether" in shown(made(cited=None))


def test_the_page_holds_everything_and_runs_nothing_of_it() -> None:
    hostile = "<script>alert(1)</script> \x1b[31m\u202e."
    found = made(text=hostile)
    page = found.to_html()
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    data = page_data(found)
    assert data["sources"][1]["text"].startswith("<script>alert(1)</script> ␛[31m⟨U+202E⟩")
    assert data["answer"] == [["The film was dull.", 0], [" She made it.", None]]
    assert data["sentences"][0]["ranked"] == [[1, 4.0, 3.0, 5.0], [0, -0.5, None, None]]
    shown = found._repr_html_()
    assert "<b>The film was dull.</b>" in shown
    assert "<script" not in shown
    assert len(shown) < 6_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_odd_documents_are_cited(text: str) -> None:
    found = whence.cite(decoder(), QUESTION, [text, "It was dull."], answer=ANSWER, budget=4)
    for source in found.sources:
        assert source.text == found.documents[source.document][source.start : source.end]
    assert whence.Citations.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder")
    decoder().module.save_pretrained(path)  # type: ignore[operator]
    tiny_models.tokenizer_of("gpt2").save_pretrained(path)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["cite", *map(str, arguments)])


def test_the_command(folder: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for name, text in DOCUMENTS.items():
        (documents / f"{name}.txt").write_text(text)
    given = ["--model", folder, "--question", QUESTION, "--documents", documents, "--answer", ANSWER, "--budget", 8]
    page, kept = tmp_path / "why.html", tmp_path / "why.json"
    told = run(*given, "--json", "--html", page, "--save", kept)
    assert told.exit_code == 0, told.output
    found = whence.Citations.from_dict(json.loads(told.stdout))
    assert found == whence.Citations.load(kept)
    assert [source.document for source in found.sources] == ["first.txt"] * 2 + ["second.txt"] * 2
    assert page.read_text().startswith("<!doctype html>")
    seen = run(*given, "--method", "similarity")
    assert seen.exit_code == 0
    assert "It was dull." in seen.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "few"], "--budget is 'few'"),
        (["--method", "guess"], "unknown citing method 'guess'"),
        (["--sources", "word"], "unknown unit of sources"),
        (["--html", "/nowhere/at/all.html"], "there is no folder"),
    ],
)
def test_wrong_use_of_the_command(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a film")
    told = run("--model", "x", "--question", "q", "--documents", tmp_path, *arguments)
    assert (told.exit_code, message in told.output) == (2, True), told.output
    assert run("--question", "q", "--documents", tmp_path).exit_code == 2
