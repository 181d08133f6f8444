"""The lens: what it holds, by hand and against the head itself, and what terminal, page and command show of it."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from made_explanations import made
from rich.console import Console
from test_page import HOSTILE, Elements, data_of, numbers
from tiny_models import LONG, SHORT, build, texts_for, tiny, tokenizer_of, wordpiece
from torch import nn
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.explanation import ModelRecord, Token
from whence.lens import Lens, decode_layers
from whence.models.batching import Text
from whence.render.lens import lens_view
from whence.render.page import page
from whence.render.rows import blanks_shown
from whence.render.visible import shortened, visible

SENTENCE = "I wanted to love this film, but the story never comes alive."


@pytest.fixture(scope="module")
def decodable() -> whence.LayeredModel:
    return whence.load(build("bert"), wordpiece(), head=tiny("bert", "masked_lm"))


def made_lens(text: str = "good film", layers: tuple[Any, ...] = (0, 1, 2), k: int = 3, **changes: Any) -> Lens:
    """A lens by hand that reads "good" first everywhere, at 60, 30 and 10 per cent."""
    tokens = made(text).tokens
    shape = (len(layers), len(tokens))
    vocabulary = ["good", "bad", "film"][:k]
    settings: dict[str, Any] = {
        "text": text,
        "pair": None,
        "tokens": tokens,
        "layers": layers,
        "words": tuple(tuple(tuple(vocabulary) for _ in tokens) for _ in layers),
        "ids": np.broadcast_to(np.array([9, 5, 6][:k]), (*shape, k)),
        "probabilities": np.broadcast_to(np.array([0.6, 0.3, 0.1][:k], dtype=np.float32), (*shape, k)),
        "own_probabilities": np.full(shape, 0.25, dtype=np.float32),
        "own_ranks": np.full(shape, 4),
        "model": ModelRecord("some/model", "abc123", "BertForSequenceClassification", "classification"),
        "head": "some/head",
        "next_token": False,
    }
    return Lens(**{**settings, **changes})


def shown(view: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view)
    return console.file.getvalue()  # type: ignore[attr-defined]


# files and tables


def test_a_lens_comes_back_from_a_file(tmp_path: Path) -> None:
    lens = made_lens(pair=None)
    lens.save(tmp_path / "lens.json")
    again = Lens.load(tmp_path / "lens.json")
    assert again.to_dict() == lens.to_dict()
    assert again.words == lens.words
    assert again.ids.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "whence.lens/9"}, "not a lens of schema"),
        ({"ids": [[[1]]]}, "ids: expected 3 x"),
        ({"own_ranks": [[1]]}, "own_ranks: expected 3 x"),
        ({"words": [[["good"]]]}, "words: expected 3 x"),
        ({"probabilities": 10**400}, "probabilities: expected a list"),
        ({"head": 3}, "head: expected a text, found 3"),
        ({"surprise": 3}, "missing or unknown field surprise"),
        ({"text": ""}, "lies outside the text"),
    ],
)
def test_what_is_no_lens_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(whence.FileError, match=said):
        Lens.from_dict({**made_lens().to_dict(), **change})


def test_a_table_has_a_row_per_layer_token_and_rank() -> None:
    lens = made_lens()
    frame = lens.to_dataframe()
    assert list(frame.columns) == ["layer", "position", "token", "rank", "word", "id", "probability"]
    assert len(frame) == lens.ids.size
    assert frame[frame["rank"] == 2]["word"].unique().tolist() == ["bad"]


def test_several_texts_give_a_list(decodable: whence.LayeredModel) -> None:
    texts: list[Text] = [SHORT, (SHORT, "bad")]
    lenses = decode_layers(decodable, iter(texts), k=2)
    assert [(lens.text, lens.pair) for lens in lenses] == [(SHORT, None), (SHORT, "bad")]
    assert lenses[0].to_dict() == decode_layers(decodable, SHORT, k=2).to_dict()
    with pytest.raises(whence.InputError, match="texts is int"):
        decode_layers(decodable, 3)  # type: ignore[call-overload]


# what it holds


def test_by_hand() -> None:
    """A head that reads a state by its own features: the likeliest word is that of the largest feature."""
    module: Any = tiny_models.build_plain("mlp")
    tokenizer = tiny_models.word_tokenizer()
    head = nn.Linear(16, len(tokenizer.vocabulary), bias=False)
    with torch.no_grad():
        head.weight.zero_()
        head.weight[:16] = torch.eye(16)
    blocks = [module.first, module.second]
    model = whence.load(module, tokenizer, blocks=blocks, labels=tiny_models.LABELS, head=head)
    lens = decode_layers(model, SHORT, k=2, layers=[1, 2])
    states = model.states(model.collate([model.encode(SHORT)]))
    names = {number: token for token, number in tokenizer.vocabulary.items()}
    for place, layer in enumerate(lens.layers):
        for position, state in enumerate(states.at(layer)[0]):
            logits = torch.cat([state, torch.zeros(len(names) - 16)]).double()
            shares = logits.softmax(dim=-1)
            first, second = shares.topk(2).indices.tolist()
            assert lens.words[place][position] == (names[first], names[second])
            np.testing.assert_allclose(lens.probabilities[place, position], shares[[first, second]], rtol=1e-5)
            own = lens.tokens[position].id
            np.testing.assert_allclose(lens.own_probabilities[place, position], shares[own], rtol=1e-5)
            assert lens.own_ranks[place, position] == 1 + int((logits > logits[own]).sum())


@pytest.mark.parametrize(("family", "head"), [("bert", "masked_lm"), ("roberta", "masked_lm"), ("gpt2", "causal_lm"),
                                              ("llama", "causal_lm"), ("modernbert", "masked_lm")])  # fmt: skip
def test_a_language_model_s_lens_ends_with_its_own_output(family: str, head: str) -> None:
    """At the last layer the head says what the model says, here at every position, mask or no mask in the text."""
    model = tiny(family, head)
    for text in [*texts_for(family, head), SHORT]:
        lens = decode_layers(model, text, k=3)
        inputs = torch.tensor([model.encode(text).ids])
        with torch.no_grad():
            top = model.module(input_ids=inputs).logits[0].softmax(dim=-1).topk(3)
        assert lens.layers == tuple(range(model.n_layers + 1))
        np.testing.assert_array_equal(lens.ids[-1], top.indices)
        np.testing.assert_allclose(lens.probabilities[-1], top.values, atol=1e-6)
        assert lens.next_token == (head == "causal_lm")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_head_that_says_what_follows_is_judged_by_what_follows(family: str) -> None:
    model = tiny(family, "causal_lm")
    lens = decode_layers(model, LONG, k=3)
    assert lens.following_ranks is not None
    assert lens.following_probabilities is not None
    ids = torch.tensor([model.encode(LONG).ids])
    with torch.no_grad():
        logits = model.module(input_ids=ids).logits[0, :-1]
    own = logits.gather(1, ids[0, 1:, None])
    np.testing.assert_array_equal(lens.following_ranks[-1], 1 + (logits > own).sum(dim=-1))
    np.testing.assert_allclose(
        lens.following_probabilities[-1], logits.softmax(dim=-1).gather(1, ids[0, 1:, None])[:, 0], atol=1e-6
    )
    follows = [not token.special for token in lens.tokens[1:]]
    assert lens.read_ahead is not None
    np.testing.assert_allclose(lens.read_ahead, (lens.following_ranks == 1)[:, follows].mean(axis=1))
    assert lens.sought_ranks[:, -1].tolist() == [0] * len(lens.layers)
    np.testing.assert_array_equal(lens.sought_ranks[:, :-1], lens.following_ranks)
    data = json.loads(json.dumps(lens.to_dict(), allow_nan=False))
    assert data["following_ranks"] == lens.following_ranks.tolist()
    assert data["read_ahead"] == pytest.approx(lens.read_ahead.tolist())


def test_a_head_that_fills_in_is_judged_by_the_token_itself(decodable: whence.LayeredModel) -> None:
    lens = decode_layers(decodable, SHORT)
    assert (lens.following_probabilities, lens.following_ranks, lens.read_ahead) == (None, None, None)
    assert lens.sought_ranks is lens.own_ranks


def follower(**changes: Any) -> Lens:
    """A head that says "film" after "good", and so is right about what follows and wrong about what stands there."""
    lens = made_lens("good film", words=((("film", "good", "bad"),) * 4,) * 3, next_token=True, **changes)
    following = np.tile([2, 1, 2], (3, 1))
    return dataclasses.replace(lens, following_ranks=following, following_probabilities=following / 4)


def test_the_terminal_does_not_doubt_a_head_that_says_what_follows() -> None:
    text = " ".join(shown(follower(), 200).split())
    assert "read ahead tokens of the text that the head says before they come: 50% at 0" in text
    assert "as themselves" not in text
    assert "blue where it is the token that follows" in text
    lines = shown(decode_layers(tiny("gpt2", "causal_lm"), SHORT, layers=[2]), 200).splitlines()
    assert lines[2].split()[:4] == ["layer", "2", "the", "next"]
    ranks = [line for line in lines[3:] if "rank" in line or " – " in line]
    assert " – " in ranks[-1], "nothing follows the last token"
    assert not any(" – " in line for line in ranks[:-1])


def test_words_are_written_as_in_a_text() -> None:
    lens = decode_layers(tiny("roberta", "masked_lm"), LONG, k=340, layers=3)
    pieces = {number: token for token, number in tokenizer_of("roberta").get_vocab().items()}
    pairs = {pieces[n]: word for n, word in zip(lens.ids[0, 0].tolist(), lens.words[0][0], strict=True)}
    assert pairs["Ġthe"] == " the"
    assert pairs["<mask>"] == "<mask>"
    half = tokenizer_of("roberta").convert_tokens_to_ids("Ã")  # of a character: nothing a person could read
    assert pairs["Ã"] == f"<{half}>"
    lens = decode_layers(tiny("bert", "masked_lm"), LONG, k=180, layers=3)
    assert {"the", "…ness"} <= set(lens.words[0][0])


def test_shares_of_the_whole_vocabulary_add_up(decodable: whence.LayeredModel) -> None:
    lens = decode_layers(decodable, LONG, k=185)
    np.testing.assert_allclose(lens.probabilities.sum(axis=-1), 1, atol=1e-5)
    ranks = np.argsort(lens.ids, axis=-1) + 1
    own = np.array([token.id for token in lens.tokens])
    np.testing.assert_array_equal(ranks[:, np.arange(len(own)), own], lens.own_ranks)
    mine = [not token.special for token in lens.tokens]
    np.testing.assert_allclose(lens.read_back, (lens.own_ranks == 1)[:, mine].mean(axis=1))


def test_the_embedded_head_reads_the_words_off_the_upper_layers() -> None:
    lens = decode_layers(whence.load(), SENTENCE)
    assert lens.read_back[-1] == 1.0
    assert lens.words[-1][0][0] == "never"  # what the decision rests on stands where the decision is taken
    assert repr(lens) == "<Lens of whence/sentiment by whence/sentiment: 16 tokens x 7 layers>"


def test_everything_as_plain_json(decodable: whence.LayeredModel) -> None:
    lens = decode_layers(decodable, ("a film", "the plot"), k=2, layers=["embeddings", 0, -1])
    data = json.loads(json.dumps(lens.to_dict(), allow_nan=False))
    assert data["schema"] == "whence.lens/1"
    assert (data["text"], data["pair"], data["layers"]) == ("a film", "the plot", ["embeddings", 0, 3])
    assert data["words"] == [[list(words) for words in layer] for layer in lens.words]
    assert data["own_ranks"] == lens.own_ranks.tolist()
    assert data["tokens"][1] == vars(lens.tokens[1])


def test_wrong_use_is_said(decodable: whence.LayeredModel) -> None:
    for k in (0, -1, 186, 2.0, True):
        with pytest.raises(whence.UsageError, match="k must be a whole number from 1 to 185"):
            decode_layers(decodable, SHORT, k=k)  # type: ignore[arg-type]
    with pytest.raises(whence.UnknownNameError, match="unknown layer 9"):
        decode_layers(decodable, SHORT, layers=9)
    with pytest.raises(whence.InputError, match="text 0 is empty"):
        decode_layers(decodable, "  ")
    with pytest.raises(whence.UsageError, match="has no head"):
        decode_layers(tiny("bert"), SHORT)
    with pytest.raises(whence.UsageError, match="reads states of 16 features, these have 8"):
        decode_layers(tiny("albert", "masked_lm"), SHORT, layers="embeddings")


def test_numbers_that_are_none_are_refused() -> None:
    broken = build("bert", "masked_lm")
    with torch.no_grad():
        broken.cls.predictions.bias.fill_(torch.nan)
    model = whence.load(broken, wordpiece())
    with pytest.raises(whence.NonFiniteError, match="not finite"):
        decode_layers(model, SHORT)


def test_a_text_cut_short_is_said(decodable: whence.LayeredModel) -> None:
    with pytest.warns(whence.WhenceWarning, match="truncated"):
        lens = decode_layers(decodable, "film " * 10_000)
    assert lens.warnings == ("truncated: the model reads 64 tokens, 9938 of the text were not seen",)
    assert "read this first" in shown(lens)


# the terminal


def test_a_square_for_every_token_and_layer() -> None:
    lines = shown(decode_layers(whence.load(), SENTENCE, k=2)).splitlines()
    assert max(map(len, lines)) <= 80
    cells = next(line for line in lines if line.strip().startswith("[CLS]")).split()
    assert len(cells) == 8
    assert cells[-1] == "░never"
    assert next(line for line in lines if line.strip().startswith("love")).split()[1:] == ["█love"] * 7
    assert "fill in hidden tokens" in " ".join(shown(made_lens(), 200).split())
    assert "say the next token" in shown(made_lens(next_token=True), 200)


def test_layers_that_do_not_fit_go_below() -> None:
    lines = shown(made_lens(layers=tuple(range(13))), 60).splitlines()
    heads = [line.split()[1:] for line in lines if line.strip().startswith("layer ")]
    assert [number for head in heads for number in head] == [str(layer) for layer in range(13)]
    assert len(heads) > 1
    assert max(map(len, lines)) <= 60


def test_one_layer_is_shown_with_all_its_words() -> None:
    for width in (40, 80, 200):
        text = shown(made_lens("a book", layers=(2,)), width)
        row = " ".join(text[text.index("book") : text.index("[SEP]")].split())
        assert row == "book 25%, rank 4 ▓good 60% ▒bad 30% ░film 10%"


def test_a_long_text_is_cut_and_that_is_said() -> None:
    lens = made_lens("word " * 100)
    assert "62 of 102 lines are not shown" in shown(lens)
    assert "not shown" not in shown(lens_view(lens, everything=True))
    assert shown(lens_view(lens, everything=True)).count("word") == 100


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_the_terminal_shows_text_and_words_as_text(poison: str) -> None:
    text = shown(poisoned(poison), 200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", text)
    assert visible(poison[:8].strip()) in text


# the page


def poisoned(poison: str) -> Lens:
    token = Token(poison, 9, 0, len(poison), word=0)
    record = ModelRecord(poison, poison, poison, poison)
    words = (((poison, f"not {poison}"),),) * 2
    numbers: dict[str, Any] = {"ids": np.zeros((2, 1, 2), int), "probabilities": np.full((2, 1, 2), 0.5, np.float32),
               "own_probabilities": np.zeros((2, 1), np.float32), "own_ranks": np.ones((2, 1), int)}  # fmt: skip
    return Lens(poison, poison, (token,), (0, 1), words, **numbers, model=record, head=poison, next_token=True,
                warnings=(poison,))  # fmt: skip


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_lens_is_data_and_only_data(poison: str) -> None:
    content, harmless = poisoned(poison).to_html(), made_lens().to_html()
    outside = re.compile(r'(id="data">).*?(</script>)', re.DOTALL)
    assert outside.sub(r"\1\2", content) == outside.sub(r"\1\2", harmless)
    assert [tag for tag, _ in Elements(content).tags] == [tag for tag, _ in Elements(harmless).tags]
    lens = data_of(content)["lens"]
    assert lens["words"] == [shortened(blanks_shown(word), 60) for word in (poison, f"not {poison}")]
    assert lens["head"] == visible(poison)


def test_a_lens_comes_back_from_the_page_exactly(decodable: whence.LayeredModel) -> None:
    lens = decode_layers(decodable, LONG, k=4)
    data = data_of(lens.to_html())
    held = data["lens"]
    np.testing.assert_array_equal(numbers(held["probabilities"]), lens.probabilities.ravel())
    np.testing.assert_array_equal(numbers(held["sought"]), lens.own_probabilities.ravel())
    assert held["ranks"] == lens.own_ranks.ravel().tolist()
    words = [word.strip() for layer in lens.words for square in layer for word in square]
    assert [held["words"][number] for number in held["top"]] == words
    assert (held["k"], held["layers"], held["nextToken"]) == (4, [0, 1, 2, 3], False)
    assert held["shares"] == lens.read_back.tolist()


def test_a_lens_stands_with_the_explanations_of_its_text(decodable: whence.LayeredModel) -> None:
    found = [whence.explain(decodable, text, name) for name in ("decoded_grad_cam", "random") for text in (SHORT, LONG)]
    lens = decode_layers(decodable, LONG)
    data = data_of(page(found, lenses=[lens]))
    assert [entry["lens"] is not None for entry in data["texts"]] == [False, True]
    assert [len(entry["runs"]) for entry in data["texts"]] == [2, 2]
    assert page(found, lenses=[]) == page(found)
    with pytest.raises(whence.UsageError, match="a lens belongs to none of the explanations"):
        page(found[:1], lenses=[lens])
    with pytest.raises(whence.UsageError, match="nothing to show"):
        page([], lenses=[lens])


def test_to_html_writes_what_it_returns(tmp_path: Path) -> None:
    file = tmp_path / "lens.html"
    assert made_lens().to_html(file) == file.read_text()


# the command


HEADS = {"bert": "masked_lm", "roberta": "masked_lm", "gpt2": "causal_lm"}
every_head = pytest.mark.parametrize("family", HEADS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {}
    for family, head in ((family, head) for family, own in HEADS.items() for head in ("classification", own)):
        path = tmp_path_factory.mktemp(f"{family}-{head}")
        build(family, head).save_pretrained(path)
        tokenizer_of(family).save_pretrained(path)
        found[f"{family} {head}"] = str(path)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), prog_name="whence")


@every_head
def test_lens_from_the_command(family: str, folders: dict[str, str], tmp_path: Path) -> None:
    head = folders[f"{family} {HEADS[family]}"]
    command = ["lens", SHORT, "--model", folders[f"{family} classification"], "--head", head]
    result = run(*command, "--top", "2", "--html", str(tmp_path / "x.html"))
    assert result.exit_code == 0, result.stderr
    shown = result.stdout
    assert f"page: {tmp_path / 'x.html'}" in result.stderr
    assert data_of((tmp_path / "x.html").read_text())["sources"] == [SHORT]
    result = run(*command, "--json", "--layers", "0,-1")
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["layers"] == [0, 3]
    pieces = [token["text"] for token in json.loads(line)["tokens"]]
    assert len(pieces) > 2
    assert all(piece.strip("Ġ#") in shown for piece in pieces)
    assert run("lens", SHORT, "--model", folders["gpt2 causal_lm"]).exit_code == 0


@every_head
def test_explain_and_compare_take_a_head(family: str, folders: dict[str, str], tmp_path: Path) -> None:
    head = folders[f"{family} {HEADS[family]}"]
    given = ["--model", folders[f"{family} classification"], "--head", head]
    file = tmp_path / "x.html"
    result = run("explain", SHORT, *given, "--method", "decoded_grad_cam", "-o", "tau=2", "--html", str(file))
    assert result.exit_code == 0, result.stderr
    assert data_of(file.read_text())["texts"][0]["lens"]["head"] == Path(head).name  # no page names a folder's path
    names = "decoded_leave_one_out,random"
    result = run("compare", SHORT, *given, "--methods", names, "-o", "tau=2", "--json", "--html", str(file))
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["method"] for line in lines] == ["decoded_leave_one_out", "random"]
    assert lines[0]["options"]["tau"] == 2


def test_wrong_use_of_the_command(folders: dict[str, str]) -> None:
    result = run("lens", SHORT, "--model", folders["bert classification"])
    assert result.exit_code == 2
    assert "has no head" in result.stderr.splitlines()[0]
    assert "--head NAME" in result.stderr
    result = run("lens", SHORT, "--model", folders["bert classification"], "--head", folders["gpt2 causal_lm"])
    assert result.exit_code == 2
    assert "has another vocabulary" in result.stderr
    result = CliRunner().invoke(app, ["lens", "-"], input="one\ntwo\n")
    assert result.exit_code == 2
    assert "a lens shows one text, but there are 2" in result.stderr
    result = run("explain", SHORT, "--method", "decoded_nothing")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: unknown method 'decoded_nothing'")
