"""Parts of speech: the tagger by hand and with NLTK's weights, and how texts are cut into the treebank's words."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from whence.errors import FileError
from whence.learned.diffmask.token_groups import spaced_spans

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments" / "diffmask"))

from part_of_speech import (
    FILE,
    UNIVERSAL,
    Tagger,
    treebank_spans,
    universal_tag,
    universal_tagger,
    universal_tags,
)

DATA = Path(os.environ.get("WHENCE_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_weights = pytest.mark.skipif(not (DATA / FILE).exists(), reason=f"no {FILE}: set WHENCE_DATA to the data folder")


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in treebank_spans(text)]


# by hand


def tagger(weights: dict[str, dict[str, float]], **tagdict: str) -> Tagger:
    return Tagger(weights, tagdict, ("JJ", "NN", "VB"))


def test_votes_add_up_and_ties_go_to_the_last_tag_by_name() -> None:
    assert tagger({"bias": {"JJ": 1.0}, "i word film": {"NN": 1.5}}).tag(["film", "fine"]) == ["NN", "JJ"]
    assert tagger({"bias": {"JJ": 1.0}, "i word film": {"NN": 0.5, "JJ": -1.0}}).tag(["film"]) == ["NN"]
    assert tagger({}).tag(["film"]) == ["VB"]
    assert tagger({"bias": {"JJ": 1.0, "NN": 1.0}}).tag(["film"]) == ["NN"]
    assert tagger({"bias": {"NN": 9.0}}, film="JJ").tag(["film", "Film"]) == ["JJ", "NN"]  # words that have one tag
    assert tagger({}).tag([]) == []


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        ("i suffix ilm", ["VB", "VB", "NN", "VB"]),
        ("i suffix at", ["VB", "VB", "VB", "VB"]),
        ("i pref1 T", ["NN", "VB", "VB", "VB"]),  # as written, not in small letters
        ("i word that", ["NN", "VB", "VB", "VB"]),
        ("i-1 word that", ["VB", "NN", "VB", "VB"]),
        ("i-2 word that", ["VB", "VB", "NN", "VB"]),
        ("i-1 word -START2-", ["NN", "VB", "VB", "VB"]),
        ("i-2 word -START-", ["NN", "VB", "VB", "VB"]),
        ("i-1 suffix hat", ["VB", "NN", "VB", "VB"]),
        ("i+1 word film", ["VB", "NN", "VB", "VB"]),
        ("i+1 suffix ilm", ["VB", "NN", "VB", "VB"]),
        ("i+2 word film", ["NN", "VB", "VB", "VB"]),
        ("i+1 word -END-", ["VB", "VB", "VB", "NN"]),
        ("i+2 word -END-", ["VB", "VB", "NN", "VB"]),
        ("i-1 tag -START-", ["NN", "VB", "VB", "VB"]),
        ("i-2 tag -START-", ["VB", "NN", "VB", "VB"]),
        ("i tag+i-2 tag VB -START-", ["VB", "NN", "VB", "VB"]),
        ("i-1 tag+i word VB film", ["VB", "VB", "NN", "VB"]),
        ("i word !HYPHEN", ["VB", "NN", "VB", "VB"]),
        ("i word !YEAR", ["VB", "VB", "VB", "NN"]),
    ],
)
def test_each_feature_alone(feature: str, expected: list[str]) -> None:
    assert tagger({feature: {"NN": 1.0}}).tag(["That", "so-so", "film", "1999"]) == expected


def test_a_tag_depends_on_those_before_it() -> None:
    weights = {"i word a": {"JJ": 1.0}, "i-1 tag JJ": {"NN": 1.0}, "i-2 tag JJ": {"JJ": 1.0}}
    assert tagger(weights).tag(["a", "x", "x", "x"]) == ["JJ", "NN", "JJ", "NN"]


@pytest.mark.parametrize(("word", "feature"), [("12th", "!DIGITS"), ("-3", "-3"), ("12345", "!DIGITS"), ("", "")])
def test_numbers_are_one_word(word: str, feature: str) -> None:
    assert tagger({f"i word {feature}": {"JJ": 1.0}}).tag([word]) == ["JJ"]


# words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's fine, isn't it?", ["It", "'s", "fine", ",", "is", "n't", "it", "?"]),
        ("They’ll say we’re don’t", ["They", "’ll", "say", "we", "’re", "do", "n’t"]),
        ("O'Brien's co-writer", ["O'Brien", "'s", "co-writer"]),
        ("It 's does n't", ["It", "'s", "does", "n't"]),
        ("$1,000.50, 5%", ["$", "1,000.50", ",", "5", "%"]),
        ("in the 1990s, the 20th", ["in", "the", "1990s", ",", "the", "20th"]),
        ("the U.S. and Mr. X.", ["the", "U.S.", "and", "Mr.", "X", "."]),
        ("well ... -- ``so''", ["well", "...", "--", "``", "so", "''"]),
        ("-LRB- a -RRB-", ["-LRB-", "a", "-RRB-"]),
        ("CAN'T", ["CA", "N'T"]),
        ("e\u0301te\u0301 👩‍👩‍👧‍👦!", ["e\u0301te\u0301", "👩‍👩‍👧‍👦", "!"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_texts_are_cut_as_in_the_treebank(text: str, words: list[str]) -> None:
    assert cut(text) == words


def test_long_texts_are_cut_in_no_time() -> None:
    assert len(treebank_spans("n't wouldn't " * 10_000)) == 30_000
    assert len(treebank_spans("n" * 100_000)) == 1


def test_spaces_alone_cut_what_is_cut_already() -> None:
    assert spaced_spans("a co-\\/op  b\xa0c ") == [(0, 1), (2, 9), (11, 14)]


# universal tags


@pytest.mark.parametrize(
    ("word", "penn", "expected"),
    [
        ("is", "VBZ", "AUX"), ("'s", "VBZ", "AUX"), ("’s", "POS", "PART"), ("’re", "VBP", "AUX"),
        ("being", "NN", "NOUN"),
        ("would", "MD", "AUX"), ("has", "VBZ", "VERB"), ("not", "RB", "PART"), ("n’t", "RB", "PART"),
        ("film", "NN", "NOUN"), ("Jane", "NNP", "PROPN"), ("her", "PRP$", "PRON"), ("and", "CC", "CCONJ"),
        ("...", ":", "PUNCT"), ("“", "NN", "PUNCT"), ("—", "JJ", "PUNCT"), ("``", "``", "PUNCT"),
        ("%", "NN", "SYM"), ("$", "$", "SYM"), ("👍🏽", "NN", "SYM"), ("x", "??", "X"),
    ],
)  # fmt: skip
def test_universal_tags(word: str, penn: str, expected: str) -> None:
    assert universal_tag(word, penn) == expected


def test_sentences_are_tagged_one_by_one() -> None:
    starts = tagger({"i-1 tag -START-": {"NN": 1.0}})
    text = "a b. (c d!) e"
    assert universal_tags(starts, text, treebank_spans(text)) == [
        "NOUN", "VERB", "PUNCT", "PUNCT", "VERB", "VERB", "PUNCT", "PUNCT", "NOUN",
    ]  # fmt: skip
    assert universal_tags(starts, "", []) == []


def test_quotation_marks_are_spelled_as_in_the_treebank() -> None:
    after = tagger({"i-1 word ``": {"NN": 1.0}, "i-1 word ''": {"JJ": 1.0}})
    for text in ('say "a" b', "say “a” b", "say ``a'' b"):
        assert universal_tags(after, text, treebank_spans(text)) == ["VERB", "PUNCT", "NOUN", "PUNCT", "ADJ"]


@pytest.mark.parametrize("bracket", ["(", "-LRB-", "-lrb-"])
def test_brackets_in_every_writing(bracket: str) -> None:
    after = tagger({"i-1 word (": {"NN": 1.0}})
    assert universal_tags(after, f"{bracket} a", spaced_spans(f"{bracket} a")) == ["PUNCT", "NOUN"]


# the weights


def write(folder: Path, content: bytes) -> Path:
    (folder / FILE).write_bytes(content)
    return folder


def test_weights_are_read_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"weights": {"i suffix lms": {"NNS": 1.0}}, "tagdict": {"good": "JJ"}, "classes": ["JJ", "NNS"]}
    write(tmp_path, gzip.compress(json.dumps(data).encode()))
    assert Tagger.load(tmp_path).tag(["good", "films"]) == ["JJ", "NNS"]
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    assert Tagger.load().tag(["good", "films"]) == ["JJ", "NNS"]


def test_without_weights_the_error_says_where_they_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_DATA", raising=False)
    with pytest.raises(FileError, match=r"not part of whence\nput pos_tagger\.json\.gz into a folder"):
        Tagger.load()
    with pytest.raises(FileError, match=r"no pos_tagger\.json\.gz in "):
        Tagger.load(tmp_path)


@pytest.mark.parametrize(
    "content",  # gzip writes the time of day into it: ids must not be made of the bytes
    [b"", b"no gzip", gzip.compress(b"no JSON"), gzip.compress(b"[]"), gzip.compress(b"{}"), gzip.compress(b"{}")[:-9]],
    ids=["empty", "not gzip", "not JSON", "a list", "no weights", "cut off"],
)
def test_broken_weights(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(FileError, match=r"pos_tagger.json.gz is broken: \w+"):
        Tagger.load(write(tmp_path, content))


def test_the_tagger_as_the_library_takes_one() -> None:
    tags = tagger({"bias": {"NN": 1.0}}, good="JJ")
    assert universal_tagger(tags)("good film.") == [(0, 4, "ADJ"), (5, 9, "NOUN"), (9, 10, "PUNCT")]
    assert universal_tagger(tags, spaced_spans)("film.") == [(0, 5, "NOUN")]


# Tags as NLTK 3.10.4's PerceptronTagger gives them with the same weights. Over the 63,679 leaves of SST's dev and test
# sentences and 41,918 words of SQuAD the two never differ.
SENTENCES = {
    "The quick brown fox jumps over the lazy dog .": "DT JJ NN NN VBZ IN DT JJ NN .",
    "It 's a lovely film with lovely performances by Buy and Accorsi .": "PRP VBZ DT JJ NN IN JJ NNS IN NNP CC NNP .",
    "No one goes unindicted here , which is probably for the best .": "DT NN VBZ VBN RB , WDT VBZ RB IN DT JJS .",
    "In 1999 , over 40 well-known critics ( and I ) loved it .": "IN CD , IN CD JJ NNS ( CC PRP ) VBD PRP .",
}


@needs_weights
def test_the_real_weights_give_the_tags_of_nltk() -> None:
    tagger = Tagger.load(DATA)
    for sentence, tags in SENTENCES.items():
        assert tagger.tag(sentence.split()) == tags.split()


@needs_weights
def test_the_real_weights_know_every_tag_in_the_table() -> None:
    assert set(Tagger.load(DATA).classes) == set(UNIVERSAL)


@needs_weights
def test_running_text_with_the_real_weights() -> None:
    text = "I wanted to love this film, but the story doesn't come alive."
    tags = universal_tags(Tagger.load(DATA), text, treebank_spans(text))
    expected = "PRON VERB PART VERB DET NOUN PUNCT CCONJ DET NOUN VERB PART VERB ADJ PUNCT"
    assert dict(zip(cut(text), tags, strict=True)) == dict(zip(cut(text), expected.split(), strict=True))
