"""User text made safe to show: what cannot be seen, or steers the terminal, becomes a symbol."""

from __future__ import annotations

import regex

# Scripts in which the two joiners (U+200C, U+200D) belong to the spelling.
_JOINING = "".join(
    rf"\p{{{script}}}"
    for script in (
        "Arabic", "Syriac", "Nko", "Mongolian", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil",
        "Telugu", "Kannada", "Malayalam", "Sinhala",
    )
)  # fmt: skip
_EMOJI = r"\p{Extended_Pictographic}[\uFE0F\U0001F3FB-\U0001F3FF]?"

# What looks invisible but is part of what is seen comes first and stays: the joiners of an emoji sequence or of a
# script that needs them, and the tag letters of a flag (England's is a black flag and tags).
_UNSEEN = regex.compile(
    rf"(?P<kept>(?<={_EMOJI})\u200D(?=\p{{Extended_Pictographic}})"
    rf"|(?<=[{_JOINING}])[\u200C\u200D](?=[{_JOINING}])"
    r"|\U0001F3F4[\U000E0020-\U000E007E]+\U000E007F"
    r"|\p{Prepended_Concatenation_Mark}|\p{M})"
    r"|[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]"
)


def visible(text: str) -> str:
    """`text` with every control, escape, line break, direction mark and zero-width character as one symbol.

    Letters of any script, combining marks and emoji stay as they are.

    >>> visible("two\\nlines, \\x1b[31mred, a\\u202etrap")
    'two↵lines, ␛[31mred, a⟨U+202E⟩trap'
    """
    return str(_UNSEEN.sub(_symbol, text))


def unseen(text: str) -> list[tuple[int, str]]:
    """Where running text needs a symbol, and which; line breaks and tabs are drawn as such there.

    >>> unseen("two\\nlines, a\\u202etrap")
    [(12, '⟨U+202E⟩')]
    """
    return [
        (match.start(), _symbol(match))
        for match in _UNSEEN.finditer(text)
        if match.group("kept") is None
        and match.group() not in ("\n", "\t")
        and not text.startswith("\r\n", match.start())
    ]


def shortened(text: str, most: int) -> str:
    """`text` made safe to show, cut to at most `most` characters, of which the last is then an ellipsis; behind a word,
    where one ends near there.

    >>> shortened("a dull, predictable mess with wooden acting", 30)
    'a dull, predictable mess with…'
    >>> shortened("a dull, predictable mess", 16)
    'a dull, predict…'
    """
    if len(text) <= most:
        return visible(text)
    start = text[: most - 1]
    words = start if text[most - 1].isspace() else start[: start.rfind(" ") + 1]
    return visible(f"{(words if 3 * len(words) > 2 * len(start) else start).rstrip()}…")


def _symbol(match: regex.Match[str]) -> str:
    found: str = match.group()
    if match.group("kept") is not None:
        return found
    code = ord(found)
    if found == "\n":
        return "↵"
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"
