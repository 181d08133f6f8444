"""The protocol: every entrant's scores of every text, then the same games and measures for all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.metrics.entropy import normalised_entropy
from whence.metrics.sparsity import gini
from whence.scoreboard.controls import ORACLE, oracle_scores
from whence.scoreboard.explaining import COSTS, Scored, score
from whence.scoreboard.faithfulness import FAITHFULNESS, Outcome, play_entrants
from whence.scoreboard.trial import Entrant, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float


def scores_and_outcomes(trial: Trial, entrants: Sequence[Entrant]) -> tuple[dict[str, Scored], dict[str, Outcome]]:
    """Chunk by chunk of texts: every entrant's scores, then the games of all whose outcome is not known yet."""
    scored: dict[str, list[Scored]] = {entrant.name: [] for entrant in entrants}
    outcomes: dict[str, list[Outcome]] = {entrant.name: [] for entrant in entrants}
    n_explanations = len(entrants) * len(trial.texts)
    for chunk in trial.chunks():
        encodings = [trial.encodings[place] for place in chunk]
        for number, entrant in enumerate(entrants, start=1):
            found = _oracle(trial, chunk) if entrant.name == ORACLE and entrant.kind == "control" else None
            scored[entrant.name].append(found or score(trial, entrant, chunk))
            trial.report("explanations", len(entrants) * chunk.start + number * len(chunk), n_explanations)
        keys = {
            entrant.name: {"places": [chunk.start, chunk.stop], "scores": _rows_digest(scored[entrant.name][-1])}
            for entrant in entrants
        }
        missing = [each for each in entrants if not trial.store.has("outcome", each.name, keys[each.name])]
        played = play_entrants(
            trial.model,
            encodings,
            {each.name: scored[each.name][-1].rows for each in missing},
            None if trial.gold is None else [trial.gold[place] for place in chunk],
            hiding=trial.hiding,
            seed=trial.seed,
            batch_tokens=trial.batch_tokens,
        ) if missing else {}  # fmt: skip
        for entrant in entrants:
            piece = trial.store.kept(
                "outcome",
                entrant.name,
                keys[entrant.name],
                lambda name=entrant.name, played=played: Piece(  # type: ignore[misc]
                    {"values": played[name].values, "curves": played[name].curves}, {}
                ),
            )
            outcomes[entrant.name].append(Outcome(piece.arrays["values"], piece.arrays["curves"]))
        trial.report("games", chunk.stop, len(trial.texts))
    return (
        {name: Scored.joined(parts) for name, parts in scored.items()},
        {
            name: Outcome(*(np.concatenate([getattr(part, field) for part in parts]) for field in ("values", "curves")))
            for name, parts in outcomes.items()
        },
    )


def _oracle(trial: Trial, chunk: range) -> Scored:
    encodings = [trial.encodings[place] for place in chunk]

    def make() -> Piece:
        found = oracle_scores(trial.model, encodings, hiding=trial.hiding, batch_tokens=trial.batch_tokens)
        return Piece({"scores": np.concatenate(found)}, {})

    piece = trial.store.kept("scores", ORACLE, {"places": [chunk.start, chunk.stop]}, make)
    parts = np.split(piece.arrays["scores"], np.cumsum([len(each) for each in encodings])[:-1])
    costs = np.array([[2 * sum(not token.special for token in each.tokens) + 2, 0, np.nan] for each in encodings])
    return Scored([part[None] for part in parts], costs, float("nan"))


def _rows_digest(scored: Scored) -> str:
    digest = hashlib.sha256()
    for row in scored.rows:
        digest.update(np.ascontiguousarray(row, dtype=np.float32).tobytes())
    return digest.hexdigest()


def judged_values(
    trial: Trial, scored: Mapping[str, Scored], outcomes: Mapping[str, Outcome]
) -> dict[str, dict[str, Float[np.ndarray, " text"]]]:
    """Faithfulness, shape and cost of every entrant, by metric."""
    found = {}
    for name, each in scored.items():
        words = [
            np.abs(np.asarray(row, dtype=float)[[not token.special for token in encoding.tokens]])
            for row, encoding in zip(each.rows, trial.encodings, strict=True)
        ]
        found[name] = {
            **{metric: outcomes[name].values[:, column] for column, metric in enumerate(FAITHFULNESS)},
            "entropy": np.array([float(normalised_entropy(row)) if len(row) > 1 else np.nan for row in words]),
            "sparsity": np.array([gini(row) for row in words]),
            **dict(zip(COSTS, each.costs.T, strict=True)),
        }
    return found
