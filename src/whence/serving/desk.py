"""A thread that answers what waits for it, many at a time: so a model is never run by two at once, and batches form
by themselves while it is busy."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from whence.serving.limits import BusyError, TooLongError

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

    All of it happens `within` a context that the thread enters once.
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
        self._within = within
        self.waiting = 0  # those that are answered now, and those that wait to be
        self._queue: queue.SimpleQueue[_Waiting[Question, Answer] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=f"whence: {name}", daemon=True).start()

    async def ask(self, question: Question, seconds: float) -> Answer:
        """The answer, once it is there; who no longer waits is passed over."""
        if self.waiting >= self._most:
            raise BusyError("the model has more to do than it can", 1)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting += 1
        self._queue.put(_Waiting(question, answer))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise TooLongError(seconds) from None
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Answer what waits, then end the thread."""
        self._queue.put(None)

    def _work(self) -> None:
        with self._within():
            self._answer_all()

    def _answer_all(self) -> None:
        while (first := self._queue.get()) is not None:
            several = [first]
            closing = False
            while len(several) < AT_ONCE and not self._queue.empty():
                another = self._queue.get()
                if another is None:
                    closing = True
                    break
                several.append(another)
            asked = [each for each in several if not each.answer.done()]
            if asked:
                answers = self._answer([each.question for each in asked])
                _hand_over(asked, answers)
            if closing:
                return


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
