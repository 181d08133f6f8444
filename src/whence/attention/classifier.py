"""Attention classifiers: an encoder, attention over its states, and one linear layer that decides yes or no."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from whence.attention.documents import Documents
from whence.attention.encoders import BiLSTMEncoder, TransformerBlock, TransformerEncoder
from whence.attention.vocabulary import EOS, PAD, SOS, Vocabulary
from whence.errors import FileError, UnknownNameError, UsageError
from whence.files import write_whole
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel, States
from whence.models.plain import wrap_module
from whence.models.projections import projection
from whence.targets import ClassLabels
from whence.tasks.classification import Classification

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Encoder = Literal["bilstm", "transformer"]
Alignment = Literal["additive", "dot"]
_CONFIG, _WORDS, _WEIGHTS = "attention_classifier.json", "vocabulary.json", "model.safetensors"


@dataclass(frozen=True)
class ClassifierConfig:
    """The shape of an attention classifier; sizes are by default those of Meister et al. (2021).

    A BiLSTM has `hidden_size` units in each direction; the last four are of the Transformer alone. By default the
    alignment is additive over a BiLSTM and a dot product over a Transformer.
    """

    encoder: Encoder = "bilstm"
    alignment: Alignment | None = None
    projection: str = "softmax"
    embedding_size: int = 300
    hidden_size: int = 128
    n_blocks: int = 2
    n_heads: int = 1
    feed_forward_size: int = 128
    dropout: float = 0.1


_USUAL = ClassifierConfig()


@dataclass(frozen=True)
class Pooled:
    """What attention makes of the states: a weight per token, their weighted mean, and the logit of class 1."""

    weights: Float[Tensor, "batch token"]
    context: Float[Tensor, "batch hidden"]
    logit: Float[Tensor, " batch"]


class AdditiveAlignment(nn.Module):
    """vᵀ tanh(W h + b): the query is a learned constant and lives in b."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size // 2)
        self.outer = nn.Linear(size // 2, 1, bias=False)

    def forward(self, states: Float[Tensor, "batch token hidden"]) -> Float[Tensor, "batch token"]:
        scores: Tensor = self.outer(torch.tanh(self.inner(states)))
        return scores.squeeze(-1)


class DotAlignment(nn.Module):
    """hᵀq / √m: the query q is a learned constant."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, 1, bias=False)
        self.scale = math.sqrt(size)

    def forward(self, states: Float[Tensor, "batch token hidden"]) -> Float[Tensor, "batch token"]:
        scores: Tensor = self.query(states)
        return scores.squeeze(-1) / self.scale


class AttentionClassifier(nn.Module):
    """A binary text classifier that reads its encoder's states by attention.

    >>> vocabulary = Vocabulary.of(["a good film", "a bad film"])
    >>> classifier = AttentionClassifier(vocabulary, ClassifierConfig(projection="sparsemax"), labels=["bad", "good"])
    >>> ids, mask = classifier.padded(["a film", "good"])
    >>> classifier(ids, mask).shape
    torch.Size([2, 2])

    `whence.load(classifier)` makes it a layered model, which every method of whence explains. The logits of the two
    classes are -s/2 and s/2, so that softmax over them is the sigmoid of the logit s. Start, end and padding are never
    attended to.

    Args:
        vocabulary: the words it knows.
        config: its shape.
        labels: the names of class 0 and class 1.
        vectors: word vectors to start with; by default random ones.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        config: ClassifierConfig = _USUAL,
        *,
        labels: Sequence[str] = ("negative", "positive"),
        vectors: Float[Tensor, "word embedding"] | None = None,
    ) -> None:
        super().__init__()
        if len(set(labels)) != 2 or len(labels) != 2:
            raise UsageError(f"labels are {list(labels)}", "an attention classifier tells two classes: give two names")
        self.vocabulary = vocabulary
        self.config = config
        self.labels = tuple(labels)
        self.project = projection(config.projection)
        self.embedding = nn.Embedding(len(vocabulary), config.embedding_size, padding_idx=PAD)
        if vectors is not None:
            if vectors.shape != self.embedding.weight.shape:
                raise UsageError(
                    f"the word vectors have shape {tuple(vectors.shape)}",
                    f"give {len(vocabulary)} vectors of {config.embedding_size} numbers",
                )
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
                self.embedding.weight[PAD] = 0
        self.encoder = _encoder(config)
        self.alignment = _alignment(config, self.encoder.size)
        self.output = nn.Linear(self.encoder.size, 1)

    def forward(
        self, ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch label"]:
        logit = self.read(ids, mask).logit
        return torch.stack([-logit / 2, logit / 2], dim=-1)

    def read(self, ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]) -> Pooled:
        """Attention weights, context and logit of each text."""
        return self.pool(self.encode(self.embedding(ids), mask), readable(ids, mask))

    def encode(
        self,
        words: Float[Tensor, "batch token embedding"],
        mask: Bool[Tensor, "batch token"],
        positions: Int[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch token hidden"]:
        """The encoder's states of these word embeddings, as if they stood at these positions (default: 0, 1, …)."""
        hidden = self.encoder.start(words, positions)
        for block in self.encoder.blocks:
            hidden = block(hidden, mask)
        return hidden

    def pool(
        self,
        states: Float[Tensor, "batch token hidden"],
        readable: Bool[Tensor, "batch token"],
        *,
        detach_weights: bool = False,
    ) -> Pooled:
        """Attention over the readable states, and the decision."""
        weights = self.project(self.alignment(states), readable)
        return self.decide(weights.detach() if detach_weights else weights, states)

    def decide(self, weights: Float[Tensor, "batch token"], states: Float[Tensor, "batch token hidden"]) -> Pooled:
        """The decision, given attention weights."""
        context = torch.einsum("bt,bth->bh", weights, states)
        return Pooled(weights, context, self.output(context).squeeze(-1))

    def padded(self, texts: Sequence[str]) -> tuple[Int[Tensor, "batch token"], Bool[Tensor, "batch token"]]:
        """The texts as one batch where the classifier is: ids between those of start and end, and which are real."""
        documents = Documents.of(texts, [0] * len(texts), self.vocabulary)
        return documents.padded(self.embedding.weight.device)

    def documents(self, texts: Sequence[str], labels: Sequence[object]) -> Documents:
        """Texts and the names of their labels as `fit`, `predict` and `train_adversary` take them."""
        if strange := [str(label) for label in labels if str(label) not in self.labels]:
            raise UnknownNameError("label", strange[0], self.labels)
        return Documents.of(texts, [self.labels.index(str(label)) for label in labels], self.vocabulary)

    def layered(self) -> LayeredModel:
        """The classifier as a layered model, as `whence.load` asks for it.

        `attend` gives the attention of a Transformer's blocks; a BiLSTM has none, there it is that over its states.
        """
        blocks = list(self.encoder.blocks)
        reading = Classification(ClassLabels(self.labels))
        model = wrap_module(self, self.vocabulary, blocks=blocks, embedding=self.embedding, reading=reading)

        def attend(inputs: Inputs) -> list[Float[Tensor, "batch attention_head query key"]]:
            return [weights for _, weights in self.attention_maps(model.states(inputs), inputs)][: len(blocks)]

        return replace(model, attend=attend)

    def attention_maps(
        self, states: States, inputs: Inputs
    ) -> Iterator[tuple[int | str, Float[Tensor, "batch attention_head query key"]]]:
        """Each attention of the classifier with its name, lowest first: the blocks' (1, 2, …), then "pooling"."""
        for number, block in enumerate(self.encoder.blocks, start=1):
            if isinstance(block, TransformerBlock):
                yield number, block.attention(states.hidden[number - 1], inputs.mask)
        yield "pooling", self.pool(states.hidden[-1], readable(inputs.ids, inputs.mask)).weights[:, None, None, :]

    def save(self, folder: str | Path) -> None:
        """Write shape, labels, words and weights into a folder: JSON and safetensors, nothing that is executed."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        shape = {**asdict(self.config), "labels": self.labels}
        write_whole(json.dumps(shape, indent=2, ensure_ascii=False) + "\n", folder / _CONFIG)
        self.vocabulary.save(folder / _WORDS)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(weights, folder / _WEIGHTS)

    @classmethod
    def load(cls, folder: str | Path) -> AttentionClassifier:
        """The classifier that `save` wrote, in evaluation mode."""
        folder = Path(folder)
        vocabulary = Vocabulary.load(folder / _WORDS)
        try:
            shape = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
            labels = shape.pop("labels")
            weights = load_file(folder / _WEIGHTS)
            if len(weights["embedding.weight"]) != len(vocabulary):
                raise ValueError(f"{len(vocabulary)} words for {len(weights['embedding.weight'])} embeddings")
            model = cls(vocabulary, ClassifierConfig(**shape), labels=labels)
            model.load_state_dict(weights)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, SafetensorError) as error:
            reason = str(error).splitlines()[0]
            raise FileError(
                f"no attention classifier in {str(folder)!r}: {reason}", "give what `save` wrote"
            ) from error
        return model.eval()


def readable(ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """The tokens that attention may read: the words, not start, end or padding."""
    return mask & (ids != SOS) & (ids != EOS)


def _encoder(config: ClassifierConfig) -> BiLSTMEncoder | TransformerEncoder:
    if config.encoder == "bilstm":
        return BiLSTMEncoder(config.embedding_size, config.hidden_size)
    if config.encoder == "transformer":
        return TransformerEncoder(
            config.embedding_size, config.hidden_size, config.n_blocks, config.n_heads, config.feed_forward_size,
            config.dropout,
        )  # fmt: skip
    raise UnknownNameError("encoder", config.encoder, ["bilstm", "transformer"])


def _alignment(config: ClassifierConfig, size: int) -> AdditiveAlignment | DotAlignment:
    usual: Alignment = "additive" if config.encoder == "bilstm" else "dot"
    match config.alignment or usual:
        case "additive":
            return AdditiveAlignment(size)
        case "dot":
            return DotAlignment(size)
    raise UnknownNameError("alignment", config.alignment, ["additive", "dot"])
