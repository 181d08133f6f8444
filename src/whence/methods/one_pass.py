"""Amortised explanations: probes, trained once, tell each token's share from the one forward pass of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from whence.columns import Later
from whence.errors import UnknownNameError, UsageError
from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.probes.shapley import NINETY, Learned, ModelShares, Relevance
from whence.selection import Selection

if TYPE_CHECKING:
    from jaxtyping import Float

Part = Literal["both", "shapley", "relevance"]
PARTS: tuple[Part, ...] = ("both", "shapley", "relevance")
_SMALLEST = torch.finfo(torch.float32).tiny


@runtime_checkable
class TrainedShares(Protocol):
    """What `whence.ShapleyProbes` is once it is trained."""

    @property
    def shares(self) -> ModelShares: ...


def one_pass(question: Question, *, probes: TrainedShares | str | Path | None = None, part: Part = "both") -> Scores:
    """The mean of two learned shares: by Shapley value, and by relevance (the network held still; of decoders AttnLRP).

    Each is divided by the sum of its sizes first, so the mean says how much of all that tokens do, for and against the
    target, is this token's doing, by two accounts; it adds up to nothing. It orders tokens more faithfully than either.

    Args:
        probes: a trained `whence.ShapleyProbes` or the folder of one; by default those that came with the model.
        part: "shapley" and "relevance" give one of the two alone, "shapley" as values that add up.
    """
    if part not in PARTS:
        raise UnknownNameError("part", part, PARTS)
    if part == "shapley":
        return amortised_shapley(question, probes=probes)
    shares, told, asked = _told(question, probes)
    if shares.relevance is None:
        raise UsageError("these probes have learnt Shapley values alone", "give part='shapley'")
    warnings = shares.familiar.warnings(question.inputs, question.states.hidden[-1].detach())
    relevance = asked.of(told.relevance)
    if part == "relevance":
        meaning = RELEVANCE[shares.relevance]
        return Scores(of_outputs(_share_of_sizes(relevance)[:, :, None]), meaning=meaning, warnings=warnings)
    shapley = asked.of(told.shapley)
    mean = _share_of_sizes(torch.stack([shapley, relevance])).sum(dim=0) / 2
    notes = _notes(told, _standard_errors(shares, told, shapley[:, 0]))
    return Scores(of_outputs(mean[:, :, None]), warnings=warnings, notes=notes)


def amortised_shapley(question: Question, *, probes: TrainedShares | str | Path | None = None) -> Scores:
    """Shapley values foretold by trained probes: they add up to f(text) - f(all tokens absent) exactly.

    A score ± 1.645 standard errors held nine of ten Shapley values of held-out texts.

    Args:
        probes: a trained `whence.ShapleyProbes` or the folder of one; by default those that came with the model.
    """
    shares, told, asked = _told(question, probes)
    values = asked.of(told.shapley)
    errors = torch.stack([_standard_errors(shares, told, each) for each in values.unbind(dim=1)], dim=1)
    return Scores(
        of_outputs(values[:, :, None]),
        standard_errors=of_outputs(errors[:, :, None]),
        meaning=SHAPLEY,
        warnings=shares.familiar.warnings(question.inputs, question.states.hidden[-1].detach()),
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a network is asked: the parts of a selection, what they are on the whole texts, and how much each counts in
    each output."""

    selection: Selection
    everybody: Float[Tensor, "batch part"]
    weights: Float[Tensor, "output part"]

    @classmethod
    def of_question(cls, question: Question) -> _Asked:
        """The target; and, where the tokens of a response are outputs of their own, each of them as a further part."""
        selection = question.selection
        everybody = question.outputs.detach()
        if len(selection.weights) > 1:  # of a contrast that is the difference alone
            everybody = selection.parts(question.states.logits.detach(), question.inputs.mask)
        if selection.n_outputs == 1:
            return cls(selection, everybody, selection.weights[None])
        whole = torch.ones_like(selection.indices[:, :, :, 0], dtype=torch.bool)
        whole = whole if selection.counted is None else selection.counted
        alone = torch.eye(whole.shape[2], dtype=torch.bool, device=whole.device) & whole
        indices = selection.indices.expand(-1, 1 + whole.shape[2], -1, -1)
        weights = torch.eye(1 + whole.shape[2], device=whole.device)
        parts = replace(
            selection, indices=indices, counted=torch.cat([whole, alone], dim=1), weights=weights[0], each=False
        )
        return cls(parts, everybody, weights)

    def of(self, values: Float[Tensor, "batch part token"]) -> Float[Tensor, "batch output token"]:
        return values if self.weights.numel() == 1 else self.weights @ values  # of one part it is 1


def _told(question: Question, probes: TrainedShares | str | Path | None) -> tuple[ModelShares, Learned, _Asked]:
    shares = _shares(question, probes)
    if question.selection.scale != shares.scale:
        mine, other = (scale.replace("_", " ") for scale in (shares.scale, question.selection.scale))
        raise UsageError(
            f"these probes tell shares of the {mine}, not of the {other}",
            f"give scale={shares.scale!r}, or fit probes with scale={question.selection.scale!r}",
        )
    asked = _Asked.of_question(question)
    told = shares.told(
        question.model, question.inputs, question.states, asked.selection, asked.everybody, question.batch_tokens
    )
    question.forwards += told.passes
    return shares, told, asked


def _standard_errors(
    shares: ModelShares, told: Learned, values: Float[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    players = told.players
    return players.spread(shares.errors.of(players.by_player(values), players.number))


def _share_of_sizes(values: Float[Tensor, "*batch output token"]) -> Float[Tensor, "*batch output token"]:
    sizes: Tensor = torch.linalg.vector_norm(values, 1, dim=-1, keepdim=True)
    return values / sizes.clamp(min=_SMALLEST)


def _notes(told: Learned, errors: Float[Tensor, "batch token"]) -> Sequence[Sequence[str]]:
    total = torch.linalg.vector_norm(errors, dim=1)
    said = "its Shapley part is off by up to {:.3f} per token in nine of ten held-out cases"

    def notes() -> list[list[str]]:
        each = zip(total.tolist(), told.players.n_free.tolist(), strict=True)
        return [[said.format(NINETY * error / max(1, tokens) ** 0.5)] for error, tokens in each]

    return Later(len(total), notes)


def _shares(question: Question, probes: TrainedShares | str | Path | None) -> ModelShares:
    if probes is None:
        return _loaded(_that_came_with(question), 0)  # nobody writes there
    if isinstance(probes, (str, Path)):
        config = Path(probes) / "config.json"
        return _loaded(Path(probes), config.stat().st_mtime_ns if config.is_file() else 0)
    if not isinstance(probes, TrainedShares):
        raise UsageError(f"probes is {type(probes).__name__}", "give a whence.ShapleyProbes or the folder of one")
    return probes.shares


@lru_cache(maxsize=4)
def _loaded(folder: Path, written: int) -> ModelShares:
    """Read once for all batches of texts; a folder written anew since is read again."""
    return ModelShares.load(folder)


def forget_texts() -> None:
    """Probes are read anew: what they remember of texts saves passes, and so changes what later texts cost."""
    _loaded.cache_clear()


def _that_came_with(question: Question) -> Path:
    model = question.model
    folder = None if model.record.embedded is None else _folder_of(model.record.embedded)
    if folder is None:
        raise UsageError(
            f"no Shapley probes came with {model.record.id!r}",
            "fit them (whence fit --explainer shapley --model ... --data ... --out FOLDER) and give probes=FOLDER",
        )
    return folder


@cache
def _folder_of(embedded: str) -> Path | None:
    from whence.embedded import shapley_folder

    folder = shapley_folder(embedded)
    return folder if folder.is_dir() else None


SHAPLEY = Meaning(
    "learned Shapley value",
    "the token's fair share of f(text) - f(all tokens absent), foretold by a probe",
    signed=True,
    additive=True,
)
RELEVANCE: dict[Relevance, Meaning] = {
    "held_still": Meaning(
        "learned share of the network held still",
        "the token's share of all sizes, were attention, gates, norms and slopes fixed, foretold by a probe",
        signed=True,
        additive=True,
        low=-1.0,
        high=1.0,
    ),
    "attn_lrp": Meaning(
        "learned share of AttnLRP relevance",
        "the token's share of all sizes, products shared between their factors, foretold by a probe",
        signed=True,
        additive=True,
        low=-1.0,
        high=1.0,
    ),
}
METHOD = Method(
    one_pass,
    Meaning(
        "one-pass share",
        "how much of all that tokens do for and against the target is this one's doing, the mean of two accounts",
        signed=True,
        additive=True,
        low=-1.0,
        high=1.0,
    ),
    needs=("trained probes",),
    cost="1 forward, 2 for the first text of its length and for a response",
    few_passes=True,
    only_there=True,
    scale=None,
    tells_outputs=True,
)
AMORTISED_SHAPLEY = Method(
    amortised_shapley, SHAPLEY, needs=("trained probes",), cost=METHOD.cost, only_there=True, scale=None, linear=True,
    few_passes=True, tells_outputs=True,
)  # fmt: skip
