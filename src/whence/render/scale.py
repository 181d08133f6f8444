"""How the scores and what the model says go together: on one scale, or on which other."""

from __future__ import annotations

from whence.explanation import Explanation
from whence.methods import METHODS
from whence.render.rows import number
from whence.render.segments import target_words
from whence.render.sentence import percent


def scale_words(explanation: Explanation) -> str:
    """What a score counts, in plain words, beside the number that the model gives.

    A method's scores are in units of what is explained if they have a sign, add up, and are of any size; of scores from
    elsewhere nothing is known.
    """
    meaning, target, chance = explanation.meaning, explanation.target, explanation.prediction.probability
    what = target_words(explanation)
    compare = f"Scores compare words with each other{'' if chance is None else '; they are not percentage points'}."
    if explanation.method not in METHODS:
        return compare
    if meaning.keep_probability:
        return "A score is how likely the word must be kept, from 0 to 1; below one half it can go."
    if not (meaning.signed and meaning.additive):
        return compare
    if (meaning.low, meaning.high) == (-1.0, 1.0):
        return "A score of 0.10 is a tenth of all that speaks for and against; it is not ten percentage points."
    if target.scale == "probability":
        value = percent(target.value) if 0 <= target.value <= 1 else number(target.value)
        return f"A score counts percentage points: +0.10 is ten points towards the {value} of {what}."
    if target.scale == "log_probability":
        return "A score of +0.69 makes it twice as likely, one of −0.69 half as likely."
    if chance is None:
        return f"A score counts in the number that the model gives, {number(target.value)}."
    inner = f"on which {what} has {number(target.value)}"
    return f"Scores count on the model's inner scale, {inner}; they are not percentage points."
