"""`whence.cite`: a question and documents in, an answer and what each of its sentences rests on out."""

from __future__ import annotations

import math
import time
import warnings as python_warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

import numpy as np

from whence.citing.ablations import Ablations, of_sentences
from whence.citing.answering import Answer, answered
from whence.citing.citations import Citation, Citations, CitedSentence
from whence.citing.documents import Documents, SourceUnit, read_documents, sourced_prompt
from whence.citing.one_pass import ONE_PASS
from whence.citing.scoring import LEAST, SCORES, SourceScores, settled_scores
from whence.citing.surrogate import logit_of
from whence.errors import InputError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import Cost
from whence.methods.options import at_least, check_seed
from whence.models.inputs import Ids
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_SETS = 256
"""How many sets of sources are asked about at most, unless a budget is given."""
MAX_NEW_TOKENS = 128
CITING_METHODS: tuple[str, ...] = (*SCORES, *ONE_PASS)
_MOST_ODDS = math.log(1e9)  # beyond that a number says no more
_WITH_GRADIENTS = ("gradient_x_input", "gradient")
_ADDS = "what the source adds to the logit of the sentence's probability"
_MEANINGS = {
    "balanced": f"{_ADDS}, on average over all sets of the other sources",
    "context_cite": f"{_ADDS}, in a sparse linear model of random sets of sources",
    "leave_one_out": f"{_ADDS} where all other sources are there",
    "shapley": "the source's fair share of what all sources add to the logit of the sentence's probability",
    "gradient_x_input": "gradient of the sentence's log-probability times word embedding, summed over the source",
    "gradient": "size of the gradient of the sentence's log-probability, summed over the source",
    "attention": "attention that the source gets where the sentence is written",
    "similarity": "how alike the words of the source and of the sentence are",
    "random": "nothing but chance",
}


def cite(
    model: LayeredModel,
    question: str,
    documents: Documents,
    *,
    answer: str | Ids | None = None,
    method: str = "balanced",
    sources: SourceUnit = "sentence",
    budget: int | Literal["auto"] = "auto",
    least: float = LEAST,
    max_new_tokens: int = MAX_NEW_TOKENS,
    sample: bool = False,
    seed: int = 0,
    batch_tokens: int | None = None,
) -> Citations:
    """Answer a question about documents, and tell which sources each sentence of the answer rests on.

    Sets of sources are deleted from the prompt, and it is looked at how likely each sentence still is. A sentence rests
    on a source if that makes its odds at least ten times as large (`least`), beyond doubt: the whole interval of its
    score lies above. Where there is no such source, the sentence rests on none of them.

    Args:
        model: a decoder, from `whence.load`; its chat template is used, if it has one.
        question: what is asked.
        documents: a text, texts, texts by name, or paths of files and folders.
        answer: the answer to look at, as a text or as token ids; without one the model writes it.
        method: "balanced" (few sets, chosen well), "context_cite" (as published), "leave_one_out", "shapley"; or,
            without asking about sets, "gradient_x_input", "gradient", "attention", "similarity" or "random".
        sources: what is cited: "sentence", "paragraph" or "document".
        budget: how many sets of sources are asked about; "auto": as many as it takes until what is cited is settled,
            256 at most.
        least: the score from which on a source is cited.
        max_new_tokens: how long the model's answer may be.
        sample: whether the model draws its answer, by its own generation config and the seed.
        seed: makes every random choice repeatable.
        batch_tokens: tokens a forward pass holds at most; lower it if memory runs out.
    """
    if method not in CITING_METHODS:
        raise UnknownNameError("citing method", method, CITING_METHODS)
    check_seed(seed)
    if budget != "auto":
        if isinstance(budget, str):
            raise UsageError(f"budget must be a number or 'auto', got {budget!r}", "give budget=64")
        at_least("budget", budget, 2)
    at_least("max_new_tokens", max_new_tokens, 1)
    at_least("least", least, 0)
    if not isinstance(question, str):
        raise InputError(f"the question is {type(question).__name__}", "ask in words")
    found = read_documents(documents)
    prompt = sourced_prompt(question.strip(), found, sources)
    started = time.perf_counter()
    asked = answered(model, prompt, answer, max_new_tokens=max_new_tokens, seed=seed, sample=sample)
    ablations = asked.ablations(batch_tokens)
    if method in ONE_PASS:
        scores = ONE_PASS[method](asked, seed)
    elif budget == "auto":
        scores = settled_scores(SCORES[method], ablations, asked.tokens, MOST_SETS, seed, least)
    else:
        scores = SCORES[method](ablations, asked.tokens, budget, seed)
    everything = ablations.log_probabilities(np.ones((1, len(prompt.sources)), dtype=bool))
    backwards = len(asked.sentences) if method in _WITH_GRADIENTS else 0
    warnings = []
    if answer is None and len(asked.encoding.response) >= max_new_tokens:
        warnings.append(f"the answer was cut after {max_new_tokens} tokens; max_new_tokens= lets it be longer")
    if not scores.settled(least):
        warnings.append(
            f"after {ablations.asked} sets of sources it is not settled what is cited; give a larger budget"
        )
    sentences = _sentences(asked, scores, of_sentences(everything, asked.tokens)[:, 0], least)
    if scores.settled(least):
        warnings += _together(ablations, asked, sentences, least)
    for warning in warnings:
        python_warnings.warn(warning, WhenceWarning, stacklevel=2)
    return Citations(
        question=question.strip(),
        documents=found,
        answer=asked.text,
        written=answer is None,
        sources=prompt.sources,
        sentences=sentences,
        method=method,
        meaning=_MEANINGS[method],
        least=least,
        settled=scores.settled(least),
        options={"sources": sources, "budget": budget, "max_new_tokens": max_new_tokens, "sample": sample},
        model=asked.model.record,
        seed=seed,
        cost=Cost(ablations.asked, backwards, time.perf_counter() - started),
        whence_version=version("whence"),
        warnings=tuple(warnings),
    )


def _sentences(
    asked: Answer, scores: SourceScores, whole: Float[np.ndarray, " sentence"], least: float
) -> tuple[CitedSentence, ...]:
    cited = scores.cited(least)
    found = []
    for number, (start, end) in enumerate(asked.sentences):
        order = np.argsort(-scores.scores[number], kind="stable").tolist()
        ranked = tuple(
            Citation(
                source,
                float(scores.scores[number, source]),
                *(None if ends is None else _finite(ends[number, source]) for ends in (scores.low, scores.high)),
            )
            for source in order
        )
        rests_on = None if cited is None else tuple(source for source in order if cited[number, source])
        found.append(CitedSentence(start, end, float(whole[number]), ranked, rests_on))
    return tuple(found)


def _together(ablations: Ablations, asked: Answer, sentences: Sequence[CitedSentence], least: float) -> list[str]:
    """Of sentences that rest on no single source, those that rest on all together: sources may say the same."""
    alone = [number for number, sentence in enumerate(sentences) if sentence.cited == ()]
    if not alone:
        return []
    nothing, everything = np.zeros((1, ablations.n_sources), bool), np.ones((1, ablations.n_sources), bool)
    known = ablations.log_probabilities(np.concatenate([nothing, everything]))
    without, given = logit_of(of_sentences(known, asked.tokens)).T
    return [
        f"sentence {number + 1} rests on none of the sources by itself, but all of them together make its odds "
        f"{math.exp(min(given[number] - without[number], _MOST_ODDS)):,.0f} times as large: several may say the same"
        for number in alone
        if given[number] - without[number] > least
    ]


def _finite(value: float) -> float | None:
    """An end of an interval that has one."""
    return float(value) if math.isfinite(value) else None
