"""Write the data sets as ids with the vectors of their words: all that the sweep reads.

python experiments/sparse_attention/prepare.py --data-dir DATA --vectors WORK/vectors --out WORK/corpora
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from corpora import NAMES, SPLITS, read, write
from safetensors.torch import load_file

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data-dir", type=Path, required=True)
parser.add_argument("--vectors", type=Path, help="what word_vectors.py wrote; without it classifiers start at random")
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--names", nargs="+", choices=NAMES, default=list(NAMES))
args = parser.parse_args()

vectors, numbers = None, {}
args.out.mkdir(parents=True, exist_ok=True)
if args.vectors is not None:
    (args.out / "vectors.json").write_text((args.vectors / "about.json").read_text(encoding="utf-8"), encoding="utf-8")
    vectors = load_file(args.vectors / "vectors.safetensors")["vectors"].float()
    numbers = {word: i for i, word in enumerate(json.loads((args.vectors / "words.json").read_text(encoding="utf-8")))}
for name in args.names:
    corpus = read(name, args.data_dir)
    known = [i for i, word in enumerate(corpus.vocabulary.words) if word in numbers]
    if vectors is not None:
        table = torch.zeros(len(corpus.vocabulary), vectors.shape[1])  # words without a vector start at zero, as there
        table[known] = vectors[[numbers[corpus.vocabulary.words[i]] for i in known]]
        corpus = replace(corpus, vectors=table)
    write(corpus, args.out)
    sizes = " / ".join(str(len(getattr(corpus, split))) for split in SPLITS)
    print(f"{name}: {sizes} documents, {len(corpus.vocabulary)} vocabulary entries, {len(known)} with a vector")
