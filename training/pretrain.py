"""Build a WordPiece tokenizer and pretrain a small BERT with masked language modelling.

    python training/pretrain.py --text corpus.txt.xz --focus focus.txt --out WORK/pretrained --seconds 560

The text file holds one document a line, plain or .xz. Training is limited by time: the learning rate warms up, stays,
and falls to zero over the second half, in which windows are also drawn from the focus text (the domains the model
will be fine-tuned on); the last part uses longer windows, so that every position is trained. Writes a Hugging Face
folder.
"""

import argparse
import json
import lzma
import time
from collections.abc import Sequence
from pathlib import Path

import numpy
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--text", type=Path, required=True)
parser.add_argument("--focus", type=Path, help="text of the target domains, drawn on in the second half")
parser.add_argument("--tokenizer", type=Path, help="reuse this folder's tokenizer.json instead of building one")
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--vocabulary", type=int, default=16384)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--positions", type=int, default=256)
parser.add_argument("--seconds", type=float, default=560)
parser.add_argument("--steps", type=int, help="stop after so many steps instead, for a repeatable run")
parser.add_argument("--batch-tokens", type=int, default=131072)
parser.add_argument("--rate", type=float, default=2e-3)
parser.add_argument("--warmup-steps", type=int, default=500)
parser.add_argument("--decay-from", type=float, default=0.5, help="share of the run after which the rate falls")
parser.add_argument("--focus-share", type=float, default=0.35, help="share of focus windows while the rate falls")
parser.add_argument("--long-from", type=float, default=0.85, help="share of the run after which windows are long")
parser.add_argument("--masked-share", type=float, default=0.2)
parser.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
N_HELDOUT_DOCUMENTS = 300
LOG_EVERY, SAVE_EVERY_SECONDS = 100, 120

torch.manual_seed(args.seed)
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"
args.out.mkdir(parents=True, exist_ok=True)


def read_lines(path: Path) -> list[str]:
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


documents = read_lines(args.text)
focus_documents = read_lines(args.focus) if args.focus else []

# ---- tokenizer ----
if args.tokenizer:
    wordpiece = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
else:
    wordpiece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    wordpiece.normalizer = normalizers.BertNormalizer(lowercase=True)
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.train_from_iterator(
        documents + focus_documents,
        trainers.WordPieceTrainer(
            vocab_size=args.vocabulary, special_tokens=SPECIAL, limit_alphabet=400, show_progress=False
        ),
    )
    wordpiece.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=wordpiece,
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
    model_max_length=args.positions,
    model_input_names=["input_ids", "token_type_ids", "attention_mask"],
)
tokenizer.save_pretrained(args.out)


def token_stream(texts: list[str]) -> torch.Tensor:
    """All documents end to end, a [SEP] after each."""
    pieces = []
    for start in range(0, len(texts), 10_000):
        for encoding in wordpiece.encode_batch(texts[start : start + 10_000], add_special_tokens=False):
            pieces.append(numpy.array([*encoding.ids, SEP], dtype=numpy.int32))
    return torch.from_numpy(numpy.concatenate(pieces)).to(device)


start = time.time()
n_heldout = min(N_HELDOUT_DOCUMENTS, len(documents) // 10)
heldout_stream = token_stream(documents[:n_heldout])
stream = token_stream(documents[n_heldout:])
focus_stream = token_stream(focus_documents) if focus_documents else stream
print(f"{len(stream):,} tokens, focus {len(focus_stream):,}, in {time.time() - start:.0f} s", flush=True)

# ---- model ----
config = BertConfig(
    vocab_size=args.vocabulary,
    hidden_size=args.hidden,
    num_hidden_layers=args.layers,
    num_attention_heads=args.heads,
    intermediate_size=4 * args.hidden,
    max_position_embeddings=args.positions,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    pad_token_id=PAD,
)
model = BertForMaskedLM(config).to(device)  # type: ignore[arg-type]


def draw_windows(tokens: torch.Tensor, n_windows: int, length: int) -> torch.Tensor:
    """Random cuts of the stream, each behind a [CLS]."""
    starts = torch.randint(0, len(tokens) - length, (n_windows, 1), device=device)
    windows = tokens[starts + torch.arange(length - 1, device=device)].long()
    return torch.cat([torch.full((n_windows, 1), CLS, device=device), windows], dim=1)


def mask(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hide the same number of tokens in each window (80 % [MASK], 10 % random, 10 % kept): shapes stay fixed."""
    n_masked = round(args.masked_share * ids.shape[1])
    chosen = torch.rand(ids.shape, device=device).masked_fill(ids < len(SPECIAL), -1).topk(n_masked, dim=1).indices
    positions = (chosen + ids.shape[1] * torch.arange(len(ids), device=device)[:, None]).flatten()
    truth = ids.flatten()[positions]
    dice = torch.rand(truth.shape, device=device)
    random_ids = torch.randint(len(SPECIAL), args.vocabulary, truth.shape, device=device)
    seen = torch.where(dice < 0.8, MASK, torch.where(dice < 0.9, random_ids, truth))
    return ids.flatten().scatter(0, positions, seen).view_as(ids), positions, truth


def masked_lm_loss(ids: torch.Tensor, positions: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    states = model.bert(input_ids=ids).last_hidden_state.flatten(0, 1)[positions]
    return torch.nn.functional.cross_entropy(model.cls(states).float(), truth)


class Muon:
    """Momentum whose matrix is orthogonalised (Jordan et al. 2024), scaled to AdamW's update size (Liu et al. 2025).

    Matrices of one shape are handled as one stack: 36 small matrices would otherwise cost hundreds of launches.
    """

    def __init__(self, matrices: Sequence[torch.Tensor], momentum: float = 0.95, weight_decay: float = 0.1):
        shapes = {matrix.shape for matrix in matrices}
        self.groups = [[matrix for matrix in matrices if matrix.shape == shape] for shape in sorted(shapes)]
        self.averages = [torch.zeros(len(group), *group[0].shape, device=device) for group in self.groups]
        self.momentum, self.weight_decay = momentum, weight_decay

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for group, average in zip(self.groups, self.averages, strict=True):
            gradients = torch.stack([matrix.grad for matrix in group])  # type: ignore[misc]
            average.lerp_(gradients, 1 - self.momentum)
            update = orthogonalised(gradients.lerp(average, self.momentum))
            size = 0.2 * max(group[0].shape) ** 0.5
            torch._foreach_mul_(group, 1 - rate * self.weight_decay)
            torch._foreach_add_(group, list(update.unbind()), alpha=-rate * size)


def orthogonalised(stack: torch.Tensor) -> torch.Tensor:
    """The nearest (semi-)orthogonal matrices, roughly: five Newton-Schulz steps in bfloat16."""
    x = stack.bfloat16() / (stack.norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(stack.dtype)


hidden_matrices = [p for p in model.bert.encoder.parameters() if p.ndim == 2] if args.optimizer == "muon" else []
taken = {id(p) for p in hidden_matrices}
others = [p for p in model.parameters() if id(p) not in taken]
muon = Muon(hidden_matrices)
adamw = torch.optim.AdamW(
    [
        {"params": [p for p in others if p.ndim == 2], "weight_decay": 0.01},
        {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0},
    ],
    betas=(0.9, 0.98),
    fused=device == "cuda",
)
loss_of = torch.compile(masked_lm_loss, dynamic=False) if args.compile else masked_lm_loss
autocast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

short = min(128, args.positions // 2)
if args.compile:  # both window lengths, before the clock starts
    for length in (short, args.positions):
        with autocast:
            loss_of(*mask(draw_windows(stream, args.batch_tokens // length, length))).backward()
    model.zero_grad(set_to_none=True)


def save(record: dict) -> None:
    model.save_pretrained(args.out)
    (args.out / "pretraining.json").write_text(json.dumps(record, indent=1))


# ---- training ----
start = last_saved = time.time()
step, progress, curve = 0, 0.0, []
while progress < 1:
    falling = min(1.0, (1 - progress) / (1 - args.decay_from))
    rate = args.rate * min(falling, (step + 1) / args.warmup_steps)
    length = args.positions if progress >= args.long_from else short
    n_windows = max(1, args.batch_tokens // length)
    n_focus = round(args.focus_share * n_windows) if falling < 1 else 0
    ids = torch.cat([draw_windows(stream, n_windows - n_focus, length), draw_windows(focus_stream, n_focus, length)])
    with autocast:
        loss = loss_of(*mask(ids))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(others, 1.0)
    for group in adamw.param_groups:
        group["lr"] = rate
    adamw.step()
    muon.step(rate)
    model.zero_grad(set_to_none=True)
    step += 1
    if step % LOG_EVERY == 0 or step == args.steps:
        curve.append({"step": step, "seconds": round(time.time() - start, 1), "loss": round(loss.item(), 4)})
        if step % (10 * LOG_EVERY) == 0:
            print(f"step {step:6} {time.time() - start:5.0f} s  rate {rate:.1e}  loss {loss.item():.3f}", flush=True)
        if time.time() - last_saved > SAVE_EVERY_SECONDS:
            last_saved = time.time()
            save({"unfinished": True, "curve": curve})
    progress = step / args.steps if args.steps else (time.time() - start) / args.seconds

model.eval()
torch.manual_seed(args.seed)
with torch.no_grad(), autocast:
    heldout_losses = [masked_lm_loss(*mask(draw_windows(heldout_stream, 64, short))).item() for _ in range(20)]
record = {
    "steps": step,
    "seconds": round(time.time() - start, 1),
    "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    "torch": torch.__version__,
    "knobs": {name: value.name if isinstance(value, Path) else value for name, value in vars(args).items()},
    "tokens_in_text": len(stream),
    "tokens_in_focus": len(focus_stream) if focus_documents else 0,
    "heldout_masked_lm_loss": round(sum(heldout_losses) / len(heldout_losses), 4),
    "curve": curve,
}
save(record)
print(f"done: {step} steps in {record['seconds']} s, held-out loss {record['heldout_masked_lm_loss']}", flush=True)
