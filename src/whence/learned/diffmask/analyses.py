"""What keep probabilities say over many texts: how many layers keep which tokens, and where the others are dropped.

The scores of the explanations are keep probabilities. Frames come by group of tokens (see
`whence.learned.diffmask.token_groups`), with intervals from drawing whole texts anew, since the tokens of one text are
not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError
from whence.explanation import Explanation, Layer
from whence.metrics.confidence import RESAMPLES, percentile_ends, resampling_weights
from whence.tasks import TASKS

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Bool, Float, Int, Shaped

KEPT = 0.5
"""A keep probability above this counts as kept."""

TO_THE_TOP = "kept"
"""In place of a layer: the token is never dropped."""


def layers_kept(
    explanations: Sequence[Explanation],
    groups: Sequence[Sequence[str | None]],
    *,
    order: Sequence[str] | None = None,
    above: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pandas.DataFrame:
    """How many layers keep a token, by group: group, mean, sd, low, high, n_tokens, n_texts, n_layers.

    Args:
        explanations: with keep probabilities at the same layers.
        groups: the group of each token of each explanation, or None.
        order: the groups to give, in this order; by default all, by name.
        above: count the layers whose keep probability is above this, instead of adding the probabilities up.
        resamples: how often texts are drawn anew for the interval from `low` to `high`.
        seed: makes the draws repeatable.
    """
    probabilities, texts, names = _tokens(explanations, groups)
    kept = probabilities if above is None else (probabilities > above).astype(float)
    frame = _by_group(kept.sum(axis=1)[:, None], texts, names, order, resamples, seed)
    return frame.drop(columns="point").assign(n_layers=probabilities.shape[1])


def keep_by_layer(
    explanations: Sequence[Explanation],
    groups: Sequence[Sequence[str | None]],
    *,
    order: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pandas.DataFrame:
    """The keep probability at each layer, by group: group, layer, mean, sd, low, high, n_tokens, n_texts.

    Arguments as for `layers_kept`.
    """
    probabilities, texts, names = _tokens(explanations, groups)
    frame = _by_group(probabilities, texts, names, order, resamples, seed)
    return _with_layer(frame, explanations[0].layers)


def dropped_by_layer(
    explanations: Sequence[Explanation],
    groups: Sequence[Sequence[str | None]],
    *,
    order: Sequence[str] | None = None,
    above: float = KEPT,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pandas.DataFrame:
    """The share of tokens dropped at each layer, by group; columns as for `keep_by_layer`, the mean being the share.

    The last row of a group, at layer "kept", is the share that the top layer still keeps. Arguments as for
    `layers_kept`.
    """
    probabilities, texts, names = _tokens(explanations, groups)
    indices = _dropping_layers(probabilities > above)
    at = (indices[:, None] == np.arange(probabilities.shape[1] + 1)).astype(float)
    return _with_layer(_by_group(at, texts, names, order, resamples, seed), (*explanations[0].layers, TO_THE_TOP))


def dropped_at(explanation: Explanation, *, above: float = KEPT) -> list[Layer | None]:
    """The layer at which each token is dropped: the first from which on no layer keeps it; None if the top one does.

    Hidden states may be kept again above a layer that does without them; only the last time counts.
    """
    indices = _dropping_layers((_checked(explanation) > above).T)
    layers = (*explanation.layers, None)
    return [layers[index] for index in indices.tolist()]


def answers_kept(explanations: Sequence[Explanation], *, above: float = KEPT) -> list[bool]:
    """Whether all layers keep every token of the predicted answer, for explanations of question answering."""
    kept = []
    for explanation in explanations:
        task = TASKS.get(explanation.model.task)
        if task is None or not task.gives_span:
            raise UsageError(f"a model for {explanation.model.task} gives no answer span", "explain a question")
        first = explanation.tokens[explanation.prediction.index]
        end = first.start + len(explanation.prediction.label)
        answer = [
            not token.special and token.segment == first.segment and first.start <= token.start < end
            for token in explanation.tokens
        ]
        kept.append(bool((_checked(explanation)[:, answer] > above).all()))
    return kept


def _checked(explanation: Explanation) -> Float[np.ndarray, "layer token"]:
    scores = explanation.scores.astype(float)
    if not ((scores >= -1e-6) & (scores <= 1 + 1e-6)).all():  # NaN is outside too
        raise UsageError(
            f"the scores of {explanation.method} are not keep probabilities: they lie outside 0 to 1",
            "explain with method='diffmask'",
        )
    return scores


def _tokens(
    explanations: Sequence[Explanation], groups: Sequence[Sequence[str | None]]
) -> tuple[Float[np.ndarray, "token layer"], Int[np.ndarray, " token"], Shaped[np.ndarray, " token"]]:
    """Keep probabilities, text number and group of every token that has a group."""
    if len(explanations) != len(groups):
        raise UsageError(f"{len(explanations)} explanations, but groups for {len(groups)}", "give groups for each")
    if not explanations:
        raise UsageError("there is no explanation to look at", "explain some texts first")
    rows: list[Float[np.ndarray, "token layer"]] = []
    texts: list[int] = []
    names: list[str] = []
    for number, (explanation, its_groups) in enumerate(zip(explanations, groups, strict=True)):
        if explanation.layers != explanations[0].layers:
            raise UsageError(
                f"explanation {number} has layers {explanation.layers}, the first {explanations[0].layers}",
                "explain all texts at the same layers",
            )
        if len(its_groups) != len(explanation.tokens):
            raise UsageError(
                f"explanation {number} has {len(explanation.tokens)} tokens, but groups for {len(its_groups)}",
                "give one group, or None, for every token",
            )
        members = [name is not None for name in its_groups]
        rows.append(_checked(explanation)[:, members].T)
        texts += [number] * sum(members)
        names += [name for name in its_groups if name is not None]
    if not names:
        raise UsageError("no token has a group", "look at how the groups were made")
    return np.concatenate(rows), np.array(texts), np.array(names, dtype=object)


def _dropping_layers(kept: Bool[np.ndarray, "token layer"]) -> Int[np.ndarray, " token"]:
    """The number of layers up to the last that keeps the token, which is the index of the layer that drops it."""
    n_layers = kept.shape[1]
    return np.where(kept.any(axis=1), n_layers - kept[:, ::-1].argmax(axis=1), 0)


def _by_group(
    values: Float[np.ndarray, "token point"],
    texts: Int[np.ndarray, " token"],
    names: Shaped[np.ndarray, " token"],
    order: Sequence[str] | None,
    resamples: int,
    seed: int,
) -> pandas.DataFrame:
    """Mean and spread of each point over the tokens of each group; a group no token is in has no mean."""
    import pandas

    n_texts = int(texts.max()) + 1
    weights = resampling_weights(n_texts, resamples, seed)
    rows = []
    for group in sorted(set(names.tolist())) if order is None else order:
        members = names == group
        own, own_texts = values[members], texts[members]
        sums = np.zeros((n_texts, values.shape[1]))
        np.add.at(sums, own_texts, own)
        counts = np.bincount(own_texts, minlength=n_texts)
        own_n_texts = int((counts > 0).sum())
        low, high = _ends(weights @ sums, weights @ counts, own_n_texts)
        for point in range(values.shape[1]):
            rows.append(
                {
                    "group": group,
                    "point": point,
                    "mean": own[:, point].mean() if len(own) else np.nan,
                    "sd": own[:, point].std(ddof=1) if len(own) > 1 else np.nan,
                    "low": low[point],
                    "high": high[point],
                    "n_tokens": len(own),
                    "n_texts": own_n_texts,
                }
            )
    return pandas.DataFrame(rows)


def _ends(
    sums: Float[np.ndarray, "resample point"], counts: Float[np.ndarray, " resample"], n_texts: int
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """The interval of a group's mean; none from a single text, whose draws all agree."""
    if n_texts < 2:
        nothing = np.full(sums.shape[1], np.nan)
        return nothing, nothing
    drawn = counts > 0  # a rare group may be in none of the texts drawn
    return percentile_ends(sums[drawn] / counts[drawn, None])


def _with_layer(frame: pandas.DataFrame, layers: Sequence[Layer | str]) -> pandas.DataFrame:
    frame.insert(1, "layer", [layers[point] for point in frame.pop("point")])
    return frame
