"""The words that a page explains where they are pointed at: one sentence each, for a reader without training."""

from __future__ import annotations

TERMS = {
    "attention": "weights by which a model lets each token look at the others; they can be read off it",
    "AUPRC": "how well the scores find the words that people marked: 1 is perfect, the share of marked words is chance",
    "block": "one of the steps, all built alike, in which a model works on a text; each hands its states to the next",
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
    "layer": "how far into the model: 0 is the embedding of the tokens, l is what block l hands on",
    "LDS": (
        "linear datamodeling score: how well the sum of the scores of some words foretells what the model says of them"
    ),
    "measures": "methods that say how much each token matters to the decision; attention is held against them",
    "passes": "how often a text goes through the model; a pass back through it, for gradients, counts as two",
    "random": "a control: scores drawn by chance, which know nothing of the model",
    "rank": "the place in the order from the likeliest on: 1 is the likeliest",
    "single_effects": "a control: what each word does alone, when it goes and when it comes by itself",
    "state": "the list of numbers that stands for a token at a layer",
    "ties": "equal numbers, which leave an order open; zeros that two orders share make them look alike",
    "token": "a piece of the text as the model reads it: a word, or part of one",
    "τ": "Kendall’s τ-b, how alike two orders are: 1 the same, 0 unrelated, −1 the reverse",
}


def words_for(*names: str) -> dict[str, str]:
    """Some of the words with what they mean, as a page holds them."""
    return {name: TERMS[name] for name in names}
