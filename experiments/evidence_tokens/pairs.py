"""Minimal pairs with the word that must matter, written by a small grammar: `pairs(seed)`.

Each pair is the beginning of a sentence after which one form is right and another is wrong, and the one word of the
beginning that says so. In "The keys to the cabinet" that is "keys" (" are" rather than " is"): the nearer noun has the
other number. In "When Mary and John left, John gave a book to" it is the first "Mary" (" Mary" rather than " John").
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

NOUNS = [
    ("key", "keys"), ("author", "authors"), ("teacher", "teachers"), ("picture", "pictures"), ("doctor", "doctors"),
    ("report", "reports"), ("farmer", "farmers"), ("book", "books"), ("driver", "drivers"), ("letter", "letters"),
]  # fmt: skip
OTHERS = [
    ("cabinet", "cabinets"), ("guard", "guards"), ("manager", "managers"), ("garden", "gardens"), ("city", "cities"),
    ("lawyer", "lawyers"), ("window", "windows"), ("student", "students"),
]  # fmt: skip
BETWEEN = ("near the", "behind the", "next to the", "in front of the")
VERBS = [(" is", " are"), (" was", " were"), (" has", " have")]
PEOPLE = [
    ("actress", " herself", " himself"), ("king", " himself", " herself"), ("queen", " herself", " himself"),
    ("boy", " himself", " herself"), ("girl", " herself", " himself"), ("man", " himself", " herself"),
    ("woman", " herself", " himself"), ("mother", " herself", " himself"), ("father", " himself", " herself"),
    ("boys", " themselves", " himself"), ("girls", " themselves", " herself"), ("men", " themselves", " himself"),
    ("women", " themselves", " herself"),
]  # fmt: skip
DID = ("blamed", "hurt", "saw", "described", "introduced", "protected")
THINGS = [
    (" book", " books"), (" car", " cars"), (" house", " houses"), (" picture", " pictures"), (" letter", " letters"),
    (" chair", " chairs"), (" box", " boxes"), (" dog", " dogs"),
]  # fmt: skip
GOT = ("bought", "sold", "found", "cleaned", "liked", "needed")
LOOKS = ("old", "new", "small", "big", "beautiful", "expensive")
NAMES = ("Mary", "John", "Tom", "James", "Dan", "Martin", "Amy", "Sarah", "Anna", "Kate", "Paul", "Mark")
GIVERS = NAMES[:4]  # few, so that many pairs share their two forms and go through the model together
PLACES = ("store", "park", "office", "school", "beach")
GIFTS = ("book", "ring", "drink", "ball", "letter")


@dataclass(frozen=True)
class Pair:
    """`evidence` is the place of the word that must matter among the words of `text`."""

    kind: str
    text: str
    right: str
    wrong: str
    evidence: int

    @property
    def word(self) -> str:
        return self.text.split()[self.evidence].strip(",")


def agreement(draw: random.Random) -> Pair:
    """A verb agrees with its subject, not with the nearer noun of the other number."""
    number = draw.randrange(2)
    subject, other, verb = draw.choice(NOUNS), draw.choice(OTHERS), draw.choice(VERBS)
    text = f"The {subject[number]} {draw.choice(BETWEEN)} {other[1 - number]}"
    return Pair("agreement", text, verb[number], verb[1 - number], 1)


def reflexive(draw: random.Random) -> Pair:
    """A reflexive agrees with its subject in gender and number, not with the nearer person."""
    person, right, wrong = draw.choice(PEOPLE)
    other = draw.choice([each for each, own, _ in PEOPLE if own == wrong])
    return Pair("reflexive", f"The {person} {draw.choice(BETWEEN)} {other} {draw.choice(DID)}", right, wrong, 1)


def determiner(draw: random.Random) -> Pair:
    """A noun agrees with its determiner, across an adjective."""
    number, thing = draw.randrange(2), draw.choice(THINGS)
    word = draw.choice((("this", "that"), ("these", "those"))[number])
    text = f"{draw.choice(NAMES)} {draw.choice(GOT)} {word} {draw.choice(LOOKS)}"
    return Pair("determiner", text, thing[number], thing[1 - number], 2)


def indirect_object(draw: random.Random) -> Pair:
    """Who is given something is the one who does not give."""
    receives, gives = draw.sample(GIVERS, 2)
    first = [receives, gives]
    draw.shuffle(first)
    text = f"When {first[0]} and {first[1]} went to the {draw.choice(PLACES)}, {gives} gave a {draw.choice(GIFTS)} to"
    return Pair("indirect object", text, f" {receives}", f" {gives}", text.split().index(receives))


KINDS: tuple[Callable[[random.Random], Pair], ...] = (agreement, reflexive, determiner, indirect_object)


def pairs(seed: int, of_each: int) -> Iterator[Pair]:
    """So many different pairs of each kind."""
    for kind in KINDS:
        draw, seen = random.Random(seed), set[Pair]()
        while len(seen) < of_each:
            pair = kind(draw)
            if pair not in seen:
                seen.add(pair)
                yield pair
