"""What should stand in for a token of a decoder's prompt? Writes results/board.json.

    python experiments/decoder_baselines/run.py --model FOLDER --data-dir DATA [--prompts 40]

Prompts are the first words of training sentences of SST-2 and of training questions of SQuAD; what is explained is the
next word that the model says. Each baseline is put to leave-one-out, integrated gradients and Shapley values, as far as
they take it, and the scores are judged by two ways of hiding that put nothing in a token's place: deletion, and taking
tokens out of everyone's attention. Faithfulness is the area of revealing the most important tokens first less the area
of hiding them first, in the probability of the word that the model says.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from whence.data import read
from whence.metrics.answered import LAYER_POINTS
from whence.models.hiding import Hide

sys.path.append(str(Path(__file__).parents[1]))  # where faithfulness is

from faithfulness import faithfulness

OUT = Path(__file__).parent / "results" / "board.json"
WAYS: tuple[Hide, ...] = ("delete", "attention")
BASELINES = ("zero", "mean", "pad", "the", "space", "delete", "attention")
METHODS: dict[str, dict[str, Any]] = {
    "leave_one_out": {},
    "shapley": {"samples": 2},
    "integrated_gradients": {"steps": 16},
}
TAKEN = {
    "leave_one_out": BASELINES,
    "shapley": ("zero", "mean", "pad", "the", "space", "delete"),
    "integrated_gradients": ("zero", "pad", "the"),
}
N_WORDS = 6
SEED = 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--prompts", type=int, default=40)
    arguments.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore", whence.WhenceWarning)
    started = time.perf_counter()
    model = whence.load(given.model)
    prompts = beginnings("sst2", given.data_dir, given.prompts // 2)
    prompts += beginnings("squad", given.data_dir, given.prompts - len(prompts))
    record: dict[str, Any] = {
        "model": Path(given.model).name,
        "padding": token_named(model, model.tokenizer.padding),
        "n_prompts": len(prompts),
        "n_words": N_WORDS,
        "seed": SEED,
        "settings": METHODS,
        "faithfulness": {way: {} for way in WAYS},
        "missing": {},
    }
    OUT.parent.mkdir(exist_ok=True)
    scores = {"random": [np.asarray(each.row()) for each in whence.explain(model, prompts, "random", seed=SEED)]}
    for method, options in METHODS.items():
        for baseline in TAKEN[method]:
            name = f"{method}, {baseline}"
            if baseline == "attention":
                scores[name] = [without_attention(model, prompt) for prompt in prompts]
                continue
            found = whence.explain(
                model, prompts, method, layers="embeddings", baseline=stand_in(model, baseline), seed=SEED, **options
            )
            scores[name] = [np.asarray(each.row()) for each in found]
            if found[0].completeness_errors is not None:
                record["missing"][name] = [round(float((each.completeness_errors or (0.0,))[0]), 4) for each in found]
            print(f"{time.perf_counter() - started:6.0f} s  {name}", flush=True)
        for way in WAYS:
            areas = faithfulness(model, prompts, scores, hide=way, points=LAYER_POINTS)
            record["faithfulness"][way] |= areas
            print(way, {name: round(float(np.mean(each)), 3) for name, each in areas.items()}, flush=True)
        record["seconds"] = round(time.perf_counter() - started)
        OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        scores = {}


def beginnings(name: str, folder: Path, n_prompts: int) -> list[str]:
    """The first words of some training texts that go on after them."""
    texts = [example.text for example in read(name, data_dir=folder, split="train")]
    long = sorted({text for text in texts if len(text.split()) >= N_WORDS + 3})
    random.Random(SEED).shuffle(long)
    return [" ".join(text.split()[:N_WORDS]) for text in long[:n_prompts]]


def stand_in(model: whence.LayeredModel, baseline: str) -> str | torch.Tensor:
    """The baseline as `whence.explain` takes it."""
    if baseline == "mean":
        table: torch.Tensor = model.stack.embedding.weight  # type: ignore[assignment]
        return table.detach().mean(dim=0)
    return {"the": "Ġthe", "space": "Ġ"}.get(baseline, baseline)


def without_attention(model: whence.LayeredModel, prompt: str) -> np.ndarray:
    """What the logit of the next word loses when a token is taken out of everyone's attention, token by token."""
    encoding = model.encode(prompt)
    inputs = model.collate([encoding] * (len(encoding) + 1))
    hidden = torch.cat([torch.zeros(1, len(encoding)), torch.eye(len(encoding))]).bool()
    with model.held(), torch.inference_mode():
        logits = model.run(inputs.unattending(hidden))
    said = logits[:, int(logits[0].argmax())].float()
    return (said[0] - said[1:]).numpy()


def token_named(model: whence.LayeredModel, number: int | None) -> str | None:
    names = {each: token for token, each in model.tokenizer.vocabulary.items()}  # type: ignore[attr-defined]
    return None if number is None else names[number]


if __name__ == "__main__":
    main()
