"""The answer in one sentence of plain words, computed from the scores: what was decided, why, what spoke against it.

Which words are named, by their scores at the layer where one begins to read (`first_layer`):

- A word is *clear* if its score is at least a quarter of the strongest word's in size. Only clear words are named, the
  strongest first, and the same spelling once. Special tokens are no words.
- *For* the decision: the fewest words that hold half of all that speaks for it, and those at least half as strong as
  the strongest of them, but three at most. "Mainly" is said where those named do hold half; otherwise it is said that
  many words add to it.
- *Against* it: the two strongest clear ones. Where there are none, that is said. Where all that speaks against it
  outweighs all that speaks for it, that is said too.
- *Nothing stands out* where all scores are zero, or where of four words or more the strongest is not half as strong
  again as the mean.
- Scores without sign tell which words matter and not in which direction: the sentence names them by the same rule and
  says so. Of keep probabilities it tells which words must be kept, those above one half.
  Random scores say nothing, and nothing else is said of them.

What the sentence begins with depends on what was asked: a class with its probability, a number that words raise or
lower, the token that comes next or fills a gap, an answer, a token and its tag, a similarity, a response. If something
else was asked about than what the model says (another class, one rather than another), both are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from whence.explanation import Explanation, Meaning
from whence.render.rows import unquoted
from whence.render.segments import tag_place, word_at
from whence.render.visible import shortened

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_FOR, MOST_AGAINST = 3, 2
CLEAR = 0.25
HALF = 0.5
EVEN = 1.5
_LONGEST_WORD = 60
_LONGEST_UNIT = 32  # of a sentence or a document: enough to know it by, and several have room on a phone
_LONGEST_LABEL = 300
PUNCTUATION = {
    ".": "full stop", ",": "comma", "!": "exclamation mark", "?": "question mark", ";": "semicolon", ":": "colon",
    "…": "dots", "...": "dots", "-": "hyphen", "–": "dash", "—": "dash", "(": "bracket", ")": "bracket",
    "'": "apostrophe", "’": "apostrophe", '"': "quotation mark", "“": "quotation mark", "”": "quotation mark",
}  # fmt: skip
_TAGGED = re.compile(r"(?P<tag>.*) at token (?P<position>\d+) \((?P<token>.*)\)", re.DOTALL)

Kind = Literal["plain", "said", "for", "against", "matters"]
"""What a part of a sentence is: plain words, what the model says, or a word of the text and which way it speaks."""
Part = tuple[Kind, str]


@dataclass(frozen=True)
class Reasons:
    """The words that are named, by their index, the strongest first; and what may be said of them."""

    speaking_for: tuple[int, ...] = ()
    against: tuple[int, ...] = ()
    mainly: bool = False
    outweighed: bool = False

    @property
    def named(self) -> tuple[int, ...]:
        return self.speaking_for + self.against


@dataclass(frozen=True)
class Sentence:
    """Its parts in order; as a string, words of the text stand in quotes.

    >>> parts: tuple[Part, ...] = (("said", "Negative"), ("plain", ", mainly because of "), ("for", "never"))
    >>> str(Sentence((*parts, ("plain", ".")), Reasons()))
    'Negative, mainly because of “never”.'
    """

    parts: tuple[Part, ...]
    reasons: Reasons

    def __str__(self) -> str:
        return "".join(text if kind in ("plain", "said") else f"“{text}”" for kind, text in self.parts)


def first_layer(explanation: Explanation) -> int:
    """The index of the layer where one begins to read: nearest the input; of keep probabilities the last, where all is
    settled."""
    return len(explanation.layers) - 1 if explanation.meaning.keep_probability else 0


def sentence_of(explanation: Explanation) -> Sentence:
    """The answer that an explanation gives.

    >>> import whence
    >>> found = whence.explain(whence.load(), "a gorgeous, witty film", method="leave_one_out")
    >>> str(sentence_of(found)).startswith("Positive (")
    True
    """
    words = explanation.gathered(explanation.layers[first_layer(explanation)])
    return _sentence(explanation, [word.text for word in words], np.array([word.score for word in words]), None)


def sentence_of_part(
    explanation: Explanation, labels: Sequence[str], scores: Float[np.ndarray, " word"], part: str
) -> Sentence:
    """The same of some words of a response, given the scores of the prompt's words for them."""
    return _sentence(explanation, labels, scores, part)


def reasons_of(scores: Float[np.ndarray, " word"], labels: Sequence[str], meaning: Meaning) -> Reasons:
    """Which words are named."""
    if meaning.keep_probability:
        kept = [index for index in _strongest_first(scores) if scores[index] > HALF]
        return Reasons(_apart(kept, labels, len(kept)))
    sizes = np.abs(scores)
    largest = sizes.max(initial=0.0)
    if not largest or (len(sizes) >= 4 and largest < EVEN * sizes.mean()):
        return Reasons()
    clear = [index for index in _strongest_first(sizes) if sizes[index] >= CLEAR * largest]
    ways = scores if meaning.signed else sizes
    all_for, all_against = ways[ways > 0].sum(), -ways[ways < 0].sum()
    speaking_for: list[int] = []
    for index in clear:
        few = ways[speaking_for].sum() < HALF * all_for
        if ways[index] > 0 and (few or ways[index] >= HALF * ways[speaking_for[0]]):
            speaking_for.append(index)
    named = _apart(speaking_for, labels, MOST_FOR)
    against = _apart([index for index in clear if ways[index] < 0], labels, MOST_AGAINST)
    spelled = {labels[index].casefold() for index in named}
    held = ways[[index for index in speaking_for if labels[index].casefold() in spelled]].sum()
    return Reasons(named, against, bool(named and held >= HALF * all_for), bool(all_against > all_for))


def _strongest_first(sizes: Float[np.ndarray, " word"]) -> list[int]:
    order: list[int] = np.argsort(-sizes, kind="stable").tolist()
    return order


def _apart(indices: Sequence[int], labels: Sequence[str], most: int) -> tuple[int, ...]:
    """The first of every spelling."""
    seen: dict[str, int] = {}
    for index in indices:
        seen.setdefault(labels[index].casefold(), index)
    return tuple(list(seen.values())[:most])


@dataclass(frozen=True)
class _Wording:
    """How a kind of answer goes on after its beginning; `{}` stands for words of the text."""

    mainly: str
    many: str
    none: str
    against: str
    not_against: str


_DECISION = _Wording(
    ", mainly because of {}",
    ", most of all because of {}, though many {kind}s add to it",
    ", although no {kind} clearly speaks for it",
    "; {} pulled the other way",
    "; no {kind} clearly pulled the other way",
)
_NUMBER = _Wording(
    ", raised mainly by {}",
    ", raised most of all by {}, though many {kind}s add to it",
    ", although no {kind} clearly raised it",
    "; {} lowered it",
    "; no {kind} clearly lowered it",
)
_RESPONSE = _Wording(
    " rests mainly on {}",
    " rests most of all on {}, though many {kind}s add to it",
    " rests clearly on no {kind} of the prompt",
    "; {} made it less likely",
    "; no {kind} clearly made it less likely",
)
_ASKED = _Wording(
    " comes mainly from {}",
    " comes most of all from {}, though many {kind}s add to it",
    " comes clearly from no {kind}",
    "; against it: {}",
    "; no {kind} speaks clearly against it",
)
_UNKNOWN = _Wording(_RESPONSE.mainly, _RESPONSE.many, " rests clearly on no {kind}", "; {} pulled the other way",
                    "; no {kind} clearly pulled the other way")  # fmt: skip


def _sentence(
    explanation: Explanation, labels: Sequence[str], scores: Float[np.ndarray, " word"], part: str | None
) -> Sentence:
    meaning = explanation.meaning
    kind = "word" if explanation.units is None else explanation.units.kind
    most = _LONGEST_WORD if kind in ("token", "word") else _LONGEST_UNIT
    beginning, wording = _beginning(explanation, part)
    if explanation.method == "random":
        return Sentence((*beginning, ("plain", ": these scores are random numbers and say nothing.")), Reasons())
    reasons = reasons_of(scores, labels, meaning)

    def said(template: str, indices: Sequence[int], way: Kind) -> list[Part]:
        before, _, after = template.replace("{kind}", kind).partition("{}")
        words = listed([named(way, labels[index], most) for index in indices])
        ending: list[Part] = [("plain", after)] if after else []
        return [("plain", before), *words, *ending]

    if meaning.keep_probability:
        rest = _kept(reasons, len(scores), kind, said)
    elif not reasons.named:
        rest = [("plain", f": no {kind} stands out.")]
    elif not meaning.signed:
        matter = "matters" if len(reasons.named) == 1 else "matter"
        ending = f" {matter} most; this method does not tell for from against."
        rest = said(f": {{}}{ending}", reasons.named, "matters")
    else:
        template = (wording.mainly if reasons.mainly else wording.many) if reasons.speaking_for else wording.none
        rest = said(template, reasons.speaking_for, "for")
        rest += said(wording.against if reasons.against else wording.not_against, reasons.against, "against")
        more = f" Taken together, the {kind}s speak more against it than for it." if reasons.outweighed else ""
        rest.append(("plain", f".{more}"))
    return Sentence(_joined([*beginning, *rest]), reasons)


def _kept(reasons: Reasons, count: int, kind: str, said: Callable[..., list[Part]]) -> list[Part]:
    named, kept = reasons.named[:MOST_FOR], len(reasons.named)
    if not kept:
        return [("plain", f": no {kind} must be kept for that.")]
    more = f" and {kept - len(named)} more" if kept > len(named) else ""
    others = "no other can go" if count == kept else f"the other {count - kept} can go"
    return said(f": {{}}{more} must be kept for that; {others}.", named, "matters")


def named(way: Kind, word: str, most: int) -> list[Part]:
    """A word of the text; a lone mark between words is called by its name, or a reader passes over it.

    >>> named("for", ".", 60)
    [('plain', 'the full stop '), ('for', '.')]
    """
    own: Part = (way, shortened(word, most))
    return [("plain", f"the {PUNCTUATION[word]} "), own] if word in PUNCTUATION else [own]


def listed(words: Sequence[Sequence[Part]]) -> list[Part]:
    """One, two or three words with commas and "and" between them."""
    found: list[Part] = []
    for place, word in enumerate(words):
        if place:
            found.append(("plain", " and " if place == len(words) - 1 else ", "))
        found += word
    return found


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Plain parts beside each other as one."""
    found: list[Part] = []
    for kind, text in parts:
        if found and kind == found[-1][0] == "plain":
            found[-1] = ("plain", found[-1][1] + text)
        elif text:
            found.append((kind, text))
    return tuple(found)


def _beginning(explanation: Explanation, part: str | None) -> tuple[list[Part], _Wording]:
    """What the model says, and how the sentence goes on."""
    prediction, target, task = explanation.prediction, explanation.target, explanation.model.task
    names_token = task in ("causal_lm", "masked_lm")
    label = shortened(unquoted(prediction.label) if names_token else prediction.label, _LONGEST_LABEL)
    if explanation.response is not None:
        asked = part or (target.description if target.description != prediction.label else None)
        if asked is None:
            return [("plain", "The response")], _RESPONSE
        return [("said", shortened(asked, _LONGEST_LABEL))], _RESPONSE
    if task == "unknown":
        return [("plain", "The decision")], _UNKNOWN
    tagged = _TAGGED.fullmatch(target.description) if task == "token_classification" else None
    if tagged:
        chance = percent(target.value) if target.scale == "probability" else None
        tag: Part = ("said", shortened(tagged["tag"], _LONGEST_LABEL))
        token: Part = ("said", shortened(_word_of(explanation, tagged["token"]), _LONGEST_WORD))
        return [token, ("plain", " is tagged "), tag, *_in_brackets(chance)], _DECISION
    chance = None if prediction.probability is None else percent(prediction.probability)
    before = {
        "question_answering": "The answer is ",
        "causal_lm": "Next comes ",
        "masked_lm": "The model fills in ",
    }.get(task, "")
    predicted = target.description == prediction.label or chance is None or (
        task == "question_answering" and target.description.endswith(f"({prediction.label})")
    )  # fmt: skip
    said: Part = ("said", label if before or not predicted else _capital(label))
    if predicted:
        return [("plain", before), said, *_in_brackets(chance)], _NUMBER if chance is None else _DECISION
    asked = shortened(unquoted(target.description) if names_token else target.description, _LONGEST_LABEL)
    says: Part = ("plain", before or "The model says ")
    return [says, said, *_in_brackets(chance), ("plain", ". What there is for "), ("said", asked)], _ASKED


def _word_of(explanation: Explanation, token: str) -> str:
    """The word that holds the token whose tag is explained, as it was written."""
    place = tag_place(explanation)
    word = None if place is None else word_at(explanation, place)
    return word if word is not None and token in word else token


def _in_brackets(chance: str | None) -> list[Part]:
    return [] if chance is None else [("plain", f" ({chance})")]


def _capital(label: str) -> str:
    """A plain word begins a sentence with a capital; any other name stays as it is."""
    plain = re.fullmatch(r"[a-z]+( [\w.−-]+)?", label)
    return label[:1].upper() + label[1:] if plain else label


def percent(chance: float) -> str:
    """Without decimals; what is not sure is never 100 %, what is possible never 0 %.

    >>> [percent(chance) for chance in (0.824, 0.999, 1.0, 0.001)]
    ['82 %', 'over 99 %', '100 %', 'under 1 %']
    """
    shown = round(100 * chance)
    if shown == 100 and chance < 1:
        return "over 99 %"
    return "under 1 %" if shown == 0 and chance > 0 else f"{shown} %"
