"""Write the embedded files: fp16 weights, word embeddings and masked-LM head once, one encoder for each task.

    python training/export.py --pretrained WORK/pretrained --sentiment WORK/sentiment-11 WORK/sentiment-12 \
        --topic WORK/topic-11 --out src/whence/embedded

Of several candidates for a task, the one with the best held-out accuracy is taken (then the lower held-out loss).
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertForMaskedLM, BertForSequenceClassification

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pretrained", type=Path, required=True)
parser.add_argument("--sentiment", type=Path, nargs="+", required=True)
parser.add_argument("--topic", type=Path, nargs="+", required=True)
parser.add_argument("--out", type=Path, required=True)
args = parser.parse_args()

WORDS = "bert.embeddings.word_embeddings.weight"


def halves(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.half().contiguous() for name, tensor in sorted(tensors.items())}


def best(candidates: list[Path]) -> Path:
    records = {folder: json.loads((folder / "finetuning.json").read_text()) for folder in candidates}
    return min(candidates, key=lambda f: (-records[f]["heldout_accuracy"], records[f]["heldout_loss"]))


args.out.mkdir(parents=True, exist_ok=True)
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copyfile(args.pretrained / name, args.out / name)

masked_lm = BertForMaskedLM.from_pretrained(args.pretrained)
words = masked_lm.bert.embeddings.word_embeddings.weight.detach()
head = {f"cls.{name}": tensor for name, tensor in masked_lm.cls.state_dict().items()}
head = {name: tensor for name, tensor in head.items() if ".decoder." not in name}  # tied to the words and to the bias
save_file(halves({WORDS: words, **head}), args.out / "shared.safetensors", metadata={"format": "pt"})

for task, candidates in {"sentiment": args.sentiment, "topic": args.topic}.items():
    folder = best(candidates)
    model = BertForSequenceClassification.from_pretrained(folder)
    tensors = model.state_dict()
    if not torch.equal(tensors.pop(WORDS), words):
        raise SystemExit(f"{folder}: its word embeddings differ from those of {args.pretrained}; they must stay frozen")
    (args.out / task).mkdir(exist_ok=True)
    model.config.to_json_file(args.out / task / "config.json")
    save_file(halves(tensors), args.out / task / "model.safetensors", metadata={"format": "pt", "run": folder.name})
    print(f"{task}: {folder.name}")

size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
print(f"{args.out}: {size / 1e6:.1f} MB")
