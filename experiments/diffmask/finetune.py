"""Fine-tune the embedded encoder for the paper's two tasks: five-class sentiment and extractive question answering.

    python experiments/diffmask/finetune.py sst5 --data-dir DATA --out WORK/sst5
    python experiments/diffmask/finetune.py squad --data-dir DATA --out WORK/squad

Starts from the weights that ship with whence. As in the paper, SST is trained on whole sentences with their root label
alone, unless `--phrase-epochs`, `--gaps` or `--agreement` say otherwise, and questions whose passage does not fit (256
tokens here, 384 there) are left out. The model of the last step is kept; the dev part is only measured. Writes a
Hugging Face folder with a results.json beside the weights.
"""

import argparse
import json
import random
import re
import time
from functools import partial
from pathlib import Path

import pyarrow.parquet
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification

from whence.data import read
from whence.embedded import load_embedded

SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
LONGEST = 256

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("task", choices=["sst5", "squad"])
parser.add_argument("--data-dir", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--epochs", type=float, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--rate", type=float, default=1e-4)
parser.add_argument("--phrase-epochs", type=int, default=0, help="over all phrases of SST's trees, before that")
parser.add_argument("--gaps", type=float, default=0.0, help="up to this share of a training text's tokens is masked")
parser.add_argument(
    "--agreement", type=float, default=0.0, help="weight of saying the same with gaps and without (sst5)"
)
parser.add_argument("--limit", type=int, help="training examples, for a trial")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
if args.agreement and (args.task != "sst5" or not args.gaps):
    parser.error("--agreement needs --gaps, and the task sst5")

torch.manual_seed(args.seed)
random.seed(args.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"
autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
embedded, tokenizer, _ = load_embedded("sentiment")
names = dict(enumerate(SENTIMENTS)) if args.task == "sst5" else {0: "start", 1: "end"}
config = BertConfig.from_dict(
    {**embedded.config.to_dict(), "id2label": names, "label2id": {name: i for i, name in names.items()}}
)
config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1
model = (BertForSequenceClassification if args.task == "sst5" else BertForQuestionAnswering)(config)
model.bert.load_state_dict(embedded.bert.state_dict(), strict=False)  # the reader has no pooler
model.to(device)  # type: ignore[arg-type]


def encoded_sentences(split: str) -> list[dict]:
    return [
        {**tokenizer(example.text, truncation=True, max_length=LONGEST), "gold": [int(str(example.label))]}
        for example in read("sst5", data_dir=args.data_dir, split=split)
    ]


def phrases(tree: str) -> list[tuple[str, int]]:
    """Every phrase of a tree in brackets with its label, the whole sentence last."""
    found: list[tuple[str, int]] = []
    begun: list[tuple[int, list[str]]] = []
    for bracket, label, word in re.findall(r"(\()(\d)|([^\s()]+)|\)", tree):
        if bracket:
            begun.append((int(label), []))
        elif word:
            begun[-1][1].append(word)
        else:
            sentiment, words = begun.pop()
            found.append((" ".join(words), sentiment))
            if begun:
                begun[-1][1].extend(words)
    return found


def encoded_phrases() -> list[dict]:
    """Each different phrase of the training trees, once."""
    trees = pyarrow.parquet.read_table(
        args.data_dir / "sst5_trees.parquet", columns=["tree"], filters=[("split", "=", "train")]
    )
    labels = dict(pair for tree in trees["tree"].to_pylist() for pair in phrases(tree))
    encodings = tokenizer(list(labels), truncation=True, max_length=LONGEST)
    return [
        {**{key: encodings[key][row] for key in encodings}, "gold": [label]}
        for row, label in enumerate(labels.values())
    ]


def encoded_questions(split: str) -> list[dict]:
    """Token positions of the answer's first and last character, in passages that fit."""
    rows = []
    for example in read("squad", data_dir=args.data_dir, split=split):
        encoding = tokenizer(example.text, example.pair, return_offsets_mapping=True)
        offsets = encoding.pop("offset_mapping")
        if len(offsets) > LONGEST:
            continue
        golds = []
        for answer in example.answers:
            first, last = answer.start, answer.start + len(answer.text) - 1
            inside = [
                position
                for position, (segment, (start, end)) in enumerate(
                    zip(encoding["token_type_ids"], offsets, strict=True)
                )
                if segment == 1 and start <= last and end > first and end > start
            ]
            if inside:
                golds.append((inside[0], inside[-1]))
        if golds:
            rows.append({**encoding, "gold": list(golds[0]), "golds": golds})
    return rows


def batches(rows: list[dict], shuffle: bool) -> list[list[dict]]:
    order = torch.randperm(len(rows)).tolist() if shuffle else list(range(len(rows)))
    found = []
    for start in range(0, len(order), 50 * args.batch):  # texts of similar length together
        pool = sorted(order[start : start + 50 * args.batch], key=lambda row: len(rows[row]["input_ids"]))
        found += [[rows[row] for row in pool[i : i + args.batch]] for i in range(0, len(pool), args.batch)]
    return [found[i] for i in torch.randperm(len(found)).tolist()] if shuffle else found


def logits_of(batch: list[dict], gaps_after: torch.nn.Module | None = None) -> torch.Tensor:
    features = [{key: row[key] for key in ("input_ids", "token_type_ids", "attention_mask")} for row in batch]
    inputs = tokenizer.pad(features, return_tensors="pt").to(device)
    hook = gaps_after and gaps_after.register_forward_hook(partial(states_with_gaps, inputs["attention_mask"]))
    with autocast:
        output = model(**inputs)
    if hook:
        hook.remove()
    if args.task == "sst5":
        return output.logits.float()[:, None]
    ends = torch.stack([output.start_logits, output.end_logits], dim=1).float()
    return ends.masked_fill(inputs["attention_mask"][:, None] == 0, -torch.inf)


def with_gaps(row: dict) -> dict:
    """A text some of whose words are replaced by the mask token: up to the given share of them."""
    share = args.gaps * random.random()
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    ids = [
        tokenizer.mask_token_id if random.random() < share and each not in special else each
        for each in row["input_ids"]
    ]
    return {**row, "input_ids": ids}


def states_with_gaps(mask: torch.Tensor, block: torch.nn.Module, inputs: tuple, states: torch.Tensor) -> torch.Tensor:
    """States of which up to the given share in each text are replaced by the batch's mean state, [CLS] excepted."""
    real = mask[..., None]
    mean = (states * real).sum(dim=(0, 1)) / real.sum()
    share = args.gaps * torch.rand(len(states), 1, 1, device=device)
    gone = torch.rand(*states.shape[:2], 1, device=device) < share
    gone[:, 0] = False
    return torch.where(gone, mean.to(states), states)


def logits_with_gaps(batch: list[dict]) -> torch.Tensor:
    """Gaps in the words of one batch in four, else in the embeddings or in the states after a block."""
    if random.random() < 0.75:
        return logits_of(batch, gaps_after=random.choice([model.bert.embeddings, *model.bert.encoder.layer[:-1]]))
    return logits_of([with_gaps(row) for row in batch])


def loss_of(batch: list[dict]) -> torch.Tensor:
    gold = torch.tensor([row["gold"] for row in batch], device=device).flatten()
    if not args.agreement:
        return cross_entropy(logits_of([with_gaps(row) for row in batch] if args.gaps else batch).flatten(0, 1), gold)
    whole, gapped = logits_of(batch).flatten(0, 1), logits_with_gaps(batch).flatten(0, 1)
    p, q = whole.log_softmax(-1), gapped.log_softmax(-1)
    apart = (p.exp() * (p - q)).sum(-1).mean()
    return cross_entropy(whole, gold) + cross_entropy(gapped, gold) + args.agreement * apart


def measured(rows: list[dict]) -> dict[str, float]:
    model.train(False)
    right, golds, said = 0.0, [], []
    with torch.no_grad():
        for batch in batches(rows, shuffle=False):
            guesses = logits_of(batch).argmax(-1).tolist()
            for row, guess in zip(batch, guesses, strict=True):
                right += tuple(guess) in {tuple(gold) for gold in row.get("golds", [row["gold"]])}
                golds.append(row["gold"][0])
                said.append(guess[0])
    found = {"n": len(rows), "exact" if args.task == "squad" else "accuracy": right / len(rows)}
    if args.task == "sst5":
        from sklearn.metrics import f1_score

        found["macro_f1"] = float(f1_score(golds, said, average="macro"))
    return found


encode = encoded_sentences if args.task == "sst5" else encoded_questions
train, dev = encode("train"), encode("dev" if args.task == "sst5" else "validation")
if args.limit:
    train, dev = train[: args.limit], dev[: args.limit]
decayed = [weight for weight in model.parameters() if weight.ndim > 1]
others = [weight for weight in model.parameters() if weight.ndim <= 1]
optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}])
first = encoded_phrases() if args.phrase_epochs else []
first_steps = args.phrase_epochs * (len(first) // args.batch)
steps = first_steps + round(args.epochs * (len(train) // args.batch or 1))
step, started = 0, time.monotonic()
while step < steps:
    model.train()
    for batch in batches(first if step < first_steps else train, shuffle=True):
        share = min((step + 1) / (0.06 * steps + 1), (steps - step) / steps)
        for group in optimiser.param_groups:
            group["lr"] = args.rate * share
        loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        if step % 200 == 0:
            print(f"step {step} of {steps}, loss {loss.item():.3f}, {time.monotonic() - started:.0f} s", flush=True)
        if step >= steps:
            break
results = {
    "task": args.task, "seed": args.seed, "phrase_epochs": args.phrase_epochs, "gaps": args.gaps,
    "agreement": args.agreement, "epochs": args.epochs, "batch": args.batch, "rate": args.rate, "steps": steps,
    "train": len(train), "dev": measured(dev), "seconds": round(time.monotonic() - started, 1),
    "hardware": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__,
}  # fmt: skip
args.out.mkdir(parents=True, exist_ok=True)
model.train(False)
model.half().save_pretrained(args.out, max_shard_size="12MB")
tokenizer.save_pretrained(args.out)
(args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
print(json.dumps(results))
