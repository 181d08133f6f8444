"""How probes are trained: the paper's way, the released code's way, and ours.

The three differ where it matters: see `docs/diffmask.md` for what each earns. The paper prints margins in nats for five
classes; with two classes that allows masking everything, so ours is a share of what masking everything costs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from whence.errors import UnknownNameError, UsageError
from whence.learned.time_limit import check_minutes
from whence.probes.diffmask import Kind
from whence.probes.networks import Form

Penalty = Literal["log", "share", "count"]
PENALTIES: tuple[Penalty, ...] = ("log", "share", "count")
OPTIMISERS = ("adam", "lookahead_rmsprop")


@dataclass(frozen=True)
class Recipe:
    """Everything about training but the model, the texts and the seed.

    Attributes:
        probe: the form of the probes, see `whence.probes.networks`.
        width: hidden units of a perceptron; None: a quarter of the state's features, at least 32.
        start: the gates' first logit: all start open, or training does not get off the ground.
        limit: logits beyond it, either way, are pulled back, because a gate that is shut (or open) for good learns
            nothing any more; None: they may go where they like.
        penalty: what keeping costs a text: the mean log keep probability ("log", as released), the mean keep
            probability ("share", as in GraphMask) or their sum ("count", as printed in the paper).
        margin: the divergence from the unmasked output that is allowed on average.
        first_margin: the share of the margin that is allowed at the words; from there it goes in even steps to the
            whole at the last layer. Inputs once dropped stay dropped, so what the lower layers spend the higher ones
            cannot: ours rises. For states above 1, where dropping little costs much at the top, it may fall.
        relative: whether `margin` is a share of the divergence reached when every word is masked.
        rectified: whether a divergence below the margin counts as zero instead of being pushed down further.
        every_layer: whether a step trains the gates of every layer, from one pass over the unmasked texts, or those of
            one layer drawn at random, as published.
        hard: whether a sampled gate above one half passes the state whole, its gradient as if it were soft.
        special: whether special tokens may be masked too.
        baseline: where baselines start: "released" (the mask token's embedding for words, noise for states) or
            "mean" (the same for words, the mean state of the first texts for states).
        multiplier: the Lagrange multipliers' first value; `multiplier_limit` is their largest.
        layers: how many layers have probes at most, the words and the last among them, evenly spread; None: all.
        warm_up: steps over which the learning rate rises; over the last `cool_down` share of steps it falls to zero.
        minutes: after which training ends, whatever steps it has had; None: it has all of them.
    """

    probe: Form = "released_plain"
    width: int | None = None
    start: float = 3.0
    limit: float | None = 5.0
    penalty: Penalty = "share"
    margin: float = 0.12
    first_margin: float = 0.3
    relative: bool = True
    rectified: bool = False
    every_layer: bool = True
    hard: bool = False
    special: bool = True
    baseline: Literal["released", "mean"] = "mean"
    optimiser: Literal["adam", "lookahead_rmsprop"] = "adam"
    learning_rate: float = 2e-3
    baseline_learning_rate: float = 1e-3
    multiplier_learning_rate: float = 0.03
    multiplier: float = 10.0
    multiplier_limit: float = 200.0
    warm_up: int = 100
    cool_down: float = 0.2
    batch_size: int = 64
    steps: int = 2_500
    layers: int | None = None
    minutes: float | None = None

    def changed(self, **changes: Any) -> Recipe:
        """The recipe with some settings changed; every value is checked."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting of a recipe", name, known)
        recipe = replace(self, **changes)
        if recipe.probe not in ("released", "released_plain", "paper"):
            raise UnknownNameError("probe", recipe.probe, ["released", "released_plain", "paper"])
        if recipe.penalty not in PENALTIES:
            raise UnknownNameError("penalty", recipe.penalty, PENALTIES)
        if recipe.optimiser not in OPTIMISERS:
            raise UnknownNameError("optimiser", recipe.optimiser, OPTIMISERS)
        if recipe.baseline not in ("released", "mean"):
            raise UnknownNameError("baseline", recipe.baseline, ["released", "mean"])
        for name in ("margin", "learning_rate", "multiplier_limit", "batch_size", "steps"):
            if not getattr(recipe, name) > 0:
                raise UsageError(f"{name} must be above 0, got {getattr(recipe, name)!r}", "leave it out for the usual")
        if recipe.layers is not None and recipe.layers < 2:
            raise UsageError(f"layers must be at least 2, got {recipe.layers!r}", "leave it out for all")
        check_minutes(recipe.minutes)
        return recipe

    def told(self) -> dict[str, Any]:
        """The settings as they are written down; a run over all layers, or without a time limit, is told as it was
        before there were others."""
        added = ("layers", "minutes")
        return {name: value for name, value in asdict(self).items() if name not in added or value is not None}


def recipe_for(name: str, kind: Kind) -> Recipe:
    """A recipe by name: "whence", "released" (the published code's settings) or "paper" (the printed ones).

    "sparing" is ours for a deep model on few cores: few layers, small batches, fewer steps.
    """
    ours = Recipe() if kind == "input" else Recipe(margin=0.13, first_margin=1.0)
    recipes = {
        "whence": ours,
        "sparing": replace(ours, layers=5, batch_size=8, steps=1_000, warm_up=50),
        "released": _PUBLISHED,
        "paper": replace(
            _PUBLISHED,
            probe="paper",
            penalty="count",
            margin=0.5,
            baseline_learning_rate=3e-4,
            multiplier_learning_rate=0.1,
            steps=6_700,
        ),
    }
    if name not in recipes:
        raise UnknownNameError("recipe", name, recipes)
    return recipes[name]


_PUBLISHED = Recipe(
    probe="released",
    start=5.0,
    limit=None,
    penalty="log",
    margin=0.1,
    first_margin=1.0,
    relative=False,
    every_layer=False,
    baseline="released",
    optimiser="lookahead_rmsprop",
    learning_rate=3e-4,
    baseline_learning_rate=1e-3,
    multiplier_learning_rate=0.3,
    multiplier=1.0,
    warm_up=1_200,
    cool_down=0.0,
    batch_size=64,
    steps=40_200,
)
