"""Heads: language-model heads that read states as words.

A head is whatever a language model runs after its last block: transform, final norm, the matrix to the vocabulary, a
cap on the logits. No family's head is known here. The model runs its own forward while every block hands on the states
given (see `stack.py`), each state as a text of one token, so that no limit on the length of texts is met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UsageError
from whence.explanation import Token
from whence.models.as_found import AsFound, as_found
from whence.models.inputs import Encoding, collate
from whence.models.stack import Stack

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from whence.models.layered import LayeredModel

# logits held at a time: on a CPU 16 MB, which the allocator has at hand; on a GPU enough to keep it busy
MOST_LOGITS = {"cpu": 1 << 22, "cuda": 1 << 27}


@dataclass(frozen=True, eq=False)
class Head:
    """A head that turns states into logits over the vocabulary; call it on states of any leading axes.

    `read` takes rows of states; `module` is what it runs. A head that whence loaded itself (`ours`) goes where the
    states are and takes their dtype; one of the user's stays as it is, and states go there. A head of a causal model
    was trained to say the `next_token`.
    """

    module: nn.Module
    read: Callable[[Float[Tensor, "row hidden"]], Float[Tensor, "row vocabulary"]]
    name: str
    n_hidden: int
    n_vocabulary: int
    next_token: bool = False
    ours: bool = False
    held: AsFound = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", as_found(self.module))

    @torch.no_grad()
    def __call__(self, states: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch vocabulary"]:
        if states.shape[-1] != self.n_hidden:
            raise UsageError(
                f"the head {self.name} reads states of {self.n_hidden} features, these have {states.shape[-1]}",
                "ask for layers of that width, or load a head that fits: whence.load(..., head=)",
            )
        weights = list(self.module.parameters())
        if self.ours and any(weight.device != states.device or weight.dtype != states.dtype for weight in weights):
            self.module.to(states)
        rows = states.reshape(-1, self.n_hidden)
        if weights:
            rows = rows.to(weights[0])
        with self.held():
            return self.read(rows).view(*states.shape[:-1], -1)

    def check_ids(self, ids: Int[Tensor, "batch token"]) -> None:
        """Refuse tokens that the head does not know."""
        if int(ids.max()) >= self.n_vocabulary:
            raise UsageError(
                f"the head {self.name} knows {self.n_vocabulary} tokens, the text holds id {int(ids.max())}",
                "load a head with the vocabulary of the model",
            )

    def in_blocks(
        self, states: Float[Tensor, "row hidden"]
    ) -> Iterator[tuple[slice, Float[Tensor, "block vocabulary"]]]:
        """Logits in float32, some rows at a time, so that a whole table of positions and vocabulary never exists."""
        block = max(1, MOST_LOGITS.get(states.device.type, MOST_LOGITS["cpu"]) // self.n_vocabulary)
        with self.held():
            for start in range(0, len(states), block):
                rows = slice(start, start + block)
                yield rows, self(states[rows]).float().to(states.device)


def log_denominators_(logits: Float[Tensor, "row vocabulary"]) -> Float[Tensor, "row 1"]:
    """The logarithm of each row's softmax denominator. The logits are used up: a copy would cost half a head pass."""
    largest = logits.amax(dim=-1, keepdim=True)
    return logits.sub_(largest).exp_().sum(dim=-1, keepdim=True).log_().add_(largest)


class OwnHead:
    """What a language model runs after its last block, on rows of states.

    `run` calls the model on that many texts of one token and returns its logits at each.
    """

    def __init__(self, stack: Stack, run: Callable[[int], Float[Tensor, "row vocabulary"]]) -> None:
        self._stack = stack
        self._run = run
        self._tried = False

    def __call__(self, rows: Float[Tensor, "row hidden"]) -> Float[Tensor, "row vocabulary"]:
        if not self._tried:
            self._try()
        with self._stack.resuming(self._stack.n_layers, rows[:, None]):
            return self._run(len(rows))

    def _try(self) -> None:
        """See how the blocks return their state, and that the head gives what the model gives."""
        with self._stack.recording() as trace:
            whole = self._run(1)
        with self._stack.resuming(self._stack.n_layers, trace.hidden[-1]):
            same = torch.allclose(self._run(1), whole, rtol=1e-3, atol=1e-3, equal_nan=True)
        if not same:
            raise ModelError(
                "the head of this language model reads more than the last block's states",
                "give a head of your own as head=: a module from states to logits over the vocabulary",
            )
        self._tried = True


def head_of(model: LayeredModel) -> Head:
    """The model's head, or an error that says how to get one."""
    if model.head is None:
        raise UsageError(
            f"{model.record.id} has no head: no language-model head that reads its states as words",
            "name the language model it was fine-tuned from: whence.load(..., head=NAME), --head NAME",
        )
    return model.head


def module_head(head: nn.Module, n_hidden: int, *, name: str | None = None, ours: bool = False) -> Head:
    """A module that maps states to logits over the vocabulary, as a head; a user's may return a tensor it keeps."""
    weight = next(head.parameters(), torch.zeros(0))
    with as_found(head)(), torch.no_grad():
        try:
            logits = head(weight.new_zeros(1, n_hidden))
        except RuntimeError as error:
            raise UsageError(
                f"{type(head).__name__} does not read states of {n_hidden} features: {error}",
                "give a language model, or a module from states to logits over the vocabulary",
            ) from error
    read = head if ours else lambda rows: head(rows).clone()
    return Head(head, read, name or type(head).__name__, n_hidden, logits.shape[-1], ours=ours)


def state_width(model: LayeredModel) -> int:
    """The features of h_L, seen on a text of one token."""
    one = Encoding("", None, (Token("", 0, 0, 0),), {})
    inputs = collate(
        [one],
        model.tokenizer.padding,
        [0] if model.reading.reads_vocabulary else None,
        model.device,
    )
    return int(model.states(inputs).hidden[-1].shape[-1])


def vocabulary_of(model: LayeredModel) -> Mapping[str, int]:
    """The ids of the tokens by their names."""
    found: Mapping[str, int] | None = getattr(model.tokenizer, "vocabulary", None)
    if found is None:
        raise UsageError(
            f"{type(model.tokenizer).__name__} does not tell its vocabulary, which a head is read by",
            "give it an attribute vocabulary: ids by token",
        )
    return found


def check_fit(model: LayeredModel, head: Head, vocabulary: Mapping[str, int] | None) -> None:
    """Refuse a head of another width or vocabulary; `vocabulary` is the head's own, where it is known."""
    width = state_width(model)
    advice = "give the language model that it was fine-tuned from, with the same tokenizer"
    if head.n_hidden != width:
        raise UsageError(
            f"the head {head.name} reads states of {head.n_hidden} features, {model.record.id} has {width}",
            advice,
        )
    own = vocabulary_of(model)
    if vocabulary is None:
        sizes = {len(own), len(getattr(model.stack.embedding, "weight", own))}
        if head.n_vocabulary not in sizes:
            raise UsageError(
                f"the head {head.name} knows {head.n_vocabulary} tokens, the tokenizer of {model.record.id} {len(own)}",
                f"{advice}: head=(model, tokenizer) lets whence compare them",
            )
        return
    names = {number: token for token, number in vocabulary.items()}
    others = {number: token for token, number in own.items() if names.get(number, token) != token}
    if others:
        first = min(others)
        raise UsageError(
            f"the head {head.name} has another vocabulary: id {first} is {names[first]!r} there and "
            f"{others[first]!r} in the tokenizer of {model.record.id}",
            advice,
        )
