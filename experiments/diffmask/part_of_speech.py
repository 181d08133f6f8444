"""Parts of speech by an averaged perceptron whose weights are plain JSON.

The features are those of the tagger of Honnibal (2013) that NLTK ships, so weights trained for it give the same tags
here; NLTK itself is not needed. The weights are not part of whence: they are read from the data folder.
"""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import regex

from whence.errors import FileError
from whence.learned.diffmask.token_groups import Tagger as UniversalTagger

Span = tuple[int, int]

FILE = "pos_tagger.json.gz"

# Penn Treebank tags as universal ones; a preposition and a subordinating conjunction share the tag IN, so both are ADP.
UNIVERSAL = {
    "CC": "CCONJ", "CD": "NUM", "DT": "DET", "EX": "PRON", "FW": "X", "IN": "ADP", "JJ": "ADJ", "JJR": "ADJ",
    "JJS": "ADJ", "LS": "X", "MD": "AUX", "NN": "NOUN", "NNP": "PROPN", "NNPS": "PROPN", "NNS": "NOUN", "PDT": "DET",
    "POS": "PART", "PRP": "PRON", "PRP$": "PRON", "RB": "ADV", "RBR": "ADV", "RBS": "ADV", "RP": "ADP", "SYM": "SYM",
    "TO": "PART", "UH": "INTJ", "VB": "VERB", "VBD": "VERB", "VBG": "VERB", "VBN": "VERB", "VBP": "VERB",
    "VBZ": "VERB", "WDT": "DET", "WP": "PRON", "WP$": "PRON", "WRB": "ADV", "#": "SYM", "$": "SYM", "''": "PUNCT",
    "(": "PUNCT", ")": "PUNCT", ",": "PUNCT", ".": "PUNCT", ":": "PUNCT", "``": "PUNCT",
}  # fmt: skip
_FORMS_OF_BE = frozenset({"be", "am", "are", "is", "was", "were", "been", "being", "'s", "'m", "'re"})
_NOT = frozenset({"not", "n't"})
_ENDING = frozenset({".", "!", "?"})
_CLOSING = frozenset({"''", '"', "”", "’", ")", "]"})
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

# The treebank's own words: "don't" is do + n't, "it's" is it + 's; "1,000", "U.S." and "Mr." are one each.
_CLITIC = r"['’](?:s|m|d|re|ve|ll)(?![\p{L}\p{N}])"
_NEGATION = r"n['’]t(?![\p{L}\p{N}])"
_RUN = rf"(?:(?!{_NEGATION})[\p{{L}}\p{{M}}\p{{N}}_])"
_WORD = regex.compile(
    rf"{_NEGATION}|{_CLITIC}|-[LR][RSC]B-|(?:\p{{L}}\.){{2,}}|(?:Mrs?|Ms|Dr|St|Jr|Sr|Prof|etc|vs)\."
    rf"|\p{{N}}+(?:[.,]\p{{N}}+)*(?![\p{{L}}\p{{N}}])|``|''|\.{{2,}}|-{{2,}}"
    rf"|{_RUN}+(?:(?!{_CLITIC})['’\-]{_RUN}+)*|(?=\S)\X",
    flags=regex.IGNORECASE,
)


@dataclass(frozen=True)
class Tagger:
    """Penn Treebank tags for the words of a sentence.

    `weights` gives each feature's vote for each tag, `tagdict` the tag of words that have only one.
    """

    weights: Mapping[str, Mapping[str, float]]
    tagdict: Mapping[str, str]
    classes: tuple[str, ...]

    @classmethod
    def load(cls, data_dir: str | Path | None = None) -> Tagger:
        """Read `pos_tagger.json.gz` from the folder given or named by the environment variable WHENCE_DATA."""
        folder = data_dir or os.environ.get("WHENCE_DATA")
        if folder is None:
            raise FileError(
                "no weights for parts of speech: they are not part of whence",
                f"put {FILE} into a folder and name it by data_dir or WHENCE_DATA",
            )
        path = Path(folder).expanduser() / FILE
        if not path.is_file():
            raise FileError(f"no {FILE} in {str(folder)!r}", "name the folder that holds the tagger's weights")
        try:
            data = json.loads(gzip.decompress(path.read_bytes()))
            return cls(data["weights"], data["tagdict"], tuple(data["classes"]))
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{FILE} is broken: {type(error).__name__}: {error}",
                'expected gzipped JSON: {"weights": {feature: {tag: 1.0}}, "tagdict": {word: tag}, "classes": [tag]}',
            ) from error

    def tag(self, words: Sequence[str]) -> list[str]:
        """The tag of each word of one sentence, from left to right, each by the words around it and the tags before it.

        >>> Tagger({"i suffix lms": {"NNS": 1.0}}, {"good": "JJ"}, ("JJ", "NNS")).tag(["good", "films"])
        ['JJ', 'NNS']
        """
        context = ["-START-", "-START2-", *(_normalised(word) for word in words), "-END-", "-END2-"]
        before, before_that = "-START-", "-START2-"
        tags = []
        for number, word in enumerate(words):
            tag = self.tagdict.get(word) or self._best(_features(number + 2, word, context, before, before_that))
            tags.append(tag)
            before, before_that = tag, before
        return tags

    def _best(self, features: Iterator[str]) -> str:
        votes: dict[str, float] = defaultdict(float)
        for feature in features:
            for tag, weight in self.weights.get(feature, {}).items():
                votes[tag] += weight
        return max(self.classes, key=lambda tag: (votes[tag], tag))


def _normalised(word: str) -> str:
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[:1].isdigit() else word.lower()


def _features(i: int, word: str, context: Sequence[str], before: str, before_that: str) -> Iterator[str]:
    """The names are those under which the weights were trained."""
    yield "bias"
    yield f"i suffix {word[-3:]}"
    yield f"i pref1 {word[:1]}"
    yield f"i-1 tag {before}"
    yield f"i-2 tag {before_that}"
    yield f"i tag+i-2 tag {before} {before_that}"
    yield f"i word {context[i]}"
    yield f"i-1 tag+i word {before} {context[i]}"
    yield f"i-1 word {context[i - 1]}"
    yield f"i-1 suffix {context[i - 1][-3:]}"
    yield f"i-2 word {context[i - 2]}"
    yield f"i+1 word {context[i + 1]}"
    yield f"i+1 suffix {context[i + 1][-3:]}"
    yield f"i+2 word {context[i + 2]}"


def treebank_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words of running text, cut as in the treebank that the tagger learned from.

    >>> text = "It's fine, isn't it?"
    >>> [text[start:end] for start, end in treebank_spans(text)]
    ['It', "'s", 'fine', ',', 'is', "n't", 'it', '?']
    """
    return [match.span() for match in _WORD.finditer(text)]


def universal_tags(tagger: Tagger, text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The universal tag of each span of the text, tagged sentence by sentence."""
    words = [_BRACKETS.get(text[start:end].upper(), text[start:end]) for start, end in spans]
    penn: list[str] = []
    for first, last in _sentences(words):
        sentence = zip(words[first:last], spans[first:last], strict=True)
        penn += tagger.tag([_as_in_treebank(word, text[max(0, start - 1) : start]) for word, (start, _) in sentence])
    return [universal_tag(word, tag) for word, tag in zip(words, penn, strict=True)]


def universal_tagger(tagger: Tagger, spans: Callable[[str], list[Span]] = treebank_spans) -> UniversalTagger:
    """The tagger as `part_of_speech_groups` of whence takes one; `spans` cuts texts into words."""

    def tagged(text: str) -> list[tuple[int, int, str]]:
        words = spans(text)
        return [(*word, tag) for word, tag in zip(words, universal_tags(tagger, text, words), strict=True)]

    return tagged


def universal_tag(word: str, penn: str) -> str:
    """The universal tag of a word with a Penn tag: forms of "be" and modals are AUX, "have" and "do" always VERB.

    >>> universal_tag("films", "NNS"), universal_tag("is", "VBZ"), universal_tag("n't", "RB")
    ('NOUN', 'AUX', 'PART')
    """
    if not any(character.isalnum() for character in word):  # whatever the tagger makes of it
        symbol = any(character in "#%&*@" or unicodedata.category(character)[0] == "S" for character in word)
        return "SYM" if symbol and word.strip("`") else "PUNCT"
    form = word.lower().replace("’", "'")
    if form in _FORMS_OF_BE and penn.startswith("V"):
        return "AUX"
    return "PART" if form in _NOT else UNIVERSAL.get(penn, "X")


def _sentences(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where sentences begin and end; closing quotation marks and brackets belong to the sentence before them."""
    first, ended = 0, False
    for number, word in enumerate(words):
        if ended and word not in _ENDING and word not in _CLOSING:
            yield first, number
            first, ended = number, False
        ended = ended or word in _ENDING
    if words:
        yield first, len(words)


def _as_in_treebank(word: str, before: str) -> str:
    """The word as the tagger knows it: quotation marks are `` and '', apostrophes straight."""
    if word == '"':
        opens = not before or before[-1].isspace() or before[-1] in "([{<-"
        return "``" if opens else "''"
    return {"“": "``", "”": "''"}.get(word, word.replace("’", "'"))
