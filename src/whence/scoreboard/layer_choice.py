"""At which layer a method is judged: the one that does best on texts that are not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.play import play
from whence.engine.result import GameResult
from whence.engine.sets import Contestant
from whence.metrics.curves import Game
from whence.scoreboard.explaining import score
from whence.scoreboard.trial import Entrant, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

GRID: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The shares of tokens at which layers are compared: coarser than for the judgement, as there are many of them."""


def choose_layers(trial: Trial, entrants: Sequence[Entrant]) -> list[Entrant]:
    """Every entrant at one layer: of several, the most faithful on the texts of this trial, which are held out.

    Of layers that do equally well the one nearest the input is taken.
    """
    several = [entrant for entrant in entrants if len(entrant.layers) > 1]
    keys = {
        entrant.name: {
            "options": {name: str(value) for name, value in entrant.options.items()},
            "layers": list(entrant.layers),
        }
        for entrant in several
    }
    missing = [each for each in several if not trial.store.has("layers", each.name, keys[each.name])]
    means = _means(trial, missing, len(several)) if missing else {}
    found = []
    for entrant in entrants:
        if len(entrant.layers) > 1:
            make = lambda name=entrant.name: Piece({"means": means[name]}, {})  # noqa: E731
            kept = trial.store.kept("layers", entrant.name, keys[entrant.name], make).arrays["means"]
            best = entrant.layers[int(np.argmax(np.round(kept, 6)))]
            entrant = replace(entrant, layers=(best,), chosen_from=entrant.layers)
        found.append(entrant)
    trial.report("choosing layers", len(several), len(several))
    return found


def _means(trial: Trial, entrants: Sequence[Entrant], n_several: int) -> dict[str, Float[np.ndarray, " layer"]]:
    """The mean faithfulness of every layer; all entrants play together, so that no set of tokens is asked twice."""
    contestants = {}
    for done, entrant in enumerate(entrants, start=n_several - len(entrants)):
        trial.report("choosing layers", done, n_several)
        tables = score(trial, entrant, range(len(trial.texts)), which="held out").tables
        for place, layer in enumerate(entrant.layers):
            contestants[f"{entrant.name}@{layer}"] = Contestant([table[place] for table in tables], tie_breaks=1)
    played = play(
        trial.model, trial.texts, contestants,
        grid=GRID, hide=trial.hiding.name, seed=trial.seed, batch_tokens=trial.batch_tokens,
    )  # fmt: skip
    return {
        entrant.name: np.array([_faithfulness(played[f"{entrant.name}@{layer}"]) for layer in entrant.layers])
        for entrant in entrants
    }


def _faithfulness(games: Mapping[Game, GameResult]) -> float:
    """The headline metric, averaged over texts."""
    revealing, hiding = games["revealing"].areas("probability"), games["hiding"].areas("probability")
    return float((revealing - hiding).mean())
