"""At which layer a method is judged: the one that does best on texts that are not judged, on as many as settle it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.asking import Contestant, Memory, answered
from whence.metrics.answered import LAYER_POINTS
from whence.metrics.confidence import resampling_weights
from whence.metrics.table import HEADLINE, METRICS
from whence.scoreboard.explaining import score
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

CHOOSING = "choosing layers"
AT_FIRST = 16  # texts; where they leave it open, as many again, and so on
SETTLED = 0.95  # of the resamples: the layer chosen is the best, or as good
AS_GOOD = 0.01  # of faithfulness: less is no reason to prefer another layer


def choice_of_layers(trial: Trial, entrants: Sequence[Entrant]) -> Step:
    """Every entrant at one layer: of several, the most faithful on the texts of this trial, which are held out.

    Texts are added until the choice is settled: until the layer chosen is the best, or within `AS_GOOD` of it, in 95 %
    of resamples of the texts. Of layers that do equally well the one nearest the input is taken.
    """
    headline = METRICS[HEADLINE]
    key = {"points": LAYER_POINTS, "hide": trial.hiding.told, "metric": (headline.name, headline.version)}
    with_layers = [entrant for entrant in entrants if len(entrant.layers) > 1]
    n_several = len(with_layers)

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        values: dict[str, Float[np.ndarray, "text layer"]] = {}
        open_still = [entrant for entrant in findings.entrants if len(entrant.layers) > 1]
        for indices in portions(len(trial.texts)):
            for name, more in _values(trial, open_still, indices, key).items():
                values[name] = np.concatenate([values[name], more]) if name in values else more
            settled = [each.name for each in open_still if chosen(values[each.name])[1] >= SETTLED]
            open_still = [each for each in open_still if each.name not in settled]
            trial.report(CHOOSING, n_several - len(open_still), n_several)
            if not open_still:
                break
        for index, entrant in enumerate(findings.entrants):
            if entrant.name in values:
                best, stability = chosen(values[entrant.name])
                findings.entrants[index] = replace(
                    entrant, layers=(entrant.layers[best],), chosen_from=entrant.layers,
                    chosen_on=len(values[entrant.name]), stability=stability,
                )  # fmt: skip
        trial.report(CHOOSING, n_several, n_several)

    sets = 2 * LAYER_POINTS.n_points
    passes = len(trial.texts) * sum(each.passes + sets * len(each.layers) for each in with_layers)
    return Step(CHOOSING, n_several if trial.texts else 0, (), key, run, passes)


def portions(n_texts: int) -> Iterator[list[int]]:
    """Indices of the texts that are added in each round, in a random but fixed order: 16, 16 more, 32 more, and so on.

    >>> [len(portion) for portion in portions(50)]
    [16, 16, 18]
    """
    order = np.random.default_rng(0).permutation(n_texts).tolist()
    start, stop = 0, AT_FIRST
    while start < n_texts:
        yield order[start:stop]
        start, stop = stop, 2 * stop


def chosen(values: Float[np.ndarray, "text layer"]) -> tuple[int, float]:
    """The layer with the highest mean, and in which share of resamples of the texts it is the best, or as good."""
    best = int(np.argmax(np.round(values.mean(axis=0), 6)))
    means = resampling_weights(len(values)) @ values
    return best, float((means[:, best] >= means.max(axis=1) - AS_GOOD).mean())


def _values(
    trial: Trial, entrants: Sequence[Entrant], indices: Sequence[int], key: Mapping[str, Any]
) -> dict[str, Float[np.ndarray, "text layer"]]:
    """The faithfulness of every layer on some texts; what one entrant has asked of the model no other asks again."""
    keys = {each.name: trial.key(indices, **each.key, **key) for each in entrants}
    memory: Memory = [{} for _ in indices]
    found = {}
    for entrant in entrants:
        make = lambda entrant=entrant: Piece({"values": _played(trial, entrant, indices, memory)}, {})  # noqa: E731
        piece = trial.store.kept("layers", entrant.name, keys[entrant.name], make)
        found[entrant.name] = piece.arrays["values"]
    return found


def _played(trial: Trial, entrant: Entrant, indices: Sequence[int], memory: Memory) -> Float[np.ndarray, "text layer"]:
    tables = score(trial, entrant, indices).tables
    contestants = {
        str(layer): Contestant([table[row] for table in tables], tie_breaks=1)
        for row, layer in enumerate(entrant.layers)
    }
    compute = METRICS[HEADLINE].compute
    assert compute is not None, "the headline is computed from answers"
    values = np.zeros((len(indices), len(contestants)))
    for number, texts in answered(
        trial.model, [trial.encodings[index] for index in indices], contestants, LAYER_POINTS,
        hiding=trial.hiding, batch_tokens=trial.batch_tokens, seed=trial.seed, memory=memory,
    ):  # fmt: skip
        values[number] = [compute(text) for text in texts.values()]
    return values
