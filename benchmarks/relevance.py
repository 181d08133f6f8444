"""AttnLRP beside the package of its authors, on the same sentences, with scores compared.

    python benchmarks/relevance.py --lxt PYTHON --out benchmarks/results/relevance-cpu.json

lxt 2.1 cannot be imported beside the transformers that whence needs, so PYTHON is another one, with lxt, torch and
transformers 4.52 (`relevance_by_lxt.py` runs there). Both take turns on one machine, a sentence at a time, which is how
lxt is used: whence from the text, all that `whence.explain` does; lxt from its token ids. whence then has all sentences
in one call too. Models are loaded beforehand, and a first sentence is not counted.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import whence
from whence.embedded import reviews

THEIRS = Path(__file__).parent / "relevance_by_lxt.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lxt", required=True, help="a Python that has lxt")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load()
    module: Any = model.module
    texts = [review["text"] for review in reviews()][: options.sentences]
    ids = [model.encode(text).ids for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        module.save_pretrained(folder)
        (Path(folder) / "ids.json").write_text(json.dumps(ids))
        turns = [(one_by_one(model, texts), by_lxt(options.lxt, Path(folder))) for _ in range(options.repeats)]
    together = [in_one_call(model, texts) for _ in range(options.repeats)]
    report = {
        "whence_seconds": statistics.median(ours["seconds"] for ours, _ in turns),
        "lxt_seconds": statistics.median(theirs["seconds"] for _, theirs in turns),
        "whence_together_seconds": statistics.median(together),
        "largest_difference": max(
            float(np.abs(np.subtract(mine, other)).max())
            for ours, theirs in turns
            for mine, other in zip(ours["scores"], theirs["scores"], strict=True)
        ),
        "largest_score": max(float(np.abs(row).max()) for row in turns[0][1]["scores"]),
        "model": model.record.id,
        "sentences": len(texts),
        "tokens": sum(map(len, ids)),
        "repeats": options.repeats,
        "hardware": f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {name: version(name) for name in ("torch", "transformers", "whence")},
        "lxt_versions": turns[0][1]["versions"],
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def one_by_one(model: whence.LayeredModel, texts: list[str]) -> dict[str, Any]:
    """The time of all calls together, and the scores."""
    whence.explain(model, texts[0], "attn_lrp", layers="embeddings")
    seconds, scores = 0.0, []
    for text in texts:
        started = perf_counter()
        found = whence.explain(model, text, "attn_lrp", layers="embeddings")
        seconds += perf_counter() - started
        scores.append(found.scores[0].tolist())
    return {"seconds": seconds, "scores": scores}


def in_one_call(model: whence.LayeredModel, texts: list[str]) -> float:
    started = perf_counter()
    whence.explain(model, texts, "attn_lrp", layers="embeddings")
    return perf_counter() - started


def by_lxt(python: str, folder: Path) -> dict[str, Any]:
    threads = str(torch.get_num_threads())
    run = subprocess.run([python, str(THEIRS), str(folder), threads], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


if __name__ == "__main__":
    main()
