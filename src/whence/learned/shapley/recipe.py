"""How Shapley probes are trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Scale
from whence.learned.time_limit import check_minutes
from whence.probes.shapley import Relevance
from whence.tasks.reading import Reading
from whence.units import UnitName


@dataclass(frozen=True)
class Recipe:
    """Everything about training but the model, the texts and the seed.

    Attributes:
        units: who plays: "token", "word", "sentence" or "paragraph".
        scale: what is shared out; None: the probability where the model decides, else its number.
        width: features of a token inside the network.
        blocks: transformer blocks by which tokens see each other; with 0 each token is judged by its own states.
        layers: how many of the model's layers are read at most, evenly spread.
        held_still: the weight of the second thing learnt, shares by relevance; 0: Shapley values alone.
        relevance: whose shares these are: of the network held still ("held_still") or "attn_lrp"; None: the latter for
            what a decoder says, the former for all else, as either was the more faithful there (docs/one_pass.md).
        pairs: coalitions drawn for each text of a step; as many complements come with them.
        step_tokens: tokens of the texts of a step, on average.
        minutes: after which training ends, whatever steps it has had; judging what came out takes a sixth of that at
            most beside it, on fewer texts and orders if need be. None: it has all its steps.
        checked_texts: held-out texts on which a long run of Shapley sampling shows how far off the values are; half
            of them set the error that answers state, the other half tell how often it holds.
        checked_orders: random orders of that run.
    """

    units: UnitName = "token"
    scale: Scale | None = None
    width: int = 128
    blocks: int = 1
    layers: int = 8
    held_still: float = 0.3
    relevance: Relevance | None = None
    pairs: int = 8
    step_tokens: int = 6_400
    learning_rate: float = 1e-3
    warm_up: int = 200
    steps: int = 1_600
    checked_texts: int = 128
    checked_orders: int = 100
    minutes: float | None = None

    def changed(self, **changes: Any) -> Recipe:
        """The recipe with some settings changed; every value is checked."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting of Shapley probes", name, known)
        recipe = replace(self, **changes)
        if recipe.units not in get_args(UnitName):
            raise UnknownNameError("unit", recipe.units, get_args(UnitName))
        if recipe.scale is not None and recipe.scale not in get_args(Scale):
            raise UnknownNameError("scale", recipe.scale, get_args(Scale))
        if recipe.relevance is not None and recipe.relevance not in get_args(Relevance):
            raise UnknownNameError("relevance", recipe.relevance, get_args(Relevance))
        for name in ("width", "layers", "pairs", "step_tokens", "learning_rate", "steps"):
            if not getattr(recipe, name) > 0:
                raise UsageError(f"{name} must be above 0, got {getattr(recipe, name)!r}", "leave it out for the usual")
        for name in ("blocks", "held_still", "warm_up"):
            if not getattr(recipe, name) >= 0:
                raise UsageError(f"{name} must not be below 0, got {getattr(recipe, name)!r}", "leave it out")
        for name in ("checked_texts", "checked_orders"):
            if not getattr(recipe, name) >= 2:
                raise UsageError(f"{name} must be at least 2, got {getattr(recipe, name)!r}", "leave it out")
        check_minutes(recipe.minutes)
        return recipe

    def taught(self, reading: Reading) -> Relevance | None:
        """Whose relevance is learnt of a model that is read so."""
        if not self.held_still:
            return None
        return self.relevance or ("attn_lrp" if reading.next_token else "held_still")

    def told(self) -> dict[str, Any]:
        """The settings as they are written down; what was not asked for is told as before it could be."""
        added = ("minutes", "relevance")
        return {name: value for name, value in asdict(self).items() if name not in added or value is not None}


RECIPES: dict[str, Recipe] = {
    "whence": Recipe(),
    "quick": Recipe(pairs=4, step_tokens=400, steps=6_000, checked_texts=64, checked_orders=40, minutes=50),
    "sparing": Recipe(
        held_still=0.0, pairs=2, step_tokens=300, steps=1_500, warm_up=100, checked_texts=16, checked_orders=10
    ),
}
"""By name: "whence" for a GPU, "quick" for a processor of few cores, within an hour and at a lower quality that
the fit states, and "sparing" for a deep decoder on few cores, lower still and of Shapley values alone."""
