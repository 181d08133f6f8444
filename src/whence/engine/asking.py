"""The engine: what a model says of sets of a text's tokens, each distinct set asked once."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.masked import MaskedTexts
from whence.errors import UsageError
from whence.metrics.answered import AnsweredText, Points
from whence.metrics.curves import By, kept_sets, orders
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.models.token_sets import distinct_sets

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Real

Memory = list[dict[bytes, tuple[float, float, float]]]
"""What was said before of each text, by set: the probability of the decision, whether it is the same, and the class."""

_WHOLE = b""  # no set is called so, unless a text has nothing that may go, and then it is the whole text
_MICRO_BATCHES_AT_A_TIME = 32  # texts are taken together until their sets fill so many: enough to sort by length


@dataclass(frozen=True)
class Contestant:
    """Scores that take part: a row of scores, one per token, for each text.

    `by` orders them by their value or by their size. Equal scores come in the order of the text, or, with
    `tie_breaks`, the outcome is averaged over so many random orders of them; scores that are all equal then give the
    random baseline.
    """

    scores: Sequence[Real[np.ndarray, " token"]]
    by: By = "signed"
    tie_breaks: int = 0

    def check(self, name: str, encodings: Sequence[Encoding]) -> None:
        """Refuse scores that are not one per token of these texts."""
        if self.tie_breaks < 0:
            raise UsageError(f"tie_breaks must be a number of at least 0, got {self.tie_breaks!r}", "give tie_breaks=0")
        if len(self.scores) != len(encodings):
            raise UsageError(
                f"{name} has scores of {len(self.scores)} texts, the games are played on {len(encodings)}",
                "give one row of scores per text",
            )
        for index, (row, encoding) in enumerate(zip(self.scores, encodings, strict=True)):
            if np.shape(row) != (len(encoding),):
                raise UsageError(
                    f"{name} has scores of shape {np.shape(row)} for text {index}, which has {len(encoding)} tokens",
                    "give one score per token, special tokens too",
                )


@dataclass(frozen=True, eq=False)
class Told:
    """What the model says of the sets of one text, in the order asked: the probability of what it says of the whole
    text (there it is `whole`), whether it says the same, and whether it gives the gold label, if there is one."""

    whole: float
    probability: Float[np.ndarray, " set"]
    same: Float[np.ndarray, " set"]
    right: Float[np.ndarray, " set"] | None


def may_go(encoding: Encoding) -> Bool[np.ndarray, " token"]:
    """The tokens that are hidden and shown; special ones always stay."""
    return np.array([not token.special for token in encoding.tokens])


def generator_of(encoding: Encoding, seed: int) -> np.random.Generator:
    """Random numbers that depend on the seed and the text alone."""
    return np.random.default_rng((seed, zlib.crc32(repr(encoding.ids).encode())))


def ask(
    model: LayeredModel,
    encodings: Sequence[Encoding],
    sets: Callable[[int], Bool[np.ndarray, "set word"]],
    *,
    hiding: Hiding,
    batch_tokens: int,
    gold: Sequence[int] | None = None,
    memory: Memory | None = None,
) -> Iterator[tuple[int, Told]]:
    """What the model says of each text in which only some of its tokens are seen; short texts come first.

    Args:
        sets: the sets of a text, by its index: which of the tokens that are not special are seen.
        gold: the ids of the gold labels.
        memory: what was said before, which is not asked about again; it grows. It holds for one model, one way of
            hiding and one list of texts.
    """
    batch: list[_Asked] = []
    held = 0
    for index in sorted(range(len(encodings)), key=lambda index: len(encodings[index])):
        asked = _Asked.of(index, encodings[index], sets(index), {} if memory is None else memory[index])
        if asked.answered:
            yield index, asked.told(gold)
            continue
        if batch and held + asked.keep.size > batch_tokens * _MICRO_BATCHES_AT_A_TIME:
            yield from _told(model, batch, hiding, batch_tokens, gold)
            batch, held = [], 0
        batch.append(asked)
        held += asked.keep.size
    if batch:
        yield from _told(model, batch, hiding, batch_tokens, gold)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The distinct sets of one text: `keep` are those that nothing is known of, `new` their names in the memory.

    `which[i]` says which of all `names` the i-th set asked about has.
    """

    index: int
    encoding: Encoding
    keep: Bool[np.ndarray, "new token"]
    new: list[bytes]
    names: list[bytes]
    which: Int[np.ndarray, " set"]
    known: dict[bytes, tuple[float, float, float]]

    @classmethod
    def of(
        cls,
        index: int,
        encoding: Encoding,
        sets: Bool[np.ndarray, "set word"],
        known: dict[bytes, tuple[float, float, float]],
    ) -> _Asked:
        words = may_go(encoding)
        first, which = distinct_sets(sets)
        names = [row.tobytes() for row in np.packbits(sets[first], axis=1)]
        new = [number for number, name in enumerate(names) if name not in known]
        keep = np.repeat(~words[None], len(new), axis=0)
        keep[:, words] = sets[first[new]]
        return cls(index, encoding, keep, [names[number] for number in new], names, which, known)

    @property
    def answered(self) -> bool:
        return not self.new and _WHOLE in self.known

    def told(self, gold: Sequence[int] | None) -> Told:
        found = np.array([self.known[name] for name in self.names])[self.which]
        right = None if gold is None else (found[:, 2] == gold[self.index]).astype(float)
        return Told(self.known[_WHOLE][0], found[:, 0], found[:, 1], right)


def _told(
    model: LayeredModel, batch: Sequence[_Asked], hiding: Hiding, batch_tokens: int, gold: Sequence[int] | None
) -> Iterator[tuple[int, Told]]:
    masked = MaskedTexts(model, [asked.encoding for asked in batch], hiding, batch_tokens)
    width = max(len(asked.encoding) for asked in batch)
    rows = np.repeat(np.arange(len(batch)), [len(asked.keep) for asked in batch])
    keep = np.concatenate([np.pad(asked.keep, ((0, 0), (0, width - asked.keep.shape[1]))) for asked in batch])
    answers = masked.answers(rows, keep)
    same = (answers.said == masked.whole.said[rows]).all(axis=1)
    found = np.stack([answers.probability, same, answers.said[:, 0]], axis=1).astype(float).tolist()
    ends = np.cumsum([len(asked.keep) for asked in batch])
    for row, (asked, end) in enumerate(zip(batch, ends, strict=True)):
        asked.known[_WHOLE] = (float(masked.whole.probability[row]), 1.0, float(masked.whole.said[row, 0]))
        asked.known.update(zip(asked.new, map(tuple, found[end - len(asked.new) : end]), strict=True))
        yield asked.index, asked.told(gold)


def answered(
    model: LayeredModel,
    encodings: Sequence[Encoding],
    contestants: Mapping[str, Contestant],
    points: Points,
    *,
    hiding: Hiding,
    batch_tokens: int,
    gold: Sequence[int] | None = None,
    seed: int = 0,
    memory: Memory | None = None,
) -> Iterator[tuple[int, dict[str, AnsweredText]]]:
    """What becomes of each text, by its index, in the hands of each contestant; short texts come first."""
    for name, contestant in contestants.items():
        contestant.check(name, encodings)
    taken: dict[int, dict[str, Int[np.ndarray, "game point"]]] = {}

    def sets(index: int) -> Bool[np.ndarray, "set word"]:
        words = may_go(encodings[index])
        taken[index], found = {}, []
        for name, contestant in contestants.items():
            scores = np.asarray(contestant.scores[index], dtype=float)[words]
            generator = generator_of(encodings[index], seed)  # the same for all contestants: ties are broken alike
            ordered = orders(scores, by=contestant.by, tie_breaks=contestant.tie_breaks, generator=generator)
            taken[index][name] = counts = points.counts(scores[ordered[0]])
            for order in ordered:
                for game, of_game in zip(points.games, counts, strict=True):
                    found.append(kept_sets(order, of_game if game == "hiding" else len(order) - of_game, game))
        return np.concatenate(found)

    for index, told in ask(model, encodings, sets, hiding=hiding, batch_tokens=batch_tokens, gold=gold, memory=memory):
        counts = taken.pop(index)
        ends = np.cumsum([max(1, contestants[name].tie_breaks) * each.size for name, each in counts.items()])[:-1]
        measured = [
            None if values is None else np.split(values, ends) for values in (told.probability, told.same, told.right)
        ]
        n_tokens = int(may_go(encodings[index]).sum())
        yield index, {
            name: AnsweredText(
                points, n_tokens, told.whole, of_name,
                *(None if each is None else each[number].reshape(-1, *of_name.shape).mean(axis=0) for each in measured),  # type: ignore[arg-type]
            )
            for number, (name, of_name) in enumerate(counts.items())
        }  # fmt: skip


def gold_ids(model: LayeredModel, labels: Sequence[str | int], n_texts: int) -> list[int]:
    """The ids of gold labels, given by name or id, one per text."""
    if len(labels) != n_texts:
        raise UsageError(f"{len(labels)} labels for {n_texts} texts", "give one label per text")
    return model.reading.gold(labels)
