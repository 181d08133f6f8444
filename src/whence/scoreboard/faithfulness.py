"""The faithfulness metrics of many entrants at once: every set of tokens that any of them leaves is asked about once.

Comprehensiveness at a bin is a point of the hiding game, sufficiency one of the revealing game, so all of them are read
off the same answers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.masked import Hiding, MaskedTexts
from whence.metrics.curves import Game, area_under, hidden_counts, kept_sets, orders
from whence.metrics.eraser import bin_counts, comprehensiveness, mass_counts, sufficiency
from whence.metrics.monotonicity import monotonicity
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

GRID: tuple[float, ...] = tuple(percent / 100 for percent in range(0, 101, 10))
"""The shares of tokens at which the games are stopped: half as many as a game played by itself, for half the cost."""

CURVES = ("hiding_probability", "hiding_agreement", "revealing_probability", "revealing_agreement")
FAITHFULNESS = (
    "faithfulness", "hiding_auc", "revealing_auc", "hiding_agreement", "revealing_agreement", "hiding_accuracy",
    "revealing_accuracy", "comprehensiveness", "sufficiency", "comprehensiveness_at_mass", "sufficiency_at_mass",
    "monotonicity",
)  # fmt: skip
_ASKED_AT_ONCE = 4_000_000  # places of tokens in the sets that are held at a time


@dataclass(frozen=True, eq=False)
class Outcome:
    """An entrant's faithfulness metrics a text (NaN where one is undefined), and its curves over `GRID`."""

    values: Float[np.ndarray, "text metric"]
    curves: Float[np.ndarray, "text curve point"]


@dataclass(frozen=True)
class Answered:
    """What the model said of a text with the first k tokens of an order hidden, and with them alone shown.

    `same` and `right` say whether the decision, and the gold label, is given.
    """

    n_tokens: int
    whole: float
    counts: Mapping[Game, Int[np.ndarray, " asked"]]
    probability: Mapping[Game, Float[np.ndarray, " asked"]]
    same: Mapping[Game, Float[np.ndarray, " asked"]]
    right: Mapping[Game, Float[np.ndarray, " asked"]] | None

    def at(
        self, measure: Mapping[Game, Float[np.ndarray, " asked"]], game: Game, counts: Int[np.ndarray, " point"]
    ) -> Float[np.ndarray, " point"]:
        return measure[game][np.searchsorted(self.counts[game], counts)]


def play_entrants(
    model: LayeredModel,
    encodings: Sequence[Encoding],
    scores: Mapping[str, Sequence[Float[np.ndarray, " token"]]],
    gold: Sequence[int] | None,
    *,
    hiding: Hiding,
    seed: int,
    batch_tokens: int,
) -> dict[str, Outcome]:
    """The outcomes of all entrants on the same texts; `scores` holds a row a text for each of them."""
    values = {name: np.full((len(encodings), len(FAITHFULNESS)), np.nan) for name in scores}
    curves = {name: np.zeros((len(encodings), len(CURVES), len(GRID)), dtype=np.float32) for name in scores}
    for batch in _batches(encodings, len(scores)):
        asked = MaskedTexts(model, [encodings[place] for place in batch], hiding, batch_tokens)
        plans = [
            _Plan.of(encodings[place], {name: rows[place] for name, rows in scores.items()}, seed) for place in batch
        ]
        width = max(len(encodings[place]) for place in batch)
        rows = np.repeat(np.arange(len(batch)), [len(plan.keep) for plan in plans])
        keep = np.concatenate([np.pad(plan.keep, ((0, 0), (0, width - plan.keep.shape[1]))) for plan in plans])
        answers = asked.answers(rows, keep)
        start = 0
        for row, (place, plan) in enumerate(zip(batch, plans, strict=True)):
            own = slice(start, start + len(plan.keep))
            start = own.stop
            said, whole = answers.said[own], asked.whole.said[row]
            same = (said == whole).all(axis=1).astype(float)
            right = None if gold is None else (said[:, 0] == gold[place]).astype(float)
            for name, order in plan.orders.items():
                answered = plan.answered(
                    name, float(asked.whole.probability[row]), answers.probability[own], same, right
                )
                values[name][place] = metric_values(answered, scores[name][place][plan.may_go][order])
                curves[name][place] = curve_points(answered)
    return {name: Outcome(values[name], curves[name]) for name in scores}


def metric_values(answered: Answered, ordered: Float[np.ndarray, " token"]) -> list[float]:
    """The metrics of `FAITHFULNESS` for one text and order; `ordered` are its scores, highest first."""
    hiding, revealing = (_on_grid(answered, answered.probability, game) for game in ("hiding", "revealing"))
    auc_hiding, auc_revealing = float(area_under(GRID, hiding)), float(area_under(GRID, revealing))
    found = [auc_revealing - auc_hiding, auc_hiding, auc_revealing]
    for measure in (answered.same, answered.right):
        for game in ("hiding", "revealing"):
            found.append(
                float("nan") if measure is None else float(area_under(GRID, _on_grid(answered, measure, game)))
            )
    whole = np.array(answered.whole)
    for counts in (bin_counts(answered.n_tokens), mass_counts(ordered)):
        without = answered.at(answered.probability, "hiding", counts)
        alone = answered.at(answered.probability, "revealing", counts)
        found += [float(comprehensiveness(whole, without)), float(sufficiency(whole, alone))]
    shown = np.unique(_shown(answered.n_tokens))
    found.append(monotonicity(shown, answered.at(answered.probability, "revealing", shown)))
    return found


def curve_points(answered: Answered) -> Float[np.ndarray, "curve point"]:
    """The curves of `CURVES` for one text and order."""
    return np.stack(
        [
            _on_grid(answered, measure, game)
            for game in ("hiding", "revealing")
            for measure in (answered.probability, answered.same)
        ]
    )


def _shown(n_tokens: int) -> Int[np.ndarray, " point"]:
    return n_tokens - hidden_counts(n_tokens, GRID, "revealing")


def _on_grid(
    answered: Answered, measure: Mapping[Game, Float[np.ndarray, " asked"]], game: Game
) -> Float[np.ndarray, " point"]:
    n_tokens = answered.n_tokens
    counts = hidden_counts(n_tokens, GRID, "hiding") if game == "hiding" else _shown(n_tokens)
    return answered.at(measure, game, counts)


@dataclass(frozen=True)
class _Plan:
    """The distinct sets of one text's tokens to ask about, and which of them each entrant needs."""

    may_go: Bool[np.ndarray, " token"]
    orders: Mapping[str, Int[np.ndarray, " token"]]
    keep: Bool[np.ndarray, "set token"]
    counts: Mapping[str, Mapping[Game, Int[np.ndarray, " asked"]]]
    place: Mapping[str, Mapping[Game, Int[np.ndarray, " asked"]]]

    @classmethod
    def of(cls, encoding: Encoding, scores: Mapping[str, Float[np.ndarray, " token"]], seed: int) -> _Plan:
        may_go = np.array([not token.special for token in encoding.tokens])
        n_tokens = int(may_go.sum())
        fingerprint = (seed, zlib.crc32(repr(encoding.ids).encode()))
        always: dict[Game, Int[np.ndarray, " asked"]] = {
            "hiding": np.concatenate([hidden_counts(n_tokens, GRID, "hiding"), bin_counts(n_tokens)]),
            "revealing": np.concatenate([_shown(n_tokens), bin_counts(n_tokens)]),
        }
        ordered, counts, sets = {}, {}, []
        for name, row in scores.items():
            generator = np.random.default_rng(fingerprint)  # the same for all: ties are broken alike
            words = np.asarray(row)[may_go]
            order = orders(words, tie_breaks=1, generator=generator)[0]
            by_mass = mass_counts(words[order])
            ordered[name] = order
            counts[name] = {game: np.unique(np.concatenate([asked, by_mass])) for game, asked in always.items()}
            sets.append(kept_sets(order, counts[name]["hiding"], "hiding"))
            sets.append(kept_sets(order, n_tokens - counts[name]["revealing"], "revealing"))
        every = np.concatenate(sets)
        _, first, inverse = np.unique(np.packbits(every, axis=1), axis=0, return_index=True, return_inverse=True)
        keep = np.repeat(~may_go[None], len(first), axis=0)
        keep[:, may_go] = every[first]
        parts = iter(np.split(inverse.reshape(-1), np.cumsum([len(part) for part in sets])[:-1]))
        place: dict[str, dict[Game, Int[np.ndarray, " asked"]]] = {
            name: {"hiding": next(parts), "revealing": next(parts)} for name in scores
        }
        return cls(may_go, ordered, keep, counts, place)

    def answered(
        self,
        name: str,
        whole: float,
        probability: Float[np.ndarray, " set"],
        same: Float[np.ndarray, " set"],
        right: Float[np.ndarray, " set"] | None,
    ) -> Answered:
        place = self.place[name]
        return Answered(
            int(self.may_go.sum()),
            whole,
            self.counts[name],
            {game: probability[places].astype(float) for game, places in place.items()},
            {game: same[places] for game, places in place.items()},
            None if right is None else {game: right[places] for game, places in place.items()},
        )


def _batches(encodings: Sequence[Encoding], n_entrants: int) -> Iterator[list[int]]:
    """Places of texts of similar length whose sets fit into memory together."""
    batch: list[int] = []
    held = 0
    for place in sorted(range(len(encodings)), key=lambda place: len(encodings[place])):
        length = len(encodings[place])
        needed = length * n_entrants * 2 * min(len(GRID) + 10, length + 1)
        if batch and held + needed > _ASKED_AT_ONCE:
            yield batch
            batch, held = [], 0
        batch.append(place)
        held += needed
    if batch:
        yield batch
