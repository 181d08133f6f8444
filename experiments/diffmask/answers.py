"""Answers of a reader judged as SQuAD's own script judges them: exact match and F1 of words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

LONGEST_ANSWER = 30  # tokens


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and needless spaces."""
    bare = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact(said: str, gold: str) -> float:
    return float(normalised(said) == normalised(gold))


def word_f1(said: str, gold: str) -> float:
    one, other = normalised(said).split(), normalised(gold).split()
    both = sum((Counter(one) & Counter(other)).values())
    return 2 * both / (len(one) + len(other)) if both else float(one == other)


def judged(said: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 against the annotator who fits best."""
    return max(exact(said, gold) for gold in golds), max(word_f1(said, gold) for gold in golds)


def best_spans(start: Tensor, end: Tensor, allowed: Tensor) -> list[tuple[int, int]]:
    """First and last token of each text's likeliest answer, among allowed ones, of at most so many tokens."""
    start, end = (each.float().masked_fill(~allowed, -torch.inf) for each in (start, end))
    length = start.shape[1]
    whole = torch.ones(length, length, dtype=torch.bool, device=start.device)
    band = whole.triu() & ~whole.triu(LONGEST_ANSWER)
    together = (start[:, :, None] + end[:, None, :]).masked_fill(~band, -torch.inf)
    best = together.flatten(1).argmax(dim=1)
    return list(zip((best // length).tolist(), (best % length).tolist(), strict=True))
