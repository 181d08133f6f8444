"""The package context-cite run on the same prompt, answer and sources as whence.

Its own code draws the sets, rebuilds and tokenises the prompts, runs the model and fits the Lasso. What it would only
use to split sentences, to make tables and to hold a list of prompts (nltk, spacy, pandas, datasets) is not needed here,
and stands empty where it is not installed. Mixed precision, which it always switches on, is off, so that numbers can be
compared.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import torch

from whence.citing.answering import Answer


class _Rows:
    """As much of `datasets.Dataset` as context-cite uses: columns of equal length, read by row."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> _Rows:
        return cls(columns)

    def __len__(self) -> int:
        return len(self._columns["input_ids"])

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self._columns.items()}


def available() -> bool:
    """Whether context-cite and scikit-learn are there."""
    try:
        _load()
    except ImportError:
        return False
    return True


def _load() -> Any:
    contents: dict[str, dict[str, Any]] = {
        "nltk": {"download": lambda name: None},
        "spacy": {}, "spacy.lang": {}, "spacy.lang.en": {"English": None},
        "pandas": {"DataFrame": None},
        "datasets": {"Dataset": _Rows},
    }  # fmt: skip
    for name, members in contents.items():
        if name not in sys.modules:
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)  # torch looks whether it is there
            vars(module).update(members)
            sys.modules[name] = module
    try:
        import context_cite.context_citer  # type: ignore[import-not-found]
    finally:
        for name in contents:
            if vars(sys.modules[name]).keys() >= contents[name].keys() and not hasattr(sys.modules[name], "__file__"):
                del sys.modules[name]
    return context_cite


class Package:
    """context-cite's own answers about one answer: `sets` and `logit_probs` of its tokens, one row per ablation."""

    def __init__(self, answer: Answer, question: str, ablations: int, batch_size: int) -> None:
        self._package = _load()
        tokenizer: Any = answer.model.tokenizer.tokenizer  # type: ignore[attr-defined]
        prompt = answer.prompt
        start, end = prompt.spans[0][0], prompt.spans[-1][1]
        context = prompt.text[start:end]
        partitioner = self._package.context_partitioner.SimpleContextPartitioner(context)
        edges = [(a - start, b - start) for a, b in prompt.spans]
        partitioner._cache["parts"] = [context[a:b] for a, b in edges]
        partitioner._cache["separators"] = [
            context[before:after]
            for before, after in zip([0, *(b for _, b in edges)], (a for a, _ in edges), strict=False)
        ]
        side, tokenizer.padding_side = tokenizer.padding_side, "left"
        autocast, torch.cuda.amp.autocast = torch.cuda.amp.autocast, nullcontext  # type: ignore[misc, assignment]
        try:
            self._citer = self._package.context_citer.ContextCiter(
                answer.model.module, tokenizer, context, question,
                num_ablations=ablations, batch_size=batch_size, partitioner=partitioner,
            )  # fmt: skip
            before = self._citer._get_prompt_ids(return_prompt=True)[1]
            self._citer._cache["output"] = before + answer.text
            self.response_ids: list[int] = self._citer._response_ids
            with answer.model.held():
                self.sets: np.ndarray = self._citer._masks
                self.logit_probs: np.ndarray = self._citer._logit_probs
        finally:
            tokenizer.padding_side = side
            torch.cuda.amp.autocast = autocast  # type: ignore[misc]

    def prompt_ids(self, chosen: np.ndarray) -> list[int]:
        """The prompt that context-cite makes of a set."""
        found: list[int] = self._citer._get_prompt_ids(mask=chosen)
        return found

    def scores(self, ablations: int) -> np.ndarray:
        """The scores of the sources from its first ablations."""
        values = self._package.utils.aggregate_logit_probs(self.logit_probs[:ablations])
        weights: np.ndarray = self._citer.solver.fit(self.sets[:ablations], values, self.logit_probs.shape[1])[0]
        return weights

    def log_probabilities(self) -> np.ndarray:
        """log p of the answer for each of its ablations."""
        found: np.ndarray = self._package.utils.aggregate_logit_probs(self.logit_probs, "log_prob")
        return found
