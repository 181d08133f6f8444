"""A training step of DiffMask beside one done the released way, and an explanation beside a bare forward pass.

    python benchmarks/diffmask.py --out benchmarks/results/diffmask-cpu.json
    python benchmarks/diffmask.py --device cuda --out benchmarks/results/diffmask-gpu.json
    python benchmarks/diffmask.py --model FOLDER --device cuda --out benchmarks/results/diffmask-mpnet.json

The released code trains one layer a step and runs, for each of its two optimisers, the model on the unmasked texts and
then once more from the bottom with a state replaced: four forward passes per step and one backward pass (in the
multipliers' half nothing but they has a gradient). whence trains every layer in a step: one pass over the unmasked
texts serves all of them, then one masked pass per layer, from that layer up, serves both players. What is compared is
the time to train one layer once, with the same probes, optimisers, batch and layers, turn by turn. On a GPU the
memory that each way takes at its peak is told too, and what 1,000 steps of ours come to. Another model than the
embedded one is explained by probes that learnt for two steps: they cost what any do.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch

import whence
from whence.embedded import reviews
from whence.explanation import Layer
from whence.learned.diffmask import DiffMask
from whence.learned.diffmask.learner import DiffMaskLearner
from whence.learned.diffmask.lookahead import Lookahead
from whence.learned.diffmask.objective import mixed, penalty
from whence.learned.diffmask.recipes import recipe_for
from whence.learned.schedule import Pace
from whence.learned.texts import Texts
from whence.learned.training import Training, precision
from whence.models.batching import batches, usual_batch_tokens
from whence.models.inputs import Inputs
from whence.probes.diffmask import Kind, Probes


class ReleasedStep:
    """A step as the released code does it: everything twice, each time the whole model."""

    def __init__(self, run: DiffMaskLearner) -> None:
        self.run = run
        recipe = run.recipe
        groups = [
            {"params": list(run.probe.of_layer.parameters()), "lr": recipe.learning_rate},
            {"params": list(run.probe.baselines.parameters()), "lr": recipe.baseline_learning_rate},
        ]
        self.gates = Lookahead(torch.optim.RMSprop(groups, centered=True))
        self.multipliers = [torch.nn.Parameter(torch.ones((), device=run.model.device)) for _ in run.probe.layers]
        self.constraint = Lookahead(torch.optim.RMSprop(self.multipliers, lr=recipe.multiplier_learning_rate))

    def __call__(self, inputs: Inputs, layers: tuple[int, int]) -> None:
        with torch.enable_grad():
            moved, cost = self.masked(inputs, layers[0])
            (self.multipliers[layers[0]].detach() * (moved - self.run.recipe.margin) + cost).mean().backward()
        self.gates.step()
        self.gates.optimiser.zero_grad()
        moved, cost = self.masked(inputs, layers[1])
        with torch.enable_grad():
            (-self.multipliers[layers[1]] * (moved - self.run.recipe.margin) - cost).mean().backward()
        self.constraint.step()
        self.constraint.optimiser.zero_grad()
        with torch.no_grad():
            self.multipliers[layers[1]].clamp_(0, 200)

    def masked(self, inputs: Inputs, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        model, probes = self.run.model, self.run.probe
        layer = probes.layers[index]
        states = model.states(inputs)
        known: dict[Layer, torch.Tensor] = {each: states.at(each) for each in probes.layers}
        gates = probes.gates(probes.needed(layer), known)
        kept = torch.stack([gate.rsample() for gate in gates]).prod(dim=0)
        where = probes.masked_layer(layer)
        hidden = mixed(states.at(where), kept, probes.baseline(layer), inputs.mask)
        changed = model.changed(where, lambda own: hidden, inputs)  # from the bottom, whatever the layer
        log_keep = torch.stack([gate.log_nonzero for gate in gates]).sum(dim=0)
        moved = model.reading.divergence(states.logits, changed, inputs.mask)
        return moved, penalty(self.run.recipe.penalty, log_keep, inputs.mask)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a classifier's folder; by default the embedded model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="each over every layer once")
    parser.add_argument("--sentences", type=int, default=200, help="to be explained")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model = whence.load(args.model or "sentiment")
    model.module.to(args.device)
    report = {
        "model": args.model.name if args.model else "embedded",
        "hardware": torch.cuda.get_device_name()
        if args.device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {name: version(name) for name in ("whence", "torch", "transformers")},
        "settings": {"batch_size": args.batch_size, "rounds": args.rounds, "repeats": args.repeats},
        "steps": [step_times(model, kind, args.batch_size, args.rounds) for kind in ("input", "hidden")],
        "explanations": [
            explanation_times(model, probes_of(model, kind, args.model is None), args.sentences, args.repeats)
            for kind in ("input", "hidden")
        ],
    }
    print(json.dumps(report, indent=1))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


def step_times(model: whence.LayeredModel, kind: Kind, batch_size: int, rounds: int) -> dict:
    """Seconds to train a layer once, mean over the layers and median over the rounds, both ways in turn."""
    texts = [review["text"] for review in reviews()]
    encodings = [model.encode(texts[index % len(texts)]) for index in range(batch_size)]
    widths = {layer: model.states(model.collate(encodings[:1])).at(layer).shape[-1] for layer in _layers(model)}
    recipe = recipe_for("released", kind).changed(batch_size=batch_size, every_layer=True)
    probes = Probes(kind, recipe.probe, widths, 64).to(model.device)
    learner = DiffMaskLearner(model, probes, recipe, usual_batch_tokens(model))
    pace = Pace(recipe.steps, batch_size, recipe.warm_up, recipe.cool_down, validations=1, patience=None)
    run = Training(model, learner, Texts(encodings, encodings), pace, usual_batch_tokens(model))
    released = ReleasedStep(learner)
    inputs = model.collate(encodings)
    n_layers = len(probes.layers)
    ours, theirs = [], []
    peaks = {"whence": 0, "released": 0}
    with model.held(), torch.no_grad(), precision(model):
        run.begin()
        for round_number in range(rounds + 1):
            with peak_of(model, peaks, "whence"):
                mine = timed(model, run.train_step)
            turns = [(index, (index + round_number) % n_layers) for index in range(n_layers)]
            with peak_of(model, peaks, "released"):
                peers = sum(timed(model, partial(released, inputs, layers)) for layers in turns)
            if round_number:  # the first round is to warm up
                ours.append(mine / n_layers)
                theirs.append(peers / n_layers)
    return {
        "kind": kind, "whence_seconds": statistics.median(ours), "released_seconds": statistics.median(theirs),
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "by_round": [their / our for their, our in zip(theirs, ours, strict=True)],
        "whence_seconds_per_1000_steps": 1_000 * n_layers * statistics.median(ours),
        "peak_megabytes": peaks,
    }  # fmt: skip


@contextmanager
def peak_of(model: whence.LayeredModel, peaks: dict[str, int], name: str) -> Iterator[None]:
    """The most memory that a GPU held meanwhile, the model's own included; of a CPU 0."""
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    yield
    if model.device.type == "cuda":
        peaks[name] = max(peaks[name], torch.cuda.max_memory_allocated() >> 20)


def probes_of(model: whence.LayeredModel, kind: Kind, embedded: bool) -> DiffMask:
    if embedded:
        return DiffMask.embedded("sentiment", kind)
    texts = [review["text"] for review in reviews()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", whence.WhenceWarning)  # nothing is learnt in two steps
        return DiffMask(kind, steps=2, batch_size=8).fit(model, texts, progress=False, patience=None, validations=1)


def explanation_times(model: whence.LayeredModel, probes: DiffMask, n_sentences: int, repeats: int) -> dict:
    """Seconds of a forward pass with the probes, and of the model's own forward pass, on the same batches."""
    texts = [review["text"] for review in reviews()]
    encodings = [model.encode(texts[index % len(texts)]) for index in range(n_sentences)]
    grouped = [
        model.collate([encodings[index] for index in batch])
        for batch in batches(model, encodings, usual_batch_tokens(model))
    ]
    layers = _layers(model)

    def explain() -> None:
        for inputs in grouped:
            probes.keep_probabilities(model, inputs, model.states(inputs), layers)

    def bare() -> None:
        for inputs in grouped:
            model.run(inputs)

    with model.held(), torch.no_grad():
        seconds = [(timed(model, explain), timed(model, bare)) for _ in range(repeats + 1)][1:]
    ours, theirs = (statistics.median(column) for column in zip(*seconds, strict=True))
    return {
        "kind": probes.kind, "sentences": n_sentences, "tokens": sum(map(len, encodings)), "batches": len(grouped),
        "whence_seconds": ours, "bare_seconds": theirs, "ratio": ours / theirs,
    }  # fmt: skip


def timed(model: whence.LayeredModel, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def _layers(model: whence.LayeredModel) -> tuple[Layer, ...]:
    return ("embeddings", *range(model.n_layers + 1))


if __name__ == "__main__":
    main()
