"""Which group each token of an explained text belongs to: its part of speech, its sentiment, or being special."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import regex

from whence.errors import UsageError
from whence.explanation import Explanation
from whence.units import word_of

Tagger = Callable[[str], Iterable[tuple[int, int, str]]]
"""Takes a text and gives its words as (start, end, part of speech), start and end counting characters."""

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


def part_of_speech_groups(explanation: Explanation, tagger: Tagger) -> Groups:
    """The part of speech of the word that each token was cut from; special tokens as groups of their own.

    Args:
        explanation: of a text, or of a pair, each half tagged by itself.
        tagger: any that says where its words stand; of spaCy
            `lambda text: [(word.idx, word.idx + len(word), word.pos_) for word in nlp(text)]`.
    """
    cut = {}
    for segment, text in enumerate((explanation.text, explanation.pair or "")):
        words = list(tagger(text))
        cut[segment] = (text, [(start, end) for start, end, _ in words], [tag for _, _, tag in words])
    groups: Groups = []
    for token, name in zip(explanation.tokens, special_token_groups(explanation), strict=True):
        text, spans, tags = cut[token.segment]
        word = None if token.special else word_of(token.start, token.end, text, spans)
        groups.append(name if word is None else tags[word])
    return groups


def spaced_spans(text: str) -> list[tuple[int, int]]:
    """Character spans between spaces: the words of a text that is cut already, such as a treebank's sentence.

    >>> spaced_spans("It 's fine")
    [(0, 2), (3, 5), (6, 10)]
    """
    return [match.span() for match in regex.finditer(r"[^ ]+", text)]


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
