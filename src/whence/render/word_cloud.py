"""The tokens that weigh most for a class, as a word cloud or as ranked bars: plain SVG, the same every time.

Drawn here rather than by the wordcloud package, which draws pixels, needs a font file and lays words out at random.
Where no font can be measured, each word is told how long it must be (`textLength`), so that what was laid out without
overlap is drawn without overlap whatever the font.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from whence.errors import UsageError
from whence.render.visible import shortened, visible

BLUE = "#1f5fb4"
_FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_LARGEST, _SMALLEST = 46.0, 9.0  # pixels, before a crowded cloud is shrunk
_LINE = 1.24  # a line's height over its font size, ascenders and descenders included
_MOST_LETTERS = 24
_LETTERS = {  # by their width in Helvetica, in thousandths of the font size
    191: "'", 222: "ijl", 260: "|", 278: " !,./:;I[\\]ft", 333: "()-`r", 355: '"', 389: "*", 469: "^", 500: "Jcksvxyz",
    556: "#$0123456789?L_abdeghnopqu", 584: "+<=>~", 611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ",
    833: "Mm", 889: "%", 944: "W", 1015: "@",
}  # fmt: skip
_WIDTHS = {letter: width / 1000 for width, letters in _LETTERS.items() for letter in letters}


@dataclass(frozen=True)
class Placed:
    """A word laid out: the middle of its box, the box's sides, and its font size."""

    text: str
    weight: float
    x: float
    y: float
    width: float
    height: float
    size: float

    def overlaps(self, other: Placed) -> bool:
        return (
            abs(self.x - other.x) * 2 < self.width + other.width
            and abs(self.y - other.y) * 2 < self.height + other.height
        )


def word_cloud(
    weights: Mapping[str, float],
    *,
    title: str = "",
    most: int = 50,
    width: int = 480,
    height: int = 300,
    colour: str = BLUE,
) -> str:
    """The heaviest tokens with font sizes in proportion to their weights, as an SVG document.

    The smallest sizes are raised to what can be read. Tokens without a positive weight are left out.

    >>> picture = word_cloud({"gorgeous": 3.0, "witty": 1.5, "<b>": 1.0}, title="positive")
    >>> "&lt;b&gt;" in picture and picture.startswith("<svg")
    True

    Args:
        weights: tokens with what they weigh, such as one class of `whence.metrics.overlap.token_totals`.
        title: what stands above.
        most: tokens shown at most.
        width: of the picture, in pixels.
        height: of the picture, in pixels.
        colour: of the words.
    """
    head = 24 if title else 0
    words = layout(heaviest(weights, most), width, height - head)
    drawn = [
        f'<text x="{word.x:.1f}" y="{head + word.y + 0.34 * word.size:.1f}" font-size="{word.size:.1f}" '
        f'textLength="{word.width - 0.3 * word.size:.1f}" lengthAdjust="spacingAndGlyphs" text-anchor="middle" '
        f'fill="{escape(colour)}" fill-opacity="{0.55 + 0.45 * word.weight / words[0].weight:.2f}">'
        f"{escape(word.text)}</text>"
        for word in words
    ]
    return _document(width, height, title, "word cloud", drawn)


def ranked_bars(
    weights: Mapping[str, float], *, title: str = "", most: int = 20, width: int = 360, colour: str = BLUE
) -> str:
    """The heaviest tokens as bars, heaviest first, as an SVG document; arguments as for `word_cloud`."""
    row, head, left, right = 17, 24 if title else 4, 0.36 * width, 52
    words = heaviest(weights, most)
    drawn = []
    for number, (text, weight) in enumerate(words):
        y, length = head + number * row, (width - left - right) * weight / words[0][1]
        room = min(left - 12, 12 * _ems(text))
        drawn.append(
            f'<text x="{left - 6:.1f}" y="{y + 12}" font-size="12" text-anchor="end" textLength="{room:.1f}" '
            f'lengthAdjust="spacingAndGlyphs" fill="#222">{escape(text)}</text>'
            f'<rect x="{left:.1f}" y="{y + 2}" width="{length:.1f}" height="{row - 4}" fill="{escape(colour)}"/>'
            f'<text x="{left + length + 4:.1f}" y="{y + 12}" font-size="10" fill="#555">{weight:.3g}</text>'
        )
    return _document(width, head + max(1, len(words)) * row + 4, title, "ranked tokens", drawn)


def heaviest(weights: Mapping[str, float], most: int) -> list[tuple[str, float]]:
    """The tokens to draw, as they are shown, heaviest first and equal ones by name."""
    if any(not math.isfinite(weight) for weight in weights.values()):
        raise UsageError("some weights are not finite numbers", "look for NaN in the scores")
    ranked = sorted(((-weight, token) for token, weight in weights.items() if weight > 0))[:most]
    return [(shortened(visible(token), _MOST_LETTERS), -weight) for weight, token in ranked]


def layout(words: list[tuple[str, float]], width: float, height: float) -> list[Placed]:
    """Room for every word, none over another, all inside: each as near the middle as a spiral finds room."""
    largest = min(_LARGEST, height / 3)
    while True:
        placed = _attempt(words, width, height, largest)
        if placed is not None:
            return placed
        largest *= 0.93


def _attempt(words: list[tuple[str, float]], width: float, height: float, largest: float) -> list[Placed] | None:
    smallest = min(_SMALLEST, largest * 0.3)
    placed: list[Placed] = []
    for text, weight in words:
        size = max(smallest, largest * weight / words[0][1])
        box = (size * (_ems(text) + 0.3), size * _LINE)
        for x, y in _spiral(width, height):
            word = Placed(text, weight, x, y, *box, size)
            inside = box[0] / 2 <= x <= width - box[0] / 2 and box[1] / 2 <= y <= height - box[1] / 2
            if inside and not any(word.overlaps(other) for other in placed):
                placed.append(word)
                break
        else:
            return None
    return placed


def _spiral(width: float, height: float) -> Iterator[tuple[float, float]]:
    """Points from the middle outwards, stretched to the picture's shape, until all of it was passed."""
    turn = 0.0
    while turn < 32:
        reach, angle = 1.4 * turn / 32, 2 * math.pi * turn
        yield width / 2 * (1 + reach * math.cos(angle)), height / 2 * (1 + reach * math.sin(angle))
        turn += 1 / (12 + 2 * turn)


def _ems(text: str) -> float:
    """About how long a text is in a sans-serif font, in font sizes."""
    return sum(_em(letter) for letter in text)


def _em(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return _WIDTHS.get(letter, 0.7 if letter.isupper() else 0.58)


def _document(width: float, height: float, title: str, kind: str, drawn: list[str]) -> str:
    shown = escape(visible(title))
    heading = f'<text x="8" y="17" font-size="13" font-weight="bold" fill="#222">{shown}</text>' if title else ""
    nothing = "" if drawn else '<text x="8" y="40" font-size="12" fill="#555">no token has a positive weight</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{_FONT}"><title>{shown or kind}</title>'
        f'<rect width="{width}" height="{height}" fill="white"/>{heading}{nothing}{"".join(drawn)}</svg>\n'
    )
