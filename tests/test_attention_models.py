"""The attention classifiers: shapes by hand, padding, layers that resume, training, and files."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import whence
from whence.attention.classifier import AttentionClassifier, ClassifierConfig, readable
from whence.attention.documents import Documents
from whence.attention.encoders import BiLSTMBlock, TransformerBlock, sinusoids
from whence.attention.importance import gradient_shares, state_removal_shares
from whence.attention.training import TrainingSettings, _optimizer, accuracy, fit, predict, roc_auc, train
from whence.attention.vocabulary import Vocabulary
from whence.attention.word_shares import word_shares
from whence.errors import FileError, InputError, UnknownNameError, UsageError
from whence.testing import METHOD_CHECKS

ENCODERS = ["bilstm", "transformer"]
TEXTS = ["a good film", "not the worst film of the year , but close to it and far too long", "bad", "so very dull"]
VOCABULARY = Vocabulary.of([*TEXTS, "the best plot"])
DOCUMENTS = Documents.of(TEXTS, [1, 0, 0, 0], VOCABULARY)


def build(encoder, projection="softmax", *, seed=0, scale=2, **settings):
    """A small random classifier, with large weights so that every input counts."""
    torch.manual_seed(seed)
    small = {"embedding_size": 10, "hidden_size": 8, "feed_forward_size": 8, **settings}
    model = AttentionClassifier(VOCABULARY, ClassifierConfig(encoder, projection=projection, **small))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model.eval()


def test_the_vocabulary_of_jain_and_wallace():
    vocabulary = Vocabulary.of(["b a a", "b c", "b"], fewest_texts=1)
    assert vocabulary.words == ("<PAD>", "<UNK>", "<SOS>", "<EOS>", "a", "b", "c")
    assert vocabulary.ids("b  zebra c") == [2, 5, 1, 6, 3]
    assert Vocabulary.of(["b a a", "b c", "b"], fewest_texts=2).words[4:] == ("b",)
    encoding = vocabulary.encode("b zebra", None)
    assert [(token.text, token.id, token.start, token.end, token.special) for token in encoding.tokens] == [
        ("<SOS>", 2, 0, 0, True),
        ("b", 5, 0, 1, False),
        ("zebra", 1, 2, 7, False),
        ("<EOS>", 3, 7, 7, True),
    ]
    assert (vocabulary.padding, vocabulary.id_of("<EOS>"), vocabulary.id_of("c"), vocabulary.id_of("d")) == (
        0,
        3,
        6,
        None,
    )
    with pytest.raises(UsageError, match="not a pair"):
        vocabulary.encode("a", "b")
    with pytest.raises(UsageError, match="twice"):
        Vocabulary(["a", "a"])


def test_attention_by_hand():
    """With an identity for an encoder: additive scores vᵀ tanh(W h + b), dot scores hᵀq / √m, weighted mean."""
    states = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]]])
    words = torch.tensor([[True, True, False]])
    model = build("bilstm", hidden_size=1)
    with torch.no_grad():
        model.alignment.inner.weight.copy_(torch.tensor([[1.0, 1.0]]))
        model.alignment.inner.bias.fill_(0.5)
        model.alignment.outer.weight.fill_(2.0)
        model.output.weight.copy_(torch.tensor([[1.0, -1.0]]))
        model.output.bias.fill_(0.25)
        pooled = model.pool(states, words)
    scores = [2 * math.tanh(1.5), 2 * math.tanh(2.5)]
    first = 1 / (1 + math.exp(scores[1] - scores[0]))
    torch.testing.assert_close(pooled.weights, torch.tensor([[first, 1 - first, 0.0]]))
    assert pooled.logit.item() == pytest.approx(first * 1 - (1 - first) * 2 + 0.25, abs=1e-6)
    dot = build("transformer", hidden_size=2, n_blocks=1)
    with torch.no_grad():
        dot.alignment.query.weight.copy_(torch.tensor([[3.0, 1.0]]))
        torch.testing.assert_close(dot.alignment(states)[0], torch.tensor([3.0, 2.0, 20.0]) / math.sqrt(2))


def test_shapes_of_the_paper():
    words = Vocabulary([f"w{number}" for number in range(46)])  # and four special tokens
    bilstm: Any = AttentionClassifier(words)
    assert (bilstm.encoder.size, bilstm.alignment.inner.out_features, bilstm.output.in_features) == (256, 128, 256)
    assert bilstm.alignment.outer.bias is None
    transformer = AttentionClassifier(words, ClassifierConfig("transformer"))
    assert (transformer.encoder.size, len(transformer.encoder.blocks)) == (128, 2)
    assert transformer.encoder.blocks[0].n_heads == 1
    assert transformer.embedding.weight.shape == (50, 300)
    assert transformer.embedding.weight[0].abs().sum() == 0


def test_positions():
    found = sinusoids(torch.tensor([[0, 3]]), 4)[0]
    torch.testing.assert_close(found[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    torch.testing.assert_close(found[1], torch.tensor([math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_one_document_alone_and_in_a_padded_batch(encoder, projection):
    model = build(encoder, projection)
    ids, mask = DOCUMENTS.padded(torch.device("cpu"))
    with torch.no_grad():
        together = model.read(ids, mask)
        for row, document in enumerate(DOCUMENTS.ids):
            alone = model.read(*DOCUMENTS.take([row]).padded(torch.device("cpu")))
            torch.testing.assert_close(together.logit[row], alone.logit[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(together.weights[row, : len(document)], alone.weights[0], atol=1e-5, rtol=0)
    assert (together.weights[~readable(ids, mask)] == 0).all()
    torch.testing.assert_close(together.weights.sum(dim=1), torch.ones(4))
    assert not torch.allclose(together.logit[0], together.logit[1])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_text_without_words_is_no_number_but_nan_free(encoder):
    model = build(encoder, "sparsemax")
    ids = torch.tensor([[2, 3]])
    with torch.no_grad():
        assert model.read(ids, ids > 0).logit.item() == pytest.approx(model.output.bias.item())
    with pytest.raises(InputError, match="empty"):
        whence.explain(model.layered(), "  ")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_layered_model_resumes_at_every_layer(encoder):
    model = build(encoder, "sparsemax").layered()
    assert model.n_layers == {"bilstm": 1, "transformer": 2}[encoder]
    inputs = model.collate([model.encode(text) for text in TEXTS])
    states = model.states(inputs)
    torch.testing.assert_close(states.logits.softmax(dim=-1)[:, 1], states.logits.diff(dim=-1)[:, 0].sigmoid())
    for layer in ("embeddings", *range(model.n_layers + 1)):
        torch.testing.assert_close(model.resume(layer, states.at(layer), inputs), states.logits, atol=1e-6, rtol=0)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("method", ["integrated_gradients", "leave_one_out", "attention", "shapley"])
def test_methods_keep_their_contract_on_attention_classifiers(encoder, method):
    model = build(encoder, "sparsemax").layered()
    for check in METHOD_CHECKS:
        if method == "attention" and encoder == "bilstm" and "layer_alone" in check.__name__:
            continue  # it asks for two layers
        check(method, model)


def test_a_bilstm_block_is_torchs_packed_one():
    torch.manual_seed(0)
    block = BiLSTMBlock(5, 3)
    reference = torch.nn.LSTM(5, 3, batch_first=True, bidirectional=True)
    for name, weight in block.onward.named_parameters():
        getattr(reference, name).data.copy_(weight)
    for name, weight in block.back.named_parameters():
        getattr(reference, f"{name}_reverse").data.copy_(weight)
    hidden, lengths = torch.randn(4, 7, 5), torch.tensor([7, 1, 4, 6])
    packed = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
    wanted = pad_packed_sequence(reference(packed)[0], batch_first=True, total_length=7)[0]
    torch.testing.assert_close(block(hidden, torch.arange(7) < lengths[:, None]), wanted)


def test_a_transformer_block_is_that_of_torch():
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True).eval()
    ours = TransformerBlock(8, 2, 12, dropout=0.1).eval()
    parts = {
        "query_key_value.weight": "self_attn.in_proj_weight", "query_key_value.bias": "self_attn.in_proj_bias",
        "mixed": "self_attn.out_proj", "norm": "norm1", "last_norm": "norm2", "feed_forward.0": "linear1",
        "feed_forward.3": "linear2",
    }  # fmt: skip
    given, found = theirs.state_dict(), {}
    for name in ours.state_dict():
        part, _, kind = name.rpartition(".")
        found[name] = given[parts.get(name) or f"{parts[part]}.{kind}"]
    ours.load_state_dict(found)
    hidden = torch.randn(3, 7, 8, requires_grad=True)
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    torch.testing.assert_close(ours(hidden, mask)[mask], theirs(hidden, src_key_padding_mask=~mask)[mask])
    settings = {"key_padding_mask": ~mask, "average_attn_weights": False}
    torch.testing.assert_close(ours.attention(hidden, mask), theirs.self_attn(hidden, hidden, hidden, **settings)[1])


def test_attend_gives_the_attention_of_the_blocks():
    model = build("transformer").layered()
    inputs = model.collate([model.encode(text) for text in TEXTS])
    weights = model.attend(inputs)
    assert [each.shape for each in weights] == [(4, 1, 18, 18)] * 2
    torch.testing.assert_close(weights[1].sum(dim=-1), torch.ones(4, 1, 18))
    assert (weights[0][~inputs.mask[:, None, None].expand_as(weights[0])] == 0).all()
    pooling = build("bilstm").layered()
    assert [each.shape for each in pooling.attend(inputs)] == [(4, 1, 1, 18)]


def test_word_vectors():
    vectors = torch.randn(len(VOCABULARY), 10)
    config = ClassifierConfig(embedding_size=10, hidden_size=4)
    model = AttentionClassifier(VOCABULARY, config, vectors=vectors)
    assert torch.equal(model.embedding.weight[1:], vectors[1:])
    assert model.embedding.weight[0].abs().sum() == 0
    with pytest.raises(UsageError, match=r"shape \(3, 10\)"):
        AttentionClassifier(VOCABULARY, config, vectors=vectors[:3])
    with pytest.raises(UnknownNameError, match="known: bilstm, transformer"):
        AttentionClassifier(VOCABULARY, ClassifierConfig("gru"))  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="known: additive, dot"):
        AttentionClassifier(VOCABULARY, ClassifierConfig(alignment="cosine"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give two names"):
        AttentionClassifier(VOCABULARY, labels=["good", "good"])


def test_batches():
    lengths = [3, 9, 4, 8, 3, 9, 4]
    documents = Documents(tuple((2,) * length for length in lengths), (0,) * 7)
    batches = documents.training_batches(2, torch.Generator().manual_seed(0))
    assert sorted(place for batch in batches for place in batch) == list(range(7))
    assert all(len(batch) <= 2 for batch in batches)
    assert all(max(lengths[i] for i in batch) - min(lengths[i] for i in batch) <= 5 for batch in batches)
    assert batches != documents.training_batches(2, torch.Generator().manual_seed(3))
    assert list(documents.batches(12)) == [[0, 4, 2], [6], [3], [1], [5]]
    rows = [(2, 7, 3), (2, 8, 9, 3), (2, 3)]
    first, second = Documents(tuple(rows), (0, 1, 1)).on(torch.device("cpu")).batches([[1, 2], [0]])
    assert first.ids.tolist() == [[2, 8, 9, 3], [2, 3, 0, 0]]
    assert first.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert (first.labels.tolist(), second.ids.tolist(), second.labels.tolist()) == ([1, 1], [[2, 7, 3]], [0])
    with pytest.raises(UsageError, match="2 texts have 1 labels"):
        Documents(((2, 3), (2, 3)), (0,))
    with pytest.raises(UsageError, match="labels must be 0 or 1"):
        Documents(((2, 3),), (2,))


def task(n, seed):
    """A text is good if it says so, whatever else it says."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    fillers = random.choice(["the", "film", "plot", "of"], (n, 8))
    for row, label in zip(fillers, labels, strict=True):
        row[random.integers(8)] = "good" if label else "bad"
    return Documents.of([" ".join(row) for row in fillers], labels.tolist(), VOCABULARY)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_training_learns_and_is_repeatable(encoder, projection):
    settings = TrainingSettings(learning_rate=5e-3, max_epochs=12, patience=4)
    records, weights = [], []
    for noise in (1, 2):
        model = build(encoder, projection, scale=1)
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        records.append(fit(model, task(200, 0), task(100, 1), settings))
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(model.output.weight.detach().clone())
    assert records[0].epochs == records[1].epochs
    assert torch.equal(*weights)
    chances = predict(model, task(100, 2))
    assert accuracy(chances, task(100, 2)) > 0.9
    best = max(epoch.roc_auc for epoch in records[0].epochs)
    assert records[0].epochs[records[0].best].roc_auc == best
    assert roc_auc(predict(model, task(100, 1)), task(100, 1).labels) == pytest.approx(best)
    assert len(records[0].epochs) <= records[0].best + 5


def test_labels_at_random_cannot_be_learned():
    """The control: held-out documents whose labels mean nothing are told apart by chance only."""
    chance = np.random.default_rng(5).integers(0, 2, 300).tolist()
    documents = Documents(task(300, 3).ids, tuple(chance))
    fit(model := build("bilstm"), documents.take(range(200)), documents.take(range(200, 250)), TrainingSettings(1e-3))
    assert abs(accuracy(predict(model, documents.take(range(250, 300))), documents.take(range(250, 300))) - 0.5) < 0.25


def test_the_attention_has_settings_of_its_own():
    model = build("bilstm")
    others, attention = _optimizer(model, TrainingSettings(1e-4, attention_speed=10)).param_groups
    assert {id(each) for each in attention["params"]} == {id(each) for each in model.alignment.parameters()}
    assert len(others["params"]) + len(attention["params"]) == len(list(model.parameters()))
    assert (attention["weight_decay"], others["weight_decay"]) == (0, 1e-5)
    assert (attention["lr"], others["lr"], others["amsgrad"]) == (pytest.approx(1e-3), 1e-4, True)
    one_class = Documents(((2, 4, 3),) * 2, (1, 1))
    with pytest.raises(UsageError, match="both classes"):
        fit(model, one_class, one_class)


def test_classes_count_alike():
    """Nine positives and one negative, all at probability ½: either class has a loss of ln 2 in all."""
    documents = Documents(tuple((2, 4, 3) for _ in range(10)), (1,) * 9 + (0,))
    model = build("bilstm")
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.zero_()
    record = fit(model, documents, documents, TrainingSettings(1e-4, max_epochs=1))
    assert record.epochs[0].loss == pytest.approx(2 * math.log(2) / 10)


def test_roc_auc_is_that_of_sklearn():
    random = np.random.default_rng(0)
    scores, labels = random.integers(0, 10, 80) / 10, tuple(random.integers(0, 2, 80).tolist())
    assert roc_auc(torch.tensor(scores), labels) == pytest.approx(roc_auc_score(labels, scores))


def reviews(n, seed):
    """Texts that say how they are, with the names of their labels."""
    random = np.random.default_rng(seed)
    fillers = random.choice(["the", "film", "plot", "of"], (n, 6))
    labels = random.choice(["bad", "good"], n)
    fillers[np.arange(n), random.integers(0, 6, n)] = labels
    return [" ".join(row) for row in fillers], labels.tolist()


def test_from_texts_and_labels_in_one_call():
    texts, labels = reviews(300, 0)
    seen = []
    settings = TrainingSettings(5e-3, max_epochs=6, seed=3)
    before = torch.get_rng_state()
    classifier, record = train(
        texts, labels, projection="sparsemax", settings=settings, progress=lambda *step: seen.append(step)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert classifier.labels == ("bad", "good")
    assert seen == [("epoch", number, 6) for number in range(1, len(record.epochs) + 1)]
    assert accuracy(predict(classifier, held_out := classifier.documents(*reviews(80, 1))), held_out) > 0.95
    again, _ = train(texts, labels, projection="sparsemax", settings=settings)
    assert torch.equal(classifier.output.weight, again.output.weight)
    model = whence.load(classifier)
    explanation = whence.explain(model, "the film of good", "leave_one_out", layers="embeddings")
    assert explanation.prediction.label == "good"
    assert explanation.top(1)[0].text == "good"
    assert whence.audit_attention(model, texts[:5], measures=["gradient"]).layers == ("pooling",)


def test_wrong_use_of_training():
    with pytest.raises(UsageError, match="3 kinds of labels"):
        train(["a", "b", "c"], ["x", "y", "z"])
    with pytest.raises(UsageError, match="both classes are needed"):
        train(["a", "b"], [0, 1])
    with pytest.raises(UsageError, match="4 texts have 2 labels"):
        train(["a", "b", "c", "d"], [0, 1])
    with pytest.raises(UnknownNameError, match="known: negative, positive"):
        build("bilstm").documents(["a"], ["neutral"])


@pytest.mark.parametrize("measure", ["attention", "gradient", "state_gradient", "removal", "state_removal"])
def test_shares_of_words(measure):
    classifier = build("bilstm", "sparsemax").train()
    texts = ["a good film", "so very dull and so very long"]
    found = word_shares(classifier, texts, measure)
    assert [[word for word, _ in shares] for shares in found] == [text.split() for text in texts]
    assert [sum(share for _, share in shares) for shares in found] == pytest.approx([1, 1])
    assert classifier.training
    alone = word_shares(classifier, texts[:1], measure)
    assert alone[0] == found[0]


def test_shares_of_words_are_those_of_the_measures():
    classifier = build("transformer")
    ids, mask = classifier.padded(["a good film"])
    wanted = [gradient_shares(classifier, ids, mask)[0], state_removal_shares(classifier, ids, mask)]
    for measure, shares in zip(["gradient", "state_removal"], wanted, strict=True):
        assert [share for _, share in word_shares(classifier, ["a good film"], measure)[0]] == shares[0, 1:4].tolist()
    assert math.isnan(word_shares(classifier, ["film"], "removal")[0][0][1])
    with pytest.raises(UnknownNameError, match="known: attention, gradient, state_gradient, removal, state_removal"):
        word_shares(classifier, ["film"], "lime")


def test_files(tmp_path):
    model = build("transformer", "sparsegen(-2)")
    model.save(tmp_path)
    again = AttentionClassifier.load(tmp_path)
    assert (again.config, again.labels) == (model.config, model.labels)
    assert again.vocabulary.words == VOCABULARY.words
    assert torch.equal(predict(model, DOCUMENTS), predict(again, DOCUMENTS))
    assert not again.training
    (tmp_path / "vocabulary.json").write_text(json.dumps(["a"]))
    with pytest.raises(FileError, match="5 words for"):
        AttentionClassifier.load(tmp_path)
    (tmp_path / "vocabulary.json").write_text("{}")
    with pytest.raises(FileError, match="no list of words"):
        AttentionClassifier.load(tmp_path)
    with pytest.raises(FileError, match="cannot read a vocabulary"):
        AttentionClassifier.load(tmp_path / "nowhere")
    VOCABULARY.save(tmp_path / "vocabulary.json")
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(FileError, match="no attention classifier in"):
        AttentionClassifier.load(tmp_path)
