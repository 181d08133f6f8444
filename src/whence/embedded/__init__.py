"""The model that ships with whence: one small BERT, fine-tuned for sentiment and for topic, with its masked-LM head.

The word embeddings and the masked-LM head are stored once and shared by both tasks; MODEL_CARD.md says how they
were made.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

NAMES = ("sentiment", "topic")


def load_embedded(
    name: str = "sentiment", folder: Path | None = None
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast, nn.Module]:
    """Load the embedded classifier, its tokenizer, and the masked-LM head that decodes its hidden states into words.

    Args:
        name: the task, one of `NAMES`.
        folder: another folder of the same layout, as `training/export.py` writes it.

    Returns:
        The model (float32, on the CPU, in eval mode), the tokenizer, and the head, which maps hidden states to
        logits over the vocabulary. Head and model share the word-embedding matrix.

    Example:
        >>> model, tokenizer, head = load_embedded("sentiment")
        >>> logits = model(**tokenizer("a gorgeous, witty film", return_tensors="pt")).logits
        >>> model.config.id2label[int(logits.argmax())]
        'positive'
    """
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
    from transformers.models.bert.modeling_bert import BertOnlyMLMHead

    if name not in NAMES:
        raise ValueError(f"no embedded model {name!r}; the embedded models are {', '.join(NAMES)}")
    root = Path(__file__).parent if folder is None else folder
    shared = {key: tensor.float() for key, tensor in load_file(root / "shared.safetensors").items()}
    encoder = {key: tensor.float() for key, tensor in load_file(root / name / "model.safetensors").items()}
    words = "bert.embeddings.word_embeddings.weight"

    config = BertConfig.from_json_file(root / name / "config.json")
    config.name_or_path = f"whence/{name}"
    with torch.device("meta"):  # random weights would be drawn only to be replaced
        model = BertForSequenceClassification(config)  # type: ignore[no-untyped-call]
        head = BertOnlyMLMHead(config)  # type: ignore[no-untyped-call]
    model.load_state_dict({**encoder, words: shared[words]}, assign=True)
    embeddings = model.bert.embeddings  # two buffers are not stored with the weights
    positions = torch.arange(config.max_position_embeddings)[None]
    embeddings.register_buffer("position_ids", positions, persistent=False)
    embeddings.register_buffer("token_type_ids", torch.zeros_like(positions), persistent=False)

    weights = {key.removeprefix("cls."): tensor for key, tensor in shared.items() if key.startswith("cls.")}
    weights["predictions.decoder.weight"] = shared[words]
    weights["predictions.decoder.bias"] = weights["predictions.bias"]
    head.load_state_dict(weights, assign=True)
    head.predictions.decoder.weight = embeddings.word_embeddings.weight
    head.predictions.decoder.bias = head.predictions.bias

    tokenizer = PreTrainedTokenizerFast.from_pretrained(root, local_files_only=True)
    model.train(False)
    head.train(False)
    return model, tokenizer, head


def probes_folder(name: str = "sentiment", kind: str = "input") -> Path:
    """Where the DiffMask probes of an embedded model are; `whence.DiffMask.load` reads them."""
    return Path(__file__).parent / name / f"diffmask-{kind}"


def shapley_folder(name: str = "sentiment") -> Path:
    """Where the Shapley probes of an embedded model are; `whence.ShapleyProbes.load` reads them."""
    return Path(__file__).parent / name / "shapley"


def board_findings(name: str) -> dict[str, Any]:
    """What a board of an embedded model found of each method; `experiments/scoreboard/write_embedded.py` wrote it."""
    found: dict[str, Any] = json.loads((files(__name__) / name / "board.json").read_text(encoding="utf-8"))
    return found


def reviews() -> list[dict[str, str]]:
    """A hundred short reviews written for whence, each with `text` and `label` ("positive" or "negative")."""
    return _read("reviews.jsonl")


def hard_reviews() -> list[dict[str, str]]:
    """Reviews that turn on negation, sarcasm or contrast, each with `text`, `label` and `why` it is hard."""
    return _read("hard.jsonl")


def _read(name: str) -> list[dict[str, str]]:
    lines = (files(__name__) / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
