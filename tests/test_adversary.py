"""Adversarial attention: it deceives at toy size, keeps what is frozen, and refuses what cannot be."""

import math

import numpy as np
import pytest
import torch

from whence.attention.adversary import AdversarySettings, measure_adversary, train_adversary
from whence.attention.classifier import AttentionClassifier, ClassifierConfig
from whence.attention.documents import Documents
from whence.attention.training import TrainingSettings, fit, predict
from whence.attention.vocabulary import Vocabulary
from whence.errors import UnknownNameError, UsageError
from whence.metrics.divergences import jensen_shannon

WORDS = Vocabulary(["good", "bad", *(f"w{number}" for number in range(6))])


def documents(n, seed):
    """Class 1 has word 4, class 0 word 5, at a random place among fillers."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    rows = random.integers(6, 12, (n, 8))
    rows[np.arange(n), random.integers(0, 8, n)] = np.where(labels, 4, 5)
    return Documents(tuple((2, *row, 3) for row in rows.tolist()), tuple(labels.tolist()))


@pytest.fixture(scope="module")
def base():
    torch.manual_seed(0)
    model = AttentionClassifier(WORDS, ClassifierConfig("bilstm", embedding_size=8, hidden_size=6))
    for seed in range(12):  # an epoch at a time: the first with a perfect order is not yet sure of itself
        fit(model, documents(200, 0), documents(80, 1), TrainingSettings(1e-2, 10, max_epochs=1, seed=seed))
    return model


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("divergence", ["jensen_shannon", "kullback_leibler"])
def test_attention_moves_and_an_unfrozen_adversary_predicts_alike(base, frozen, divergence):
    weights = {name: value.clone() for name, value in base.state_dict().items()}
    weight = {"jensen_shannon": 0.3, "kullback_leibler": 0.03}[divergence]  # the latter has no upper bound
    settings = AdversarySettings(frozen, divergence, weight, learning_rate=5e-3, max_epochs=25)
    model, n_epochs = train_adversary(base, documents(200, 0), settings)
    record = measure_adversary(base, model, documents(100, 2), settings, n_epochs=n_epochs)
    assert record.jensen_shannon > 0.05
    assert record.base_accuracy > 0.9
    if not frozen:  # with the base's encoder, attention cannot go elsewhere and lose nothing
        assert record.accuracy > 0.9
        assert record.prediction_distance < 0.2
    assert record.n_epochs == n_epochs <= 25
    assert all(torch.equal(weights[name], value) for name, value in base.state_dict().items())
    changed = {
        name.split(".")[0] for name, value in model.state_dict().items() if not torch.equal(weights[name], value)
    }
    assert changed == ({"alignment"} if frozen else {"embedding", "encoder", "alignment", "output"})
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_measures_by_hand(base):
    torch.manual_seed(1)
    other = AttentionClassifier(WORDS, base.config).eval()
    texts = documents(20, 3)
    record = measure_adversary(base, other, texts, AdversarySettings(), batch_tokens=30)
    ids, mask = texts.padded(torch.device("cpu"))
    with torch.no_grad():
        apart = jensen_shannon(other.read(ids, mask).weights, base.read(ids, mask).weights)
    assert record.jensen_shannon == pytest.approx(apart.mean().item(), abs=1e-6)
    assert 0 <= record.jensen_shannon <= math.log(2)
    moved = (predict(other, texts) - predict(base, texts)).abs().mean().item()
    assert record.prediction_distance == pytest.approx(moved, abs=1e-6)
    same = measure_adversary(base, base, texts, AdversarySettings())
    assert (same.jensen_shannon, same.prediction_distance) == (0, 0)
    assert same.to_dict()["settings"]["divergence"] == "jensen_shannon"


def test_same_seed_same_adversary(base):
    settings = AdversarySettings(max_epochs=2, seed=3)
    torch.manual_seed(0)
    first, _ = train_adversary(base, documents(60, 0), settings)
    torch.manual_seed(1)
    second, _ = train_adversary(base, documents(60, 0), settings)
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


def test_a_sparse_base_needs_the_jensen_shannon_divergence():
    torch.manual_seed(0)
    sparse = AttentionClassifier(WORDS, ClassifierConfig(projection="entmax15", embedding_size=8, hidden_size=6))
    with pytest.raises(UsageError, match="is infinite: it has exact zeros"):
        train_adversary(sparse, documents(20, 0), AdversarySettings(divergence="kullback_leibler"))
    seen = []
    settings = AdversarySettings(max_epochs=3)
    adversary, _ = train_adversary(sparse, documents(60, 0), settings, progress=lambda *step: seen.append(step))
    assert seen == [("epoch", 1, 3), ("epoch", 2, 3), ("epoch", 3, 3)]
    assert all(parameter.isfinite().all() for parameter in adversary.parameters())
    with pytest.raises(UnknownNameError, match="known: jensen_shannon, kullback_leibler"):
        train_adversary(sparse, documents(20, 0), AdversarySettings(divergence="hellinger"))  # type: ignore[arg-type]
