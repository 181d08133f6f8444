"""Relevance of the tiny models by the package of AttnLRP's authors, which works with transformers 4 alone.

python tests/golden/relevance_by_lxt.py export FOLDER     with whence: writes weights, settings and ids
python tests/golden/relevance_by_lxt.py explain FOLDER    with lxt 2.1, torchvision, transformers 4.52: writes the file

lxt has CP-LRP for all of its language models but BERT. Its patches cannot be undone: each family has its own process.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
DECODERS = dict.fromkeys(("llama", "qwen2", "qwen3", "gemma3", "gpt2"), "causal_lm")
JUDGED = {
    "attn_lrp": ("attnLRP", DECODERS | {"bert": "classification"}),
    "held_still": ("cp_LRP", DECODERS),
}
"""By our name of a method: lxt's name of its rules, and the families that it has them for."""


def export(folder: Path) -> None:
    sys.path.insert(0, str(HERE.parent))
    import tiny_models

    folder.mkdir(parents=True, exist_ok=True)
    for family, head in JUDGED["attn_lrp"][1].items():
        model, tokenizer = tiny_models.build(family, head), tiny_models.tokenizer_of(family)
        save_file({name: value.clone() for name, value in model.state_dict().items()}, folder / f"{family}.safetensors")
        known = tiny_models.FAMILIES[family]
        settings = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None,
                    "eos_token_id": None, **known.settings, "num_labels": 3}  # fmt: skip
        record = {"config": known.config, "class": type(model).__name__, "settings": settings,
                  "ids": tokenizer(tiny_models.LONG)["input_ids"]}  # fmt: skip
        (folder / f"{family}.json").write_text(json.dumps(record))


def explain(folder: Path) -> None:
    import transformers

    alone = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=alone, max_tasks_per_child=1) as processes:
        found = {
            method: {
                family: processes.submit(relevance, folder, family, head, rules).result()
                for family, head in families.items()
            }
            for method, (rules, families) in JUDGED.items()
        }
    made_by = f"{Path(__file__).name} with lxt 2.1, transformers {transformers.__version__}, torch {torch.__version__}"
    file = HERE / "relevance_by_lxt.json"
    file.write_text(json.dumps({"made_by": made_by, "methods": found}, indent=1) + "\n")


def relevance(folder: Path, family: str, head: str, rules: str) -> dict[str, Any]:
    """Of the label that the patched model finds likeliest, at its word embeddings."""
    import transformers
    from lxt.efficient import monkey_patch

    record = json.loads((folder / f"{family}.json").read_text())
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    monkey_patch(module, getattr(importlib.import_module(f"lxt.efficient.models.{family}"), rules))
    config = getattr(transformers, record["config"])(**record["settings"])
    model = getattr(module, record["class"])(config).eval().requires_grad_(False)
    model.load_state_dict(load_file(folder / f"{family}.safetensors"), strict=False)
    words = model.get_input_embeddings()(torch.tensor([record["ids"]])).detach().requires_grad_()
    logits = model(inputs_embeds=words).logits
    row = logits[0, -1] if logits.ndim == 3 else logits[0]
    label = int(row.argmax())
    gradient = torch.autograd.grad(row[label], words)[0]
    scores = (words.detach() * gradient).sum(dim=-1)[0].tolist()
    return {"head": head, "label": label, "value": row[label].item(), "scores": scores}


if __name__ == "__main__":
    {"export": export, "explain": explain}[sys.argv[1]](Path(sys.argv[2]))
