"""The controls that every board has: what knows nothing, and what has seen the exam, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.asking import ask, may_go
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

RANDOM = "random"
SINGLE_EFFECTS = "single_effects"  # boards of before call it "oracle"


def single_effects(
    model: LayeredModel, encodings: Sequence[Encoding], *, hiding: Hiding, batch_tokens: int
) -> list[Float[np.ndarray, " token"]]:
    """What hiding a token alone takes from the decision's probability, plus what showing it alone brings.

    Measured with the very maskings of the games. It is no upper bound, since tokens that only work together escape it;
    for that see `whence.engine.bounds`.
    """

    def sets(index: int) -> Bool[np.ndarray, "set word"]:
        alone = np.eye(int(may_go(encodings[index]).sum()), dtype=bool)
        return np.concatenate([~alone, alone, np.zeros_like(alone[:1])])

    found = [np.zeros(len(encoding), dtype=np.float32) for encoding in encodings]
    for index, told in ask(model, encodings, sets, hiding=hiding, batch_tokens=batch_tokens):
        without, alone = np.split(told.probability[:-1].astype(np.float32), 2)
        nothing = np.float32(told.probability[-1])
        found[index][may_go(encodings[index])] = (np.float32(told.whole) - without) + (alone - nothing)
    return found
