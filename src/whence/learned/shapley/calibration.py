"""How far learned Shapley values are off, from a long run of Shapley sampling on held-out texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.learned.schedule import generator
from whence.learned.shapley.asked import asked
from whence.learned.shapley.coalitions import coalitions
from whence.methods.shapley import permutations, sampled
from whence.models.batching import batches
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.probes.shapley import NINETY, ErrorScale, Familiar, ModelShares, log_sizes, mean_states
from whence.probes.token_game import earned

if TYPE_CHECKING:
    from jaxtyping import Float, Int

PAIRS = 16  # coalitions, and complements, on which values are judged beside the long run's
DIRECTIONS = 32  # of the mean states of texts, at most
LEAST_TEXTS, LEAST_ORDERS = 16, 4  # of a long run that is cut short to end in time
LEAST_ERROR = 0.1  # of a squared residual
UNUSUAL = 0.99  # the share of held-out texts that counts as like the training's


@dataclass(frozen=True)
class Checked:
    """One held-out text: learned values of its players, those of a long run with their standard errors, per target.

    `loss` and `floor` are the squared errors of both on the same coalitions; what the floor leaves is no matter of the
    values: a sum cannot tell more of the game.
    """

    learned: Float[np.ndarray, "target player"]
    long_run: Float[np.ndarray, "target player"]
    standard_errors: Float[np.ndarray, "target player"]
    loss: float
    floor: float


@dataclass(frozen=True)
class Calibration:
    """What a long run shows on held-out texts that had no part in setting the error: all of it goes into the card.

    `loss` is the squared error of coalitions, `floor` that of the long run's values, the least that any values can
    reach but for its own chance; `correlation` is with the long run, `coverage` how often the stated interval of nine
    in ten holds its value.
    """

    loss: float
    floor: float
    correlation: float
    coverage: float
    n_texts: int
    orders: int


@torch.no_grad()
def check(
    model: LayeredModel, shares: ModelShares, encodings: Sequence[Encoding], orders: int, seed: int, batch_tokens: int
) -> Iterator[Checked]:
    """A long run on each text, beside what the network says of it."""
    for batch in batches(model, encodings, batch_tokens):
        inputs = model.collate([encodings[index] for index in batch])
        states = model.states(inputs)
        none = torch.zeros(inputs.ids.shape, device=model.device)
        selection = asked(model, inputs, states.logits, shares.scale, none)
        everybody = selection.parts(states.logits, inputs.mask)
        told = shares.told(model, inputs, states, selection, everybody, batch_tokens)
        nobody, _ = shares.nobody.earned(model, inputs, selection, told.players, batch_tokens)
        for row, index in enumerate(batch):
            n = int(told.players.number[row])
            sets, solve = sampled(np.array(permutations(generator(seed, "orders", index), n, orders)))
            chance = torch.rand((1, PAIRS, n + 1), generator=generator(seed, "judged", index))
            judged = coalitions(torch.tensor([n]), chance)[0].numpy()
            one = inputs.rows(torch.tensor([row], device=model.device))
            present = torch.from_numpy(np.concatenate([sets, judged])).to(model.device)
            length = one.ids.shape[1]
            tokens = present[:, told.players.of_token[row, :length].clamp(min=0)] | ~told.players.free[row, :length]
            own = selection.rows(torch.tensor([row], device=model.device))
            values = earned(model, one, own, tokens[None], batch_tokens)[0].double().cpu().numpy()
            long_run, errors = (found.T for found in solve(values[: len(sets)]))
            learned = told.players.sums(told.shapley)[row, :, :n].double().cpu().numpy()
            rest = values[len(sets) :] - nobody[row].double().cpu().numpy()
            yield Checked(
                learned,
                long_run,
                errors,
                *(float(np.square(judged @ each.T - rest).mean()) for each in (learned, long_run)),
            )


@torch.no_grad()
def affordable(
    model: LayeredModel, shares: ModelShares, encodings: Sequence[Encoding], orders: int, batch_tokens: int,
    seconds: float,
) -> tuple[list[Encoding], int]:  # fmt: skip
    """The first of the texts, and as many orders, as a long run can have in this time.

    A run of few orders on a text of middling length tells what a token takes.
    """
    middling = sorted(encodings, key=len)[len(encodings) // 2]
    started = monotonic()
    list(check(model, shares, [middling], min(orders, LEAST_ORDERS), 0, batch_tokens))
    a_token = (monotonic() - started) / _tokens([len(middling)], min(orders, LEAST_ORDERS))
    n_texts, orders = within(list(map(len, encodings)), orders, seconds / a_token)
    return list(encodings[:n_texts]), orders


def within(lengths: Sequence[int], orders: int, tokens: float) -> tuple[int, int]:
    """How many of the texts and of the orders take so many tokens at most: halved in turn, but not below a least."""
    least_texts, least_orders = min(len(lengths), LEAST_TEXTS), min(orders, LEAST_ORDERS)
    n_texts = len(lengths)
    while _tokens(lengths[:n_texts], orders) > tokens and (n_texts, orders) != (least_texts, least_orders):
        if orders * least_texts > n_texts * least_orders:
            orders = max(least_orders, orders // 2)
        else:
            n_texts = max(least_texts, n_texts // 2)
    return n_texts, orders


def _tokens(lengths: Sequence[int], orders: int) -> float:
    """What a long run reads: for every order a coalition of each size, and those on which values are judged."""
    return float(sum((orders * length + 2 * PAIRS) * length for length in lengths))


def error_scale(checked: Sequence[Checked]) -> ErrorScale:
    """The error that the texts' residuals foretell, made so wide that nine of ten lie inside.

    How wide that is, is read off what the other texts foretell of each: of few texts, its own residuals foretell too
    well. The long run's own chance makes a residual larger, and the interval in which `calibrated` looks for it wider:
    each needs what is left of it then, but never less than a share of itself, lest a short long run be all the error.
    """
    off = [np.abs(text.learned - text.long_run).ravel() for text in checked]
    chance = [NINETY * text.standard_errors.ravel() for text in checked]
    left = [
        np.sqrt(np.maximum(np.square(r) - np.square(c), LEAST_ERROR * np.square(r)))
        for r, c in zip(off, chance, strict=True)
    ]
    features = [_error_features(text) for text in checked]
    products = np.stack([each.T @ each for each in features])
    sums = np.stack([x.T @ np.log(each + 1e-6) for x, each in zip(features, off, strict=True)])
    weights = np.linalg.pinv(products.sum(axis=0)) @ sums.sum(axis=0)
    needed = []
    for text, (x, each) in enumerate(zip(features, left, strict=True)):
        others = np.arange(len(checked)) != text if len(checked) > 1 else [True]
        by_others = np.linalg.pinv(products[others].sum(axis=0)) @ sums[others].sum(axis=0)
        needed.append(each / np.exp(x @ by_others))
    constant, own_size, mean_size, players = weights.tolist()
    return ErrorScale(constant, own_size, mean_size, players, float(np.quantile(np.concatenate(needed), 0.9)))


def _error_features(text: Checked) -> Float[np.ndarray, "place 4"]:
    """What the error of each value is foretold from, and a constant: see `ErrorScale`."""
    values = torch.from_numpy(text.learned)
    own, mean, number = log_sizes(values, _all_of(values))
    columns = [torch.ones_like(own), own, mean.expand_as(own), number.expand_as(own)]
    found: Float[np.ndarray, "place 4"] = torch.stack(columns, dim=-1).flatten(0, 1).numpy()
    return found


def _all_of(values: Float[Tensor, "target player"]) -> Int[Tensor, " target"]:
    """As many players as there are values."""
    return torch.full(values.shape[:1], values.shape[1])


def calibrated(checked: Sequence[Checked], errors: ErrorScale, orders: int) -> Calibration:
    inside, learned, long_run = [], [], []
    for text in checked:
        values = torch.from_numpy(text.learned).float()
        foretold = errors.of(values, _all_of(values)).double().numpy()
        width = NINETY * np.sqrt(np.square(foretold) + np.square(text.standard_errors))
        inside.append((np.abs(text.learned - text.long_run) <= width).ravel())
        learned.append(text.learned[0])
        long_run.append(text.long_run[0])
    return Calibration(
        loss=float(np.mean([text.loss for text in checked])),
        floor=float(np.mean([text.floor for text in checked])),
        correlation=_mean_correlation(learned, long_run),
        coverage=float(np.concatenate(inside).mean()),
        n_texts=len(checked),
        orders=orders,
    )


def _mean_correlation(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    """Over texts, of the values of the class that the model says."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if len(a) > 2 and a.std() > 0 and b.std() > 0]
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs])) if pairs else float("nan")


@torch.no_grad()
def familiar(
    model: LayeredModel, training: Sequence[Encoding], held_out: Sequence[Encoding], batch_tokens: int
) -> Familiar:
    """Where texts of the training lie, and how far out held-out ones go."""
    seen, unseen = (_means(model, texts, batch_tokens) for texts in (training, held_out))
    centre = seen.mean(dim=0)
    n_directions = min(DIRECTIONS, max(1, min(seen.shape) - 1))
    _, values, directions = torch.linalg.svd(seen - centre, full_matrices=False)
    directions, values = directions[:n_directions].T.contiguous(), values[:n_directions]
    scales = (values / max(1, len(seen) - 1) ** 0.5).clamp(min=1e-6)
    away = seen - centre
    rest = (away.square().sum(dim=-1) - (away @ directions).square().sum(dim=-1)).mean()
    longest = max(len(encoding) for encoding in training)
    found = Familiar(centre.cpu(), directions.cpu(), scales.cpu(), max(float(rest), 1e-9), 0.0, longest)
    farthest = float(np.quantile(found.distance(unseen.cpu().numpy()), UNUSUAL))
    return Familiar(found.centre, found.directions, found.scales, found.beyond, farthest, longest)


def _means(model: LayeredModel, encodings: Sequence[Encoding], batch_tokens: int) -> Float[Tensor, "text features"]:
    found: list[Tensor] = []
    for batch in batches(model, encodings, batch_tokens):
        inputs = model.collate([encodings[index] for index in batch])
        found.append(mean_states(model.states(inputs).hidden[-1], inputs))
    return torch.cat(found)
