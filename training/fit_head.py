"""Train a masked-LM head on a pretrained encoder that came without one; the encoder stays as it is.

    python training/fit_head.py --pretrained WORK/mpnet --text DATA/pretraining_corpus.txt.xz --out WORK/mpnet-head

The head has the form of the encoder's own family; its matrix to the vocabulary is the encoder's word embedding and
stays too. Documents (one a line) are joined and cut into windows; the last of them are held out. Writes a Hugging Face
folder with the encoder as it was, and head.json: how often the head fills held-out masked words, and how well it reads
the words that stand there off each layer. A head that is already there is passed over.
"""

import argparse
import json
import lzma
import sys
import time
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from head import head_table
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM, AutoTokenizer, logging

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pretrained", type=Path, required=True)
parser.add_argument("--text", type=Path, required=True, help="a document per line, perhaps .xz")
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--documents", type=int, default=20_000)
parser.add_argument("--held-out", type=int, default=200, help="documents")
parser.add_argument("--window", type=int, default=128, help="tokens")
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--steps", type=int, default=2_000)
parser.add_argument("--rate", type=float, default=1e-3)
parser.add_argument("--masked-share", type=float, default=0.2)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
if (args.out / "head.json").exists():
    print(f"{args.out} is there")
    sys.exit()

WARMUP_SHARE, WEIGHT_DECAY = 0.05, 0.01

torch.manual_seed(args.seed)
logging.set_verbosity_error()  # the head is new, the load report would say so at length
device = "cuda" if torch.cuda.is_available() else "cpu"
autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
tokenizer = AutoTokenizer.from_pretrained(args.pretrained)
model = AutoModelForMaskedLM.from_pretrained(args.pretrained, dtype=torch.float32).to(device)
encoder = model.base_model.requires_grad_(False).eval()
head = next(module for name, module in model.named_children() if name != model.base_model_prefix)
trained = [weight for weight in head.parameters() if weight.requires_grad]
special = torch.tensor(tokenizer.all_special_ids, device=device)

with lzma.open(args.text, "rt", encoding="utf-8") if args.text.suffix == ".xz" else args.text.open() as file:
    documents = [line.strip() for line in islice(file, args.documents + args.held_out)]
learnt, aside = documents[: -args.held_out], documents[-args.held_out :]


def windows(texts: list[str]) -> torch.Tensor:
    """All documents in one row, cut; each window with the family's own first and last token."""
    ids: list[int] = []
    for start in range(0, len(texts), 1_000):
        for each in tokenizer(texts[start : start + 1_000], add_special_tokens=False)["input_ids"]:
            ids += each
    width = args.window - 2
    rows = torch.tensor(ids[: len(ids) // width * width], dtype=torch.int32).view(-1, width)
    edge = torch.ones(len(rows), 1, dtype=torch.int32)
    return torch.cat([edge * tokenizer.cls_token_id, rows, edge * tokenizer.sep_token_id], dim=1)


def masked(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Hide words as in pretraining (80 % the mask, 10 % random, 10 % kept); a matrix says which."""
    dice = torch.rand(part.shape, device=device)
    chosen = (torch.rand(part.shape, device=device) < args.masked_share) & ~torch.isin(part, special)
    random_ids = torch.randint_like(part, model.config.vocab_size)
    seen = torch.where(dice < 0.8, tokenizer.mask_token_id, torch.where(dice < 0.9, random_ids, part))
    return torch.where(chosen, seen, part), chosen


def states_of(part: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return encoder(input_ids=part).last_hidden_state


def filled(rows: torch.Tensor) -> dict[str, float]:
    """Loss and share right on masked words of windows that were held out."""
    loss, right, count = 0.0, 0, 0
    with torch.no_grad(), autocast:
        for part in rows.split(args.batch):
            ids = part.to(device).long()
            hidden, chosen = masked(ids)
            logits, truth = head(states_of(hidden)[chosen]).float(), ids[chosen]
            loss += cross_entropy(logits, truth, reduction="sum").item()
            right += int((logits.argmax(-1) == truth).sum())
            count += len(truth)
    return {"n_words": count, "loss": round(loss / count, 4), "right": round(right / count, 4)}


start = time.monotonic()
rows, held_out = windows(learnt), windows(aside)
print(f"{len(rows):,} windows in {time.monotonic() - start:.0f} s", flush=True)
optimiser = torch.optim.AdamW(trained, weight_decay=WEIGHT_DECAY, fused=device == "cuda")
curve, start = [], time.monotonic()
for step in range(args.steps):
    ids = rows[torch.randint(len(rows), (args.batch,))].to(device).long()
    hidden, chosen = masked(ids)
    with autocast:
        loss = cross_entropy(head(states_of(hidden)[chosen]).float(), ids[chosen])
    loss.backward()
    share = step / args.steps
    for group in optimiser.param_groups:
        group["lr"] = args.rate * min((share + 1e-3) / WARMUP_SHARE, (1 - share) / (1 - WARMUP_SHARE))
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    if (step + 1) % 100 == 0 or step + 1 == args.steps:
        curve.append([step + 1, round(loss.item(), 4)])
        print(f"step {step + 1} of {args.steps}, loss {loss.item():.3f}, {time.monotonic() - start:.0f} s", flush=True)
record: dict[str, Any] = {
    "encoder": args.pretrained.name,
    "knobs": {name: value.name if isinstance(value, Path) else value for name, value in vars(args).items()},
    "windows": len(rows),
    "seconds": round(time.monotonic() - start, 1),
    "held_out": filled(held_out),
    "layers": head_table(encoder, head, tokenizer, [" ".join(each.split()[:60]) for each in aside]),
    "curve": curve,
    "hardware": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    "versions": {name: version(name) for name in ("torch", "transformers")},
}
model.save_pretrained(args.out)
tokenizer.save_pretrained(args.out)
(args.out / "head.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
print(f"done: {record['held_out']}", flush=True)
