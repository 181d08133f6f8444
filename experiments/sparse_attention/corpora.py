"""The three data sets as Jain and Wallace (2019) prepared them: vocabulary of the training part, length filter.

`prepare` writes them as ids, with a word vector for each entry of the vocabulary, so that the sweep needs no more than
torch and these files; `load` reads them back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from whence.attention.documents import Documents
from whence.attention.vocabulary import SPECIAL, Vocabulary

SPLITS = ("train", "dev", "test")
IMDB_SEED, IMDB_LONGEST = 1378, 400
NAMES = ("sst", "20news", "imdb")
Texts = Mapping[str, tuple[list[str], list[int]]]


@dataclass(frozen=True)
class Corpus:
    """A data set as ids, and the vectors of its words if there are any."""

    name: str
    vocabulary: Vocabulary
    train: Documents
    dev: Documents
    test: Documents
    vectors: Tensor | None = None


@dataclass(frozen=True)
class Recipe:
    """How a set is read, which words are kept, and how many words a document must have (more than, fewer than).

    Without an upper bound the longest document of each part is dropped, as a strict comparison with the longest does.
    """

    file: str
    read: Callable[[Path], Texts]
    fewest_texts: int
    more_than: int
    fewer_than: int | None = None


def _rows(path: Path, columns: list[str]) -> list[dict[str, object]]:
    from pyarrow.parquet import read_table

    return read_table(path, columns=columns).to_pylist()


def _already_split(path: Path) -> Texts:
    """Cleaned and split by those who made the file."""
    parts: dict[str, tuple[list[str], list[int]]] = {split: ([], []) for split in SPLITS}
    for row in _rows(path, ["text", "label", "exp_split"]):
        texts, labels = parts[str(row["exp_split"])]
        texts.append(str(row["text"]))
        labels.append(int(str(row["label"])))
    return parts


def keras_words(text: str) -> list[str]:
    """Words as Keras splits them: lower case, punctuation to spaces, apostrophes kept; line breaks leave a "br"."""
    return re.sub(r'[!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]', " ", text.lower()).split()


def _imdb(path: Path) -> Texts:
    """Reviews of fewer than 400 words; a fifth of the training part is held out, a fifth of the test part is kept."""
    rows = _rows(path, ["text", "label", "split"])
    cleaned = [(" ".join(words), int(str(row["label"])), row["split"]) for row in rows
               if len(words := keras_words(str(row["text"]))) < IMDB_LONGEST]  # fmt: skip
    random = np.random.default_rng(IMDB_SEED)
    parts: dict[str, tuple[list[str], list[int]]] = {}
    for source, (large, small) in {"train": ("train", "dev"), "test": ("rest", "test")}.items():
        those = [row for row in cleaned if row[2] == source]
        order = random.permutation(len(those))
        cut = round(len(those) * 0.8)
        for part, numbers in {large: order[:cut], small: order[cut:]}.items():
            parts[part] = ([those[i][0] for i in numbers], [those[i][1] for i in numbers])
    return parts


RECIPES: dict[str, Recipe] = {
    "sst": Recipe("sst_jain_wallace.parquet", _already_split, fewest_texts=1, more_than=5),
    "20news": Recipe("20news_sports_jain_wallace.parquet", _already_split, fewest_texts=2, more_than=6, fewer_than=500),
    "imdb": Recipe("imdb.parquet", _imdb, fewest_texts=10, more_than=6),
}


def read(name: str, data_dir: Path) -> Corpus:
    """A set from its file: vocabulary of the whole training part, then the length filter on every part."""
    recipe = RECIPES[name]
    parts = recipe.read(data_dir / recipe.file)
    vocabulary = Vocabulary.of(parts["train"][0], fewest_texts=recipe.fewest_texts)
    documents: dict[str, Any] = {}
    for split in SPLITS:
        texts, labels = parts[split]
        lengths = [len(text.split()) for text in texts]
        bound = max(lengths) if recipe.fewer_than is None else recipe.fewer_than
        kept = [i for i, length in enumerate(lengths) if recipe.more_than < length < bound]
        documents[split] = Documents.of([texts[i] for i in kept], [labels[i] for i in kept], vocabulary)
    return Corpus(name, vocabulary, **documents)


def write(corpus: Corpus, folder: Path) -> None:
    """Ids as one long row a part, with the lengths of its documents."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for split in SPLITS:
        documents: Documents = getattr(corpus, split)
        tensors[f"{split}.ids"] = torch.tensor([number for row in documents.ids for number in row], dtype=torch.int16)
        tensors[f"{split}.lengths"] = torch.tensor([len(row) for row in documents.ids], dtype=torch.int16)
        tensors[f"{split}.labels"] = torch.tensor(documents.labels, dtype=torch.int8)
    if corpus.vectors is not None:
        tensors["vectors"] = corpus.vectors.half()
    save_file(tensors, folder / f"{corpus.name}.safetensors")
    (folder / f"{corpus.name}.json").write_text(json.dumps(corpus.vocabulary.words[len(SPECIAL) :]), encoding="utf-8")


def load(name: str, folder: Path) -> Corpus:
    """What `write` wrote."""
    tensors = load_file(folder / f"{name}.safetensors")
    vocabulary = Vocabulary(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
    documents = {}
    for split in SPLITS:
        rows = tensors[f"{split}.ids"].long().split(tensors[f"{split}.lengths"].tolist())
        documents[split] = Documents(
            tuple(tuple(row.tolist()) for row in rows), tuple(tensors[f"{split}.labels"].tolist())
        )
    vectors = tensors["vectors"].float() if "vectors" in tensors else None
    return Corpus(name, vocabulary, **documents, vectors=vectors)
