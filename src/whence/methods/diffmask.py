"""DiffMask (De Cao et al., 2020): trained probes say which tokens the model can do without, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor

from whence.errors import UsageError
from whence.explanation import Layer, Meaning
from whence.methods.question import Method, Question, Scores
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel, Layers, States
from whence.probes.diffmask import ModelProbes, embedded_folder

if TYPE_CHECKING:
    from jaxtyping import Float


@runtime_checkable
class TrainedProbes(Protocol):
    """What `whence.DiffMask` is once it is trained."""

    @property
    def kind(self) -> str: ...

    def layers(self, model: LayeredModel) -> Layers: ...

    def keep_probabilities(
        self, model: LayeredModel, inputs: Inputs, states: States, layers: Sequence[Layer]
    ) -> Float[Tensor, "batch layer token"]: ...


def diffmask(
    question: Question, *, probes: TrainedProbes | str | Path | None = None, kind: str | None = None
) -> Scores:
    """The probability that the token must be kept for the output to stay as it is; one forward pass in all.

    Args:
        probes: a trained `whence.DiffMask` or the folder of one; by default those that came with the model.
        kind: which of the probes that came with the model: "input" (the default: what is known by this layer) or
            "hidden" (where it is stored).
    """
    trained = _trained(question.model, probes, kind)
    if kind is not None and trained.kind != kind:
        raise UsageError(f"these are {trained.kind} probes, not {kind} ones", "leave out kind, or give other probes")
    return Scores(trained.keep_probabilities(question.model, question.inputs, question.states, question.layers))


def _trained(model: LayeredModel, probes: TrainedProbes | str | Path | None, kind: str | None) -> TrainedProbes:
    if probes is None:
        probes = _that_came_with(model, kind or "input")
    if isinstance(probes, (str, Path)):
        config = Path(probes) / "config.json"
        return _loaded(Path(probes), config.stat().st_mtime_ns if config.is_file() else 0)
    if not isinstance(probes, TrainedProbes):
        raise UsageError(f"probes is {type(probes).__name__}", "give a whence.DiffMask or the folder of one")
    return probes


def _layers(model: LayeredModel, options: Mapping[str, Any]) -> Layers:
    """Where the probes look."""
    return _trained(model, options.get("probes"), options.get("kind")).layers(model)


@lru_cache(maxsize=4)
def _loaded(folder: Path, written: int) -> TrainedProbes:
    """Read once for all batches of texts; a folder written anew since is read again."""
    return ModelProbes.load(folder)


def _that_came_with(model: LayeredModel, kind: str) -> Path:
    if model.record.embedded is None:
        raise UsageError(
            f"no probes came with {model.record.id!r}",
            "fit them (whence fit --model ... --data ... --out FOLDER) and give probes=FOLDER",
        )
    return embedded_folder(model.record.embedded, kind)


METHOD = Method(
    diffmask,
    Meaning(
        "keep probability",
        "how likely the token must be kept for the output to stay as it is",
        signed=False,
        additive=False,
        low=0.0,
        high=1.0,
        keep_probability=True,
    ),
    needs=("trained probes",),
    cost="1 forward",
    few_passes=True,
    layers="everywhere",
    layers_by=_layers,
)
