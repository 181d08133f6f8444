"""The words of the pages that a reader may not know, each in plain words; a page holds those that it uses.

`docs/glossary.md` has all words of the project, in the terms of the code.
"""

from __future__ import annotations

from whence.render.belief import ALIKE, CLEAR_SHARE, ERRORS, MISSING
from whence.render.sentence import CLEAR, EVEN

GLOSSARY = {
    "a board": (
        "a test of methods on this model with many texts: does the decision change when the words go that a method "
        "names first? Weak if the method was not surely better than random scores; one step less for a text that is "
        "not like those that the method learned from"
    ),
    "adding up": (
        "some methods promise that all scores together make up the whole that is to be explained; strong if no more "
        f"than {MISSING[0]:.0%} is missing, weak above {MISSING[1]:.0%}"
    ),
    "attention": "weights by which a model lets each token look at the others; they can be read off it",
    "AUC": "the area under a curve: here the mean of what the model says, over all shares of words hidden or shown",
    "AUPRC": "how well the scores find the words that people marked: 1 is perfect, the share of marked words is chance",
    "baseline": "what stands in for a word that is taken away",
    "block": "one of the steps, all built alike, in which a model works on a text; each hands its states to the next",
    "completeness error": "how much of the whole the scores miss, where they should add up to it",
    "control": "an entry whose place is known beforehand, to hold the others against",
    "entropy": "how evenly something is spread over the tokens: 1 is evenly, 0 all on one",
    "faithfulness": (
        "how much surer the model is of its decision with the words that a method ranks first than without them, over "
        "all shares of words; random scores get 0"
    ),
    "game": "words are hidden, or shown, one after another in the order of a method, and the model is asked each time",
    "head": "what turns states into words or classes; or, of attention, one of the readers side by side in a block",
    "Holm": "a correction that keeps the chance of any false difference at 5 %, though many pairs are compared",
    "interval": "where the mean would lie in 95 of 100 cases if other texts of the same kind had been drawn",
    "layer": (
        "how far into the model, which reads in steps, its blocks: 0 is the embedding, before the first of them, and l "
        "is what block l hands on; after the last the model decides"
    ),
    "LDS": (
        "linear datamodeling score: how well the sum of the scores of some words foretells what the model says of them"
    ),
    "log-probability": "the logarithm of a probability: 0 is certain, and each step of −1 divides it by 2.7",
    "logit": (
        "the number from which a model works out a probability: 0 is undecided between two classes, and each step of 1 "
        "multiplies the odds by 2.7"
    ),
    "mainly": (
        "the words named hold at least half of all that speaks for the decision; named are clear ones only, which have "
        f"at least {CLEAR:.0%} of the strongest; nothing stands out where the strongest is not {EVEN:g} times the mean"
    ),
    "measures": "methods that say how much each token matters to the decision; attention is held against them",
    "method": "a way to work out scores; methods measure different things, so they may differ",
    "no colour": f"a score of less than {CLEAR_SHARE:.0%} of full colour: next to nothing",
    "odds": "how likely a thing is, divided by how unlikely: 1 at 50 %, 10 at 91 %, 100 at 99 %",
    "other methods": (
        "how alike the methods order the words, by size of score (Kendall’s τ-b): weak below "
        f"{ALIKE[0]:g}, strong from {ALIKE[1]:g} on, fair between; one step less where another method gives a named "
        "word the opposite sign"
    ),
    "passes": "how often a text goes through the model; a pass back through it, for gradients, counts as two",
    "probability": "how sure the model is, from 0 to 100 %",
    "random": "a control: scores drawn by chance, which know nothing of the model; no method should resemble them",
    "rank": "the place in the order from the likeliest on: 1 is the likeliest",
    "sampling": (
        "some methods try random changes, so another try gives slightly other scores; weak if the least sure of the "
        f"named words is less than {ERRORS[0]:g} standard errors away from zero, strong from {ERRORS[1]:g} on"
    ),
    "score": (
        "what a method says of a word: how much the decision rests on it; with a sign, above zero speaks for what is "
        "explained, and below zero against it"
    ),
    "single_effects": "a control: what each word does alone, when it goes and when it comes by itself",
    "special token": "a mark that the model adds to the text, such as one for its beginning",
    "standard error": "by about how much a number would change if it were worked out again with other random numbers",
    "state": "the list of numbers that stands for a token at a layer",
    "sub-word": "models cut rare words into pieces; a word has what its pieces have together",
    "ties": "equal numbers, which leave an order open; zeros that two orders share make them look alike",
    "token": "a piece of the text as the model reads it: a word, or part of one",
    "τ": "Kendall’s τ-b, how alike two orders are: 1 the same, 0 unrelated, −1 the reverse",
}


def words_for(*names: str) -> dict[str, str]:
    """Some of the words with what they mean, in this order, as a page holds them."""
    return {name: GLOSSARY[name] for name in names}
