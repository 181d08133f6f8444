"""Where a run stands, for whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass

from whence.learned.diffmask.learner import DiffMaskLearner
from whence.learned.diffmask.validation import LayerResult
from whence.learned.training import Training


@dataclass(frozen=True)
class Standing:
    """Where a run stands.

    `divergence` (in nats), the `margin` it may reach and the share `kept` are means over the layers, of sampled gates
    on the last batches; `validation` is None until the first.
    """

    step: int
    steps: int
    seconds: float
    divergence: float
    margin: float
    kept: float
    validation: list[LayerResult] | None


def standing(training: Training, learner: DiffMaskLearner) -> Standing:
    n_layers = len(learner.kept)
    return Standing(
        step=training.step,
        steps=training.last_step,
        seconds=training.seconds,
        divergence=sum(learner.divergences) / n_layers,
        margin=learner.scale * sum(map(learner.margin, range(n_layers))) / n_layers,
        kept=sum(learner.kept) / n_layers,
        validation=last_results(training) if training.history else None,
    )


def last_results(training: Training) -> list[LayerResult]:
    """The last validation, layer by layer."""
    return [LayerResult.from_dict(each) for each in training.history[-1]["layers"]]
