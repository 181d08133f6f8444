"""Exact erasure: the smallest sets of tokens that a text can be cut down to while the model's output stays as it is.

Sets are tried by growing size until one will do. Nothing is skipped: a set may suffice although a larger one around it
does not, so no set can be ruled out by what another does, and the only exact search is to try them all. Hence a budget,
and an honest answer when it runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError, UnknownNameError, UsageError
from whence.explanation import Layer, Token
from whence.learned.diffmask.subset_search import Course, search_subsets
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.options import at_least
from whence.methods.question import Question
from whence.models.batching import Text, batches, encode, usual_batch_tokens
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.selection import select

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Constraint = Literal["agreement", "divergence"]
CONSTRAINTS: tuple[Constraint, ...] = ("agreement", "divergence")


@dataclass(frozen=True)
class KeptSets:
    """The smallest sufficient sets of one text, as positions of the kept tokens, and what it took to find them.

    `sets` is empty if none was found within the budget; every set smaller than `at_least` tokens was tried and fails.
    `complete` says that `sets` holds all sets of the smallest size.
    """

    tokens: Sequence[Token]
    sets: tuple[tuple[int, ...], ...]
    at_least: int
    complete: bool
    evaluations: int

    @property
    def found(self) -> bool:
        return bool(self.sets)

    @property
    def size(self) -> int | None:
        """How many tokens must be kept; None if that was not found out."""
        return self.at_least if self.sets else None

    def shares(self) -> Float[np.ndarray, " token"]:
        """Of each token, the share of the smallest sets that keep it."""
        if not self.sets:
            raise UsageError(
                f"no set was found within {self.evaluations} evaluations", "raise budget, or loosen the constraint"
            )
        kept = np.zeros((len(self.sets), len(self.tokens)))
        for row, positions in zip(kept, self.sets, strict=True):
            row[list(positions)] = 1
        share: Float[np.ndarray, " token"] = kept.mean(axis=0)
        return share

    def __str__(self) -> str:
        if not self.sets:
            return f"not found within {self.evaluations} evaluations: at least {self.at_least} tokens must be kept"
        more = "" if self.complete else " or more"
        plural = "" if len(self.sets) == 1 and self.complete else "s"
        return f"{len(self.sets)}{more} smallest set{plural} of {self.at_least} of {len(self.tokens)} tokens"


def smallest_kept_sets(
    model: LayeredModel,
    texts: Iterable[Text],
    *,
    constraint: Constraint = "agreement",
    margin: float = 0.1,
    layer: Layer = "embeddings",
    baseline: Baseline = "zero",
    special: bool = True,
    must_keep: Literal["answer"] | Sequence[Collection[int]] | None = None,
    budget: int = 100_000,
    most: int = 1_000,
    batch_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[KeptSets]:
    """Find, for each text, every smallest set of tokens on which the model still says the same.

    >>> import whence
    >>> from whence.learned.diffmask.erasure import smallest_kept_sets
    >>> (found,) = smallest_kept_sets(whence.load(), ["never comes alive, a waste of time"])
    >>> [[found.tokens[position].text for position in kept] for kept in found.sets]
    [['never'], ['waste']]

    Args:
        model: what `whence.load` gives.
        texts: texts or pairs of texts.
        constraint: what must hold: "agreement" (the same label, or both ends of the same answer) or "divergence" (the
            output moves by at most `margin`, see `whence.tasks.reading.Reading.divergence`).
        margin: the divergence allowed.
        layer: where tokens are dropped; by default their word embeddings.
        baseline: what stands in a dropped token's place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens may be dropped too; they count as kept where not.
        must_keep: positions that every set holds, for each text; "answer" stands for the answer that a question
            answering model predicts.
        budget: sets tried per text at most. A text of 25 tokens has 15,276 sets of up to 4 and 68,406 of up to 5.
        most: sets returned per text at most.
        batch_tokens: tokens a forward pass holds at most, padding included.
        progress: called with (texts done, texts in all).
    """
    if isinstance(texts, (str, tuple)):
        raise InputError("texts is a single text", "give a list of texts")
    if constraint not in CONSTRAINTS:
        raise UnknownNameError("constraint", constraint, CONSTRAINTS)
    for name, value, least in (("margin", margin, 0), ("budget", budget, 1), ("most", most, 1)):
        at_least(name, value, least)
    layer = model.layers(layer)[0]
    tokens_at_once = usual_batch_tokens(model) if batch_tokens is None else batch_tokens
    at_least("batch_tokens", tokens_at_once, 1)
    encodings = [encode(model, text, index) for index, text in enumerate(texts)]
    if must_keep == "answer" and not model.reading.gives_span:
        raise UsageError("must_keep='answer' is for question answering", "give the positions that every set must hold")
    kept_anyway = _positions(must_keep, [len(encoding) for encoding in encodings])

    def meets(original: Tensor, changed: Tensor, inputs: Inputs) -> Bool[Tensor, " row"]:
        if constraint == "agreement":
            return model.reading.agreement(original, changed, inputs.counted) == 1
        return model.reading.divergence(original, changed, inputs.counted) <= margin

    results: dict[int, KeptSets] = {}
    with model.held(), torch.inference_mode():
        for indices in batches(model, encodings, tokens_at_once):
            inputs = model.collate([encodings[index] for index in indices])
            states = model.states(inputs)
            selection = select("predicted", "logit", model.reading, states.logits, inputs.encodings)
            question = Question(model, inputs, states, selection, (layer,), seed=0, batch_tokens=tokens_at_once)
            free = removable(question, layer, special).clone()  # of all tokens it is the very mask of the inputs
            for row, index in enumerate(indices):
                if must_keep == "answer":
                    (first, _), (last, _) = selection.indices[row, 0].tolist()
                    free[row, first : last + 1] = False
                else:
                    free[row, kept_anyway[index]] = False
            nothing = BaselineStates(question, baseline).at(layer)
            courses = search_subsets(question, layer, nothing, free, meets, budget=budget, most=most)
            results |= {
                index: _kept_sets(encodings[index], course) for index, course in zip(indices, courses, strict=True)
            }
            if progress is not None:
                progress(len(results), len(encodings))
    return [results[index] for index in range(len(encodings))]


def _positions(must_keep: str | Sequence[Collection[int]] | None, lengths: list[int]) -> list[list[int]]:
    if must_keep is None or must_keep == "answer":
        return [[] for _ in lengths]
    if isinstance(must_keep, str):
        raise UnknownNameError("must_keep", must_keep, ["answer", "positions for each text"])
    if len(must_keep) != len(lengths):
        raise UsageError(
            f"must_keep has positions for {len(must_keep)} texts, there are {len(lengths)}", "give one list per text"
        )
    for index, (positions, length) in enumerate(zip(must_keep, lengths, strict=True)):
        if wrong := [position for position in positions if not 0 <= position < length]:
            raise UsageError(f"text {index} has no token {wrong[0]}", f"its positions go from 0 to {length - 1}")
    return [sorted(positions) for positions in must_keep]


def _kept_sets(encoding: Encoding, course: Course) -> KeptSets:
    return KeptSets(
        tokens=encoding.tokens,
        sets=tuple(sorted(course.kept)),
        at_least=course.size + course.length - course.n_free,
        complete=bool(course.kept) and course.tried == course.n_of_size and not course.cut,
        evaluations=course.evaluations,
    )
