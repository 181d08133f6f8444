"""The words of the page that a reader may not know, each explained in plain words where it stands.

`docs/glossary.md` has all words of the project, in the terms of the code.
"""

from __future__ import annotations

from whence.render.belief import ALIKE, CLEAR_SHARE, ERRORS, MISSING
from whence.render.sentence import CLEAR, EVEN

GLOSSARY = {
    "score": "What a method says of a word: how much the decision rests on it. With a sign, above zero speaks for what "
    "is explained, and below zero against it.",
    "method": "A way to work out scores. Methods measure different things, so they may differ.",
    "layer": "Models read in steps, called layers. The embedding is the text before the first step; after the last "
    "step the model decides.",
    "mainly": "The words named hold at least half of all that speaks for the decision. Named are clear ones only: at "
    f"least {CLEAR:.0%} of the strongest. Nothing stands out where the strongest is not {EVEN:g} times the mean.",
    "other methods": "How alike the methods order the words, by size of score (Kendall's τ-b). Weak below "
    f"{ALIKE[0]:g}, strong from {ALIKE[1]:g} on, fair between; one step less where another method gives a named word "
    "the opposite sign.",
    "sampling": "Some methods try random changes, so another try gives slightly other scores. Weak if the least sure "
    f"of the named words is less than {ERRORS[0]:g} standard errors away from zero, strong from {ERRORS[1]:g} on.",
    "adding up": "Some methods promise that all scores together make up the whole that is to be explained. Strong if "
    f"no more than {MISSING[0]:.0%} is missing, weak above {MISSING[1]:.0%}.",
    "a board": "A test of methods on this model with many texts: does the decision change when the words go that a "
    "method names first? Weak if the method was not surely better than random scores.",
    "no colour": f"A score of less than {CLEAR_SHARE:.0%} of full colour: next to nothing.",
    "probability": "How sure the model is, from 0 to 100 %.",
    "logit": "The number from which a model works out a probability: 0 is undecided between two classes, and each step "
    "of 1 multiplies the odds by 2.7.",
    "log-probability": "The logarithm of a probability: 0 is certain, and each step of −1 divides it by 2.7.",
    "baseline": "What stands in for a word that is taken away.",
    "completeness error": "How much of the whole the scores miss, where they should add up to it.",
    "standard error": "By about how much a number would change if it were worked out again with other random numbers.",
    "sub-word": "Models cut rare words into pieces; a word has what its pieces have together.",
    "special token": "A mark that the model adds to the text, such as one for its beginning.",
    "random": "Made-up scores that know nothing: what no method should resemble.",
}
"""Term and meaning, in the order in which the page lists them."""
