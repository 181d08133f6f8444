"""Train 300-dimensional word vectors on a text file, one document a line, for the sets of this experiment.

    pip install gensim
    python experiments/sparse_attention/word_vectors.py --text DATA/pretraining_corpus.txt.xz --out WORK/vectors

They stand in for the fastText vectors of the paper, which come from the Simple English Wikipedia. Skip-gram with
negative sampling (gensim), window 5; no GPU is used. Apostrophes split words in every other document, since they do in
two of the three sets. Writes vectors.safetensors (float16), words.json, and about.json, which goes into the results.
"""

import argparse
import json
import lzma
import re
import time
from pathlib import Path

import torch
from gensim.models import Word2Vec
from safetensors.torch import save_file

LONGEST = 1_000  # words: gensim cuts longer sentences

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--text", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--size", type=int, default=300)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--limit", type=int, help="documents, for a trial")
parser.add_argument("--cbow", action="store_true", help="continuous bag of words: four times faster, a little worse")
args = parser.parse_args()


class Sentences:
    """The documents as lists of words, read anew in every epoch."""

    def __iter__(self):
        open_text = lzma.open if args.text.suffix == ".xz" else open
        with open_text(args.text, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if args.limit is not None and number >= args.limit:
                    return
                line = line.lower().replace("’", "'")
                words = re.findall(r"\w+" if number % 2 else r"\w+(?:'\w+)?", line.replace("_", " "))
                for start in range(0, len(words), LONGEST):
                    yield words[start : start + LONGEST]


started = time.time()
model = Word2Vec(
    Sentences(),
    vector_size=args.size,
    window=5,
    min_count=5,
    sg=int(not args.cbow),
    negative=5,
    sample=1e-4,
    epochs=args.epochs,
    workers=args.workers,
    seed=0,
)
args.out.mkdir(parents=True, exist_ok=True)
save_file({"vectors": torch.from_numpy(model.wv.vectors).half()}, args.out / "vectors.safetensors")
(args.out / "words.json").write_text(json.dumps(model.wv.index_to_key), encoding="utf-8")
about = {
    "algorithm": "continuous bag of words" if args.cbow else "skip-gram",
    "size": args.size,
    "epochs": args.epochs,
    "documents": model.corpus_count,
    "running_words": model.corpus_total_words,
    "words": len(model.wv),
    "seconds": round(time.time() - started),
}
(args.out / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
nearest = ", ".join(word for word, _ in model.wv.most_similar("film", topn=5)) if "film" in model.wv else "-"
print(f"{about}; nearest to film: {nearest}")
