"""Turn the data folder into the text files that pretrain.py and finetune.py read.

    python training/prepare.py --data-dir DATA --out WORK/text

What is held out, and why it can be believed:
- sentiment: whole SST sentences. SST-2 train is made of the phrases of its sentences, so every phrase of three words or
  more that occurs in a held-out sentence leaves the training set too.
- topic: random training articles.
- every training text that also stands in SST-2 dev, AG News test or IMDb test is dropped.
"""

import argparse
import html
import json
import lzma
import os
import random
import re
from pathlib import Path

import pyarrow.parquet as parquet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
DATA = os.environ.get("WHENCE_DATA")
parser.add_argument("--data-dir", type=Path, default=DATA, required=DATA is None)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--n-heldout-sentences", type=int, default=600)
parser.add_argument("--n-heldout-articles", type=int, default=3000)
parser.add_argument("--n-unlabelled", type=int, default=120_000, help="review sentences for teachers to label")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

random.seed(args.seed)
args.out.mkdir(parents=True, exist_ok=True)


def letters(text: str) -> str:
    """Words alone, so that two copies with other spacing or punctuation compare equal."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def as_people_type(sentence: str) -> str:
    """Undo the Penn tokenisation of SST: "do n't" has other word pieces than "don't"."""
    text = re.sub(r"(\w) n't\b", r"\1n't", sentence.strip())
    text = re.sub(r" (?='(?:s|re|ve|ll|d|m)\b)", "", text)
    text = re.sub(r"\bcan not\b", "cannot", text)
    text = text.replace("`` ", '"').replace(" ''", '"').replace("-lrb- ", "(").replace(" -rrb-", ")")
    text = re.sub(r" ([.,!?;:])", r"\1", text)
    return text[:1].upper() + text[1:]


def without_markup(text: str) -> str:
    """AG News lost the ampersands of its entities: "#39;" is an apostrophe."""
    text = re.sub(r" ?#(\d+);", lambda match: chr(int(match[1])), html.unescape(text))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\\", " ")).strip()


def head_and_tail(text: str, head: int = 60, tail: int = 110) -> str:
    """Reviews open and close on their verdict; the middle tells the plot and would not fit 256 positions."""
    words = text.split()
    return text if len(words) <= head + tail else " ".join(words[:head] + words[-tail:])


def write_rows(name: str, rows: list[dict]) -> None:
    with open(args.out / name, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    print(f"{name:32} {len(rows):8,} rows")


# sentiment: SST-2 phrases and IMDb reviews
sst2 = parquet.read_table(args.data_dir / "sst2.parquet").to_pylist()
dev = {letters(row["sentence"]) for row in sst2 if row["split"] == "dev"}
phrases = [row for row in sst2 if row["split"] == "train" and letters(row["sentence"]) not in dev]
known = {letters(row["sentence"]): row for row in phrases}

trees = parquet.read_table(args.data_dir / "sst5_trees.parquet").to_pylist()
train_trees = [row for row in trees if row["split"] == "train" and row["label"] != 2]
sentences = sorted({letters(row["sentence"]) for row in train_trees} & set(known))
heldout = set(random.sample(sentences, args.n_heldout_sentences))
heldout_text = "".join(f"\n {sentence} \n" for sentence in sorted(heldout))


def gives_away_a_heldout_sentence(phrase: str) -> bool:
    return phrase.count(" ") >= 2 and f" {phrase} " in heldout_text


phrases = [row for row in phrases if letters(row["sentence"])]
kept = [row for row in phrases if not gives_away_a_heldout_sentence(letters(row["sentence"]))]
sentiment = []
for row in kept:
    plain, natural = row["sentence"].strip(), as_people_type(row["sentence"])
    sentiment.append({"text": plain, "label": row["label"]})
    if "n't" in plain or "``" in plain or "-lrb-" in plain:  # otherwise the lower-case pieces are the same
        sentiment.append({"text": natural, "label": row["label"]})

imdb = parquet.read_table(args.data_dir / "imdb.parquet").to_pylist()
imdb_test = {letters(row["text"])[:80] for row in imdb if row["split"] == "test"}
reviews = [
    {"text": re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row["text"])).strip(), "label": row["label"]}
    for row in imdb
    if row["split"] == "train" and letters(row["text"])[:80] not in imdb_test
]
sentiment += [{"text": head_and_tail(row["text"]), "label": row["label"]} for row in reviews]

write_rows("sentiment_train.jsonl", sentiment)
heldout_rows = [known[sentence] for sentence in sorted(heldout)]
write_rows("sentiment_heldout.jsonl", [{"text": r["sentence"].strip(), "label": r["label"]} for r in heldout_rows])

# sentences of unlabelled reviews; the corpus does not say which document is a review, so the words must
with lzma.open(args.data_dir / "pretraining_corpus.txt.xz", "rt", encoding="utf-8") as file:
    documents = [line.strip() for line in file]
films, persons = re.compile(r"\b(movie|film|show|watch)"), re.compile(r"\b(I|you|my|me)\b")
unlabelled_reviews = [t for t in documents if films.search(t) and persons.search(t) and "References." not in t]
unlabelled = [
    {"text": sentence}
    for text in unlabelled_reviews
    for sentence in re.split(r"(?<=[.!?])\s+", re.sub(r"<[^>]*>", " ", text))
    if 4 <= len(sentence.split()) <= 40
]
random.shuffle(unlabelled)
write_rows("sentiment_unlabelled.jsonl", unlabelled[: args.n_unlabelled])

# topic: AG News, as published and as a person would paste it
ag_news = parquet.read_table(args.data_dir / "ag_news.parquet").to_pylist()
ag_test = {letters(row["text"])[:80] for row in ag_news if row["split"] == "test"}
articles = [row for row in ag_news if row["split"] != "test" and letters(row["text"])[:80] not in ag_test]
random.shuffle(articles)
topic = []
for row in articles[args.n_heldout_articles :]:
    raw, clean = row["text"].strip(), without_markup(row["text"])
    topic += [{"text": text, "label": row["label"]} for text in dict.fromkeys([raw, clean])]
write_rows("topic_train.jsonl", topic)
heldout_articles = articles[: args.n_heldout_articles]
write_rows("topic_heldout.jsonl", [{"text": row["text"], "label": row["label"]} for row in heldout_articles])

# text of the two domains, for the last part of pretraining; nothing held out is in it
with open(args.out / "focus.txt", "w", encoding="utf-8") as file:
    whole_sentences = set(sentences)
    focus = [row["text"] for row in reviews]
    focus += [without_markup(row["text"]) for row in articles[args.n_heldout_articles :]]
    focus += [row["sentence"].strip() for row in kept if letters(row["sentence"]) in whole_sentences]
    random.shuffle(focus)
    file.writelines(text.replace("\n", " ") + "\n" for text in focus)
print(f"{'focus.txt':32} {len(focus):8,} documents")
