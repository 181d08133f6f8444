"""At which layer a method is judged: the one that does best on texts that are not judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whence.explanation import Layer
from whence.scoreboard.explaining import score
from whence.scoreboard.faithfulness import FAITHFULNESS, play_entrants
from whence.scoreboard.metric_table import HEADLINE
from whence.scoreboard.store import Piece
from whence.scoreboard.trial import Entrant, Trial


def choose_layers(trial: Trial, entrants: Sequence[Entrant]) -> list[Entrant]:
    """Every entrant at one layer: of several, the most faithful on the texts of this trial, which are held out.

    Of layers that do equally well the one nearest the input is taken.
    """
    found = []
    n_several = sum(len(entrant.layers) > 1 for entrant in entrants)
    done = 0
    for entrant in entrants:
        if len(entrant.layers) > 1:
            trial.report("choosing layers", done, n_several)
            entrant = replace(entrant, layers=(_best_layer(trial, entrant),), chosen_from=entrant.layers)
            done += 1
            trial.report("choosing layers", done, n_several)
        found.append(entrant)
    return found


def _best_layer(trial: Trial, entrant: Entrant) -> Layer:
    def make() -> Piece:
        tables = score(trial, entrant, range(len(trial.texts)), which="held out").tables
        outcomes = play_entrants(
            trial.model,
            trial.encodings,
            {str(layer): [table[place] for table in tables] for place, layer in enumerate(entrant.layers)},
            None,
            hiding=trial.hiding,
            seed=trial.seed,
            batch_tokens=trial.batch_tokens,
        )
        column = FAITHFULNESS.index(HEADLINE)
        return Piece({"means": np.array([each.values[:, column].mean() for each in outcomes.values()])}, {})

    key = {"options": {name: str(value) for name, value in entrant.options.items()}, "layers": list(entrant.layers)}
    means = trial.store.kept("layers", entrant.name, key, make).arrays["means"]
    return entrant.layers[int(np.argmax(np.round(means, 6)))]
