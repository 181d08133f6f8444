"""The metrics of the scoreboard, each one entry: what it says, in which direction it is better, and how it is computed.

A metric of your own is a `Metric` given to `whence.evaluate(metrics=[...])`, or to `register` for every board to come.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from whence.errors import UnknownNameError, UsageError
from whence.metrics.additivity import held_out_r_squared, linear_datamodeling_score
from whence.metrics.answered import (
    BOARD_POINTS,
    AnsweredText,
    BoundedText,
    MarkedText,
    PredictedText,
    ScoredText,
    SetText,
)
from whence.metrics.entropy import normalised_entropy
from whence.metrics.eraser import comprehensiveness, sufficiency
from whence.metrics.monotonicity import monotonicity
from whence.metrics.normalised import normalised
from whence.metrics.own_sets import share_of_best
from whence.metrics.plausibility import average_precision, token_f1
from whence.metrics.sparsity import gini

Group = Literal[
    "faithfulness", "bounds", "second_hiding", "sets", "sizes", "shape", "stability", "randomisation", "plausibility",
    "cost", "own",
]  # fmt: skip
GROUPS: tuple[Group, ...] = get_args(Group)
Better = Literal["higher", "lower"]
Of = Literal[
    "answered", "answered otherwise", "bounded", "set", "predicted", "scored", "marked", "explained again"
]  # fmt: skip
RECORDS: dict[Of, type] = {
    "answered": AnsweredText, "answered otherwise": AnsweredText, "bounded": BoundedText, "set": SetText,
    "predicted": PredictedText, "scored": ScoredText, "marked": MarkedText,
}  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A number per text and method; `better` is None where neither more nor less is a merit.

    `of` says which text it is computed from by `compute` (see `whence.metrics.answered`): one "answered" (or "answered
    otherwise", where tokens are hidden the second way), "bounded", of a "set", "predicted", "scored" or "marked"; or
    methods are "explained again", by a step of the evaluation. Raise `version` when what is computed
    changes: finished work of another version is not taken up.
    """

    name: str
    sentence: str
    better: Better | None = None
    compute: Callable[[Any], float] | None = None
    of: Of = "answered"
    group: Group = "own"
    title: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))


HEADLINE = "faithfulness"
"""The metric by which methods are ranked unless another is named."""


def _faithfulness(answered: AnsweredText) -> float:
    return answered.area("revealing") - answered.area("hiding")


def _monotonicity(answered: AnsweredText) -> float:
    shown, first = np.unique(answered.taken("revealing"), return_index=True)
    return monotonicity(shown, answered.curve("revealing")[first])


def _entropy(scored: ScoredText) -> float:
    return float(normalised_entropy(np.abs(scored.scores))) if len(scored.scores) > 1 else float("nan")


def _answered(
    name: str, better: Better, sentence: str, compute: Callable[[AnsweredText], float], title: str = ""
) -> Metric:
    return Metric(name, sentence, better, compute, "answered", "faithfulness", title)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _answered(
            "faithfulness", "higher",
            "revealing AUC less hiding AUC: how much surer the model is of its decision with the first words than "
            "without",
            _faithfulness,
        ),
        _answered(
            "hiding_auc", "lower", "mean probability of the decision while the first words are hidden",
            lambda text: text.area("hiding"), "hiding AUC",
        ),
        _answered(
            "revealing_auc", "higher", "mean probability of the decision while the first words are shown",
            lambda text: text.area("revealing"), "revealing AUC",
        ),
        _answered(
            "hiding_agreement", "lower", "how long the decision stays while the first words are hidden",
            lambda text: text.area("hiding", "agreement"),
        ),
        _answered(
            "revealing_agreement", "higher", "how soon the decision is there while words are shown",
            lambda text: text.area("revealing", "agreement"),
        ),
        _answered(
            "hiding_accuracy", "lower", "accuracy against gold labels while the first words are hidden",
            lambda text: text.area("hiding", "accuracy"),
        ),
        _answered(
            "revealing_accuracy", "higher", "accuracy against gold labels while the first words are shown",
            lambda text: text.area("revealing", "accuracy"),
        ),
        _answered(
            "comprehensiveness", "higher", "what the decision loses without the first 1 to 50 % of tokens",
            lambda text: float(comprehensiveness(np.array(text.whole), text.at_bins("hiding"))),
        ),
        _answered(
            "sufficiency", "lower", "what the decision lacks with the first 1 to 50 % of tokens alone",
            lambda text: float(sufficiency(np.array(text.whole), text.at_bins("revealing"))),
        ),
        _answered(
            "comprehensiveness_at_mass", "higher",
            "what the decision loses without the tokens that hold 10 to 90 % of the scores' mass",
            lambda text: float(comprehensiveness(np.array(text.whole), text.at_masses("hiding"))),
            "comprehensiveness at equal mass",
        ),
        _answered(
            "sufficiency_at_mass", "lower",
            "what the decision lacks with the tokens alone that hold 10 to 90 % of the scores' mass",
            lambda text: float(sufficiency(np.array(text.whole), text.at_masses("revealing"))),
            "sufficiency at equal mass",
        ),
        _answered(
            "monotonicity", "higher", "whether each word shown brings less than the one before it (τ-b)", _monotonicity
        ),
        Metric(
            "naopc",
            "faithfulness between the worst (0) and the best (1) that any order of the words gets; 0.5 is chance",
            "higher", lambda text: normalised(_faithfulness(text.answered), -text.best, text.best), "bounded", "bounds",
            "faithfulness, normalised",
        ),
        Metric(
            "hiding_naopc", "hiding AUC between the highest (0) and the lowest (1) that any order gets", "higher",
            lambda text: 1 - normalised(text.answered.area("hiding"), text.lowest, text.highest), "bounded", "bounds",
            "hiding, normalised",
        ),
        Metric(
            "revealing_naopc", "revealing AUC between the lowest (0) and the highest (1) that any order gets", "higher",
            lambda text: normalised(text.answered.area("revealing"), text.lowest, text.highest), "bounded", "bounds",
            "revealing, normalised",
        ),
        Metric(
            "best_faithfulness", "the highest faithfulness that any order of the words gets, or that was found", None,
            lambda text: text.best, "bounded", "bounds", "best possible faithfulness",
        ),
        Metric(
            "second_faithfulness", "faithfulness where words are hidden in the second way", "higher",
            _faithfulness, "answered otherwise", "second_hiding",
            "faithfulness, hidden otherwise",
        ),
        Metric(
            "set_kept",
            "share of words in the method's own set: keep probability above 0.5, or the fewest first words that hold "
            "half of the positive score",
            None, lambda text: text.n_kept / text.n_tokens, "set", "sets", "share in its set",
        ),
        Metric(
            "set_agreement", "whether the model says the same of the method's own set alone", "higher",
            lambda text: text.same, "set", "sets", "agreement on its set",
        ),
        Metric(
            "set_over_random",
            "how much surer the model is of its decision with the method's own set than with random ones of that size",
            "higher", lambda text: text.probability - text.random, "set", "sets", "its set over random ones",
        ),
        Metric(
            "set_of_best",
            "share of what the best set of that size that greedy search finds has over random ones", "higher",
            lambda text: share_of_best(text.probability, text.random, text.best), "set", "sets",
            "its set beside the best",
        ),
        Metric(
            "lds",
            "Spearman's ρ between the scores' sum over random halves of the words and the decision's probability with "
            "them alone",
            "higher", lambda text: linear_datamodeling_score(*text.halves.T), "predicted", "sizes",
            "linear datamodeling score",
        ),
        Metric(
            "r_squared",
            "R² of the decision's probability on random sets of words, foretold by a line through the scores' sums of "
            "others; only where scores add up",
            "higher", lambda text: held_out_r_squared(text.drawn) if text.additive else float("nan"), "predicted",
            "sizes", "held-out R²",
        ),
        Metric(
            "entropy", "how evenly the sizes of the scores are spread; 1 is uniform", None, _entropy, "scored", "shape"
        ),
        Metric(
            "sparsity", "Gini index of the sizes of the scores; 0 is uniform", None,
            lambda text: gini(text.scores), "scored", "shape",
        ),
        Metric(
            "seed_stability", "τ-b between the orders of words that several seeds give", "higher",
            None, "explained again", "stability", "stability over seeds",
        ),
        Metric(
            "batch_difference",
            "largest change of a score when the text is explained alone instead of in a padded batch, as a share",
            "lower", None, "explained again", "stability", "change in company",
        ),
        Metric(
            "checkpoint_stability", "τ-b between the orders of words on retrained models", "higher",
            None, "explained again", "stability", "stability over checkpoints",
        ),
        Metric(
            "randomisation",
            "τ-b between the orders of words on the model and on the same model with all weights drawn anew",
            "lower", None, "explained again", "randomisation", "same with random weights",
        ),
        Metric(
            "auprc", "how well the scores find the words that people marked", "higher",
            lambda text: average_precision(text.scores, text.marked), "marked", "plausibility", "AUPRC",
        ),
        Metric(
            "token_f1", "F1 of the first words against those people marked", "higher",
            lambda text: token_f1(text.scores, text.marked, text.share), "marked", "plausibility", "token F1",
        ),
        Metric(
            "forwards", "passes of the text through the model", "lower",
            lambda text: text.forwards, "scored", "cost", "forward passes",
        ),
        Metric(
            "backwards", "passes back through the model", "lower",
            lambda text: text.backwards, "scored", "cost", "backward passes",
        ),
        Metric(
            "seconds", "seconds per text, on the machine of the run", "lower",
            lambda text: text.seconds, "scored", "cost",
        ),
    )
}  # fmt: skip


def register(metric: Metric | Callable[[Any], float]) -> Metric:
    """Add a metric of your own to every board to come, once it has been tried on a made-up text.

    >>> def first_word(answered: AnsweredText) -> float:
    ...     "what the decision loses without the first words"
    ...     return answered.whole - float(answered.curve("hiding")[1])
    >>> register(first_word).of
    'answered'
    >>> METRICS.pop("first_word").sentence
    'what the decision loses without the first words'
    """
    checked = checked_metric(metric)
    if checked.name in METRICS or checked.name in GROUPS:
        raise UsageError(f"there is a metric or a group {checked.name!r} already", "give the metric another name")
    METRICS[checked.name] = checked
    return checked


def checked_metric(metric: Metric | Callable[[Any], float]) -> Metric:
    """A metric that can be computed, tried on a made-up text.

    A plain function is one of the record that its parameter is annotated with, named and described by its own name and
    documentation, and gives no ranking.
    """
    if not isinstance(metric, Metric):
        metric = _of_function(metric)
    if not metric.name.isidentifier():
        raise UsageError(f"{metric.name!r} is no name for a metric", "use letters, digits and _")
    directions = (*get_args(Better), None)
    for what, value, known in (("direction", metric.better, directions), ("group", metric.group, GROUPS)):
        if value not in known:
            raise UnknownNameError(f"{what} of metric {metric.name}", value, known)
    if not callable(metric.compute) or metric.of not in RECORDS:
        raise UsageError(
            f"nobody computes the metric {metric.name!r}", f"give it compute= and of= one of {', '.join(RECORDS)}"
        )
    try:
        found = metric.compute(MADE_UP[metric.of])
    except Exception as error:
        raise UsageError(
            f"the metric {metric.name!r} fails on a made-up {metric.of} text: {type(error).__name__}: {error}",
            f"compute= takes one {RECORDS[metric.of].__name__} and returns a number",
        ) from error
    if not isinstance(found, Real):
        raise UsageError(f"the metric {metric.name!r} gives {type(found).__name__}, not a number", "return a float")
    return metric


def _of_function(function: Callable[[Any], float]) -> Metric:
    name = getattr(function, "__name__", "")
    if not callable(function) or not name:
        raise UsageError(f"{function!r} is no metric", "give a name, a Metric or a function")
    hints = get_type_hints(function)
    taken = [hints.get(parameter) for parameter in inspect.signature(function).parameters]
    of = next((of for of, record in RECORDS.items() if taken == [record]), None)
    if of is None:
        raise UsageError(
            f"the metric {name!r} does not say what it is computed from",
            f"annotate its one parameter as one of {', '.join(record.__name__ for record in RECORDS.values())}",
        )
    lines = (inspect.getdoc(function) or name.replace("_", " ")).splitlines()
    return Metric(name, lines[0], compute=function, of=of)


def chosen_metrics(asked: Iterable[str | Metric | Callable[[Any], float]] | None) -> dict[str, Metric]:
    """Metrics by name or group, in the order of the table, then those of the caller's own; by default all of the table.

    The headline is always among them.

    >>> list(chosen_metrics(["cost", "sufficiency"]))
    ['faithfulness', 'sufficiency', 'forwards', 'backwards', 'seconds']
    """
    if asked is None:
        return dict(METRICS)
    named, own = {HEADLINE}, {}
    for each in [asked] if isinstance(asked, str) else asked:
        if not isinstance(each, str):
            metric = checked_metric(each)
            if METRICS.get(metric.name, metric) != metric or metric.name in own:
                raise UsageError(f"two metrics are called {metric.name!r}", "give one of them another name")
            own[metric.name] = metric
            continue
        # "faithfulness" names the one metric; its group has to be spelt out
        members = [each] if each in METRICS else [name for name, metric in METRICS.items() if metric.group == each]
        if not members:
            raise UnknownNameError("metric", each, [*METRICS, *(group for group in GROUPS if group not in METRICS)])
        named.update(members)
    return {**{name: metric for name, metric in METRICS.items() if name in named}, **own}


def _made_up_answers() -> AnsweredText:
    """Four words of which each hidden takes a fifth of the probability, and each shown brings as much."""
    ordered = np.array([0.4, 0.3, 0.2, 0.1])
    counts = BOARD_POINTS.counts(ordered)
    steps = np.where(np.array(BOARD_POINTS.games)[:, None] == "hiding", len(ordered) - counts, counts)
    probability = 0.1 + 0.2 * steps
    return AnsweredText(
        BOARD_POINTS,
        len(ordered),
        0.9,
        counts,
        probability,
        (probability > 0.5).astype(float),
        (probability > 0.5).astype(float),
    )


MADE_UP: dict[Of, Any] = {
    "answered": _made_up_answers(),
    "answered otherwise": _made_up_answers(),
    "bounded": BoundedText(_made_up_answers(), best=0.1, highest=0.9, lowest=0.1),
    "set": SetText(n_tokens=4, n_kept=2, probability=0.7, same=1.0, random=0.5, best=0.8),
    "predicted": PredictedText(
        np.array([[0.1, 0.2], [0.3, 0.5], [0.5, 0.4]]), np.array([[0.1, 0.2], [0.3, 0.5], [0.5, 0.4], [0.6, 0.7]]), True
    ),
    "scored": ScoredText(np.array([0.4, -0.3, 0.2, 0.1]), forwards=2.0, backwards=1.0, seconds=0.1),
    "marked": MarkedText(np.array([0.4, 0.3, 0.2, 0.1]), np.array([True, False, True, False]), share=0.5),
}
