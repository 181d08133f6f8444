"""Measure the embedded files, in float32 on the CPU, and write training/results.json.

    python training/measure.py --data-dir DATA [--work WORK]

--work is the scratch folder of run_all.sh: its records (knobs, steps, seconds, held-out results, the head tables of
the pretrained encoder) are taken into the results, and so are those of trial runs in WORK/trials. Without it, those of
the last measurement stay.
"""

import argparse
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pyarrow.parquet as parquet
import torch
from head import head_table
from safetensors import safe_open

from whence.embedded import hard_reviews, load_embedded, reviews

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
DATA = os.environ.get("WHENCE_DATA")
parser.add_argument("--data-dir", type=Path, default=DATA, required=DATA is None)
parser.add_argument("--work", type=Path)
parser.add_argument("--folder", type=Path, default=Path("src/whence/embedded"))
parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
args = parser.parse_args()

FILL = "the movie was really [MASK] ."
N_CALIBRATION_BINS = 15


def wilson(n_right: int, n: int, z: float = 1.96) -> list[float]:
    """The 95 % confidence interval of a share."""
    share = n_right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return [round(middle - half, 4), round(middle + half, 4)]


@torch.no_grad()
def probabilities(model, tokenizer, texts: list[str]) -> numpy.ndarray:
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    result = numpy.zeros((len(texts), model.config.num_labels))
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        inputs = tokenizer([texts[row] for row in rows], padding=True, truncation=True, return_tensors="pt")
        result[rows] = model(**inputs).logits.softmax(-1).numpy()
    return result


def quality(model, tokenizer, texts: list[str], labels: list[int]) -> dict:
    predicted = probabilities(model, tokenizer, texts)
    right = predicted.argmax(-1) == numpy.array(labels)
    confidence = predicted.max(-1)
    bins = numpy.minimum((confidence * N_CALIBRATION_BINS).astype(int), N_CALIBRATION_BINS - 1)
    gaps = [abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).sum() for b in set(bins.tolist())]
    return {
        "accuracy": round(float(right.mean()), 4),
        "confidence_interval_95": wilson(int(right.sum()), len(right)),
        "n": len(right),
        "expected_calibration_error": round(float(sum(gaps)) / len(right), 4),
    }


def summary(path: Path) -> dict:
    record = json.loads(path.read_text())
    return {name: value for name, value in record.items() if name != "curve"}


model, tokenizer, head = load_embedded("sentiment", args.folder)
config: Any = model.config
sst2 = [row for row in parquet.read_table(args.data_dir / "sst2.parquet").to_pylist() if row["split"] == "dev"]
sst2_texts = [row["sentence"] for row in sst2]
sentiment: dict[str, Any] = {"sst2_dev": quality(model, tokenizer, sst2_texts, [row["label"] for row in sst2])}
imdb = [row for row in parquet.read_table(args.data_dir / "imdb.parquet").to_pylist() if row["split"] == "test"][::25]
imdb_texts = [row["text"].replace("<br />", " ") for row in imdb]
sentiment["imdb_test_every_25th"] = quality(model, tokenizer, imdb_texts, [row["label"] for row in imdb])
for name, rows in {"reviews": reviews(), "hard_reviews": hard_reviews()}.items():
    labels = [config.label2id[row["label"]] for row in rows]
    sentiment[name] = quality(model, tokenizer, [row["text"] for row in rows], labels)
hard_texts = [row["text"] for row in hard_reviews()]
sentiment["hard_reviews_wrong"] = [
    {
        **row,
        "predicted": config.id2label[int(predicted.argmax())],
        "probability": round(float(predicted.max()), 3),
    }
    for row, predicted in zip(hard_reviews(), probabilities(model, tokenizer, hard_texts), strict=True)
    if config.id2label[int(predicted.argmax())] != row["label"]
]
sentiment["head_on_sst2_dev"] = head_table(model.bert, head, tokenizer, sst2_texts)
inputs = tokenizer(FILL, return_tensors="pt")
position = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
with torch.no_grad():
    fillers = head(model.bert(**inputs).last_hidden_state)[0, position].softmax(-1).topk(5)
words = [tokenizer.decode([word]) for word in fillers.indices.tolist()]
sentiment["fillers"] = dict(zip(words, [round(p, 3) for p in fillers.values.tolist()], strict=True))

model, tokenizer, head = load_embedded("topic", args.folder)
ag_news = [row for row in parquet.read_table(args.data_dir / "ag_news.parquet").to_pylist() if row["split"] == "test"]
ag_texts = [row["text"] for row in ag_news]
topic: dict[str, Any] = {"ag_news_test": quality(model, tokenizer, ag_texts, [row["label"] for row in ag_news])}
topic["head_on_ag_news_test"] = head_table(model.bert, head, tokenizer, ag_texts)

embedded = {}
for task in ("sentiment", "topic"):
    with safe_open(args.folder / task / "model.safetensors", "pt") as file:
        embedded[task] = file.metadata()["run"]
commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
results = {
    "commit_before": commit or None,
    "measured_with": f"float32 on the CPU, torch {torch.__version__}, Python {platform.python_version()}",
    "megabytes": round(sum(path.stat().st_size for path in args.folder.rglob("*") if path.is_file()) / 1e6, 2),
    "embedded_runs": embedded,
    "sentiment": sentiment,
    "topic": topic,
}
if args.work:
    results["pretraining"] = summary(args.work / "pretrained" / "pretraining.json")
    for kind, pattern in {"finetunings": "*/finetuning.json", "trials": "trials/*/finetuning.json"}.items():
        results[kind] = {path.parent.name: summary(path) for path in sorted(args.work.glob(pattern))}
elif args.out.exists():
    last = json.loads(args.out.read_text())
    results |= {name: last[name] for name in ("pretraining", "finetunings", "trials") if name in last}
args.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")

print("| measured | accuracy | 95 % interval | n | calibration error |\n|---|---|---|---|---|")
for name, row in {**sentiment, **topic}.items():
    if "accuracy" in row:
        interval = "–".join(f"{bound:.3f}" for bound in row["confidence_interval_95"])
        print(f"| {name} | {row['accuracy']:.4f} | {interval} | {row['n']} | {row['expected_calibration_error']:.3f} |")
print("\n| layer | sentiment: probability | median rank | topic: probability | median rank |\n|---|---|---|---|---|")
for layers in zip(sentiment["head_on_sst2_dev"], topic["head_on_ag_news_test"], strict=True):
    cells = [f"{cell['mean_probability']:.3f} | {cell['median_rank']}" for cell in layers]
    print(f"| {layers[0]['layer']} | {cells[0]} | {cells[1]} |")
print("\n" + FILL, sentiment["fillers"])
for row in sentiment["hard_reviews_wrong"]:
    print(f"wrong: {row['text']} ({row['label']}; {row['why']})")
