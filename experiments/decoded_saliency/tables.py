"""Plays the hiding and the revealing game with every contestant: Tables 1 and 2, Figures 2, 3, 5 and 6, the controls.

python experiments/decoded_saliency/tables.py --data-dir DIR [--sets sst2 ag_news] [--sample N] [--device cuda]
    [--jobs N]

Reads sst2.parquet and ag_news.parquet in DIR; writes SET-games.json into --out. Scores are kept in --cache, what became
of the games beside it, so that a second run, and overlap.py, need not compute them again. Processes share the texts.

With --model FOLDER (and --head FOLDER, where a masked language model of the same vocabulary is) one set is played on
another model: --sets sst2 --model WORK/mpnet-sst2-0 --head WORK/mpnet-head --out FOLDER.

Where texts are many, --groups names the groups of contestants that play, and --no-ablations leaves out the games with
shares cut off, with orders by absolute value and with ties at random; --random-orders are those of chance. A run that
was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contestants import CONTESTANTS, GROUPS, RANDOM_ORDERS, label
from safetensors import safe_open
from safetensors.numpy import save_file
from scores import Scored, Task, load_task, scores_of, surroundings, write

from whence.engine.asking import Contestant
from whence.engine.play import play
from whence.engine.result import GameResult
from whence.metrics.curves import GAMES, GRID, Game
from whence.models.head import head_of

HERE = Path(__file__).parent
TIE_BREAKS = 10
SIGNED = ("package", "sane")  # groups whose order by absolute value is an ablation

arguments = argparse.ArgumentParser(description="The games of decoded saliency.")
arguments.add_argument("--data-dir", type=Path, required=True)
arguments.add_argument("--out", type=Path, default=HERE / "results")
arguments.add_argument("--cache", type=Path, default=Path("build/decoded_saliency"))
arguments.add_argument("--sets", nargs="+", default=["sst2", "ag_news"], choices=["sst2", "ag_news"])
arguments.add_argument("--sample", type=int, help="texts of each set, drawn by the seed; by default all")
arguments.add_argument("--only", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS), metavar="NAME")
arguments.add_argument("--groups", nargs="+", default=list(GROUPS), choices=GROUPS, help="those of them that play")
arguments.add_argument("--no-ablations", action="store_true", help="of rounding, order and ties")
arguments.add_argument("--random-orders", type=int, default=RANDOM_ORDERS, help="of each text, whose mean is chance")
arguments.add_argument("--device", default="cpu")
arguments.add_argument("--batch-tokens", type=int)
arguments.add_argument("--seed", type=int, default=0)
arguments.add_argument("--jobs", type=int, default=1, help="processes")
arguments.add_argument("--model", type=Path, help="folder of the one set's model; by default the embedded ones")
arguments.add_argument("--head", type=Path, help="folder of the language model whose head decodes it")

Found = dict[str, dict[Game, GameResult]]
"""What became of each contestant in each game."""


def main(given: argparse.Namespace) -> None:
    if given.model and len(given.sets) > 1:
        raise SystemExit("--model is for one set: name it with --sets")
    with processes(given.jobs) as share_out:
        for name in given.sets:
            started = time.perf_counter()
            task = task_of(given, name)
            tell(f"{name}: {len(task.texts)} texts, accuracy {task.accuracy:.4f}")
            parts = list(share_out(partial(play_part, given, name), range(len(task.parts()))))
            scored = {each: scores_of(task, each, CONTESTANTS[each], given.cache) for each in players(given)}
            results = told(task, scored, joined(parts), given)
            results |= surroundings(given.device) | {
                "seed": given.seed, "jobs": given.jobs, "batch_tokens": given.batch_tokens,
                "seconds": time.perf_counter() - started,
            }  # fmt: skip
            write(results, given.out / f"{name}-games.json")
            tell(f"{name}: done after {results['seconds']:.0f} s")


def task_of(given: argparse.Namespace, name: str, starts: tuple[str, ...] | None = None) -> Task:
    return load_task(
        name, given.data_dir, sample=given.sample, seed=given.seed, device=given.device,
        batch_tokens=given.batch_tokens, starts=starts, folder=given.model, head=given.head,
    )  # fmt: skip


def players(given: argparse.Namespace) -> list[str]:
    """The contestants that take part, by name."""
    return [name for name in given.only if CONTESTANTS[name].group in given.groups]


@contextmanager
def processes(jobs: int) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """`map`, by so many processes."""
    if jobs == 1:
        yield map
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield pool.map


@dataclass(frozen=True)
class Played:
    """Both games with everyone, and with some of them once more, shares cut off instead of rounded."""

    rounded: Found
    floored: Found
    seconds: float


def play_part(given: argparse.Namespace, name: str, number: int) -> Played:
    """One part of the texts: scores, then the games."""
    whole = task_of(given, name).parts()
    task = whole[number]
    scored = {}
    for each in players(given):
        scored[each] = scores_of(task, each, CONTESTANTS[each], given.cache)
        tell(f"{name} {number + 1}/{len(whole)}: {each}: {scored[each].cost['seconds']:.1f} s")
    entrants, about = entrants_of(task, scored, given)
    some = ("decoded", "package", "random")
    plain = {each: entrants[each] for each, facts in about.items() if facts["group"] in some or each == "Grad-CAM l0"}
    settings: dict[str, Any] = {"seed": task.seed, "batch_tokens": task.batch_tokens, "grid": GRID}
    of = [task.texts, task.seed, task.weights, list(entrants), given.no_ablations, given.random_orders]
    told = hashlib.sha256(repr(of).encode()).hexdigest()[:12]
    kept = given.cache.with_name(f"{given.cache.name}-games") / f"{name}-{told}.safetensors"
    if kept.exists():
        return read_played(kept)
    started = time.perf_counter()
    rounded = play(task.model, task.texts, entrants, task.gold, **settings)
    floored: Found = {}
    if not given.no_ablations:
        floored = play(task.model, task.texts, plain, task.gold, rounding="floor", **settings)
    seconds = time.perf_counter() - started
    tell(f"{name} {number + 1}/{len(whole)}: {len(entrants)} contestants played in {seconds:.0f} s")
    write_played(Played(rounded, floored, seconds), kept)
    return read_played(kept)  # whether played now or before, to the last digit


def write_played(played: Played, path: Path) -> None:
    """The outcomes as tensors, all else in the header."""
    outcomes: dict[str, np.ndarray] = {}
    about: dict[str, Any] = {"seconds": played.seconds, "results": []}
    for rounding, found in (("rounded", played.rounded), ("floored", played.floored)):
        for name, games in found.items():
            for game, result in games.items():
                number = len(about["results"])
                rest = {each.name: getattr(result, each.name) for each in fields(result) if each.name != "outcomes"}
                about["results"].append([rounding, name, game, {**rest, "settings": dict(result.settings)}])
                for measure, rows in result.outcomes.items():
                    outcomes[f"{number} {measure}"] = np.ascontiguousarray(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    save_file(outcomes, unfinished, metadata={"about": json.dumps(about)})
    unfinished.replace(path)


def read_played(path: Path) -> Played:
    """What `write_played` wrote."""
    found: dict[str, Found] = {"rounded": {}, "floored": {}}
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["about"])
        outcomes: dict[str, dict[str, np.ndarray]] = {}
        for key in file.keys():  # noqa: SIM118
            number, measure = key.split(" ", 1)
            outcomes.setdefault(number, {})[measure] = file.get_tensor(key)
    for number, (rounding, name, game, rest) in enumerate(about["results"]):
        result = GameResult(**{**rest, "grid": tuple(rest["grid"])}, outcomes=outcomes[str(number)])
        found[rounding].setdefault(name, {})[game] = result
    return Played(found["rounded"], found["floored"], about["seconds"])


def joined(parts: Sequence[Played]) -> Played:
    """The texts of all parts, one after the other."""
    return Played(
        _joined([part.rounded for part in parts]),
        _joined([part.floored for part in parts]),
        sum(part.seconds for part in parts),
    )


def _joined(parts: Sequence[Found]) -> Found:
    def in_one(results: Sequence[GameResult]) -> GameResult:
        outcomes = {
            measure: np.concatenate([each.outcomes[measure] for each in results]) for measure in results[0].outcomes
        }
        return replace(results[0], outcomes=outcomes, n_without_order=sum(each.n_without_order for each in results))

    return {
        name: {game: in_one([part[name][game] for part in parts]) for game in games} for name, games in parts[0].items()
    }


def told(task: Task, scored: dict[str, Scored], played: Played, given: argparse.Namespace) -> dict[str, Any]:
    """What follows from the outcomes of each text."""
    found = played.rounded
    _, about = entrants_of(task, scored, given)
    order = np.random.default_rng(task.seed).permutation(len(task.texts))
    choosing, reporting = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    names = list(task.model.reading.labels.names)  # type: ignore[attr-defined]
    return {
        "data": task.name,
        "model": task.model.record.id,
        "labels": names,
        "n_texts": len(task.texts),
        "n_choosing": len(choosing),
        "n_reporting": len(reporting),
        "n_tokens": sum(not token.special for said in task.said for token in said.tokens),
        "accuracy": task.accuracy,
        "gold_shares": {name: float(np.mean(np.array(task.gold) == i)) for i, name in enumerate(names)},
        "grid": list(GRID),
        "random_orders": given.random_orders,
        "tie_breaks": TIE_BREAKS,
        "settings": dict(next(iter(found.values()))["hiding"].settings),
        "games_seconds": played.seconds,
        "costs": {name: each.cost for name, each in scored.items()},
        "contestants": {
            name: about[name]
            | {game: summary(result, choosing, reporting, found["Random"][game]) for game, result in games.items()}
            for name, games in found.items()
        },
        "floor": {
            name: {game: interval(result) for game, result in games.items()} for name, games in played.floored.items()
        },
        "chosen": chosen(found, about, choosing),
        "differences": differences(found, about, choosing, reporting),
        "head": head_reads(task),
    }


def entrants_of(
    task: Task, scored: dict[str, Scored], given: argparse.Namespace
) -> tuple[dict[str, Contestant], dict[str, dict[str, Any]]]:
    """Who plays: each contestant at each of its layers, if wanted the ablations of order and ties, and chance."""
    ablations = not given.no_ablations
    entrants: dict[str, Contestant] = {}
    about: dict[str, dict[str, Any]] = {}
    for name, found in scored.items():
        group = CONTESTANTS[name].group
        for layer in found.layers:
            called = label(name, layer, len(found.layers))
            rows = found.rows[layer]
            entrants[called] = Contestant(rows)
            about[called] = {"group": group, "name": name, "layer": layer}
            if ablations and group in SIGNED and found.signed:
                entrants[f"{called}, absolute"] = Contestant(rows, by="absolute")
                about[f"{called}, absolute"] = {"group": "absolute", "name": name, "layer": layer}
            if ablations and group == "undecoded" and layer == 0:
                entrants[f"{called}, ties at random"] = Contestant(rows, tie_breaks=TIE_BREAKS)
                about[f"{called}, ties at random"] = {"group": "ties", "name": name, "layer": layer}
    nothing = [np.zeros(len(said.tokens)) for said in task.said]
    entrants["Random"] = Contestant(nothing, tie_breaks=given.random_orders)
    about["Random"] = {"group": "random", "name": "Random", "layer": None}
    return entrants, about


def part(result: GameResult, texts: np.ndarray) -> GameResult:
    return replace(result, outcomes={measure: rows[texts] for measure, rows in result.outcomes.items()})


def interval(result: GameResult) -> dict[str, float]:
    area = result.auc()
    return {"auc": area.mean, "low": area.low, "high": area.high}


def summary(result: GameResult, choosing: np.ndarray, reporting: np.ndarray, chance: GameResult) -> dict[str, Any]:
    curve, gain = result.curve(), result.minus(chance)
    return {
        **interval(result),
        "curve": list(curve.mean),
        "curve_low": list(curve.low),
        "curve_high": list(curve.high),
        "choosing": interval(part(result, choosing)),
        "reporting": interval(part(result, reporting)),
        "agreement": float(result.areas("agreement").mean()),
        "probability": float(result.areas("probability").mean()),
        "minus_random": {"mean": gain.mean, "low": gain.low, "high": gain.high, "p": gain.p_value},
        "without_order": result.n_without_order,
    }


def chosen(found: dict[str, Any], about: dict[str, Any], texts: np.ndarray) -> dict[str, str]:
    """For each family of layers, and for the rivals as a whole, the best on the texts set aside for choosing."""
    families: dict[str, list[str]] = {}
    for name, facts in about.items():
        if facts["group"] in ("decoded", "undecoded", "control") and isinstance(facts["layer"], int):
            families.setdefault(facts["name"], []).append(name)
        if facts["group"] in ("package", "sane"):
            families.setdefault(facts["group"], []).append(name)

    def gap(name: str) -> float:
        hidden, shown = (found[name][game].areas()[texts].mean() for game in GAMES)
        return float(shown - hidden)

    return {family: max(members, key=gap) for family, members in families.items()}


def differences(
    found: dict[str, Any], about: dict[str, Any], choosing: np.ndarray, reporting: np.ndarray
) -> list[dict[str, Any]]:
    """The chosen layer of decoded Grad-CAM, on the other half, against what says whether decoding earns it."""
    best = chosen(found, about, choosing)
    if "Decoded Grad-CAM" not in best:
        return []
    ours = best["Decoded Grad-CAM"]
    layer = about[ours]["layer"]
    rivals = {
        "the undecoded score at layer 0": "Grad-CAM l0",
        "the undecoded score at the same layer": f"Grad-CAM l{layer}",
        "the undecoded score at its own best layer": best.get("Grad-CAM", ""),
        "ones in place of the score, same layer": f"ones decoded l{layer}",
        "a head with shuffled vocabulary, same layer": f"shuffled head l{layer}",
        "scores shuffled among positions, same layer": f"shuffled positions l{layer}",
        "pooled Grad-CAM decoded, same layer": f"pooled Grad-CAM decoded l{layer}",
        "the best of the packages' explainers": best.get("package", ""),
        "the best explainer with the mask as reference": best.get("sane", ""),
        "random orders": "Random",
    }
    rows = []
    for what, rival in rivals.items():
        for game in GAMES if rival in found else ():
            one, other = part(found[ours][game], reporting), part(found[rival][game], reporting)
            facts = one.minus(other)
            rows.append(
                {
                    "ours": ours, "what": what, "rival": rival, "game": game, "mean": facts.mean, "low": facts.low,
                    "high": facts.high, "p": facts.p_value, "n": facts.n_texts,
                }
            )  # fmt: skip
    return rows


@torch.no_grad()
def head_reads(task: Task, n_texts: int = 300) -> dict[str, Any]:
    """What the head makes of each layer: the probability and rank it gives the token that stands at a position.

    Also whether the head's matrix is the model's own word embedding, so that "a head with the fine-tuned embeddings"
    would be the same head.
    """
    head = head_of(task.model)
    chances: list[list[float]] = [[] for _ in range(task.model.n_layers + 1)]
    ranks: list[list[int]] = [[] for _ in range(task.model.n_layers + 1)]
    for said in task.said[:n_texts]:
        inputs = task.model.collate([task.model.encode(said.text)])
        states = task.model.states(inputs)
        own = inputs.ids[0][~inputs.special[0]]
        for layer, hidden in enumerate(states.hidden):
            logits = head(hidden[0][~inputs.special[0]]).float()
            right = logits.gather(1, own[:, None])
            chances[layer] += (right - logits.logsumexp(dim=1, keepdim=True)).exp()[:, 0].tolist()
            ranks[layer] += (1 + (logits > right).sum(dim=1)).tolist()
    matrix = next((w for name, w in head.module.named_parameters() if name.endswith("decoder.weight")), None)
    return {
        "n_texts": min(n_texts, len(task.said)),
        "probability": [float(np.mean(each)) for each in chances],
        "median_rank": [float(np.median(each)) for each in ranks],
        "shares_the_word_embeddings": matrix is task.model.stack.embedding.weight,
    }


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(arguments.parse_args())
