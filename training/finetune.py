"""Fine-tune the pretrained BERT as a classifier, keeping its word embeddings and its masked-LM head as they are.

    python training/finetune.py --pretrained WORK/pretrained --train sentiment_train.jsonl \
        --heldout sentiment_heldout.jsonl --labels negative positive --out WORK/sentiment-1 --seed 1

The word embeddings stay frozen (but for teachers) so that every task and the masked-LM head can share one matrix.
With --masked-lm-weight the frozen head also has to fill masked words from the encoder's last layer while the task is
learnt, so that it goes on decoding this encoder. With --teachers the targets are the mean probabilities of those
fine-tuned models, mixed with the labels where there are labels; --unlabelled adds texts that have none. The model of
the last step is kept: nothing is selected here, the held-out rows are only measured. Writes a Hugging Face folder.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from head import head_table
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertForMaskedLM, BertForSequenceClassification, logging

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pretrained", type=Path, required=True)
parser.add_argument("--train", type=Path, required=True, help="jsonl or parquet with text and label")
parser.add_argument("--heldout", type=Path, required=True)
parser.add_argument("--unlabelled", type=Path, help="jsonl or parquet with text; needs --teachers")
parser.add_argument("--teachers", type=Path, nargs="*", default=[])
parser.add_argument("--labels", nargs="+", required=True, help="the label names, in the order of their numbers")
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--epochs", type=float, default=3)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--rate", type=float, default=2e-4)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--masked-lm-weight", type=float, default=0.2)
parser.add_argument("--masked-share", type=float, default=0.2)
parser.add_argument("--label-share", type=float, default=0.3, help="weight of the label beside the teachers")
parser.add_argument("--train-words", action="store_true", help="for teachers: their word embeddings are left out")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

WARMUP_SHARE, WEIGHT_DECAY, LONGEST_MASKED_LM = 0.06, 0.01, 128

torch.manual_seed(args.seed)
torch.set_float32_matmul_precision("high")
logging.set_verbosity_error()  # the classifier is new, the load report would say so at length
device = "cuda" if torch.cuda.is_available() else "cpu"
autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


def read_rows(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


tokenizer = AutoTokenizer.from_pretrained(args.pretrained)
masked_lm = BertForMaskedLM.from_pretrained(args.pretrained, dtype=torch.float32).to(device)  # type: ignore[arg-type]
model = BertForSequenceClassification.from_pretrained(
    args.pretrained,
    dtype=torch.float32,
    id2label=dict(enumerate(args.labels)),
    label2id={label: number for number, label in enumerate(args.labels)},
    hidden_dropout_prob=args.dropout,
    attention_probs_dropout_prob=args.dropout,
).to(device)  # type: ignore[arg-type]
head = masked_lm.cls.requires_grad_(False)
words = model.bert.embeddings.word_embeddings.requires_grad_(args.train_words)
n_labels, longest = len(args.labels), model.config.max_position_embeddings


def padded(texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """All texts as one matrix of ids, and the length of each."""
    encodings = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
    lengths = torch.tensor([len(ids) for ids in encodings])
    ids = torch.full((len(texts), int(lengths.max())), tokenizer.pad_token_id)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = torch.tensor(encoding)
    return ids.to(device), lengths.to(device)


def batches(lengths: torch.Tensor, size: int, shuffle: bool) -> list[torch.Tensor]:
    """Row numbers of texts of about equal length; shuffled within 50 batches, then the batches among each other."""
    if not shuffle:
        return list(lengths.argsort().split(size))
    order = torch.randperm(len(lengths), device=device)
    pools = [pool[lengths[pool].argsort()] for pool in order.split(50 * size)]
    cut = [batch for pool in pools for batch in pool.split(size)]
    return [cut[number] for number in torch.randperm(len(cut)).tolist()]


@torch.no_grad()
def probabilities_of(
    classifier: BertForSequenceClassification, ids: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    classifier.eval()
    result = torch.empty(len(ids), n_labels, device=device)
    for rows in batches(lengths, 1024, shuffle=False):
        part = ids[rows, : lengths[rows].max()]
        with autocast:
            logits = classifier(input_ids=part, attention_mask=part.ne(tokenizer.pad_token_id).long()).logits
        result[rows] = logits.float().softmax(-1)
    return result


# ---- targets ----
start = time.time()
labelled = read_rows(args.train)
unlabelled = read_rows(args.unlabelled) if args.unlabelled else []
ids, lengths = padded([row["text"] for row in labelled + unlabelled])
targets = torch.full((len(ids), n_labels), 1 / n_labels, device=device)
labels = torch.tensor([row["label"] for row in labelled], device=device)
targets[: len(labels)] = torch.nn.functional.one_hot(labels, n_labels).float()
if args.teachers:
    taught = torch.zeros_like(targets)
    for folder in args.teachers:
        teacher = BertForSequenceClassification.from_pretrained(folder).to(device)  # type: ignore[arg-type]
        taught += probabilities_of(teacher, ids, lengths) / len(args.teachers)
    targets[: len(labels)] = args.label_share * targets[: len(labels)] + (1 - args.label_share) * taught[: len(labels)]
    targets[len(labels) :] = taught[len(labels) :]
print(f"{len(labelled):,} labelled and {len(unlabelled):,} unlabelled texts in {time.time() - start:.0f} s", flush=True)


def masked(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Hide words as in pretraining (80 % [MASK], 10 % random, 10 % kept); a matrix says which."""
    dice = torch.rand(part.shape, device=device)
    chosen = (torch.rand(part.shape, device=device) < args.masked_share) & (part > tokenizer.mask_token_id)
    random_ids = torch.randint_like(part, tokenizer.mask_token_id + 1, words.num_embeddings)
    seen = torch.where(dice < 0.8, tokenizer.mask_token_id, torch.where(dice < 0.9, random_ids, part))
    return torch.where(chosen, seen, part), chosen


# ---- training ----
trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(
    [
        {"params": [p for p in trainable if p.ndim == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ],
    fused=device == "cuda",
)
n_steps = round(args.epochs * len(batches(lengths, args.batch, shuffle=True)))
queue: list[torch.Tensor] = []
curve: list[Any] = []
step, start = 0, time.time()
while step < n_steps:
    queue = queue or batches(lengths, args.batch, shuffle=True)
    rows = queue.pop()
    part = ids[rows, : lengths[rows].max()]
    model.train()
    with autocast:
        logits = model(input_ids=part, attention_mask=part.ne(tokenizer.pad_token_id).long()).logits
        task_loss = cross_entropy(logits.float(), targets[rows])
        masked_lm_loss = torch.zeros((), device=device)
        if args.masked_lm_weight:
            part = part[:, :LONGEST_MASKED_LM]
            hidden_words, chosen = masked(part)
            attention = part.ne(tokenizer.pad_token_id).long()
            states = model.bert(input_ids=hidden_words, attention_mask=attention).last_hidden_state
            word_losses = cross_entropy(head(states[chosen]).float(), part[chosen], reduction="sum")
            masked_lm_loss = word_losses / chosen.sum().clamp_min(1)  # a lone short text may have nothing masked
    (task_loss + args.masked_lm_weight * masked_lm_loss).backward()
    torch.nn.utils.clip_grad_norm_(trainable, 1.0)
    progress = step / n_steps
    for group in optimizer.param_groups:
        group["lr"] = args.rate * min(progress / WARMUP_SHARE, (1 - progress) / (1 - WARMUP_SHARE))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if step % 100 == 0 or step == n_steps:
        curve.append([step, round(task_loss.item(), 4), round(masked_lm_loss.item(), 4)])
        if step % 500 == 0:
            print(f"step {step}/{n_steps} {time.time() - start:.0f} s, losses {curve[-1][1:]}", flush=True)

heldout = read_rows(args.heldout)
heldout_labels = torch.tensor([row["label"] for row in heldout], device=device)
heldout_probabilities = probabilities_of(model, *padded([row["text"] for row in heldout]))
record: dict[str, Any] = {
    "heldout_accuracy": (heldout_probabilities.argmax(-1) == heldout_labels).float().mean().item(),
    "heldout_loss": -heldout_probabilities.gather(1, heldout_labels[:, None]).clamp_min(1e-9).log().mean().item(),
    "n_labelled": len(labelled),
    "n_unlabelled": len(unlabelled),
    "steps": step,
    "seconds": round(time.time() - start, 1),
    "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    "knobs": {name: value.name if isinstance(value, Path) else value for name, value in vars(args).items()},
    "head_before": head_table(masked_lm.bert, head, tokenizer, [row["text"] for row in heldout]),
    "head_after": head_table(model.bert, head, tokenizer, [row["text"] for row in heldout]),
    "curve": curve,
}
record["knobs"]["teachers"] = [folder.name for folder in args.teachers]
model.save_pretrained(args.out)
tokenizer.save_pretrained(args.out)
(args.out / "finetuning.json").write_text(json.dumps(record, indent=1))
print(f"done: held-out accuracy {record['heldout_accuracy']:.4f}, loss {record['heldout_loss']:.4f}", flush=True)
