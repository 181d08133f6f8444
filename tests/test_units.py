"""Words are those of the user's own text, whatever the tokenizer does to it."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import tiny_models
from tiny_models import tiny, tiny_plain

import whence
from whence.units import paragraph_spans, sentence_spans, word_of, word_spans

# text, its words
LANGUAGES = {
    "english": ("It's not bad, really!", ["It's", "not", "bad", ",", "really", "!"]),
    "hyphen": ("a well-made film", ["a", "well-made", "film"]),
    "dash": ("good - no, great", ["good", "-", "no", ",", "great"]),
    "numbers": ("3 of 10 stars", ["3", "of", "10", "stars"]),
    "underscore": ("snake_case words", ["snake_case", "words"]),
    "french": ("Quelle déception, ce film…", ["Quelle", "déception", ",", "ce", "film", "…"]),
    "combining marks": ("de\u0301ce\u0301ption totale", ["de\u0301ce\u0301ption", "totale"]),
    "german": ("Der Film ist großartig", ["Der", "Film", "ist", "großartig"]),
    "russian": ("Это не плохой фильм", ["Это", "не", "плохой", "фильм"]),
    "greek": ("καλή ταινία", ["καλή", "ταινία"]),
    "arabic": ("هذا فيلم جيد", ["هذا", "فيلم", "جيد"]),
    "hebrew": ("סרט טוב מאוד", ["סרט", "טוב", "מאוד"]),
    "hindi": ("यह फिल्म अच्छी है", ["यह", "फिल्म", "अच्छी", "है"]),
    "korean": ("좋은 영화", ["좋은", "영화"]),
    "chinese": ("好电影。", ["好", "电", "影", "。"]),
    "japanese": ("良い映画だ", ["良", "い", "映", "画", "だ"]),
    "thai": ("หนัง", ["ห", "นั", "ง"]),
    "emoji": ("good 👍🏽 👨‍👩‍👧 film", ["good", "👍🏽", "👨‍👩‍👧", "film"]),
    "flags": ("🇫🇷🇩🇪", ["🇫🇷", "🇩🇪"]),
    "markup": ("<b>a</b>", ["<", "b", ">", "a", "<", "/", "b", ">"]),
    "spaces": ("  a \t film\n", ["a", "film"]),
    "no-break space": ("a\u00a0film\u3000b", ["a", "film", "b"]),
    "nothing": ("", []),
    "only spaces": (" \t\n\u3000", []),
}


@pytest.mark.parametrize(("text", "words"), LANGUAGES.values(), ids=LANGUAGES)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_words_of_ascii_are_those_of_the_same_text_among_others() -> None:
    draw = random.Random(0)
    characters = [*map(chr, range(128)), *"ab'-_ 1'-\r\n\t " * 8]
    for _ in range(2_000):
        text = "".join(draw.choices(characters, k=draw.randint(0, 12)))
        assert word_spans(text) == word_spans(f"{text} é")[:-1]


@pytest.mark.parametrize(("text", "words"), LANGUAGES.values(), ids=LANGUAGES)
def test_every_visible_character_is_in_one_word(text: str, words: list[str]) -> None:
    spans = word_spans(text)
    covered = [i for start, end in spans for i in range(start, end)]
    assert covered == sorted(set(covered))
    assert [i for i, character in enumerate(text) if not character.isspace()] == covered


def test_the_word_of_a_piece() -> None:
    text = "a well-made  film"
    spans = word_spans(text)
    assert word_of(0, 1, text, spans) == 0
    assert word_of(2, 6, text, spans) == 1
    assert word_of(6, 7, text, spans) == 1
    assert word_of(11, 17, text, spans) == 2  # a piece that carries the spaces before it
    assert word_of(11, 13, text, spans) is None  # spaces
    assert word_of(3, 3, text, spans) is None  # nothing
    assert word_of(0, 0, "", []) is None


TOKENIZED = {"wordpiece": "bert", "byte_level": "roberta", "bare": "gpt2", "metaspace": "llama"}


@pytest.mark.parametrize("family", TOKENIZED.values(), ids=TOKENIZED)
@pytest.mark.parametrize(
    "text",
    [text for text, words in LANGUAGES.values() if words],
    ids=[key for key, (_, words) in LANGUAGES.items() if words],
)
def test_tokens_and_words_point_into_the_text(family: str, text: str) -> None:
    explanation = whence.explain(tiny(family), text, "gradient_x_input")
    spans = word_spans(text)
    for token in explanation.tokens:
        assert 0 <= token.start <= token.end <= len(text)
        if token.special:
            assert token.word is None
        elif token.word is not None:
            start, end = spans[token.word]
            assert start < token.end
            assert token.start < end
    words = explanation.words()
    assert words
    for word in words:
        assert word.text == text[word.start : word.end]
        assert word.text.strip() == word.text != ""
    assert [word.start for word in words] == sorted({word.start for word in words})


@pytest.mark.parametrize("family", TOKENIZED.values(), ids=TOKENIZED)
def test_sub_words_are_gathered(family: str) -> None:
    text = "Unhappiness isn't playful, films are!"
    explanation = whence.explain(tiny(family), text, "gradient_x_input")
    words = explanation.words()
    assert [word.text for word in words] == ["Unhappiness", "isn't", "playful", ",", "films", "are", "!"]
    assert [(word.start, word.end) for word in words] == word_spans(text)
    pieces = [[i for i, token in enumerate(explanation.tokens) if token.word == k] for k in range(len(words))]
    assert len(pieces[0]) > 1, "the tokenizer left the word whole: nothing was gathered"
    row = explanation.row()
    for word, members in zip(words, pieces, strict=True):
        assert word.score == pytest.approx(sum(float(row[i]) for i in members), abs=1e-6)


def test_pieces_of_wordpiece_by_hand() -> None:
    tokens = tiny("bert").encode("an unhappiness").tokens
    assert [(token.text, token.start, token.end, token.special, token.word) for token in tokens] == [
        ("[CLS]", 0, 0, True, None),
        ("an", 0, 2, False, 0),
        ("un", 3, 5, False, 1),
        ("##happi", 5, 10, False, 1),
        ("##ness", 10, 14, False, 1),
        ("[SEP]", 0, 0, True, None),
    ]


def test_scores_that_do_not_add_up_are_gathered_by_the_strongest() -> None:
    explanation = whence.explain(tiny("bert"), "unhappiness", "gradient")
    assert not explanation.meaning.additive
    (word,) = explanation.words()
    assert word.score == pytest.approx(max(float(score) for score in explanation.row()[1:-1]))


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama"])
def test_words_of_a_pair(family: str) -> None:
    question, context = "who played it?", "she played it, unhappily"
    explanation = whence.explain(tiny(family, "question_answering"), (question, context), "gradient_x_input")
    words = explanation.words()
    assert [word.text for word in words if word.segment == 0] == ["who", "played", "it", "?"]
    assert [word.text for word in words if word.segment == 1] == ["she", "played", "it", ",", "unhappily"]
    for word in words:
        assert (question, context)[word.segment][word.start : word.end] == word.text


@pytest.mark.parametrize("layer", ["embeddings", 0, 2])
def test_words_at_each_layer(layer: Any) -> None:
    explanation = whence.explain(tiny("bert"), "an unhappiness", "gradient_x_input", layers=["embeddings", "all"])
    row = explanation.row(layer)
    assert [word.score for word in explanation.words(layer)] == [
        pytest.approx(float(row[1]), abs=1e-6),
        pytest.approx(float(row[2:5].sum()), abs=1e-6),
    ]


@pytest.mark.parametrize("name", tiny_models.PLAIN)
def test_words_of_a_plain_module(name: str) -> None:
    text = "It's a well-made film, 3 of 10!"
    words = whence.explain(tiny_plain(name), text, "gradient_x_input").words()
    assert [word.text for word in words] == ["It's", "a", "well-made", "film", ",", "3", "of", "10", "!"]
    assert [(word.start, word.end) for word in words] == word_spans(text)


def test_top_words_are_the_strongest() -> None:
    explanation = whence.explain(tiny("bert"), tiny_models.LONG, "gradient_x_input")
    strongest = sorted((abs(word.score) for word in explanation.words()), reverse=True)[:4]
    assert [abs(word.score) for word in explanation.top(4)] == strongest


# sentences ----------------------------------------------------------------------------------------------------------

# name: sentences, as they stand in the text one after the other, with a space or what is said between them
SENTENCES: dict[str, list[str]] = {
    "plain": ["It is long.", "Is it good?", "Yes!", "Of course"],
    "titles": ["Dr. Lee met Mr. Smith, Mrs. Jones and Prof. St. John.", "They left."],
    "for example": ["Take fruit, e.g. apples, i.e. those of Smith et al. (1990).", "Others, cf. Jones, don't."],
    "states": ["He lives in the U.S. and works for the U.S. Army.", "She left the U.S.", "It was a loss."],
    "number": ["This is No. 5, see p. 3, Fig. 2 and vol. 1.", "No.", "Never."],
    "hours": ["We met at 5 a.m. Monday.", "She left at 6 p.m.", "Then it rained."],
    "initials": ["J. R. R. Tolkien and George W. Bush met.", "This was vitamin C.", "The end."],
    "degrees": ["Ph.D. students came.", "Others had no Ph.D.", "They came too."],
    "companies": ["Acme Inc. was sold.", "Its buyer was Smith & Co.", "The price rose."],
    "et cetera": ["Bread, milk, etc. are sold here.", "Also wine, beer, etc.", "They close early."],
    "decimals": ["It cost $3.50 in 1990.", "Pi is 3.14159.", "Version 2.0.1 came later."],
    "years": ["It began in 1990.", "5 years later it ended."],
    "quotation": ['He said, "Stop."', "Then he left.", "‘Why?’", "“Nobody knows.”", "(He was late.)", "So was I."],
    "quotation goes on": ['"Why?" he asked.', "“Stop!” cried she.", "‘It is.’ said he."],
    "german": ["„Komm.“", "Er ging, z.B. nach Haus, d.h. heim.", "Nr. 5 lebt.", "Am 3. Mai kam er.", "Sie kam am 4."],
    "french": ["« Bonjour. »", "M. Dupont et Mme. Lee sont partis.", "Quoi ?", "Rien !"],
    "ellipses": ["Wait... what… no.", "He left...", "Then she came…", "Well . . . yes."],
    "marks": ["What?!", "No!!!", "Really??", "Yes."],
    "addresses": ["See https://a.b/c?d=e.f!g for more.", "Visit www.example.com.", "Or mail a.b@c.de."],
    "apostrophes": ["It simply isn't.", "Granted, it’s.", "Others' are."],
    "ratios": ["It was 1:2, or 3:4.", "If so, good."],
    "small letters, mostly": ["i hate it.", "with that said, Bob did not.", "ok?"],
    "small letters": ["i loved it .", "it was mr. smith's best .", "must see !", "yes ... maybe"],
    "spanish": ["¿Qué tal?", "¡Muy bien!", "Adiós.", "¿Y tú?"],
    "arabic": ["هل أنت بخير؟", "نعم.", "شكرا!"],
    "urdu": ["یہ اچھا ہے۔", "وہ گیا۔"],
    "hindi": ["यह अच्छा है।", "वह गया।"],
    "russian": ["Это фильм.", "Он не плохой!", "Да?"],
    "greek": ["Είναι καλό.", "Ναι!"],
    "armenian": ["Սա լավ է։", "Այո։"],
    "korean": ["좋은 영화입니다.", "정말요?"],
    "thai": ["ฉันชอบหนังเรื่องนี้ มันดีมาก"],
    "emoji": ["Great film! 😀", "I love it 👍🏽.", "Wow!! 🎉🎉 🇫🇷", "It's a 👨‍👩‍👧 film."],
    "nothing": [],
}
TOGETHER: dict[str, list[str]] = {  # the same, with nothing in between
    "chinese": ["他来了。", "你好吗？", "好！", "“我不去。”他说。", "走了……再见。"],
    "japanese": ["「行く。」と彼は言った。", "「はい。」", "「いいえ。」", "『ね！』"],
    "hindi": ["यह अच्छा है।", "वह गया।"],
}
LINES: dict[str, list[str]] = {  # the same, with the end of a line in between
    "bullets": ["To buy:", "- milk and a. b.", "* two eggs", "• bread", "– salt"],
    "numbers": ["1. Mix the flour.", "2. Bake it", "3) Eat", "(4) Sleep", "a. dream", "b. wake"],
    "short lines": ["milk", "eggs", "bread"],
    "heading": ["Introduction", "This paper is about films."],
}


@pytest.mark.parametrize(
    ("between", "sentences"),
    [(" ", each) for each in SENTENCES.values()]
    + [("", each) for each in TOGETHER.values()]
    + [(between, each) for each in LINES.values() for between in ("\n", "\r\n", "\n\n", "\u2028")],
)
def test_sentences_of_a_text(between: str, sentences: list[str]) -> None:
    text = between.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences
    around = f"\n \t{text}\u3000\n"
    assert [around[start:end] for start, end in sentence_spans(around)] == sentences


def test_items_on_one_line_and_sentences_within_items() -> None:
    text = "Do this: 1. Mix. 2. Bake it. Then wait.\n- Eat. Sleep"
    found = [text[start:end] for start, end in sentence_spans(text)]
    assert found == ["Do this: 1. Mix.", "2. Bake it.", "Then wait.", "- Eat.", "Sleep"]


def test_a_sentence_goes_on_in_the_next_line_where_lines_are_long() -> None:
    text = "This is a paragraph whose lines were wrapped at some column or\nOther; it goes on. And\nends"
    assert [text[start:end] for start, end in sentence_spans(text)] == [text[:81], "And", "ends"]


def test_markup_breaks_lines() -> None:
    text = 'It is so bad that I would rather have watched "Freddy vs. Jason."<br /><br />The end<br>ok'
    assert [text[start:end] for start, end in sentence_spans(text)] == [text[:77], "The end<br>", "ok"]
    assert [text[start:end] for start, end in paragraph_spans(text)] == [text[:77], "The end<br>ok"]


def test_paragraphs_of_a_text() -> None:
    text = "\n\nOne. Still\none.\n \t\nTwo\r\n\r\n\r\n  Three\n"
    assert [text[start:end] for start, end in paragraph_spans(text)] == ["One. Still\none.", "Two", "Three"]
    assert paragraph_spans("") == paragraph_spans(" \n\n ") == []
    assert paragraph_spans("a") == [(0, 1)]


@pytest.mark.parametrize("spans_of", [sentence_spans, paragraph_spans])
def test_spans_tile_what_is_visible(spans_of: Any) -> None:
    texts = [text for text, _ in LANGUAGES.values()]
    texts += [" ".join(each) for each in (*SENTENCES.values(), *TOGETHER.values(), *LINES.values())]
    pieces = [*".!?… \n\"'”)(«», ", "\n\n", "。", "」", "「", "Dr", "no", "A", "b", "5", "e.g", "😀", "http://a.b"]
    generator = random.Random(0)
    texts += ["".join(generator.choices(pieces, k=40)) for _ in range(500)]
    for text in texts:
        spans = spans_of(text)
        covered = [i for start, end in spans for i in range(start, end)]
        assert covered == sorted(set(covered)), repr(text)
        assert {i for i, character in enumerate(text) if not character.isspace()} <= set(covered), repr(text)
        for start, end in spans:
            assert text[start:end] == text[start:end].strip() != "", repr(text)


@pytest.mark.parametrize(
    "piece",
    ["word ", "A word. ", "Dr. ", ". ", "... a ", "A: 5. ", "\n", "a\n", "\n \t", "\"' ", "😀 ", "e.g. x. A ", "。"],
)
def test_time_grows_with_the_length(piece: str) -> None:
    """Ten thousand words take a moment; the same again and again never costs a square."""

    def seconds(text: str) -> float:
        started = time.perf_counter()
        sentence_spans(text)
        return time.perf_counter() - started

    short, long = (min(seconds(piece * times) for _ in range(3)) for times in (2_000, 20_000))
    assert long < 40 * short + 0.05
