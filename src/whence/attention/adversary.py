"""Adversarial attention: can a model decide alike and attend to something else? (Wiegreffe & Pinter, 2019)

The adversary is trained to give the base model's predictions with attention as far from it as possible. *Frozen*, it
has the base model's encoder and output and learns only where to look; *unfrozen*, it learns everything anew.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from whence.attention.classifier import AttentionClassifier, readable
from whence.attention.documents import Documents
from whence.errors import NonFiniteError, UnknownNameError, UsageError
from whence.metrics.divergences import jensen_shannon, kullback_leibler, total_variation

if TYPE_CHECKING:
    from jaxtyping import Float

Divergence = Literal["jensen_shannon", "kullback_leibler"]
_DIVERGENCES = {"jensen_shannon": jensen_shannon, "kullback_leibler": kullback_leibler}


@dataclass(frozen=True)
class AdversarySettings:
    """How an adversary is trained: `divergence_weight` is what a unit of divergence of the attentions is worth.

    Training ends when the training loss has not fallen for `patience` epochs.
    """

    frozen: bool = False
    divergence: Divergence = "jensen_shannon"
    divergence_weight: float = 0.1
    learning_rate: float = 1e-3
    batch_size: int = 32
    max_epochs: int = 80
    patience: int = 10
    seed: int = 0


@dataclass(frozen=True)
class AdversaryRecord:
    """An adversary beside its base model on one set of documents; accuracies are against the gold labels.

    `jensen_shannon` (at most ln 2) is that of the two attentions, `prediction_distance` the mean of |ŷ − ŷ_base|.
    """

    settings: AdversarySettings
    jensen_shannon: float
    prediction_distance: float
    accuracy: float
    base_accuracy: float
    n_documents: int
    n_epochs: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def train_adversary(
    base: AttentionClassifier,
    documents: Documents,
    settings: AdversarySettings,
    *,
    vectors: Float[Tensor, "word embedding"] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[AttentionClassifier, int]:
    """An adversary of `base`, which is not changed, and the number of epochs it took.

    The loss of a batch is Σ ½|ŷ − ŷ_base| − weight · Σ divergence(attention ‖ base's attention).

    Args:
        base: the trained model.
        documents: what it was trained on (`AttentionClassifier.documents`); labels are not used.
        settings: see `AdversarySettings`.
        vectors: the word embeddings with which an unfrozen adversary starts; by default random ones.
        progress: called after each epoch as progress("epoch", done, at most).
    """
    divergence = _divergence(base, settings)
    device = next(base.parameters()).device
    there = documents.on(device)
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(settings.seed)  # of the new weights and of dropout
        model = _start(base, settings, vectors)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adam(learned, lr=settings.learning_rate, amsgrad=True, fused=True)
        lowest, since, kept, n_epochs = math.inf, 0, copy.deepcopy(model.state_dict()), 0
        base.eval()
        while n_epochs < settings.max_epochs and since < settings.patience:
            model.train()
            losses = torch.zeros((), device=device)
            for ids, mask, _ in there.batches(documents.training_batches(settings.batch_size, generator)):
                words = readable(ids, mask)
                with torch.no_grad():
                    states = base.encode(base.embedding(ids), mask)
                    wanted = base.pool(states, words)
                found = model.pool(states, words) if settings.frozen else model.read(ids, mask)  # frozen: same states
                apart = (found.logit.sigmoid() - wanted.logit.sigmoid()).abs().sum() / 2
                loss = apart - settings.divergence_weight * divergence(found.weights, wanted.weights).sum()
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                losses += loss.detach()
            total = losses.item()
            if not math.isfinite(total):
                raise NonFiniteError("the adversary's loss is not a finite number", "lower its learning rate")
            n_epochs += 1
            if progress is not None:
                progress("epoch", n_epochs, settings.max_epochs)
            since += 1
            if total < lowest:
                lowest, since, kept = total, 0, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    model.requires_grad_(True)
    return model.eval(), n_epochs


def measure_adversary(
    base: AttentionClassifier,
    model: AttentionClassifier,
    documents: Documents,
    settings: AdversarySettings,
    *,
    n_epochs: int = 0,
    seconds: float = 0.0,
    batch_tokens: int = 16_384,
) -> AdversaryRecord:
    """How far an adversary's attention and predictions are from those of its base, on average over documents."""
    device = next(base.parameters()).device
    apart, moved, right, base_right = 0.0, 0.0, 0, 0
    base.eval()
    model.eval()
    with torch.no_grad():
        for ids, mask, labels in documents.on(device).batches(documents.batches(batch_tokens)):
            ours, theirs = model.read(ids, mask), base.read(ids, mask)
            apart += float(jensen_shannon(ours.weights.double(), theirs.weights.double()).sum())
            chances = [torch.stack([each.logit.sigmoid(), (-each.logit).sigmoid()], -1) for each in (ours, theirs)]
            moved += float(total_variation(*chances).sum())
            right += int(((ours.logit > 0) == (labels == 1)).sum())
            base_right += int(((theirs.logit > 0) == (labels == 1)).sum())
    count = len(documents)
    return AdversaryRecord(
        settings, apart / count, moved / count, right / count, base_right / count, count, n_epochs, seconds
    )


def _divergence(base: AttentionClassifier, settings: AdversarySettings) -> Callable[[Tensor, Tensor], Tensor]:
    if settings.divergence not in _DIVERGENCES:
        raise UnknownNameError("divergence", settings.divergence, _DIVERGENCES)
    if settings.divergence == "kullback_leibler" and base.config.projection != "softmax":
        raise UsageError(
            f"the Kullback-Leibler divergence from {base.config.projection} attention is infinite: it has exact zeros",
            "use divergence='jensen_shannon'",
        )
    return _DIVERGENCES[settings.divergence]


def _start(
    base: AttentionClassifier, settings: AdversarySettings, vectors: Float[Tensor, "word embedding"] | None
) -> AttentionClassifier:
    """The adversary before training: a new model of the base's shape or, frozen, the base with a new attention.

    The base's own attention would be no start: the divergence from itself is at its minimum there, with no gradient.
    """
    model = AttentionClassifier(base.vocabulary, base.config, labels=base.labels, vectors=vectors).to(
        base.output.weight
    )
    if settings.frozen:
        kept = {name: value for name, value in base.state_dict().items() if not name.startswith("alignment.")}
        model.load_state_dict(kept, strict=False)
        model.requires_grad_(False)
        model.alignment.requires_grad_(True)
    return model
