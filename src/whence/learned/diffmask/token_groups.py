"""Which group each token of an explained text belongs to: its part of speech, its sentiment, or being special."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whence.errors import UsageError
from whence.explanation import Explanation
from whence.part_of_speech import spaced_spans, treebank_spans, universal_tags
from whence.units import word_of

if TYPE_CHECKING:
    from whence.part_of_speech import Tagger

Groups = list[str | None]
"""The group of each token of one explanation; None leaves a token out."""

SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")


def special_token_groups(explanation: Explanation) -> Groups:
    """Special tokens by their text, numbered where one occurs more than once: "[SEP] 1" ends a question, "[SEP] 2" the
    passage. Other tokens are left out.
    """
    special = [token.text for token in explanation.tokens if token.special]
    several = {text for text, count in Counter(special).items() if count > 1}
    seen: Counter[str] = Counter()
    groups: Groups = []
    for token in explanation.tokens:
        seen[token.text] += token.special
        name = f"{token.text} {seen[token.text]}" if token.text in several else token.text
        groups.append(name if token.special else None)
    return groups


def part_of_speech_groups(
    explanation: Explanation,
    tagger: Tagger,
    spans: Callable[[str], list[tuple[int, int]]] = treebank_spans,
) -> Groups:
    """The universal part of speech of the word that each token was cut from; special tokens as groups of their own.

    Args:
        explanation: of a text, or of a pair, each half tagged by itself.
        tagger: see `whence.part_of_speech.Tagger.load`.
        spans: how texts are cut into words; `whence.part_of_speech.spaced_spans` for texts that are cut already.
    """
    special = special_token_groups(explanation)
    cut = {}
    for segment, text in enumerate((explanation.text, explanation.pair or "")):
        found = spans(text)
        cut[segment] = (text, found, universal_tags(tagger, text, found))
    groups: Groups = []
    for token, name in zip(explanation.tokens, special, strict=True):
        text, found, tags = cut[token.segment]
        word = None if token.special else word_of(token.start, token.end, text, found)
        groups.append(name if word is None else tags[word])
    return groups


def sentiment_groups(explanation: Explanation, leaf_labels: Sequence[int]) -> Groups:
    """The sentiment of the treebank's leaf that each token was cut from; special tokens are left out.

    Args:
        explanation: of a sentence whose leaves are joined by spaces.
        leaf_labels: from 0, very negative, to 4, very positive; `whence.data.Example.token_labels`.
    """
    leaves = spaced_spans(explanation.text)
    if len(leaves) != len(leaf_labels):
        raise UsageError(
            f"{len(leaf_labels)} labels do not fit the {len(leaves)} parts between spaces of {explanation.text!r}",
            "explain the sentence as the treebank has it, its leaves joined by single spaces",
        )
    if wrong := set(leaf_labels) - set(range(len(SENTIMENTS))):
        raise UsageError(f"{min(wrong)} is no sentiment of a leaf", "labels go from 0, very negative, to 4")
    groups: Groups = []
    for token in explanation.tokens:
        in_text = token.segment == 0 and not token.special
        leaf = word_of(token.start, token.end, explanation.text, leaves) if in_text else None
        groups.append(None if leaf is None else SENTIMENTS[leaf_labels[leaf]])
    return groups
