"""Fine-tune an encoder for the paper's two tasks (five-class sentiment, question answering), SST-2 or AG News.

    python experiments/diffmask/finetune.py sst5 --data-dir DATA --out WORK/sst5
    python experiments/diffmask/finetune.py squad --data-dir DATA --out WORK/squad
    python experiments/diffmask/finetune.py squad --model FOLDER --longest 384 --epochs 2 --batch 48 --rate 5e-5 \
        --data-dir DATA --out WORK/mpnet-squad

Starts from the weights that ship with whence, or from any encoder's FOLDER. As in the paper, SST is trained on whole
sentences with their root label alone, unless `--phrase-epochs`, `--gaps` or `--agreement` say otherwise, and training
questions whose passage does not fit (256 tokens, 384 there) are left out. The model of the last step is kept; dev and
test are only measured: of questions all, passages cut where they do not fit, by SQuAD's own rules. Writes a Hugging
Face folder with a results.json beside the weights. A run that was stopped goes on where it was (but for gaps, which
start anew), a finished one is passed over.
"""

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pyarrow.parquet
import torch
import transformers
from answers import best_spans, judged
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertConfig

from whence.data import KNOWN, read
from whence.embedded import load_embedded
from whence.learned import checkpoint
from whence.models.huggingface_attention import use_attention

MEASURED = {"sst5": ("dev", "test"), "sst2": ("dev",), "ag_news": ("test",), "squad": ("dev",)}
LONGEST, CHUNK = 256, 2_000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("task", choices=MEASURED)
parser.add_argument("--model", type=Path, help="the folder of an encoder; by default the embedded one")
parser.add_argument("--data-dir", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--epochs", type=float, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--rate", type=float, default=1e-4)
parser.add_argument("--longest", type=int, default=LONGEST, help="tokens")
parser.add_argument("--phrase-epochs", type=int, default=0, help="over all phrases of SST's trees, before that")
parser.add_argument("--gaps", type=float, default=0.0, help="up to this share of a training text's tokens is masked")
parser.add_argument(
    "--agreement", type=float, default=0.0, help="weight of saying the same with gaps and without (sst5)"
)
parser.add_argument("--attention", help="a projection in place of softmax, such as sparsemax")
parser.add_argument("--limit", type=int, help="training examples, for a trial")
parser.add_argument("--steps", type=int, help="at most, for a trial")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--checkpoint-seconds", type=float, default=90, help="from one to the next")
args = parser.parse_args()
if args.agreement and (args.task != "sst5" or not args.gaps or args.model):
    parser.error("--agreement needs --gaps, the task sst5 and the embedded encoder")
if (args.out / "results.json").exists():
    print(f"{args.out} is there")
    sys.exit()

torch.manual_seed(args.seed)
random.seed(args.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"
autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
asks = args.task == "squad"
names = {} if asks else dict(enumerate(KNOWN[args.task].labels))
labelled = {"id2label": names, "label2id": {name: i for i, name in names.items()}} if names else {}
auto = transformers.AutoModelForQuestionAnswering if asks else transformers.AutoModelForSequenceClassification
if args.model:
    transformers.logging.set_verbosity_error()  # the head is new, the load report would say so at length
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = auto.from_pretrained(args.model, dtype=torch.float32, **labelled)
else:
    embedded, tokenizer, _ = load_embedded("sentiment")
    config = BertConfig.from_dict({**embedded.config.to_dict(), **(labelled or {"id2label": {0: "start", 1: "end"}})})
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1
    model = auto.from_config(config)
    model.bert.load_state_dict(embedded.bert.state_dict(), strict=False)  # the reader has no pooler
if args.attention:
    use_attention(model, args.attention)
model.to(device)


def encoded_texts(split: str) -> list[dict]:
    examples = read(args.task, data_dir=args.data_dir, split=split)
    encodings = tokenizer([example.text for example in examples], truncation=True, max_length=args.longest)
    return [
        {**{key: encodings[key][row] for key in encodings}, "gold": [int(str(example.label))]}
        for row, example in enumerate(examples)
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
    encodings = tokenizer(list(labels), truncation=True, max_length=args.longest)
    return [
        {**{key: encodings[key][row] for key in encodings}, "gold": [label]}
        for row, label in enumerate(labels.values())
    ]


def encoded_questions(split: str) -> list[dict]:
    """Token positions of the answer's first and last character, in passages that fit; to be measured, all of them."""
    rows = []
    examples = read("squad", data_dir=args.data_dir, split=split, limit=args.limit)
    for first in range(0, len(examples), CHUNK):
        some = examples[first : first + CHUNK]
        encodings = tokenizer(
            [example.text for example in some], [example.pair for example in some],
            truncation="only_second", max_length=args.longest + (split == "train"), return_offsets_mapping=True,
        )  # fmt: skip
        inputs = [key for key in encodings if key != "offset_mapping"]
        for number, example in enumerate(some):
            offsets, segments = encodings["offset_mapping"][number], encodings.sequence_ids(number)
            row = {key: encodings[key][number] for key in inputs}
            if split != "train":
                rows.append({**row, "example": example, "offsets": offsets, "passage": [s == 1 for s in segments]})
                continue
            answer = example.answers[0]
            inside = covered(offsets, segments, answer.start, answer.start + len(answer.text))
            if len(offsets) <= args.longest and inside:
                rows.append({**row, "gold": [inside[0], inside[-1]]})
    return rows


def covered(offsets: list[tuple[int, int]], segments: list[int | None], first: int, last: int) -> list[int]:
    """The passage's tokens that hold a character from the first to before the last."""
    return [
        position
        for position, (segment, (start, end)) in enumerate(zip(segments, offsets, strict=True))
        if segment == 1 and start < last and end > first and end > start
    ]


def batches(rows: list[dict], chance: torch.Generator | None) -> list[list[dict]]:
    order = list(range(len(rows))) if chance is None else torch.randperm(len(rows), generator=chance).tolist()
    found = []
    for start in range(0, len(order), 50 * args.batch):  # texts of similar length together
        pool = sorted(order[start : start + 50 * args.batch], key=lambda row: len(rows[row]["input_ids"]))
        found += [[rows[row] for row in pool[i : i + args.batch]] for i in range(0, len(pool), args.batch)]
    return found if chance is None else [found[i] for i in torch.randperm(len(found), generator=chance).tolist()]


def logits_of(batch: list[dict], gaps_after: torch.nn.Module | None = None) -> torch.Tensor:
    features = [{key: row[key] for key in tokenizer.model_input_names if key in row} for row in batch]
    inputs = tokenizer.pad(features, return_tensors="pt").to(device)
    hook = gaps_after and gaps_after.register_forward_hook(partial(states_with_gaps, inputs["attention_mask"]))
    with autocast:
        output = model(**inputs)
    if hook:
        hook.remove()
    if not asks:
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


@torch.no_grad()
def measured_texts(rows: list[dict]) -> dict[str, float]:
    from sklearn.metrics import f1_score

    said = [guess[0] for batch in batches(rows, None) for guess in logits_of(batch).argmax(-1).tolist()]
    golds = [row["gold"][0] for batch in batches(rows, None) for row in batch]
    right = sum(guess == gold for guess, gold in zip(said, golds, strict=True))
    return {"n": len(rows), "accuracy": right / len(rows), "macro_f1": float(f1_score(golds, said, average="macro"))}


@torch.no_grad()
def measured_questions(rows: list[dict]) -> dict[str, float]:
    scores = []
    for batch in batches(rows, None):
        ends = logits_of(batch)
        allowed = torch.zeros(len(batch), ends.shape[-1], dtype=torch.bool, device=device)
        for number, row in enumerate(batch):
            allowed[number, : len(row["passage"])] = torch.tensor(row["passage"], device=device)
        for row, (first, last) in zip(batch, best_spans(ends[:, 0], ends[:, 1], allowed), strict=True):
            said = row["example"].pair[row["offsets"][first][0] : row["offsets"][last][1]]
            scores.append(judged(said, [answer.text for answer in row["example"].answers]))
    exact, f1 = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return {"n": len(rows), "exact": exact, "f1": f1}


encode = encoded_questions if asks else encoded_texts
train = encode("train")[: args.limit]
decayed = [weight for weight in model.parameters() if weight.ndim > 1]
others = [weight for weight in model.parameters() if weight.ndim <= 1]
optimiser = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], fused=device == "cuda"
)
first = encoded_phrases() if args.phrase_epochs else []
first_steps = args.phrase_epochs * (len(first) // args.batch)
steps = first_steps + round(args.epochs * (len(train) // args.batch or 1))
steps = min(steps, args.steps or steps)
knobs = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}


def all_batches() -> Iterator[list[dict]]:
    """Epoch after epoch, in an order that the seed and the epoch alone decide."""
    epoch = 0
    for rows, count in ((first, first_steps), (train, steps - first_steps)):
        while count > 0:
            drawn = batches(rows, torch.Generator().manual_seed(1_000 * args.seed + epoch))[:count]
            yield from drawn
            count, epoch = count - len(drawn), epoch + 1


def write_checkpoint() -> None:
    random_states = {"cpu": torch.get_rng_state()} | ({"cuda": torch.cuda.get_rng_state()} if device == "cuda" else {})
    parts = {"model": model.state_dict(), "optimiser": checkpoint.optimiser_tensors(optimiser), "random": random_states}
    checkpoint.write(begun, parts, {"step": step, "seconds": spent + time.monotonic() - started, "knobs": knobs})


args.out.mkdir(parents=True, exist_ok=True)
begun = args.out / checkpoint.NAME
step, spent = 0, 0.0
if begun.exists():
    parts, record = checkpoint.read(begun)
    checkpoint.check_same_run(begun, None, record["knobs"], knobs)
    model.load_state_dict(parts["model"])
    checkpoint.restore_optimiser(optimiser, parts["optimiser"])
    torch.set_rng_state(parts["random"]["cpu"])
    if device == "cuda":
        torch.cuda.set_rng_state(parts["random"]["cuda"])
    step, spent = record["step"], record["seconds"]
started = last_written = time.monotonic()
model.train()
for batch in islice(all_batches(), step, None):
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
    if not args.gaps and time.monotonic() - last_written > args.checkpoint_seconds:
        write_checkpoint()
        last_written = time.monotonic()
seconds = round(spent + time.monotonic() - started, 1)
model.train(False)
measure = measured_questions if asks else measured_texts
results = {
    "task": args.task, "model": args.model.name if args.model else "embedded", "seed": args.seed,
    "phrase_epochs": args.phrase_epochs, "gaps": args.gaps, "agreement": args.agreement, "attention": args.attention,
    "epochs": args.epochs, "batch": args.batch, "rate": args.rate, "longest": args.longest, "steps": steps,
    "train": len(train), **{split: measure(encode(split)[: args.limit]) for split in MEASURED[args.task]},
    "seconds": seconds, "hardware": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    "torch": torch.__version__, "transformers": version("transformers"),
}  # fmt: skip
model.half().save_pretrained(args.out, max_shard_size="12MB")
tokenizer.save_pretrained(args.out)
(args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
begun.unlink(missing_ok=True)
print(json.dumps(results))
