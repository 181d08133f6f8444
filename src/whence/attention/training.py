"""Training attention classifiers: from texts and labels in one call (`train`), or step by step (`fit`).

Adam with amsgrad; no weight decay, and where wanted a larger learning rate, for the attention; each class counts alike;
the epoch with the best ROC-AUC on held-out documents is kept.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from whence.attention.classifier import AttentionClassifier, ClassifierConfig, Encoder
from whence.attention.documents import Documents
from whence.attention.vocabulary import Vocabulary
from whence.errors import NonFiniteError, UsageError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class TrainingSettings:
    """How a classifier is trained; `attention_speed` is the factor on the learning rate of the attention."""

    learning_rate: float = 1e-3
    attention_speed: float = 1.0
    weight_decay: float = 1e-5
    batch_size: int = 32
    max_epochs: int = 50
    patience: int = 10
    seed: int = 0


_USUAL = TrainingSettings()


@dataclass(frozen=True)
class Epoch:
    """One pass over the training documents: its loss per document, and how well it does on the held-out ones."""

    loss: float
    roc_auc: float
    accuracy: float


@dataclass(frozen=True)
class TrainingRecord:
    """What happened in training; `best` counts epochs from 0."""

    epochs: tuple[Epoch, ...]
    best: int
    seconds: float


def train(
    texts: Sequence[str],
    labels: Sequence[object],
    *,
    projection: str = "softmax",
    encoder: Encoder = "bilstm",
    held_out: float = 0.2,
    settings: TrainingSettings = _USUAL,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[AttentionClassifier, TrainingRecord]:
    """Train a classifier of two classes on your own texts, and say how it went.

    Args:
        texts: split into words at white space.
        labels: one per text, of two kinds; class 0 is the one that sorts first.
        projection: from attention scores to weights: "softmax", or "sparsemax", "entmax15" or "sparsegen(λ)", which
            give exact zeros.
        encoder: what is below the attention.
        held_out: the share of the texts, drawn by chance, that decides which epoch is kept.
        settings: how it is trained; its seed is also that of the weights and of the texts held out.
        progress: see `fit`.

    For another shape or other word vectors make an `AttentionClassifier` and `fit` it.
    """
    names = sorted({str(label) for label in labels})
    if len(names) != 2:
        raise UsageError(f"there are {len(names)} kinds of labels", "an attention classifier tells two classes")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        order = torch.randperm(len(texts)).tolist()
        n_held_out = round(held_out * len(texts))
        vocabulary = Vocabulary.of(texts[row] for row in order[n_held_out:])
        config = ClassifierConfig(encoder, projection=projection)
        classifier = AttentionClassifier(vocabulary, config, labels=names)
    documents = classifier.documents(texts, [str(label) for label in labels])
    kept, left_out = documents.take(order[n_held_out:]), documents.take(order[:n_held_out])
    return classifier, fit(classifier, kept, left_out, settings, progress)


def fit(
    classifier: AttentionClassifier,
    documents: Documents,
    held_out: Documents,
    settings: TrainingSettings = _USUAL,
    progress: Callable[[str, int, int], None] | None = None,
) -> TrainingRecord:
    """Train a classifier itself, on the device where it is, and leave it with its best epoch's weights.

    Args:
        classifier: its weights at the start are the caller's choice (seed them before it is made).
        documents: what it learns from; see `AttentionClassifier.documents`.
        held_out: what decides which epoch is kept and when to stop.
        settings: how it is trained.
        progress: called after each epoch as progress("epoch", done, at most).
    """
    if len(set(held_out.labels)) < 2 or len(set(documents.labels)) < 2:
        raise UsageError("documents of both classes are needed, to train and to hold out", "give more documents")
    device = next(classifier.parameters()).device
    there = documents.on(device)
    generator = torch.Generator().manual_seed(settings.seed)
    optimizer = _optimizer(classifier, settings)
    positive_weight = torch.tensor(len(documents) / sum(documents.labels) - 1, device=device)
    started, epochs, best, kept = time.perf_counter(), [], 0, copy.deepcopy(classifier.state_dict())
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(settings.seed)  # of dropout
        for number in range(settings.max_epochs):
            classifier.train()
            total = torch.zeros((), device=device)
            for ids, mask, labels in there.batches(documents.training_batches(settings.batch_size, generator)):
                logit = classifier.read(ids, mask).logit
                wanted = labels.to(logit)
                loss = binary_cross_entropy_with_logits(logit, wanted, pos_weight=positive_weight, reduction="sum")
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                total += loss.detach()
            if not total.isfinite():
                raise NonFiniteError(f"the loss is {total.item()} in epoch {number}", "lower the learning rate")
            chances = predict(classifier, held_out)
            epoch = Epoch(total.item() / len(documents), roc_auc(chances, held_out.labels), accuracy(chances, held_out))
            epochs.append(epoch)
            if number == 0 or epoch.roc_auc > epochs[best].roc_auc:
                best, kept = number, copy.deepcopy(classifier.state_dict())
            if progress is not None:
                progress("epoch", number + 1, settings.max_epochs)
            if number - best >= settings.patience:
                break
    classifier.load_state_dict(kept)
    classifier.eval()
    return TrainingRecord(tuple(epochs), best, time.perf_counter() - started)


def predict(model: AttentionClassifier, documents: Documents, batch_tokens: int = 16_384) -> Float[Tensor, " text"]:
    """The probability of class 1 of each document, on the CPU in float64; the model is put into evaluation mode."""
    groups = list(documents.batches(batch_tokens))
    model.eval()
    with torch.no_grad():
        batches = documents.on(next(model.parameters()).device).batches(groups)
        logits = torch.cat([model.read(batch.ids, batch.mask).logit for batch in batches]).double().cpu()
    chances = torch.empty(len(documents), dtype=torch.float64)
    chances[[row for group in groups for row in group]] = logits.sigmoid()
    return chances


def accuracy(chances: Float[Tensor, " text"], documents: Documents) -> float:
    """The share of documents whose label is the likelier one."""
    labels = torch.tensor(documents.labels)
    return float(((chances > 0.5) == (labels == 1)).double().mean())


def roc_auc(scores: Float[Tensor, " text"], labels: tuple[int, ...]) -> float:
    """The share of pairs of a positive and a negative document that the scores put in order; ties count half."""
    _, group, sizes = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = (sizes.cumsum(dim=0) - (sizes - 1) / 2)[group]  # ties share their mean rank
    positive = torch.tensor(labels) == 1
    n_positive = int(positive.sum())
    n_pairs = n_positive * (len(labels) - n_positive)
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / n_pairs)


def _optimizer(model: AttentionClassifier, settings: TrainingSettings) -> torch.optim.Adam:
    attention = list(model.alignment.parameters())
    held = {id(parameter) for parameter in attention}
    others = [parameter for parameter in model.parameters() if id(parameter) not in held]
    return torch.optim.Adam(
        [
            {"params": others, "weight_decay": settings.weight_decay},
            {"params": attention, "lr": settings.learning_rate * settings.attention_speed, "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
        amsgrad=True,
        fused=True,  # one pass over the word embeddings instead of ten
    )
