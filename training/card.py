"""Write the model card from training/results.json, so that no number in it is typed by hand.

python training/card.py
"""

import json
from pathlib import Path

HERE = Path(__file__).parent
CARD = HERE.parent / "src" / "whence" / "embedded" / "MODEL_CARD.md"

results = json.loads((HERE / "results.json").read_text())
sentiment, topic = results["sentiment"], results["topic"]
pretraining, finetunings = results["pretraining"], results["finetunings"]
embedded = {task: finetunings[run] for task, run in results["embedded_runs"].items()}


def accuracy_row(name: str, measured: dict) -> str:
    low, high = measured["confidence_interval_95"]
    error = measured["expected_calibration_error"]
    return f"| {name} | {measured['n']:,} | {measured['accuracy']:.3f} | {low:.3f}–{high:.3f} | {error:.3f} |"


def finetuning_row(name: str, run: dict) -> str:
    knobs, last = run["knobs"], run["head_after"][-1]
    mark = " (embedded)" if name in results["embedded_runs"].values() else ""
    return (
        f"| {name}{mark} | {knobs['seed']} | {run['n_labelled'] + run['n_unlabelled']:,} | {knobs['epochs']:g} "
        f"| {knobs['masked_lm_weight']:g} | {len(knobs['teachers']) or '–'} "
        f"| {run['heldout_accuracy']:.3f} | {run['heldout_loss']:.3f} "
        f"| {last['mean_probability']:.3f} / {last['median_rank']} |"
    )


def head_rows() -> str:
    tables = [
        embedded["sentiment"]["head_before"],
        sentiment["head_on_sst2_dev"],
        embedded["topic"]["head_before"],
        topic["head_on_ag_news_test"],
    ]
    rows = []
    for cells in zip(*tables, strict=True):
        numbers = " | ".join(f"{cell['mean_probability']:.3f} / {cell['median_rank']}" for cell in cells)
        rows.append(f"| {cells[0]['layer']} | {numbers} |")
    return "\n".join(rows)


accuracies = "\n".join(
    [
        accuracy_row("SST-2 dev (sentiment)", sentiment["sst2_dev"]),
        accuracy_row("IMDb test, every 25th review, cut at 256 pieces (sentiment)", sentiment["imdb_test_every_25th"]),
        accuracy_row("`reviews.jsonl` (sentiment)", sentiment["reviews"]),
        accuracy_row("`hard.jsonl` (sentiment)", sentiment["hard_reviews"]),
        accuracy_row("AG News test (topic)", topic["ag_news_test"]),
    ]
)
wrong = "\n".join(
    f"- “{row['text']}” is {row['label']} ({row['why']}); the model says {row['predicted']}, {row['probability']:.2f}."
    for row in sentiment["hard_reviews_wrong"]
)
fillers = ", ".join(f"{word} ({probability:.2f})" for word, probability in sentiment["fillers"].items())
knobs = pretraining["knobs"]
n_tokens = pretraining["steps"] * knobs["batch_tokens"] / 1e9

CARD.write_text(
    f"""# The embedded model

A small BERT ({knobs["layers"]} layers, {knobs["hidden"]} hidden, {knobs["heads"]} heads, {knobs["vocabulary"]:,}
lower-case word pieces, {knobs["positions"]} positions) with its masked-LM head, fine-tuned twice: for sentiment
(negative, positive) and for topic (World, Sports, Business, Sci/Tech). It ships with whence so that every method can be
tried without a download. It is made for English film reviews and news, and for showing explanations; it is not
made for decisions about people.

Files: `shared.safetensors` (word embeddings and masked-LM head, used by both tasks), `sentiment/` and `topic/` (the
rest of each classifier), all fp16, {results["megabytes"]:.1f} MB together. `training/` in the repository makes them
again.

## How good it is
Measured from these files, in float32 on the CPU (`training/measure.py`, `training/results.json`).

| data | n | accuracy | 95 % interval (Wilson) | calibration error (15 bins) |
|---|---|---|---|---|
{accuracies}

`reviews.jsonl` and `hard.jsonl` were written for whence; the first holds plain verdicts, the second cases chosen to be
hard. Neither was trained on or selected on.

## What the masked-LM head reads at each layer
The head was frozen while the classifiers were trained, and filling masked words stayed part of the task. Each cell:
mean probability / median rank that the head gives to the word piece that stands there (nothing masked, rank 1 is best).
“Pretrained” is the encoder before fine-tuning, on held-out training texts; the others are the embedded encoders on
the first 300 texts of SST-2 dev and AG News test.

| layer | pretrained, SST sentences | sentiment | pretrained, AG News | topic |
|---|---|---|---|---|
{head_rows()}

“the movie was really [MASK] .”, through the sentiment encoder: {fillers}.

## How it was made
- **Pretraining**: {pretraining["steps"]:,} steps of {knobs["batch_tokens"]:,} tokens ({n_tokens:.1f} B tokens drawn at
  random from {pretraining["tokens_in_text"] / 1e6:.0f} M), {pretraining["seconds"]:.0f} s on one
  {pretraining["device"]}, seed {knobs["seed"]}. Muon for the encoder's matrices, AdamW for the rest, rate
  {knobs["rate"]:g}, constant for {knobs["decay_from"]:.0%} of the time, then falling to zero while
  {knobs["focus_share"]:.0%} of the windows come from reviews and news. Masked-LM loss on unseen documents:
  {pretraining["heldout_masked_lm_loss"]:.2f}.
- **Fine-tuning**: word embeddings and masked-LM head frozen. SST phrases with "n't" and quotes are also seen as people
  type them, AG News also without its broken entities. Teachers learn the word embeddings
  too and fill no masked words; only their probabilities are used. A run with teachers learns the mean of those, also on
  unlabelled sentences of reviews and articles. Trained on: {embedded["sentiment"]["device"]} (sentiment),
  {embedded["topic"]["device"]} (topic).
- **Selection**: the last step of each run is kept. Between runs of a task, the best accuracy on held-out *training*
  sentences decides (600 whole SST sentences, with their phrases removed from training; 3,000 AG News articles). SST-2
  dev and AG News test were not used for any choice.

| run | seed | texts | epochs | masked-LM weight | teachers | held-out accuracy | loss | last layer decoded |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(finetuning_row(name, run) for name, run in finetunings.items())}

## Data
| data | used for | licence |
|---|---|---|
| Wikipedia, 50,000 articles | pretraining | CC BY-SA |
| IMDb, 50,000 unlabelled reviews; 25,000 labelled train reviews | pretraining; sentiment | free for research |
| Reuters-21578 | pretraining | free for research |
| SST-2 train (GLUE) | last part of pretraining; sentiment | free for research |
| AG News, 53,069 training articles less test duplicates | last part of pretraining; topic | free for research |

## Known weaknesses
The sentiment model was trained on verdicts that say what they mean. Of {sentiment["hard_reviews"]["n"]} hard cases it
gets {len(sentiment["hard_reviews_wrong"])} wrong:

{wrong}

It knows no neutral class, nothing of other languages, and little of products or restaurants. The topic model has seen
the news of 2004 and 2005 only. Texts are cut at {knobs["positions"]} word pieces.
""",
    encoding="utf-8",
)
print(f"wrote {CARD.name}")
