"""The embedded model: it loads, knows its labels, decodes words, and is as good as its card says."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from whence.embedded import NAMES, hard_reviews, load_embedded, reviews

ROOT = Path(__file__).parents[1]
EMBEDDED = ROOT / "src" / "whence" / "embedded"
DATA = Path(os.environ.get("WHENCE_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="module")
def sentiment():
    return load_embedded("sentiment")


@torch.no_grad()
def predicted_labels(model, tokenizer, texts):
    labels = []
    for start in range(0, len(texts), 64):
        inputs = tokenizer(texts[start : start + 64], padding=True, truncation=True, return_tensors="pt")
        labels += [model.config.id2label[number] for number in model(**inputs).logits.argmax(-1).tolist()]
    return labels


def share_right(model, tokenizer, rows):
    predicted = predicted_labels(model, tokenizer, [row["text"] for row in rows])
    return sum(label == row["label"] for label, row in zip(predicted, rows, strict=True)) / len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_model_is_ready_to_use(name):
    model, tokenizer, head = load_embedded(name)
    assert not model.training
    assert not head.training
    assert model.config._name_or_path == f"whence/{name}"
    assert all(not tensor.is_meta for tensor in [*model.parameters(), *model.buffers(), *head.parameters()])
    assert all(tensor.dtype == torch.float32 for tensor in [*model.parameters(), *head.parameters()])
    states = model.bert(**tokenizer("a gorgeous, witty film", return_tensors="pt")).last_hidden_state
    assert head(states).shape == (*states.shape[:2], len(tokenizer)) == (1, 7, 16384)
    predictions: Any = head.predictions
    assert predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


def test_labels():
    assert load_embedded("sentiment")[0].config.id2label == {0: "negative", 1: "positive"}
    assert load_embedded("topic")[0].config.id2label == {0: "World", 1: "Sports", 2: "Business", 3: "Sci/Tech"}


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="no embedded model 'irony'; the embedded models are sentiment, topic"):
        load_embedded("irony")


def test_padding_changes_nothing(sentiment):
    model, tokenizer, _ = sentiment
    alone = model(**tokenizer("a dull film", return_tensors="pt")).logits[0]
    texts = ["a dull film", "a much longer text that makes the first one wait at the end of its row"]
    padded = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits[0]
    torch.testing.assert_close(alone, padded, atol=1e-5, rtol=0)


def test_a_word_in_its_place_is_decoded_from_the_last_layer(sentiment):
    model, tokenizer, head = sentiment
    inputs = tokenizer("the plot is thin but the actors are wonderful .", return_tensors="pt")
    with torch.no_grad():
        decoded = head(model.bert(**inputs).last_hidden_state)[0, 1:-1].argmax(-1)
    right = decoded == inputs["input_ids"][0, 1:-1]
    assert right.float().mean() >= 0.8


def test_head_fills_in_adjectives_of_quality(sentiment):
    model, tokenizer, head = sentiment
    inputs = tokenizer("the movie was really [MASK] .", return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        fillers = head(model.bert(**inputs).last_hidden_state)[0, place].topk(5).indices
    quality = {"good", "great", "bad", "funny", "terrible", "awful", "boring", "excellent", "amazing", "enjoyable"}
    assert len({tokenizer.decode([filler]) for filler in fillers.tolist()} & quality) >= 3


def test_topics():
    model, tokenizer, _ = load_embedded("topic")
    texts = {
        "Sports": "The striker scored twice as the home team won the cup final.",
        "Business": "Shares fell sharply after the company cut its profit forecast for the quarter.",
        "Sci/Tech": "Researchers released new open source software that makes computers safer on the Internet.",
        "World": "Rebels and government troops clashed near the capital as peace talks collapsed.",
    }
    assert predicted_labels(model, tokenizer, list(texts.values())) == list(texts)


def test_reviews_written_for_whence(sentiment):
    model, tokenizer, _ = sentiment
    assert len(reviews()) == 100
    assert {row["label"] for row in reviews()} == {"positive", "negative"}
    assert share_right(model, tokenizer, reviews()) >= 0.9


def test_hard_reviews_are_told_apart_as_the_record_says(sentiment):
    """They were chosen to be hard and most are got wrong: what counts is that the record and the card say so."""
    model, tokenizer, _ = sentiment
    assert len(hard_reviews()) >= 20
    assert all(row.keys() == {"text", "label", "why"} for row in hard_reviews())
    recorded = json.loads((ROOT / "training" / "results.json").read_text())["sentiment"]
    assert share_right(model, tokenizer, hard_reviews()) == pytest.approx(
        recorded["hard_reviews"]["accuracy"], abs=1e-3
    )
    assert share_right(model, tokenizer, reviews()) == pytest.approx(recorded["reviews"]["accuracy"], abs=1e-3)
    card = (EMBEDDED / "MODEL_CARD.md").read_text()
    assert all(row["text"] in card for row in recorded["hard_reviews_wrong"])


def test_everything_together_stays_small():
    assert sum(path.stat().st_size for path in EMBEDDED.rglob("*") if path.is_file()) <= 32e6


def test_loading_needs_no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the embedded model reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_embedded("topic")


@pytest.mark.skipif(not (DATA / "sst2.parquet").exists(), reason="no sst2.parquet: set WHENCE_DATA to the data folder")
def test_sst2_dev_accuracy(sentiment):
    parquet = pytest.importorskip("pyarrow.parquet")
    model, tokenizer, _ = sentiment
    rows = [row for row in parquet.read_table(DATA / "sst2.parquet").to_pylist() if row["split"] == "dev"]
    rows = [{"text": row["sentence"], "label": model.config.id2label[row["label"]]} for row in rows]
    assert share_right(model, tokenizer, rows) >= 0.90
