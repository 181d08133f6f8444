"""AttnLRP of a BERT classifier by lxt, for relevance.py: runs where lxt and transformers 4.52 are, without whence.

python benchmarks/relevance_by_lxt.py FOLDER THREADS

Reads the model and ids.json from FOLDER and prints seconds from ids to scores, a sentence at a time, and the scores.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from lxt.efficient import monkey_patch
from transformers.models.bert import modeling_bert


def relevance(model: Any, ids: list[int]) -> list[float]:
    """Of the likeliest class, at the word embeddings."""
    words = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    gradient = torch.autograd.grad(model(inputs_embeds=words).logits[0].max(), words)[0]
    found: list[float] = (words.detach() * gradient).sum(dim=-1)[0].tolist()
    return found


def main(folder: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    monkey_patch(modeling_bert)  # its classes are replaced, so the model is built afterwards
    model = modeling_bert.BertForSequenceClassification.from_pretrained(folder).eval().requires_grad_(False)
    texts = json.loads((folder / "ids.json").read_text())
    relevance(model, texts[0])
    started = perf_counter()
    scores = [relevance(model, ids) for ids in texts]
    seconds = perf_counter() - started
    versions = {name: version(name) for name in ("lxt", "torch", "transformers")}
    print(json.dumps({"seconds": seconds, "scores": scores, "versions": versions}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
