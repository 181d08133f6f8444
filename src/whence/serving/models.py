"""The models of a server: each answers cheap questions at once, alike ones together, and has a twin for long jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from whence.errors import NonFiniteError, UnknownNameError
from whence.explanation import Explanation, Prediction
from whence.explanation_json import to_json
from whence.json_records import encoded
from whence.memory import give_memory_back
from whence.methods import METHODS
from whence.methods.explain import explain
from whence.methods.names import method_named
from whence.methods.usual import came_with_probes, usual_method
from whence.models.batching import batches, encode_each, usual_batch_tokens
from whence.models.layered import LayeredModel
from whence.selection import predictions
from whence.serving.asked import AskedExplanation, AskedPrediction
from whence.serving.desk import Desk
from whence.serving.limits import Limits, TooLargeError, TooLongError, told
from whence.serving.watch import Watch, ends_after
from whence.tasks.causal_lm import CausalLM

Asked = AskedPrediction | AskedExplanation
Answer = Prediction | Explanation
Written = bytes | Explanation
"""An answer as JSON, or one whose JSON takes long to write."""
WRITTEN_AT_ONCE = 1_000
"""Scores whose JSON is written in so little time that the model may wait for it: clients of one batch then get their
answers at once, and ask again together."""
BETWEEN_TRIMS = 1_000
"""Answers after which what they took goes back to the system: that takes milliseconds, and else memory creeps up."""
MOST_LABELS = 200
"""More than these are a vocabulary, not a list to choose from."""


class ServedModel:
    """A model under the name that requests use.

    While a long job holds the twin, the model itself goes on answering; they share their weights, so the second costs
    no memory to speak of. The desk holds the model as long as questions come: nobody else runs it.
    """

    def __init__(self, name: str, model: LayeredModel, twin: LayeredModel, limits: Limits) -> None:
        self.name, self.model, self.twin, self.limits = name, model, twin, limits
        share_weights(model, twin)
        short = model.encode("a text", "another" if model.reading.needs_pair else None)
        self.usual = usual_method(model, short, None, None, {}).method
        self._since_trim = 0
        self._watch, self.twins_watch = Watch(model.module), Watch(twin.module)
        self._desk: Desk[Asked, Written] = Desk(name, self._answers, limits.waiting, within=model.held)

    async def answer(self, asked: Asked) -> bytes:
        """What was asked, as JSON, for what takes few passes; a long one is written while the model answers others."""
        found = await self._desk.ask(asked, self.limits.seconds)
        return found if isinstance(found, bytes) else await asyncio.to_thread(explanation_json, found, self.limits)

    @property
    def waiting(self) -> int:
        """How many wait for an answer."""
        return self._desk.waiting

    def takes_few_passes(self, asked: AskedExplanation) -> bool:
        """Whether an answer comes at once: one or two passes, whatever the text is."""
        return not asked.responds and method_named(asked.method or self.usual).method.few_passes

    @property
    def methods(self) -> list[str]:
        """The methods that this model allows, the usual one first."""
        has = {"trained probes": came_with_probes(self.model), "a head": self.model.head is not None,
               "attention weights": self.model.attend is not None}  # fmt: skip
        able = [name for name, method in METHODS.items() if all(has.get(need, True) for need in method.needs)]
        return [self.usual, *(name for name in able if name != self.usual)]

    def about(self) -> dict[str, Any]:
        """What a client must know to ask it."""
        reading = self.model.reading
        names = getattr(reading.labels, "names", None)
        return {
            "name": self.name,
            "architecture": self.model.record.architecture,
            "task": reading.task,
            "labels": None if names is None or len(names) > MOST_LABELS else list(names),
            "layers": ["embeddings", *range(self.model.n_layers + 1)],
            "needs_pair": reading.needs_pair,
            "writes": isinstance(reading, CausalLM),
            "methods": self.methods,
        }

    def _answers(self, asked: Sequence[Asked]) -> list[Written | Exception]:
        found: dict[int, Written | Exception] = {}
        for rows in _alike(asked):
            found |= zip(rows, self._together([asked[row] for row in rows]), strict=True)
        self._since_trim += len(asked)
        if self._since_trim >= BETWEEN_TRIMS:
            self._since_trim = 0
            give_memory_back()
        return [found[row] for row in range(len(asked))]

    def _together(self, asked: Sequence[Asked]) -> Sequence[Written | Exception]:
        """Answers to questions that are alike; where they fail together, each is asked alone, so that one bad text
        spoils no other."""
        try:
            with self._watch.over(ends_after(self.limits.seconds, lambda: TooLongError(self.limits.seconds))):
                return [self._written(answer) for answer in self._told(asked)]
        except TooLongError as error:
            return [error] * len(asked)
        except Exception as error:
            if len(asked) == 1:
                return [told(error)]
        return [answer for each in asked for answer in self._together([each])]

    def _written(self, answer: Answer) -> Written:
        if isinstance(answer, Prediction):
            return as_json(vars(answer))
        return explanation_json(answer, self.limits) if answer.scores.size <= WRITTEN_AT_ONCE else answer

    def _told(self, asked: Sequence[Asked]) -> Sequence[Answer]:
        first = asked[0]
        if isinstance(first, AskedPrediction):
            texts: list[Any] = [each.text if each.pair is None else (each.text, each.pair) for each in asked]
            return predicted(self.model, texts)
        sources: list[Any] = [each.source for each in asked if isinstance(each, AskedExplanation)]
        if len(sources) == 1:
            return [explain(self.model, sources[0], **first.settings)]
        found: Sequence[Explanation] = explain(self.model, sources, **first.settings)
        return found


class Models:
    """The models of a server by name; the first answers where none is named."""

    def __init__(self, served: Sequence[ServedModel]) -> None:
        self._served: Mapping[str, ServedModel] = {each.name: each for each in served}

    def named(self, name: str | None) -> ServedModel:
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise UnknownNameError("model", name[:100], self._served)
        return self._served[name]

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._served.values())


def share_weights(model: LayeredModel, twin: LayeredModel) -> None:
    """Let a model loaded a second time hold the weights of the first."""
    for mine, its in zip(model.module.parameters(), twin.module.parameters(), strict=True):
        if type(its) is torch.nn.Parameter:  # others keep facts about how they are packed
            its.data = mine.data


def predicted(model: LayeredModel, texts: Sequence[str | tuple[str, str]]) -> list[Prediction]:
    """What the model says of each text."""
    encodings = encode_each(model, texts)
    found: dict[int, Prediction] = {}
    with model.held(), torch.inference_mode():
        for batch in batches(model, encodings, usual_batch_tokens(model)):
            some = [encodings[index] for index in batch]
            inputs = model.collate(some)
            logits = model.run(inputs)
            if logits.isnan().any():
                raise NonFiniteError("the model's output is NaN", "look for NaN weights")
            found |= zip(batch, predictions(model.reading, logits, inputs.mask, some), strict=True)
    return [found[index] for index in range(len(texts))]


def explanation_json(explanation: Explanation, limits: Limits) -> bytes:
    """An explanation as `Explanation.to_dict` gives it."""
    count = explanation.scores.size + (0 if explanation.outputs is None else explanation.outputs.scores.size)
    if count > limits.numbers:
        raise TooLargeError(f"the answer has {count:,} scores", "ask for fewer layers or a shorter text")
    return to_json(explanation).encode("ascii")


def as_json(value: Any) -> bytes:
    """In ASCII, which no client can read otherwise."""
    return encoded(value).encode("ascii")


def _alike(asked: Sequence[Asked]) -> list[list[int]]:
    """The rows of questions that one call answers, in the order in which they came."""
    groups: dict[Hashable, list[int]] = {}
    for row, each in enumerate(asked):
        key = ("prediction",) if isinstance(each, AskedPrediction) else each.alike
        groups.setdefault(row if key is None else key, []).append(row)
    return list(groups.values())
