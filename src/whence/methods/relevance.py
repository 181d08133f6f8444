"""Relevance: a state's share of the target in the network held still, from one forward and one backward pass.

Layer-wise relevance propagation is patented: the README of `lxt`, the package of AttnLRP's authors, says that it can be
used free of charge for personal and scientific purposes only. whence's licence grants no right beyond that.
"""

from __future__ import annotations

from functools import partial

import torch

from whence.columns import Later
from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.models.held_still import check_ruled, held_still

SOAKED = 0.5  # of all scores' size at the input: one token that holds more says little about the others


def attn_lrp(question: Question) -> Scores:
    """State times gradient, where the two factors of a product share its worth (AttnLRP; Achtibat et al., 2024).

    Scales of norms and slopes of activations are held still; queries, keys and values, and the two halves of a gated
    layer, all take part. Scores need not add up to the target: biases and the softmax take their share, and the note
    says how much is left. Of a language model's next token the log-probability is shared out unless told otherwise:
    that was the more faithful scale (`docs/one_pass.md`); for `held_still` it was the logit. Patented: for personal and
    scientific use (see `whence.methods.relevance`).
    """
    return _relevance(question)


def held_still_shares(question: Question) -> Scores:
    """State times gradient, with the attention held still too (CP-LRP; Ali et al., 2022, with slopes of activations).

    With attention weights, gates, scales of norms and slopes of activations fixed at their values, the network is
    linear in its states, and this is each state's exact share of the target; what is missing belongs to the biases.
    Patented: for personal and scientific use (see `whence.methods.relevance`).
    """
    return _relevance(question)


def _relevance(question: Question) -> Scores:
    question.check_gradient(question.layers[0])  # the plain one: what hides it hides relevance too
    try:
        scores = question.of_gradients(lambda state, gradient: (state.float() * gradient.float()).sum(dim=-1))
    finally:  # while a GPU is at work; and an operation without a rule may have no gradient either
        check_ruled(question.states.logits)
    lowest = scores[:, 0, 0].masked_fill(~question.inputs.mask, 0.0)
    firsts = lowest[:, 0].abs() / lowest.abs().sum(dim=1).clamp(min=1e-12)
    facts = torch.stack([lowest.sum(dim=1), question.value.detach(), firsts], dim=1)
    lowest_layer = question.model.layer_names(question.layers)[0]
    where = "the embeddings" if lowest_layer == "embeddings" else f"layer {lowest_layer}"
    counts = SOAKED if question.layers[0] in ("embeddings", 0) else float("inf")
    encodings = question.inputs.encodings

    def notes() -> list[list[str]]:
        said = "scores at {} add up to {:.3f} of {:.3f}; the first token holds {:.0%}"
        return [[said.format(where, *each)] for each in facts.tolist()]

    def warnings() -> list[list[str]]:
        shares = zip(encodings, facts[:, 2].tolist(), strict=True)
        return [
            [f"the first token ({encoding.columns.texts[0]}) holds {first:.0%} of the scores' size"]
            if first > counts and len(encoding) > 2
            else []
            for encoding, first in shares
        ]

    return Scores(of_outputs(scores), notes=Later(len(encodings), notes), warnings=Later(len(encodings), warnings))


ATTN_LRP = Method(
    attn_lrp,
    Meaning(
        "AttnLRP relevance",
        "the state's share of the target, products shared between their factors",
        signed=True,
        additive=True,
    ),
    needs="gradients",
    cost="1 forward, 1 backward, all layers together",
    few_passes=True,
    layers="all",
    scale_of_next_token="log_probability",
    within=partial(held_still, products="shared"),
    tells_outputs=True,
    linear=True,
)
HELD_STILL = Method(
    held_still_shares,
    Meaning(
        "share of the network held still",
        "the state's exact share of the target, were attention, gates, norms and slopes fixed at their values",
        signed=True,
        additive=True,
    ),
    needs="gradients",
    cost="1 forward, 1 backward, all layers together",
    few_passes=True,
    layers="all",
    within=partial(held_still, products="gated"),
    tells_outputs=True,
    linear=True,
)
