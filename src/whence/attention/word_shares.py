"""The importance measures of an attention classifier on texts, word by word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from whence.attention.classifier import AttentionClassifier
from whence.attention.importance import (
    attention_weights,
    gradient_shares,
    input_removal_shares,
    state_removal_shares,
)
from whence.errors import UnknownNameError

_MEASURES: dict[str, Callable[[AttentionClassifier, Tensor, Tensor], Tensor]] = {
    "attention": attention_weights,
    "gradient": lambda *inputs: gradient_shares(*inputs)[0],
    "state_gradient": lambda *inputs: gradient_shares(*inputs)[1],
    "removal": input_removal_shares,
    "state_removal": state_removal_shares,
}


def word_shares(
    classifier: AttentionClassifier, texts: Sequence[str], measure: str = "gradient"
) -> list[list[tuple[str, float]]]:
    """The words of each text, each with its share of what the decision depends on; a text's shares add up to 1.

    A text of which the measure says nothing (all zero, or one word and nothing left without it) has NaN for shares.

    Args:
        classifier: it is read in evaluation mode and left as it was.
        texts: split into words at white space.
        measure: "attention" (its weights), "gradient" (its length at the word embeddings), "state_gradient" (at the
            encoder's states), "removal" (how far the probability moves without the word) or "state_removal" (without
            its state). `whence.attention.importance` has them with all their options.
    """
    if measure not in _MEASURES:
        raise UnknownNameError("measure", measure, _MEASURES)
    was_training = classifier.training
    classifier.eval()
    try:
        found = []
        for text in texts:
            words = text.split()
            shares = _MEASURES[measure](classifier, *classifier.padded([text]))[0, 1:-1]  # without start and end
            found.append(list(zip(words, shares.tolist(), strict=True)))
        return found
    finally:
        classifier.train(was_training)
