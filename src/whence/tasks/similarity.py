"""Similarity: how near the sentence embeddings of two texts are, as a cosine.

The texts are read apart. The tokens of the first are explained; the second is what they are compared with, so to have
its tokens explained, swap the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from whence.errors import ModelError
from whence.explanation import Prediction
from whence.targets import ClassLabels, EncodedText, Label, Labels, Span, Vocabulary
from whence.tasks.classification import class_part
from whence.tasks.reading import Part, Reading

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Pooling = Literal["mean", "cls", "max", "lasttoken"]
"""How a text's states become one vector: their mean over tokens, the first, the largest of each feature, the last."""

# how sentence-transformers calls them; a mean over the root of the length points the same way as the mean
_POOLINGS: dict[str, Pooling] = {
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "cls_token": "cls",
    "max_tokens": "max",
    "lasttoken": "lasttoken",
}
_UNDERSTOOD = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class Similarity(Reading):
    """The cosine between two texts' pooled states; its only label is "similarity"."""

    labels: Labels
    pooling: Pooling = "mean"

    task = "similarity"
    auto_class = "AutoModel"
    unread_weights = ("pooler.",)
    decides = False
    needs_pair = True
    pair_apart = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls.pooled(_pooling_beside(str(getattr(config, "name_or_path", ""))))

    @classmethod
    def pooled(cls, pooling: Pooling = "mean") -> Similarity:
        """Without any model's config."""
        return cls(ClassLabels(("similarity",)), pooling)

    def read(
        self,
        output: Mapping[str, Tensor],
        mask: Bool[Tensor, "batch token"],
        reference: Float[Tensor, "batch hidden"] | None = None,
    ) -> Float[Tensor, "batch label"]:
        vectors = _pool(self.pooling, output["last_hidden_state"], mask)
        if reference is None:
            return vectors
        return torch.cosine_similarity(vectors.float(), reference.float(), dim=-1)[:, None]

    def part(self, target: Label | Span, logits: Float[Tensor, "1 label"], text: EncodedText) -> Part:
        return class_part(self.labels, target, logits)

    def prediction(
        self, logits: Float[Tensor, "1 label"], log_probabilities: Float[Tensor, "1 label"] | None, text: EncodedText
    ) -> Prediction:
        return Prediction(f"similarity {float(logits[0, 0]):.3f}", 0, None, {})


def _pool(
    pooling: Pooling, states: Float[Tensor, "batch token hidden"], mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch hidden"]:
    rows = torch.arange(len(states), device=states.device)
    if pooling == "cls":
        return states[:, 0]
    if pooling == "lasttoken":
        return states[rows, mask.long().cumsum(dim=1).argmax(dim=1)]
    if pooling == "max":
        return states.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)
    weights = mask[..., None].to(states)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def pooling_of(settings: Mapping[str, Any]) -> Pooling:
    """The pooling that sentence-transformers' settings name."""
    asked = [name for name in settings if name.startswith("pooling_mode_") and settings[name]]
    names = [settings["pooling_mode"]] if settings.get("pooling_mode") else asked
    found = [_POOLINGS.get(name.removeprefix("pooling_mode_")) or _POOLINGS.get(f"{name}_tokens") for name in names]
    known = [pooling for pooling in found if pooling is not None]
    if len(known) != 1 or len(names) != 1:
        raise ModelError(
            f"sentence embeddings pooled by {' and '.join(names) or 'nothing'} are not known to whence",
            f"known are {', '.join(_POOLINGS)}; whence.load(..., task=Similarity.pooled('mean')) takes one anyway",
        )
    return known[0]


def _pooling_beside(name: str) -> Pooling:
    """The pooling that a model of sentence-transformers names; others are pooled by the mean, as is usual."""
    pooling: Pooling = "mean"
    for module in _file_beside(name, "modules.json") or ():
        kind = str(module["type"]).rpartition(".")[2]
        check_module(kind)
        if kind == "Pooling":
            pooling = pooling_of(_file_beside(name, f"{module['path']}/config.json") or {})
    return pooling


def _file_beside(name: str, file: str) -> Any:
    """A JSON file of a model by folder or hub id, or None where there is none."""
    from transformers.utils.hub import cached_file

    if not name:
        return None
    silent = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors", "gated_repo")}
    try:
        found = cached_file(name, file, **silent)
    except (OSError, ValueError):  # neither a folder nor a name that a hub would take
        return None
    return None if found is None else json.loads(Path(found).read_text(encoding="utf-8"))


def check_module(kind: str) -> None:
    """Refuse a sentence transformer with a step that whence does not take."""
    if kind not in _UNDERSTOOD:
        raise ModelError(
            f"this sentence transformer has a {kind} module, which whence does not run",
            f"models of {', '.join(_UNDERSTOOD)} alone can be explained",
        )
