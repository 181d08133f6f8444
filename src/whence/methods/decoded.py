"""Decoded layer saliency: any score of a layer, carried back to the words of the text by a language-model head.

A hidden state is no word. The head says which words it can be read as; a token of the text is given, from every
position, the share of that position's score with which the head reads the position as that token. With P_l the
softmax over the whole vocabulary of the head on h_l, s_i = sum over j of P_l[j, i] score_l[j].
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.errors import UsageError
from whence.explanation import Explanation, Layer, Meaning
from whence.methods.question import Method, Question, Scores
from whence.models.head import Head, head_of, log_denominators_
from whence.models.inputs import Inputs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def decoded(score: str | Method, tau: int | None = None) -> Method:
    """A method that decodes another method's scores of states into scores of the text's tokens.

    All positions take part, special ones too; special tokens are not themselves scored and get zero. A token that comes
    up twice has one score, which stands at both positions.

    >>> import whence
    >>> method = decoded("integrated_gradients")
    >>> explanation = whence.explain(whence.load(), "a gorgeous, witty film", method, layers=[0, 3], steps=5)
    >>> explanation.method, explanation.scores.shape
    ('decoded_integrated_gradients', (2, 7))

    Args:
        score: the method whose scores are decoded, by name or as a `Method`; its options are options here too.
        tau: at each position only the tau tokens of the text that the head finds likeliest there get a share; None or
            more than there are: all of them.
    """
    inner = score if isinstance(score, Method) else _named(score)
    name = f"decoded_{score if isinstance(score, str) else inner.name}"

    def compute(question: Question, *, tau: int | None = tau, **options: Any) -> Scores:
        if tau is not None and (isinstance(tau, bool) or not isinstance(tau, int) or tau < 1):
            raise UsageError(f"tau must be a whole number of at least 1, got {tau!r}", "give tau=None for all tokens")
        if question.model.encoder_decoder:
            raise UsageError(
                "the head of an encoder-decoder reads its decoder's states, which are no words of the source",
                f"use {inner.name} as it is, or whence.decode_layers for what the head reads",
            )
        head = head_of(question.model)
        given = inner.compute(question, **options)
        meaning = None if given.meaning is None else _meaning(given.meaning)
        values = decode(question, head, given.values, tau)
        return Scores(values, meaning=meaning, warnings=given.warnings, notes=given.notes)

    compute.__name__ = compute.__qualname__ = name
    own = inspect.signature(compute).parameters
    borrowed = inspect.signature(inner.compute).parameters
    options = [each for each in borrowed.values() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    compute.__signature__ = inspect.Signature([own["question"], own["tau"], *options])  # type: ignore[attr-defined]
    return replace(
        inner,
        compute=compute,
        meaning=_meaning(inner.meaning),
        needs=(*inner.needs, "a head"),
        cost=f"{inner.cost}; 1 pass of the head per layer",
        layers=inner.layers if inner.layers == "blocks" else "all",
        takes_units=False,
        tells_outputs=False,
    )


def _named(score: str) -> Method:
    from whence.methods.names import method_named

    named = method_named(score)
    if named.preset is not None:
        raise UsageError(f"{score} is a preset", f"decode its method with its options: {named.preset.method}")
    return named.method


def _meaning(inner: Meaning) -> Meaning:
    return Meaning(
        f"decoded {inner.name}",
        f"how much of the layer's scores lies where the head reads this token (a score: {inner.sentence}); "
        "special tokens are not scored",
        signed=inner.signed,
        additive=False,
        low=0.0 if inner.low is not None and inner.low >= 0 else None,
        decoded=True,
    )


@dataclass(frozen=True)
class UniqueTokens:
    """The tokens to be scored, each once per text: their ids (filled up where `present` is false), and for every
    position the index of its token among them, -1 where it is not scored."""

    ids: Int[Tensor, "batch unique"]
    present: Bool[Tensor, "batch unique"]
    indices: Int[Tensor, "batch token"]


def unique_tokens(inputs: Inputs) -> UniqueTokens:
    """The tokens of each text in the order they first come up, special ones and padding left out."""
    orders: list[dict[int, int]] = []
    indices = []
    for encoding in inputs.encodings:
        order: dict[int, int] = {}
        row = [-1 if token.special else order.setdefault(token.id, len(order)) for token in encoding.tokens]
        indices.append(row + [-1] * (inputs.ids.shape[1] - len(row)))
        orders.append(order)
    most, device = max(map(len, orders)), inputs.ids.device
    return UniqueTokens(
        torch.tensor([[*order, *[0] * (most - len(order))] for order in orders], device=device),
        torch.tensor([[True] * len(order) + [False] * (most - len(order)) for order in orders], device=device),
        torch.tensor(indices, device=device),
    )


def decode(
    question: Question, head: Head, scores: Float[Tensor, "batch layer token"], tau: int | None
) -> Float[Tensor, "batch layer token"]:
    """Scores of positions as scores of tokens, at every layer, standing wherever the token stands."""
    unique = unique_tokens(question.inputs)
    head.check_ids(unique.ids)
    real = question.inputs.mask.to(scores.device)
    given = torch.where(real[:, None], scores.detach().float(), 0.0).to(unique.ids.device)
    layers = [
        decode_layer(head, question.states.at(layer).detach(), given[:, index], unique, tau)
        for index, layer in enumerate(question.layers)
    ]
    totals = torch.stack(layers, dim=1)
    indices = unique.indices[:, None].expand(-1, len(layers), -1)
    return totals.gather(-1, indices.clamp(min=0)).masked_fill(indices < 0, 0.0)


def decode_layer(
    head: Head,
    states: Float[Tensor, "batch token hidden"],
    scores: Float[Tensor, "batch token"],
    unique: UniqueTokens,
    tau: int | None,
) -> Float[Tensor, "batch unique"]:
    """The score of each unique token at one layer; positions without a score are not shown to the head."""
    text, position = scores.nonzero(as_tuple=True)
    totals = torch.zeros(unique.ids.shape, device=scores.device)
    for rows, logits in head.in_blocks(states[text, position]):
        mine = text[rows]
        found = logits.gather(1, unique.ids[mine])
        found = (found - log_denominators_(logits)).exp().masked_fill(~unique.present[mine], 0.0)
        totals.index_add_(0, mine, scores[mine, position[rows], None] * _largest(found, tau))
    return totals


def _largest(shares: Float[Tensor, "row unique"], tau: int | None) -> Float[Tensor, "row unique"]:
    """Each row's tau largest, and what is as large as the last of them, so that the order of tokens does not matter."""
    if tau is None or tau >= shares.shape[1]:
        return shares
    least = shares.topk(tau, dim=1).values[:, -1:]
    return shares.masked_fill(shares < least, 0.0)


def unique_token_scores(explanation: Explanation, layer: Layer | None = None) -> dict[int, float]:
    """The score of each token of the text by its id, in the order they first come up; by default of the lowest layer.

    >>> import whence
    >>> explanation = whence.explain(whence.load(), "a film of a film", "decoded_grad_cam", layers=3)
    >>> len(explanation.tokens), len(unique_token_scores(explanation))
    (7, 3)
    """
    row = explanation.row(layer)
    found: dict[int, float] = {}
    for token, value in zip(explanation.tokens, row, strict=True):
        if not token.special:
            found.setdefault(token.id, float(value))
    return found
