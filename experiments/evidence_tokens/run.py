"""Where do methods put the word that must matter? Writes results/ranks.json.

    python experiments/evidence_tokens/run.py --model FOLDER [--of-each 100] [--device cuda]

The pairs are those of `pairs.py`. Of those that the model gets right (the right form's logit is higher) each method
explains the right form rather than the wrong one, its scores are gathered into words, and the word that must matter has
a rank among them, the highest score first; words of equal score share their ranks. A random order puts it first once in
n words: the mean of its reciprocal rank is (1 + 1/2 + ... + 1/n) / n exactly.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pairs import Pair, pairs

import whence
from whence.targets import Contrast, Label

OUT = Path(__file__).parent / "results" / "ranks.json"
AT_INPUT = {"layers": "embeddings"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention, mean of all blocks": ("attention", {}),
    "attention rollout, last block": ("attention_rollout", {"layers": -1}),
    "gradient": ("gradient", AT_INPUT),
    "gradient x input": ("gradient_x_input", AT_INPUT),
    "AttnLRP": ("attn_lrp", AT_INPUT),
    "held still": ("held_still", AT_INPUT),
    "leave-one-out, deleted": ("leave_one_out", {"baseline": "delete"}),
    "Grad-CAM": ("grad_cam", AT_INPUT),
    "leave-one-out, zero": ("leave_one_out", {"baseline": "zero"}),
    "leave-one-out, padding": ("leave_one_out", {"baseline": "pad"}),
    "integrated gradients, 8 steps": ("integrated_gradients", {"steps": 8, "baseline": "zero"}),
    "Shapley, 25 orders": ("shapley", {}),
    "occlusion, windows of 3": ("occlusion", {}),
    "LIME": ("lime", {}),
    "KernelSHAP": ("kernel_shap", {}),
    "SmoothGrad": ("smooth_grad", AT_INPUT),
    "GradientSHAP": ("gradient_shap", AT_INPUT),
    "DeepLiftSHAP": ("deep_lift_shap", AT_INPUT),
}
SEED = 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--of-each", type=int, default=100)
    arguments.add_argument("--methods", nargs="+", default=tuple(METHODS))
    arguments.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore", whence.WhenceWarning)
    started = time.perf_counter()
    model = whence.load(given.model)
    model.module.to(given.device)
    written = list(pairs(SEED, given.of_each))
    right = gets_right(model, written)
    kept = [pair for pair, good in zip(written, right, strict=True) if good]
    kinds = list(dict.fromkeys(pair.kind for pair in written))
    record: dict[str, Any] = {
        "model": Path(given.model).name,
        "seed": SEED,
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else f"cpu, {given.threads} threads",
        "accuracy": {
            kind: float(np.mean([good for pair, good in zip(written, right, strict=True) if pair.kind == kind]))
            for kind in kinds
        },
        "n_pairs": len(written),
        "kinds": [pair.kind for pair in kept],
        "random": [round(expected_at_random(len(pair.text.split())), 6) for pair in kept],
        "reciprocal_ranks": {},
    }
    print(f"{time.perf_counter() - started:6.0f} s  {len(kept)} of {len(written)}: {record['accuracy']}", flush=True)
    given.out.parent.mkdir(exist_ok=True)
    for name in given.methods:
        record["reciprocal_ranks"][name] = [round(each, 6) for each in ranks(model, kept, *METHODS[name])]
        record["seconds"] = round(time.perf_counter() - started)
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"{record['seconds']:6} s  {name}: {np.mean(record['reciprocal_ranks'][name]):.3f}", flush=True)


def gets_right(model: whence.LayeredModel, some: Sequence[Pair]) -> list[bool]:
    """Whether the right form's logit is higher."""
    found = []
    for start in range(0, len(some), 50):
        batch = some[start : start + 50]
        with model.held(), torch.inference_mode():
            logits = model.run(model.collate([model.encode(pair.text) for pair in batch]))
        for pair, row in zip(batch, logits, strict=True):
            one, other = (model.reading.labels.index(form) for form in (pair.right, pair.wrong))
            found.append(bool(row[one] > row[other]))
    return found


def ranks(model: whence.LayeredModel, kept: Sequence[Pair], method: str, options: dict[str, Any]) -> list[float]:
    """The reciprocal rank of the word that must matter, of each pair; pairs with the same forms go together."""
    found: dict[int, float] = {}
    forms: dict[tuple[str, str], list[int]] = {}
    for index, pair in enumerate(kept):
        forms.setdefault((pair.right, pair.wrong), []).append(index)
    for (right, wrong), indices in forms.items():
        explained = whence.explain(
            model, [kept[index].text for index in indices], method, target=Contrast(Label(right), Label(wrong)),
            scale="logit", units="word", seed=SEED, **options,
        )  # fmt: skip
        for index, one in zip(indices, explained, strict=True):
            assert one.units is not None
            texts = [one.text[unit.start : unit.end] for unit in one.units.units]
            words = [place for place, text in enumerate(texts) if any(letter.isalnum() for letter in text)]
            assert texts[words[kept[index].evidence]] == kept[index].word, (texts, kept[index])
            found[index] = reciprocal_rank(one.units.scores.mean(axis=0)[words], kept[index].evidence)
    return [found[index] for index in range(len(kept))]


def reciprocal_rank(scores: np.ndarray, place: int) -> float:
    """One over the rank of a place, the highest first; the mean over the ranks that places of its score share."""
    above, alike = int((scores > scores[place]).sum()), int((scores == scores[place]).sum())
    return float(np.mean(1 / np.arange(above + 1, above + alike + 1)))


def expected_at_random(n_words: int) -> float:
    return float(np.mean(1 / np.arange(1, n_words + 1)))


if __name__ == "__main__":
    main()
