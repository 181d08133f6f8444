"""Plain torch modules as layered models: the module, its word embedding and a list of its layers is all it takes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from whence.errors import UsageError
from whence.explanation import ModelRecord
from whence.models.inputs import Inputs, Tokenizer
from whence.models.layered import LayeredModel
from whence.models.stack import Stack
from whence.tasks.reading import Reading

if TYPE_CHECKING:
    from jaxtyping import Float


def wrap_module(
    module: nn.Module,
    tokenizer: Tokenizer,
    *,
    blocks: Sequence[nn.Module],
    embedding: nn.Module | None = None,
    reading: Reading,
) -> LayeredModel:
    """A torch module as a layered model.

    The module is called as `module(ids, mask)` (or `module(ids)` if it takes one argument), with `mask` true at real
    tokens, and returns logits with axes (batch, label), or what the reading wants. Each of `blocks` returns its state,
    axes (batch, token, hidden), bare or first in a tuple; whatever comes after the last block is the head.
    """
    missing = [name for name in ("encode", "id_of") if not hasattr(tokenizer, name)]
    if missing:
        raise UsageError(
            f"{type(tokenizer).__name__} is no tokenizer for a plain module: it lacks {', '.join(missing)}",
            "use whence.WordTokenizer(vocabulary) or an object with encode, id_of, padding and masking",
        )
    if embedding is None:
        tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
        if len(tables) != 1:
            raise UsageError(
                f"{type(module).__name__} has {len(tables)} embedding tables", "say which reads the words: embedding="
            )
        embedding = tables[0]
    takes_mask = len(inspect.signature(module.forward).parameters) > 1

    def run(inputs: Inputs) -> Float[Tensor, "batch label"]:
        logits: Tensor = module(inputs.ids, inputs.attended) if takes_mask else module(inputs.ids)
        names = getattr(reading.labels, "names", None)
        if names is not None and (logits.ndim != 2 or logits.shape[1] != len(names)):
            raise UsageError(
                f"{type(module).__name__} returned logits of shape {tuple(logits.shape)}",
                f"expected ({len(inputs)}, {len(names)}): one logit for each of the labels",
            )
        return logits

    return LayeredModel(
        module=module,
        stack=Stack(embedding, blocks, len(blocks)),
        tokenizer=tokenizer,
        reading=reading,
        record=ModelRecord(type(module).__name__, None, type(module).__name__, reading.task),
        run=run,
    )
