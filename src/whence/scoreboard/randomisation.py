"""The weight-randomisation control: scores that stay when the model's weights are drawn anew are not about the model.

Weights are drawn anew from the top down, each stage with all above it (Adebayo et al., 2018): a tensor's numbers come
from a normal distribution with its own mean and spread, which any architecture survives.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from whence.errors import WhenceError
from whence.metrics.table import METRICS, Metric
from whence.models.fingerprint import changed_on_purpose
from whence.models.layered import LayeredModel
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.stability import rank_correlation
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

RANDOMISATION = "randomisation"
MOST_TEXTS = 8  # with all weights random, which is what is judged
ON_THE_WAY = 4  # of them at the stages before
UNMOVED = 0.6  # τ: four of five pairs of words in the same order


@dataclass(frozen=True)
class Stage:
    """How much of the model is drawn anew: its head, so many of the blocks from the top, and the embeddings."""

    name: str
    n_blocks: int
    embeddings: bool = False


@dataclass(frozen=True, eq=False)
class Randomised:
    """τ-b at each stage with the scores of the real model, by their value and by their size; NaN where untried.

    `note` says why an entrant could not be tried.
    """

    signed: Float[np.ndarray, "stage text"]
    sizes: Float[np.ndarray, "stage text"]
    note: str = ""

    @property
    def values(self) -> Float[np.ndarray, "stage text"]:
        """The one of the two that stayed more alike to the end: a change of sign alone is none."""
        with np.errstate(all="ignore"):
            last = [np.nanmean(each[-1]) if np.isfinite(each[-1]).any() else -1.0 for each in (self.signed, self.sizes)]
        return self.signed if last[0] >= last[1] else self.sizes


def stages(model: LayeredModel) -> list[Stage]:
    """The head; it and the upper half of the blocks; all blocks; everything."""
    n_blocks = len(model.stack.blocks)
    half = (n_blocks + 1) // 2
    found = [Stage("head", 0), Stage(f"top {half} of {n_blocks} blocks", half)]
    if half < n_blocks:
        found.append(Stage(f"all {n_blocks} blocks", n_blocks))
    return [*found, Stage("all weights", n_blocks, embeddings=True)]


def randomisation(
    trial: Trial, entrants: Sequence[Entrant], targets: Sequence[int] | None, metrics: Sequence[Metric]
) -> tuple[Step, list[Stage]]:
    """The control over all entrants that explain, and its stages."""
    wanted = any(metric.name == RANDOMISATION for metric in metrics)
    planned = stages(trial.model) if wanted else []
    total = len(planned) * len(entrants)
    key = {"metric": (RANDOMISATION, METRICS[RANDOMISATION].version), "targets": targets}
    judged = trial.some(MOST_TEXTS)

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        tables = {each.name: np.full((2, len(planned), len(trial.texts)), np.nan) for each in findings.explaining}
        notes = dict.fromkeys(tables, "")
        for number, stage in enumerate(planned):
            tried = judged if stage is planned[-1] else judged[:: MOST_TEXTS // ON_THE_WAY]
            keys = {each.name: trial.key(tried, stage=stage, **each.key, **key) for each in findings.explaining}
            all_kept = all(trial.store.has("randomised", name, each) for name, each in keys.items())
            with nullcontext() if all_kept else redrawn(trial.model, stage, trial.seed):
                for done, entrant in enumerate(findings.explaining, start=1):
                    rows = findings.scored[entrant.name].rows
                    piece = trial.store.kept(
                        "randomised", entrant.name, keys[entrant.name],
                        lambda entrant=entrant, rows=rows, tried=tried: _taus(trial, entrant, tried, rows, targets),  # type: ignore[misc]
                    )  # fmt: skip
                    tables[entrant.name][:, number, tried] = piece.arrays["taus"]
                    notes[entrant.name] = notes[entrant.name] or str(piece.facts["note"])
                    trial.report("random weights", number * len(entrants) + done, total)
        for name, (signed, sizes) in tables.items():
            found = findings.randomised[name] = Randomised(signed, sizes, notes[name])
            findings.fill(name, {RANDOMISATION: found.values[-1]})

    again = len(judged) + max(0, len(planned) - 1) * len(judged[:: MOST_TEXTS // ON_THE_WAY])
    passes = again * sum(entrant.passes for entrant in entrants) if wanted else 0.0
    return Step("random weights", total, [RANDOMISATION], key, run, passes), planned


def _taus(
    trial: Trial,
    entrant: Entrant,
    indices: Sequence[int],
    rows: Sequence[Float[np.ndarray, " token"]],
    targets: Sequence[int] | None,
) -> Piece:
    try:
        explained = explain_quietly(
            trial.model,
            [trial.texts[index] for index in indices],
            entrant,
            seed=trial.seed,
            batch_tokens=trial.batch_tokens,
            targets=None if targets is None else [targets[index] for index in indices],
        )
    except WhenceError as error:  # a method of the user's that refuses such a model
        return Piece({"taus": np.full((2, len(indices)), np.nan)}, {"note": error.problem})
    taus = [
        [
            rank_correlation(change(rows[index]), change(each.row()), trial.encodings[index])
            for index, each in zip(indices, explained, strict=True)
        ]
        for change in (np.asarray, np.abs)
    ]
    return Piece({"taus": np.array(taus)}, {"note": ""})


@contextmanager
def redrawn(model: LayeredModel, stage: Stage, seed: int) -> Iterator[None]:
    """The model with the weights of a stage drawn anew; afterwards, also after an error, as it was.

    Trained probes, which refuse any model but their own, are asked about it all the same.
    """
    chosen = _parameters(model, stage)
    before = {name: parameter.detach().clone() for name, parameter in chosen.items()}
    try:
        with torch.no_grad():
            for name, parameter in chosen.items():
                values = parameter.float().cpu()
                if values.numel() < 2 or float(values.std()) == 0:
                    continue
                generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
                drawn = values.mean() + values.std() * torch.randn(values.shape, generator=generator)
                parameter.copy_(drawn.to(parameter))
        with changed_on_purpose(model.module):
            yield
    finally:
        with torch.no_grad():
            for name, parameter in chosen.items():
                parameter.copy_(before[name])


def _parameters(model: LayeredModel, stage: Stage) -> dict[str, nn.Parameter]:
    """The weights of a stage by name; those outside blocks and embeddings are the head's."""
    of_blocks = [{id(weight) for weight in block.parameters()} for block in model.stack.blocks]
    blocks = set().union(*of_blocks) if of_blocks else set()
    embeddings = {id(weight) for weight in model.stack.embedding.parameters()}
    chosen = set().union(*of_blocks[len(of_blocks) - stage.n_blocks :]) if stage.n_blocks else set()
    found = {}
    for name, weight in model.module.named_parameters():
        below = id(weight) in embeddings or ("embed" in name and id(weight) not in blocks)
        head = not below and id(weight) not in blocks
        if head or id(weight) in chosen or (below and stage.embeddings):
            found[name] = weight
    return found
