"""`whence.audit_attention`: do a model's attention weights tell which inputs matter?

The attention that each token receives is ranked against what importance measures say about the same token, text by
text, for every layer and head. Special tokens are left out on both sides.
"""

from __future__ import annotations

import time
import warnings as python_warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from whence.attention.attention_maps import AttentionLayer, read_attention
from whence.attention.audit_record import AttentionAudit
from whence.attention.audit_statistics import AuditStatistics
from whence.errors import InputError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import Scale
from whence.methods.explain import explain
from whence.methods.names import method_named
from whence.metrics.confidence import FEW_TEXTS
from whence.models.batching import Text, batches, encode, usual_batch_tokens
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

Queries = Literal["all", "first", "last"]
QUERIES: tuple[Queries, ...] = ("all", "first", "last")
MEASURES = ("gradient", "gradient_x_input", "leave_one_out", "integrated_gradients")


def audit_attention(
    model: LayeredModel,
    texts: Iterable[Text],
    *,
    measures: Sequence[str] = MEASURES,
    queries: Queries = "all",
    scale: Scale = "logit",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> AttentionAudit:
    """Compare the attention of every layer and head with what importance measures say of the same tokens.

    >>> import whence
    >>> audit = audit_attention(whence.load(), ["a gorgeous, witty film", "the story never comes alive"])
    >>> audit.layers
    (1, 2, 3, 4, 5, 6)

    Args:
        model: what `whence.load` or `AttentionClassifier.layered` gives. It is left as it was, its attention too.
        texts: some hundred texts of the kind that the model is used on.
        measures: methods of whence; the sizes of their scores at the word embeddings are what attention is held
            against.
        queries: whose attention counts: that of all tokens (the mean), of the "first" ([CLS]) or of the "last" (where
            decoders are read).
        scale: in what unit the predicted target is explained; see `whence.explain`.
        seed: of the measures' random choices and of the bootstrap.
        batch_tokens: tokens a forward pass holds at most; lower it if memory runs out.
        progress: called as progress(step, done, total): what is being done, texts done, texts in all.
    """
    started = time.perf_counter()
    _check(measures, queries)
    given = [texts] if isinstance(texts, (str, tuple)) else list(texts)
    if not given:
        raise InputError("there is no text to audit", "give at least one text; some hundred make the numbers sure")
    encodings = [encode(model, text, index) for index, text in enumerate(given)]
    words = [np.array([not token.special for token in encoding.tokens]) for encoding in encodings]
    importance = _importance(model, given, measures, words, scale, seed, batch_tokens, progress)
    statistics = AuditStatistics(importance)
    done = 0
    for batch in batches(model, encodings, batch_tokens or usual_batch_tokens(model)):
        inputs = model.collate([encodings[index] for index in batch])

        def consume(
            layer: AttentionLayer,
            weights: Float[Tensor, "batch attention_head query key"],
            inputs: Inputs = inputs,
            batch: list[int] = batch,
        ) -> None:
            received = _received(weights, inputs, queries).cpu().numpy()
            for index, row in zip(batch, received, strict=True):
                statistics.add(layer, index, row[:, : len(words[index])][:, words[index]])

        read_attention(model, inputs, consume)
        done += len(batch)
        if progress is not None:
            progress("attention", done, len(given))
    return AttentionAudit(
        model=model.record,
        n_texts=len(given),
        queries=queries,
        scale=scale,
        measures=tuple(measures),
        layers=statistics.layers,
        rank_correlations=tuple(statistics.rank_correlations(measures, seed)),
        attention=tuple(statistics.attention_concentrations()),
        importance=tuple(statistics.measure_concentrations(measures)),
        between=tuple(statistics.measure_correlations(measures, seed)),
        n_too_short=sum(int(kept.sum()) < 2 for kept in words),
        seed=seed,
        seconds=time.perf_counter() - started,
        warnings=_warnings(encodings),
    )


def _check(measures: Sequence[str], queries: str) -> None:
    if queries not in QUERIES:
        raise UnknownNameError("queries", queries, QUERIES)
    if isinstance(measures, str) or not measures:
        raise UsageError(f"measures is {measures!r}", "give a list of methods, such as ['gradient', 'leave_one_out']")
    for measure in measures:
        method_named(measure)


def _importance(
    model: LayeredModel,
    texts: Sequence[Text],
    measures: Sequence[str],
    words: Sequence[np.ndarray],
    scale: Scale,
    seed: int,
    batch_tokens: int | None,
    progress: Callable[[str, int, int], None] | None,
) -> list[Float[np.ndarray, "measure token"]]:
    """The sizes of every measure's scores at the word embeddings, special tokens left out, one matrix per text."""
    columns = []
    for measure in measures:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore", WhenceWarning)  # what matters of them is in the audit's own
            columns.append(
                explain(
                    model, texts, measure, layers="embeddings", scale=scale, seed=seed, batch_tokens=batch_tokens,
                    progress=progress,
                )
            )  # fmt: skip
    return [
        np.stack([np.abs(explanation.row("embeddings")[kept]) for explanation in row]).astype(np.float64)
        for row, kept in zip(zip(*columns, strict=True), words, strict=True)
    ]


def _received(
    weights: Float[Tensor, "batch attention_head query key"], inputs: Inputs, queries: Queries
) -> Float[Tensor, "batch attention_head key"]:
    """The attention that each token receives, in float64; a learned query has an axis of one and is that one."""
    weights = weights.detach().double()
    if weights.shape[2] == 1:
        return weights[:, :, 0]
    if queries == "all":
        lookers = inputs.mask[:, None, :, None].to(weights)
        return (weights * lookers).sum(dim=2) / lookers.sum(dim=2)
    last = inputs.mask.sum(dim=1) - 1
    rows = torch.arange(len(weights), device=weights.device)
    return weights[rows, :, torch.zeros_like(last) if queries == "first" else last]


def _warnings(encodings: Sequence[Encoding]) -> tuple[str, ...]:
    cut = sum(encoding.cut > 0 for encoding in encodings)
    few = f"{len(encodings)} texts are few: the intervals are wide, and rough" if len(encodings) < FEW_TEXTS else None
    return tuple(
        filter(None, [f"{cut} texts were truncated: the model does not read their ends" if cut else None, few])
    )
