"""At which layer a method is judged: the one that does best on texts that are not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.asking import Contestant, answered
from whence.metrics.answered import LAYER_POINTS
from whence.metrics.table import HEADLINE, METRICS
from whence.scoreboard.explaining import score
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

CHOOSING = "choosing layers"


def choice_of_layers(trial: Trial, entrants: Sequence[Entrant]) -> Step:
    """Every entrant at one layer: of several, the most faithful on the texts of this trial, which are held out.

    Of layers that do equally well the one nearest the input is taken.
    """
    headline = METRICS[HEADLINE]
    key = {"points": LAYER_POINTS, "hide": trial.hiding.name, "metric": (headline.name, headline.version)}
    with_layers = [entrant for entrant in entrants if len(entrant.layers) > 1]
    n_several = len(with_layers)

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        several = [entrant for entrant in findings.entrants if len(entrant.layers) > 1]
        keys = {each.name: trial.key(range(len(trial.texts)), **each.key, **key) for each in several}
        missing = [each for each in several if not trial.store.has("layers", each.name, keys[each.name])]
        means = _means(trial, missing, n_several) if missing else {}
        for index, entrant in enumerate(findings.entrants):
            if len(entrant.layers) > 1:
                make = lambda name=entrant.name: Piece({"means": means[name]}, {})  # noqa: E731
                kept = trial.store.kept("layers", entrant.name, keys[entrant.name], make).arrays["means"]
                best = entrant.layers[int(np.argmax(np.round(kept, 6)))]
                findings.entrants[index] = replace(entrant, layers=(best,), chosen_from=entrant.layers)
        trial.report(CHOOSING, n_several, n_several)

    sets = 2 * LAYER_POINTS.n_points
    passes = len(trial.texts) * sum(each.passes + sets * len(each.layers) for each in with_layers)
    return Step(CHOOSING, n_several if trial.texts else 0, (), key, run, passes)


def _means(trial: Trial, entrants: Sequence[Entrant], n_several: int) -> dict[str, Float[np.ndarray, " layer"]]:
    """The mean faithfulness of every layer; all entrants play together, so that no set of tokens is asked twice."""
    contestants = {}
    for done, entrant in enumerate(entrants, start=n_several - len(entrants)):
        trial.report(CHOOSING, done, n_several)
        tables = score(trial, entrant, range(len(trial.texts))).tables
        for row, layer in enumerate(entrant.layers):
            contestants[f"{entrant.name}@{layer}"] = Contestant([table[row] for table in tables], tie_breaks=1)
    compute = METRICS[HEADLINE].compute
    assert compute is not None, "the headline is computed from answers"
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _, texts in answered(
        trial.model, trial.encodings, contestants, LAYER_POINTS,
        hiding=trial.hiding, batch_tokens=trial.batch_tokens, seed=trial.seed,
    ):  # fmt: skip
        for name, text in texts.items():
            found[name].append(compute(text))
    return {
        entrant.name: np.array([np.mean(found[f"{entrant.name}@{layer}"]) for layer in entrant.layers])
        for entrant in entrants
    }
