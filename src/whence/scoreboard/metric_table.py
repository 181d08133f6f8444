"""The metrics of the scoreboard: what each says, in which direction it is better, and what it is a part of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from whence.errors import UnknownNameError

Group = Literal["faithfulness", "shape", "stability", "randomisation", "plausibility", "cost"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A number a text and method; `better` is None where neither more nor less is a merit."""

    title: str
    group: Group
    better: Better | None
    sentence: str


HEADLINE = "faithfulness"
"""The metric by which methods are ranked unless another is named."""

METRICS: dict[str, Metric] = {
    "faithfulness": Metric(
        "faithfulness", "faithfulness", "higher",
        "revealing AUC less hiding AUC: how much surer the model is of its decision with the first words than without",
    ),
    "hiding_auc": Metric(
        "hiding AUC", "faithfulness", "lower", "mean probability of the decision while the first words are hidden"
    ),
    "revealing_auc": Metric(
        "revealing AUC", "faithfulness", "higher", "mean probability of the decision while the first words are shown"
    ),
    "hiding_agreement": Metric(
        "hiding agreement", "faithfulness", "lower", "how long the decision stays while the first words are hidden"
    ),
    "revealing_agreement": Metric(
        "revealing agreement", "faithfulness", "higher", "how soon the decision is there while words are shown"
    ),
    "hiding_accuracy": Metric(
        "hiding accuracy", "faithfulness", "lower", "accuracy against gold labels while the first words are hidden"
    ),
    "revealing_accuracy": Metric(
        "revealing accuracy", "faithfulness", "higher", "accuracy against gold labels while the first words are shown"
    ),
    "comprehensiveness": Metric(
        "comprehensiveness", "faithfulness", "higher", "what the decision loses without the first 1 to 50 % of tokens"
    ),
    "sufficiency": Metric(
        "sufficiency", "faithfulness", "lower", "what the decision lacks with the first 1 to 50 % of tokens alone"
    ),
    "comprehensiveness_at_mass": Metric(
        "comprehensiveness at equal mass", "faithfulness", "higher",
        "what the decision loses without the tokens that hold 10 to 90 % of the scores' mass",
    ),
    "sufficiency_at_mass": Metric(
        "sufficiency at equal mass", "faithfulness", "lower",
        "what the decision lacks with the tokens alone that hold 10 to 90 % of the scores' mass",
    ),
    "monotonicity": Metric(
        "monotonicity", "faithfulness", "higher", "whether each word shown brings less than the one before it (τ-b)"
    ),
    "entropy": Metric("entropy", "shape", None, "how evenly the sizes of the scores are spread; 1 is uniform"),
    "sparsity": Metric("sparsity", "shape", None, "Gini index of the sizes of the scores; 0 is uniform"),
    "seed_stability": Metric(
        "stability over seeds", "stability", "higher", "τ-b between the orders of words that several seeds give"
    ),
    "batch_difference": Metric(
        "change in company", "stability", "lower",
        "largest change of a score when the text is explained alone instead of in a padded batch, as a share",
    ),
    "checkpoint_stability": Metric(
        "stability over checkpoints", "stability", "higher", "τ-b between the orders of words on retrained models"
    ),
    "randomisation": Metric(
        "same with random weights", "randomisation", "lower",
        "τ-b between the orders of words on the model and on the same model with all weights drawn anew",
    ),
    "auprc": Metric("AUPRC", "plausibility", "higher", "how well the scores find the words that people marked"),
    "token_f1": Metric("token F1", "plausibility", "higher", "F1 of the first words against those people marked"),
    "forwards": Metric("forward passes", "cost", "lower", "passes of the text through the model"),
    "backwards": Metric("backward passes", "cost", "lower", "passes back through the model"),
    "seconds": Metric("seconds", "cost", "lower", "seconds a text, on the machine of the run"),
}  # fmt: skip

GROUPS: tuple[Group, ...] = ("faithfulness", "shape", "stability", "randomisation", "plausibility", "cost")


def chosen_metrics(names: Iterable[str] | None) -> tuple[str, ...]:
    """The metrics by name or group, in the order of the table; by default all. The headline is always among them.

    >>> chosen_metrics(["cost", "sufficiency"])
    ('faithfulness', 'sufficiency', 'forwards', 'backwards', 'seconds')
    """
    if names is None:
        return tuple(METRICS)
    asked = {HEADLINE}
    for name in [names] if isinstance(names, str) else names:
        # "faithfulness" names the one metric; its group has to be spelt out
        members = [name] if name in METRICS else [each for each, metric in METRICS.items() if metric.group == name]
        if not members:
            raise UnknownNameError("metric", name, [*METRICS, *(group for group in GROUPS if group not in METRICS)])
        asked.update(members)
    return tuple(name for name in METRICS if name in asked)


def groups_of(metrics: Iterable[str]) -> set[Group]:
    return {METRICS[name].group for name in metrics}
