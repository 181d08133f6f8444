"""Explanations from one pass beside the model's own passes, and beside methods that take hundreds, in one run.

    python benchmarks/one_pass.py --out benchmarks/results/one_pass-cpu.json
    python benchmarks/one_pass.py --device cuda --out benchmarks/results/one_pass-gpu.json

Two costs are told apart. *Passes*: from tokens in batches to scores, beside the model's own pass over the same batches:
a forward, or a forward and a backward for methods that take gradients. *The call*: from texts to explanations, all that
`whence.explain` does, beside the same pass with what a classifier needs around it: the texts tokenised in one call of
their tokenizer and grouped by length as whence does, and a label with its probability for each. Contestants take turns,
so that a machine that slows down slows all of them; medians count. Slow peers get few sentences. lxt needs another
transformers than whence: `relevance.py` puts it beside AttnLRP.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attribution import ORDERS, STEPS, Scores, captum_integrated_gradients, captum_shapley, timed, tokenizer_of

import whence
from whence.embedded import reviews
from whence.explanation import Layer
from whence.methods.names import method_named
from whence.methods.question import Method, Question
from whence.models.batching import batches, micro_batches, usual_batch_tokens
from whence.models.inputs import Inputs
from whence.selection import select

METHODS = ("random", "diffmask", "amortised_shapley", "one_pass", "gradient_x_input", "held_still", "attn_lrp")
ASKED = {"forward": 1.3, "forward and backward": 1.15}  # times the bare pass, at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sentiment", help="an embedded model, a folder or a hub id of a classifier")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="those that whence does not know are left out")
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--slow-sentences", type=int, default=20, help="how many a slow peer gets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true", help="only whence and the bare passes")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = {name: version(name) for name in ("torch", "transformers", "captum", "whence")}
    model = whence.load(options.model)
    model.module.to(options.device).eval()
    texts = (short := [review["text"] for review in reviews()]) * (options.sentences // len(short) + 1)
    texts = texts[: options.sentences]
    few = texts[:: max(1, len(texts) // options.slow_sentences)][: options.slow_sentences]
    methods, unknown = known(options.methods)
    found = measured(contestants(model, texts, methods), options.repeats)
    peers = {} if options.no_peers else slow_peers(model, few)
    report = {
        "rows": [row(name, method, found) for name, method in methods.items()],
        "bare": {name: each for name, each in found.items() if name.startswith("bare")},
        "json": found["as JSON"],
        "peers": [
            {"peer": name, "sentences": len(few), "seconds": each["seconds"], "peak_mb": each["peak_mb"]}
            for name, each in peers.items()
        ],
        "left_out": unknown,
        "model": model.record.id,
        "sentences": len(texts),
        "tokens": sum(len(encoding) for encoding in model.encode_each([(text, None) for text in texts])),
        "settings": {"steps": STEPS, "orders": ORDERS, "repeats": options.repeats, "asked": ASKED,
                     "batch_tokens": usual_batch_tokens(model)},
        "hardware": torch.cuda.get_device_name()
        if options.device != "cpu"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": versions,
    }  # fmt: skip
    show(report)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def known(names: Sequence[str]) -> tuple[dict[str, Method], dict[str, str]]:
    """The methods of these names, and those that there are none of, with the reason."""
    methods, unknown = {}, {}
    for name in names:
        try:
            methods[name] = method_named(name).method
        except whence.UnknownNameError:
            unknown[name] = "whence has no method of this name"
    return methods, unknown


def contestants(
    model: whence.LayeredModel, texts: list[str], methods: dict[str, Method]
) -> dict[str, Callable[[], object]]:
    """By name, what is timed: the bare passes and the methods, each from tokens and from texts."""
    grouped = batches_of(model, texts)
    explanations = whence.explain(model, texts, "random")
    runs: dict[str, Callable[[], object]] = {
        "bare forward": lambda: [forward(model, inputs.ids, inputs.mask) for inputs in grouped],
        "bare forward and backward": lambda: [backward(model, inputs.ids, inputs.mask) for inputs in grouped],
        "bare forward, from texts": lambda: classified(model, texts, forward),
        "bare forward and backward, from texts": lambda: classified(model, texts, backward),
        "as JSON": lambda: [json.dumps(explanation.to_dict()) for explanation in explanations],
    }
    for name, method in methods.items():
        layers = whence.explain(model, texts[0], name).layers
        runs[f"{name}, passes"] = partial(scores_of_all, model, grouped, method, layers)
        runs[f"{name}, call"] = partial(whence.explain, model, texts, name)
    return runs


def batches_of(model: whence.LayeredModel, texts: list[str]) -> list[Inputs]:
    encodings = model.encode_each([(text, None) for text in texts])
    grouped = batches(model, encodings, usual_batch_tokens(model))
    return [model.collate([encodings[index] for index in batch]) for batch in grouped]


def scores_of_all(
    model: whence.LayeredModel, grouped: list[Inputs], method: Method, layers: tuple[Layer, ...]
) -> list[torch.Tensor]:
    """What `whence.explain` does between tokens and records, in which scores are put into words, warnings and notes."""
    found = []
    with model.held(), torch.inference_mode(False):
        for inputs in grouped:
            with method.within(model.module) if method.within else nullcontext():
                states = model.states(inputs, differentiable=bool(method.differentiable))
            scale = method.scale or "probability"  # what the probes share out
            selection = select("predicted", scale, model.reading, states.logits, inputs.encodings)
            question = Question(model, inputs, states, selection, layers, 0, usual_batch_tokens(model))
            found.append(method.compute(question).values.cpu())
            question.check_finite()
    return found


def forward(model: whence.LayeredModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model.module(input_ids=ids, attention_mask=mask).logits
        return logits.cpu()


def backward(model: whence.LayeredModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """With the gradient of the predicted label's logit at the word embeddings."""
    words = model.stack.embedding(ids).detach().requires_grad_()
    with model.held():
        logits = model.module(inputs_embeds=words, attention_mask=mask).logits
        torch.autograd.grad(logits.amax(dim=-1).sum(), words)
    return logits.detach().cpu()


def classified(
    model: whence.LayeredModel, texts: list[str], run: Callable[..., torch.Tensor]
) -> list[tuple[str, float]]:
    """A label with its probability for each text, by transformers alone."""
    config: Any = model.module.config
    longest = model.tokenizer.longest  # type: ignore[attr-defined]
    ids = tokenizer_of(model)(texts, truncation=True, max_length=longest)["input_ids"]
    order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    found: dict[int, tuple[str, float]] = {}
    for batch in micro_batches(order, lambda index: len(ids[index]), usual_batch_tokens(model)):
        lengths = torch.tensor([len(ids[index]) for index in batch])
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids[index]) for index in batch], batch_first=True)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        best = run(model, padded.to(model.device), mask.to(model.device)).softmax(dim=-1).max(dim=-1)
        for index, label, chance in zip(batch, best.indices.tolist(), best.values.tolist(), strict=True):
            found[index] = (config.id2label[label], chance)
    return [found[index] for index in range(len(texts))]


def measured(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, Any]]:
    """Median seconds of each and the most memory, one of every contestant a round."""
    found: dict[str, list[Any]] = {name: [] for name in runs}
    for turn in range(repeats + 1):  # the first round warms up
        for name, run in runs.items():

            def once(run: Callable[[], object] = run) -> Scores:
                run()
                return []

            each = timed(once)
            if turn:
                found[name].append(each)
    return {
        name: {
            "seconds": statistics.median(each.seconds for each in several),
            "all_seconds": [each.seconds for each in several],
            "peak_mb": max(each.peak_mb for each in several),
        }
        for name, several in found.items()
    }


def slow_peers(model: whence.LayeredModel, few: list[str]) -> dict[str, dict[str, Any]]:
    """captum's best settings, and whence's own of the same."""
    mask: dict[str, Any] = {"layers": "embeddings", "baseline": model.tokenizer.masking, "special": True}
    integrated, sampled = captum_integrated_gradients(model, None), captum_shapley(model, 32)
    runs: dict[str, Callable[[], object]] = {
        "integrated gradients, captum": lambda: integrated(few),
        "integrated gradients, whence": lambda: whence.explain(model, few, "integrated_gradients", steps=STEPS, **mask),
        "Shapley sampling, captum (32 at a time)": lambda: sampled(few),
        "Shapley sampling, whence": lambda: whence.explain(model, few, "shapley", samples=ORDERS, **mask),
    }
    return measured(runs, 1)


def row(name: str, method: Method, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A method's two costs beside the pass it is held to."""
    beside = "forward and backward" if "gradients" in method.needs else "forward"
    passes, call = found[f"{name}, passes"], found[f"{name}, call"]
    return {
        "method": name,
        "beside": beside,
        "asked": ASKED[beside],
        "passes": passes,
        "passes_ratio": passes["seconds"] / found[f"bare {beside}"]["seconds"],
        "call": call,
        "call_ratio": call["seconds"] / found[f"bare {beside}, from texts"]["seconds"],
    }


def show(report: dict[str, Any]) -> None:
    for name, each in report["bare"].items():
        print(f"{name:40} {1_000 * each['seconds']:9.1f} ms  {each['peak_mb']:6.0f} MB")
    for each in report["rows"]:
        print(
            f"{each['method']:18} passes {1_000 * each['passes']['seconds']:9.1f} ms {each['passes_ratio']:5.2f} x "
            f"(asked {each['asked']} x {each['beside']})  call {1_000 * each['call']['seconds']:9.1f} ms "
            f"{each['call_ratio']:5.2f} x  {each['call']['peak_mb']:6.0f} MB"
        )
    print(f"as JSON {1_000 * report['json']['seconds']:.1f} ms")
    for each in report["peers"]:
        print(f"{each['peer']:42} {1_000 * each['seconds'] / each['sentences']:9.2f} ms a sentence")
    for name, why in report["left_out"].items():
        print(f"left out: {name} ({why})")


if __name__ == "__main__":
    main()
