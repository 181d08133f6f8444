"""Table 1 and Figures 3 and 12 of the DiffMask paper: who finds the digits that the counting model needs?

    python experiments/diffmask/toy.py --jobs 2

Every seed draws its own data and trains its own model and probes. A method's scores of the states in the two-neuron
layer are divided by their sum and held against the truth: an equal share for each digit that is asked about. Writes
results/toy.json and, for the first seed, the figures in docs/figures/diffmask/.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import toy_figures
from torch import Tensor
from toy_task import N_HELD_OUT, N_TEXTS, Example, make_examples, split, train

import whence
from whence.learned.diffmask.erasure import smallest_kept_sets
from whence.methods.state_statistics import StateStatistics
from whence.metrics.divergences import jensen_shannon, kullback_leibler

HERE = Path(__file__).parent
FIGURES = HERE.parents[1] / "docs" / "figures" / "diffmask"
TWO_NEURONS = 1  # the layer
DESCENT_STEPS = 500  # of the methods that search by gradient descent

PAPER = {  # KL and JS against the truth; None stands for infinity
    "erasure, one-hot": (None, 0.26), "integrated gradients": (0.48, 0.14), "information bottleneck": (1.21, 0.19),
    "noise tolerance": (0.78, 0.22), "DiffMask, hidden": (0.00, 0.00),
}  # fmt: skip
NOTEBOOK = {  # the authors' second run
    "erasure, one-hot": (None, 0.2664), "integrated gradients, extra alpha": (1.3551, 0.2703),
    "information bottleneck": (1.1589, 0.1892), "noise tolerance": (0.8610, 0.2320),
    "DiffMask, hidden": (0.0372, 0.0128),
}  # fmt: skip

PROBES: dict[str, Any] = {  # settings other than those of the usual recipe
    "probe": "released", "penalty": "count", "margin": 0.05, "first_margin": 1.0, "relative": False,
    "learning_rate": 3e-3, "baseline_learning_rate": 3e-4, "multiplier": 3.0, "multiplier_learning_rate": 0.02,
    "steps": 6_000, "batch_size": 128, "every_layer": False,
}  # fmt: skip

Scores = list[np.ndarray]
"""Of each text, a number for each digit."""


@dataclass(frozen=True)
class Trained:
    """One seed's model, with what was learnt for it."""

    model: whence.LayeredModel
    usual: StateStatistics
    hidden: whence.DiffMask
    inputs: whence.DiffMask


def one_hot_erasure(held_out: Sequence[Example]) -> Scores:
    """Not searched but written down, as the paper's table has it: the first digit that speaks for the answer."""
    scores = []
    for example in held_out:
        wanted = example.query[0] if example.label else example.query[1]
        scores.append((np.arange(len(example.digits)) == example.digits.index(wanted)).astype(float))
    return scores


def searched_erasure(trained: Trained, texts: Sequence[str]) -> Scores:
    """The share of the smallest sufficient sets that keep the digit; the mean state stands for what is dropped."""
    mean = trained.usual.moments_[TWO_NEURONS].pooled().mean[0].float()
    found = smallest_kept_sets(trained.model, texts, layer=TWO_NEURONS, baseline=mean)
    return [each.shares() for each in found]


def with_extra_alpha(question: whence.Question, *, steps: int = 100) -> whence.Scores:
    """The released code's integrated gradients: each gradient on the path is multiplied by its position on the path."""
    values = []
    for layer in question.layers:
        h = question.states.at(layer).detach()
        rows = torch.arange(len(h)).repeat_interleave(steps)
        alphas = torch.linspace(0, 1, steps).repeat(len(h))

        def scaled(chunk: slice, h: Tensor = h, rows: Tensor = rows, alphas: Tensor = alphas) -> Tensor:
            return alphas[chunk, None, None] * h[rows[chunk]]

        total = torch.zeros_like(h)
        for chunk, gradients in question.gradients(layer, rows, scaled):
            total.index_add_(0, rows[chunk], gradients * alphas[chunk, None, None] / steps)
        values.append((h * total).sum(dim=-1))
    return whence.Scores(torch.stack(values, dim=1))


EXTRA_ALPHA = whence.Method(
    with_extra_alpha,
    whence.Meaning("integrated gradients", "half a share, on a linear model", signed=True, additive=False),
    needs="gradients",
    cost="steps x (1 forward, 1 backward) a layer",
)


def methods(trained: Trained, layer: whence.Layer) -> dict[str, Callable[[Sequence[str]], Scores]]:
    """Every method of the table that is run, with the published settings; sizes of scores are compared."""

    def by(method: str | whence.Method, **settings: Any) -> Callable[[Sequence[str]], Scores]:
        def scores(texts: Sequence[str]) -> Scores:
            found = whence.explain(trained.model, texts, method, layers=layer, **settings)
            return [np.abs(explanation.row(layer).astype(float)) for explanation in found]

        return scores

    return {
        "integrated gradients": by("integrated_gradients", target=1, steps=50, baseline="zero"),
        "integrated gradients, extra alpha": by(EXTRA_ALPHA, target=1),
        "information bottleneck": by("information_bottleneck", steps=DESCENT_STEPS, beta=10, statistics=trained.usual),
        "noise tolerance": by("noise_tolerance", steps=DESCENT_STEPS, weight=1e-3, score="inverse"),
        "DiffMask, input": by("diffmask", probes=trained.inputs),
        "DiffMask, hidden": by("diffmask", probes=trained.hidden),
    }


def against_the_truth(scores: Scores, examples: Sequence[Example]) -> dict[str, Any]:
    """Mean KL(truth || scores) and JS over texts; scores that are all zero say nothing and count as equal shares."""
    divergences = []
    for row, example in zip(scores, examples, strict=True):
        row = row if row.any() else np.ones_like(row)
        truth, found = (torch.from_numpy(each / each.sum()) for each in (example.relevant.astype(float), row))
        divergences.append((float(kullback_leibler(truth, found)), float(jensen_shannon(truth, found))))
    kl, js = np.array(divergences).T
    return {
        "kl": float(kl.mean()),
        "js": float(js.mean()),
        "kl_sd_over_texts": float(kl.std()) if np.isfinite(kl).all() else float("inf"),
        "js_sd_over_texts": float(js.std()),
        "silent": float(np.mean([not row.any() for row in scores])),
    }


def run(seed: int, n_texts: int, n_held_out: int, epochs: int, probes: Mapping[str, Any]) -> dict[str, Any]:
    """Everything for one seed: its rows of the table and, for the figures, one example and all states."""
    torch.set_num_threads(1)
    seconds = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        seconds[name], started = time.perf_counter() - started, time.perf_counter()

    training, held_out = split(make_examples(seed, n_texts), seed, n_held_out)
    model, accuracy, epoch = train(training, held_out, seed, epochs=epochs)
    lap("model")
    texts = [example.text for example in training]
    usual = StateStatistics(["embeddings", TWO_NEURONS], by_position=True).fit(model, texts)
    fitted = []
    for kind in ("hidden", "input"):
        unseen = [example.text for example in held_out]
        found = whence.DiffMask(kind, **probes).fit(model, texts, held_out=unseen, seed=seed, patience=None)
        fitted.append(found)
        lap(f"DiffMask, {kind}: fit")
    trained = Trained(model, usual, *fitted)
    examples = [example for example in held_out if example.relevant.any()]
    texts = [example.text for example in examples]
    rows = {"erasure, one-hot": against_the_truth(one_hot_erasure(examples), examples)}
    rows["erasure, searched"] = against_the_truth(searched_erasure(trained, texts), examples)
    lap("erasure, searched")
    for name, scores in methods(trained, TWO_NEURONS).items():
        rows[name] = against_the_truth(scores(texts), examples)
        lap(name)
    validation = [result.to_dict() for result in (fitted[0].fitted_.results if fitted[0].fitted_ else ())]
    shown = next((each for each in examples if _worth_showing(each)), examples[0])
    return {
        "seed": seed,
        "accuracy": accuracy,
        "epochs": epoch,
        "n_compared": len(examples),
        "rows": rows,
        "hidden_probes": validation,
        "seconds": seconds,
        "figure_3": figure_3(trained, shown),
        "figure_12": toy_figures.clusters(model, held_out, TWO_NEURONS),
    }


def _worth_showing(example: Example) -> bool:
    """As in the paper: the answer is yes, six digits, both that are asked about among them."""
    return bool(example.label) and len(example.digits) == 6 and set(example.query) <= set(example.digits)


def figure_3(trained: Trained, example: Example) -> dict[str, Any]:
    """Every method's shares of one text's digits at the input, and what DiffMask says of the two neurons."""
    text, input_layer, upper = [example.text], methods(trained, "embeddings"), methods(trained, TWO_NEURONS)
    panels = {
        "erasure": one_hot_erasure([example])[0],
        "information bottleneck": input_layer["information bottleneck"](text)[0],
        "integrated gradients": input_layer["integrated gradients"](text)[0],
        "noise tolerance": input_layer["noise tolerance"](text)[0],
        "DiffMask, inputs, from the inputs": input_layer["DiffMask, input"](text)[0],
        "DiffMask, inputs, from the two neurons": upper["DiffMask, input"](text)[0],
        "DiffMask, states of the two neurons": upper["DiffMask, hidden"](text)[0],
    }
    shares = {name: (row / row.sum()).round(6).tolist() for name, row in panels.items()}
    return {"query": list(example.query), "digits": list(example.digits), "shares": shares}


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, beside the paper's and the notebook's numbers."""
    rows = {}
    for name in runs[0]["rows"]:
        each = [found["rows"][name] for found in runs]
        row: dict[str, Any] = {"paper": PAPER.get(name), "notebook": NOTEBOOK.get(name)}
        for metric in ("kl", "js"):
            values = np.array([found[metric] for found in each])
            finite = bool(np.isfinite(values).all())
            row[metric] = float(values.mean()) if finite else None
            row[f"{metric}_sd_over_seeds"] = float(values.std(ddof=1)) if finite and len(values) > 1 else None
            over_texts = float(np.mean([found[f"{metric}_sd_over_texts"] for found in each]))
            row[f"{metric}_sd_over_texts"] = over_texts if np.isfinite(over_texts) else None
        row["silent"] = float(np.mean([found["silent"] for found in each]))
        rows[name] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="seeds at a time, one thread each")
    parser.add_argument("--texts", type=int, default=N_TEXTS)
    parser.add_argument("--held-out", type=int, default=N_HELD_OUT)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=PROBES["steps"], help="training steps of each set of probes")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "toy.json")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    options = parser.parse_args()
    started = time.perf_counter()
    settings = {**PROBES, "steps": options.steps}
    tasks = [(seed, options.texts, options.held_out, options.epochs, settings) for seed in options.seeds]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        runs = pool.starmap(run, tasks, chunksize=1)
    toy_figures.draw_clusters(runs[0]["figure_12"], options.figures / "toy-figure-12.png")
    report = {
        "about": "KL(truth || attribution) and JS in nats at the two-neuron layer, mean over held-out texts with at "
        "least one digit asked about, then over seeds; data, model and probes anew for each seed; null is infinite",
        "seeds": options.seeds,
        "n_texts": options.texts,
        "n_held_out": options.held_out,
        "table": summary(runs),
        "probes": settings,
        "runs": [{key: value for key, value in found.items() if not key.startswith("figure")} for found in runs],
        "figure_3": runs[0]["figure_3"],
        "seconds": time.perf_counter() - started,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "jobs": options.jobs,
        },
        "versions": {name: version(name) for name in ("whence", "torch", "numpy")}
        | {"python": platform.python_version()},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(_finite(report), indent=1, allow_nan=False) + "\n")
    for name, row in report["table"].items():
        shown = ["    inf" if row[metric] is None else f"{row[metric]:7.4f}" for metric in ("kl", "js")]
        print(f"{name:36} KL {shown[0]}  JS {shown[1]}   paper {row['paper']}  notebook {row['notebook']}")
    print(f"{report['seconds']:.0f} s")


def _finite(value: Any) -> Any:
    """JSON knows no infinity: null takes its place."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


if __name__ == "__main__":
    main()
