"""A place where one thread answers what waits, many at a time: so a model is never run by two at once, and batches form
by themselves while it is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from whence.serving.limits import BusyError, TooLongError
from whence.serving.work import Work

Question = TypeVar("Question")
Answer = TypeVar("Answer")
AT_ONCE = 32
"""As many questions are answered together at most: with more, the first would wait for the last."""


@dataclass(eq=False, frozen=True)
class _Waiting(Generic[Question, Answer]):
    question: Question
    answer: asyncio.Future[Answer]


class Desk(Generic[Question, Answer]):
    """`answer` gets questions and gives an answer, or an error, to each; it raises nothing itself.

    All of it happens `within` a context, which stays entered while questions come.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[Sequence[Question]], Sequence[Answer | Exception]],
        most: int,
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._answer = answer
        self._most = most
        self.waiting = 0  # those that are answered now, and those that wait to be
        self._work: Work[_Waiting[Question, Answer]] = Work(name, self._answer_all, AT_ONCE, within)

    async def ask(self, question: Question, seconds: float) -> Answer:
        """The answer, once it is there; who no longer waits is passed over."""
        if self.waiting >= self._most:
            raise BusyError("the model has more to do than it can", 1)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting += 1
        self._work.put(_Waiting(question, answer))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise TooLongError(seconds) from None
        finally:
            self.waiting -= 1

    def _answer_all(self, several: Sequence[_Waiting[Question, Answer]]) -> None:
        asked = [each for each in several if not each.answer.done()]
        if asked:
            _hand_over(asked, self._answer([each.question for each in asked]))


def _hand_over(asked: Sequence[_Waiting[Question, Answer]], answers: Sequence[Answer | Exception]) -> None:
    """Wake the event loop once for all of them."""

    def give() -> None:
        for each, answer in zip(asked, answers, strict=True):
            if each.answer.done():
                continue
            if isinstance(answer, Exception):
                each.answer.set_exception(answer)
            else:
                each.answer.set_result(answer)

    loop = asked[0].answer.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(give)
