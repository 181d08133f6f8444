"""whence beside captum and interpreto: seconds, ratios, peak memory and the bare cost of the passes, in one run.

    python benchmarks/attribution.py                         # 200 sentences, the embedded model, this machine
    python benchmarks/attribution.py --device cuda --out benchmarks/results/attribution-gpu.json

Every library explains the same sentences with the same model and settings, one after the other, and its scores are
compared with whence's, so that no ratio is won by computing something else. captum gets each sentence by itself, since
it cannot batch texts of different length; its perturbation methods run at their default and at the best of several
`perturbations_per_eval`. Slow peers run on every n-th sentence, and whence on those same ones for the ratio.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import platform
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients, Occlusion, ShapleyValueSampling

import whence
from whence.embedded import reviews
from whence.methods.question import Question
from whence.methods.shapley import permutations
from whence.models import batching

STEPS, WINDOW, ORDERS = 25, 3, 25
PERTURBATIONS_PER_EVAL = (8, 32, 128)

Scores = list[np.ndarray]


@dataclass
class Run:
    """One library's scores on some sentences, with what they cost."""

    seconds: float
    peak_mb: float
    scores: Scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", default="sentiment", help="an embedded model, a folder or a hub id of a BERT classifier"
    )
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--slow-sentences", type=int, default=20, help="how many a slow peer gets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3, help="of whence and the bare passes; the median counts")
    parser.add_argument("--no-interpreto", action="store_true", help="where it is not installed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = {name: version(name) for name in ("torch", "transformers", "captum", "whence")}
    model = whence.load(options.model)
    model.module.to(options.device).eval()
    texts = sentences(options.sentences)
    few = texts[:: max(1, len(texts) // options.slow_sentences)]

    def encoding() -> Scores:
        lengths_of(model, texts)
        return []

    rows = []
    for name, compare in COMPARISONS.items():
        for row in compare(model, texts, few, options.repeats, not options.no_interpreto):
            rows.append({"method": name, **row})
            print(
                f"{name:18} {row['peer']:34} {row['sentences']:4} sentences  whence {row['whence_seconds']:8.2f} s  "
                f"peer {row['peer_seconds']:8.2f} s  {row['ratio']:6.1f}x  bare {row['bare_ratio']:5.2f}x  "
                f"memory {row['whence_peak_mb']:6.0f} / {row['peer_peak_mb']:6.0f} MB  "
                f"largest difference {row['largest_difference']:.1e}",
                flush=True,
            )
    report = {
        "rows": rows,
        "model": model.record.id,
        "sentences": len(texts),
        "tokens": sum(lengths_of(model, texts)),
        "encoding_seconds": timed(encoding).seconds,
        "settings": {"steps": STEPS, "window": WINDOW, "orders": ORDERS, "repeats": options.repeats},
        "hardware": torch.cuda.get_device_name()
        if options.device != "cpu"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": versions,
    }
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def sentences(count: int) -> list[str]:
    """Reviews of one and of two sentences, so that lengths are mixed."""
    short = [review["text"] for review in reviews()]
    long = [f"{one} {other}" for one, other in zip(short, short[1:] + short[:1], strict=True)]
    mixed = [text for pair in zip(short, long, strict=True) for text in pair]
    return (mixed * (count // len(mixed) + 1))[:count]


def gradient_x_activation(
    model: whence.LayeredModel, texts: list[str], few: list[str], repeats: int, interpreto: bool
) -> list[dict]:
    def ours(texts: list[str]) -> Scores:
        return [e.scores for e in whence.explain(model, texts, "gradient_x_input", layers="all")]

    def captum(texts: list[str]) -> Scores:
        bert = encoder(model)
        methods = [LayerGradientXActivation(forward(model), layer) for layer in (bert.embeddings, *bert.encoder.layer)]
        found = []
        for ids, mask, target in alone(model, texts):
            layers = [method.attribute(ids, target=target, additional_forward_args=(mask,)) for method in methods]
            found.append(np.stack([layer.sum(-1)[0].detach().cpu().numpy() for layer in layers]))
        return found

    def bare(texts: list[str]) -> None:
        for ids, mask in batches(model, lengths_of(model, texts)):
            backward(model, ids, mask)

    return compared({"captum, a layer at a time": captum}, texts, ours, bare, repeats)


def integrated_gradients(
    model: whence.LayeredModel, texts: list[str], few: list[str], repeats: int, interpreto: bool
) -> list[dict]:
    def ours(texts: list[str]) -> Scores:
        settings: dict[str, Any] = {"steps": STEPS, "baseline": model.tokenizer.masking, "special": True}
        return [e.scores for e in whence.explain(model, texts, "integrated_gradients", layers="embeddings", **settings)]

    def bare(texts: list[str]) -> None:
        lengths = lengths_of(model, texts)
        for _ in ("the whole texts", "the baselines"):
            evaluate(model, lengths)
        for ids, mask in batches(model, [length for length in lengths for _ in range(STEPS)]):
            backward(model, ids, mask)

    def as_interpreto(texts: list[str]) -> Scores:
        settings: dict[str, Any] = {"steps": STEPS, "rule": "trapezoid", "baseline": "zero", "special": True}
        found = whence.explain(model, texts, "integrated_gradients", layers="embeddings", **settings)
        return [e.scores[:, [not token.special for token in e.tokens]] for e in found]

    slow = {f"captum, {each} at a time": captum_integrated_gradients(model, each) for each in (5, 1)}
    peer = captum_integrated_gradients(model, None)
    rows = compared({"captum, default (all steps at once)": peer}, texts, ours, bare, repeats)
    rows += compared(slow, few, ours, bare, repeats)
    if interpreto:
        rows += compared({"interpreto": interpreto_integrated_gradients(model)}, few, as_interpreto, bare, repeats)
    return rows


def occlusion(
    model: whence.LayeredModel, texts: list[str], few: list[str], repeats: int, interpreto: bool
) -> list[dict]:
    def ours(texts: list[str]) -> Scores:
        settings: dict[str, Any] = {"window": WINDOW, "baseline": model.tokenizer.masking, "special": True}
        return [e.scores for e in whence.explain(model, texts, "occlusion", layers="embeddings", **settings)]

    def captum(per_eval: int) -> Callable[[list[str]], Scores]:
        def run(texts: list[str]) -> Scores:
            method = Occlusion(forward(model))
            return [
                method.attribute(
                    ids, (WINDOW,), baselines=model.tokenizer.masking, target=target, additional_forward_args=(mask,),
                    perturbations_per_eval=per_eval,
                ).detach().cpu().numpy()
                for ids, mask, target in alone(model, texts)
            ]  # fmt: skip

        return run

    def bare(texts: list[str]) -> None:
        lengths = lengths_of(model, texts)
        evaluate(model, [length for length in lengths for _ in range(length - WINDOW + 2)])

    def as_interpreto(texts: list[str]) -> Scores:
        found = whence.explain(model, texts, "leave_one_out", layers="embeddings", baseline="mask")
        return [e.scores[:, [not token.special for token in e.tokens]] for e in found]

    peers = {"captum, default (1 at a time)": captum(1)}
    peers |= {f"captum, {each} at a time": captum(each) for each in PERTURBATIONS_PER_EVAL}
    rows = compared(peers, texts, ours, bare, repeats)
    if interpreto:
        peers = {"interpreto (window 1)": interpreto_occlusion(model)}
        rows += compared(peers, texts, as_interpreto, bare, repeats)
    return rows


def shapley(model: whence.LayeredModel, texts: list[str], few: list[str], repeats: int, interpreto: bool) -> list[dict]:
    def ours(texts: list[str]) -> Scores:
        settings: dict[str, Any] = {"samples": ORDERS, "baseline": model.tokenizer.masking, "special": True}
        return [e.scores for e in whence.explain(model, texts, "shapley", layers="embeddings", **settings)]

    def bare(texts: list[str]) -> None:
        lengths = lengths_of(model, texts)
        evaluate(model, [length for length in lengths for _ in range(length * ORDERS)])

    best = {f"captum, {each} at a time": captum_shapley(model, each) for each in PERTURBATIONS_PER_EVAL}
    fewer = few[:: max(1, len(few) // 5)]
    rows = compared({"captum, default (1 at a time)": captum_shapley(model, 1)}, fewer, ours, bare, repeats)
    return rows + compared(best, few, ours, bare, repeats)


def captum_integrated_gradients(
    model: whence.LayeredModel, internal_batch_size: int | None
) -> Callable[[list[str]], Scores]:
    def run(texts: list[str]) -> Scores:
        method = LayerIntegratedGradients(forward(model), encoder(model).embeddings.word_embeddings)
        return [
            method.attribute(
                ids, torch.full_like(ids, masking_of(model)), target=target, additional_forward_args=(mask,),
                n_steps=STEPS, internal_batch_size=internal_batch_size,
            ).sum(-1).detach().cpu().numpy()
            for ids, mask, target in alone(model, texts)
        ]  # fmt: skip

    return run


def captum_shapley(model: whence.LayeredModel, per_eval: int) -> Callable[[list[str]], Scores]:
    def run(texts: list[str]) -> Scores:
        found = []
        for text, (ids, mask, target) in zip(texts, alone(model, texts), strict=True):
            method = ShapleyValueSampling(forward(model))
            orders = orders_of(model, text)
            method.permutation_generator = lambda features, samples, orders=orders: orders
            scores = method.attribute(
                ids, torch.full_like(ids, masking_of(model)), target=target, additional_forward_args=(mask,),
                n_samples=ORDERS, perturbations_per_eval=per_eval,
            )  # fmt: skip
            found.append(scores.detach().cpu().numpy())
        return found

    return run


COMPARISONS: dict[str, Callable[[whence.LayeredModel, list[str], list[str], int, bool], list[dict]]] = {
    "gradient x activation, all layers": gradient_x_activation,
    "integrated gradients": integrated_gradients,
    "occlusion": occlusion,
    "shapley": shapley,
}


def compared(
    peers: dict[str, Callable[[list[str]], Scores]],
    texts: list[str],
    ours: Callable[[list[str]], Scores],
    bare: Callable[[list[str]], None],
    repeats: int,
) -> list[dict]:
    """Time whence, its peers and the bare passes on the same texts; the shortest text warms each up."""
    shortest = [min(texts, key=len)]
    ours(shortest)
    bare(shortest)

    def passing() -> Scores:
        bare(texts)
        return []

    mine = sorted((timed(lambda: ours(texts)) for _ in range(repeats)), key=lambda run: run.seconds)[repeats // 2]
    passes = sorted(timed(passing).seconds for _ in range(repeats))[repeats // 2]
    rows = []
    for name, theirs in peers.items():
        theirs(shortest)
        other = timed(lambda: theirs(texts))  # noqa: B023
        distances = [
            float(np.abs(a - b).max()) if np.shape(a) == np.shape(b) else np.inf
            for a, b in zip(mine.scores, other.scores, strict=True)
        ]
        rows.append(
            {
                "peer": name,
                "sentences": len(texts),
                "whence_seconds": mine.seconds,
                "peer_seconds": other.seconds,
                "ratio": other.seconds / mine.seconds,
                "bare_seconds": passes,
                "bare_ratio": mine.seconds / passes,
                "whence_peak_mb": mine.peak_mb,
                "peer_peak_mb": other.peak_mb,
                "largest_difference": max(distances),
            }
        )
    return rows


def timed(run: Callable[[], Scores]) -> Run:
    """Seconds, and the memory taken above what was there before (sampled on the CPU)."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    else:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left in the allocator would hide what this one takes
    before, peak, done = (torch.cuda.memory_allocated() if gpu else resident()), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    scores = run()
    if gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    if gpu:
        peak = torch.cuda.max_memory_allocated()
    return Run(seconds, max(0, peak - before) / 1e6, scores)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def encoder(model: whence.LayeredModel) -> Any:
    return model.module.base_model


def masking_of(model: whence.LayeredModel) -> int:
    assert model.tokenizer.masking is not None
    return model.tokenizer.masking


def forward(model: whence.LayeredModel) -> Callable[..., torch.Tensor]:
    return lambda ids, mask: model.module(input_ids=ids, attention_mask=mask.expand(len(ids), -1)).logits


def alone(model: whence.LayeredModel, texts: list[str]) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """Each sentence by itself, with the predicted class: what captum needs to be told."""
    found = []
    for text in texts:
        inputs = model.collate([model.encode(text)])
        with torch.no_grad():
            target = int(forward(model)(inputs.ids, inputs.mask.long()).argmax())
        found.append((inputs.ids, inputs.mask.long(), target))
    return found


def lengths_of(model: whence.LayeredModel, texts: list[str]) -> list[int]:
    """Tokens of each text, encoded as whence does: a part of the bare passes, since nobody has tokens to begin with."""
    return [len(encoding) for encoding in model.encode_each([(text, None) for text in texts])]


def orders_of(model: whence.LayeredModel, text: str) -> list[list[int]]:
    """The random orders that whence draws for a text, so that captum can be given the same ones."""
    inputs = model.collate([model.encode(text)])
    asked: Any = argparse.Namespace(inputs=inputs, seed=0)
    generator = Question.generator(asked, 0)
    return permutations(generator, len(model.encode(text)), ORDERS)


def batches(model: whence.LayeredModel, lengths: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of the given lengths in whence's own batches, padded as texts are: no explanation, only passes."""
    budget = 65_536 if model.device.type == "cuda" else 2_048
    found = []
    for batch in batching.micro_batches(sorted(lengths), int, budget):
        ids = torch.full((len(batch), max(batch)), 5, device=model.device)
        mask = torch.arange(max(batch)) < torch.tensor(batch)[:, None]
        found.append((ids, mask.long().to(model.device)))
    return found


def evaluate(model: whence.LayeredModel, lengths: list[int]) -> None:
    with torch.inference_mode():
        for ids, mask in batches(model, lengths):
            forward(model)(ids, mask)


def backward(model: whence.LayeredModel, ids: torch.Tensor, mask: torch.Tensor) -> None:
    words = encoder(model).embeddings.word_embeddings(ids).detach().requires_grad_()
    with model.held():
        logits = model.module(inputs_embeds=words, attention_mask=mask).logits
        torch.autograd.grad(logits[:, 0].sum(), words)


def tokenizer_of(model: whence.LayeredModel) -> Any:
    wrapped: Any = model.tokenizer
    return wrapped.tokenizer


def interpreto_integrated_gradients(model: whence.LayeredModel) -> Callable[[list[str]], Scores]:
    from interpreto import Granularity, IntegratedGradients

    method = IntegratedGradients(
        model.module, tokenizer_of(model), batch_size=64, granularity=Granularity.TOKEN, n_perturbations=STEPS
    )
    return lambda texts: [explanation.attributions.cpu().numpy() for explanation in method(texts)]


def interpreto_occlusion(model: whence.LayeredModel) -> Callable[[list[str]], Scores]:
    from interpreto import Granularity, Occlusion

    method = Occlusion(model.module, tokenizer_of(model), batch_size=64, granularity=Granularity.TOKEN)
    return lambda texts: [explanation.attributions.cpu().numpy() for explanation in method(texts)]


if __name__ == "__main__":
    main()
