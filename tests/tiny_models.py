"""Tiny random models of every family, and tokenizers for them, built on the spot: nothing is downloaded.

Weights are large, so that outputs really depend on inputs, and padding has an embedding like any other token, so that
a model which looks at it is found out.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.models.auto import modeling_auto

import whence

VOCABULARY = """
a an and at bad best but by can could dull end ever fact film fine for from funny good great he her his hope if in is it
long made movie no not of on one or plot sad say she so some story that the then they this time to too very was what
when who why with witty worst you year
"""
WORDS = VOCABULARY.split()
PIECES = ["un", "happi", "ness", "play", "act", "ing", "ed", "er", "ly", "ful", "less"]
MARKS = list("!?.,;:'\"()[]<>/-&")
LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789é日本")

SHORT = "a witty film"
LONG = "the plot was not bad, but it is too long and so very dull in the end!"
TEXTS = [SHORT, "not the best movie of the year", LONG]
PAIRS = [
    ("who made it", "she made a film"),
    ("what was dull", "the story was dull and long, they say"),
    ("why so sad", "the worst time of the year was the end of the movie: it was sad and she could not hope"),
]
SCALE = 0.2  # of the weights: large, but not so large that float32 itself loses the fifth decimal
LABELS = ("bad", "fair", "good")


@functools.cache
def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT's: [CLS] a [SEP] b [SEP], token types, sub-words that start with ##."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *WORDS, *PIECES, *MARKS, *LETTERS, *(f"##{piece}" for piece in [*PIECES, *LETTERS])]
    backend = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]")
    )
    backend.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _byte_level(special: list[str]) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, initial_alphabet=alphabet, special_tokens=special, show_progress=False, min_frequency=1
    )
    backend.train_from_iterator([f"the {word} {word}" for word in WORDS], trainer)
    return backend


@functools.cache
def byte_level() -> PreTrainedTokenizerFast:
    """As RoBERTa's: byte-level BPE with <s> a </s></s> b </s>, a mask, and padding whose id is 1."""
    backend = _byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


@functools.cache
def bare() -> PreTrainedTokenizerFast:
    """As GPT-2's: byte-level BPE that adds no special token and knows neither padding nor mask."""
    return PreTrainedTokenizerFast(tokenizer_object=_byte_level([]), model_input_names=["input_ids", "attention_mask"])


def _spaced(single: str, pair: str, **mark: str) -> PreTrainedTokenizerFast:
    """Pieces that carry the space before them, one mark with each text, padding but no mask."""
    [edge] = mark.values()
    pieces = [*(f"▁{word}" for word in WORDS), *PIECES, *MARKS, *LETTERS, "▁"]
    scores = [(piece, -1.0 - 0.01 * i) for i, piece in enumerate(dict.fromkeys(pieces))]
    backend = Tokenizer(models.Unigram([("<pad>", 0.0), (edge, 0.0), ("<unk>", 0.0), *scores], unk_id=2))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(edge, 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        model_input_names=["input_ids", "attention_mask"],
        **mark,
    )


@functools.cache
def metaspace() -> PreTrainedTokenizerFast:
    """As Llama's: <s> in front."""
    return _spaced("<s> $A", "<s> $A <s> $B", bos_token="<s>")


@functools.cache
def sentences() -> PreTrainedTokenizerFast:
    """As T5's and Marian's: </s> behind."""
    return _spaced("$A </s>", "$A </s> $B </s>", eos_token="</s>")


TOKENIZERS = {
    "wordpiece": wordpiece,
    "byte_level": byte_level,
    "bare": bare,
    "metaspace": metaspace,
    "sentences": sentences,
}


@dataclass(frozen=True)
class Family:
    """One architecture: its config, its tokenizer, and where (below the base model) its blocks are."""

    config: str
    blocks: str
    tokenizer: str
    settings: dict[str, Any] = field(default_factory=dict)


SMALL = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}

FAMILIES: dict[str, Family] = {
    "bert": Family("BertConfig", "encoder.layer", "wordpiece", SMALL),
    "roberta": Family("RobertaConfig", "encoder.layer", "byte_level", {**SMALL, "type_vocab_size": 1}),
    "distilbert": Family(
        "DistilBertConfig",
        "transformer.layer",
        "wordpiece",
        {"dim": 16, "hidden_dim": 24, "n_layers": 3, "n_heads": 2, "max_position_embeddings": 64},
    ),
    "albert": Family("AlbertConfig", "encoder.albert_layer_groups", "wordpiece", {**SMALL, "embedding_size": 8}),
    "albert-two-groups": Family(
        "AlbertConfig",
        "encoder.albert_layer_groups",
        "wordpiece",
        {**SMALL, "embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2},
    ),
    "electra": Family("ElectraConfig", "encoder.layer", "wordpiece", {**SMALL, "embedding_size": 8}),
    "deberta-v2": Family(
        "DebertaV2Config", "encoder.layer", "wordpiece", {**SMALL, **DISENTANGLED, "type_vocab_size": 2}
    ),
    "deberta-v2-conv": Family(
        "DebertaV2Config",
        "encoder.layer",
        "wordpiece",
        {**SMALL, **DISENTANGLED, "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "deberta-v3": Family(
        "DebertaV2Config",
        "encoder.layer",
        "wordpiece",
        {**SMALL, **DISENTANGLED, "position_biased_input": False, "legacy": False},
    ),
    "mpnet": Family("MPNetConfig", "encoder.layer", "byte_level", SMALL),
    "modernbert": Family(
        "ModernBertConfig", "layers", "wordpiece", {**SMALL, "local_attention": 4, "global_attn_every_n_layers": 2}
    ),
    "xlm-roberta": Family("XLMRobertaConfig", "encoder.layer", "byte_level", {**SMALL, "type_vocab_size": 1}),
    "gpt2": Family("GPT2Config", "h", "bare", {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64}),
    "gpt-neox": Family("GPTNeoXConfig", "layers", "bare", SMALL),
    "llama": Family("LlamaConfig", "layers", "metaspace", GROUPED),
    "qwen2": Family("Qwen2Config", "layers", "bare", GROUPED),
    "qwen3": Family("Qwen3Config", "layers", "bare", GROUPED),
    "gemma": Family("GemmaConfig", "layers", "metaspace", GROUPED),
    "gemma2": Family(
        "Gemma2Config", "layers", "metaspace", {**GROUPED, "sliding_window": 4, "query_pre_attn_scalar": 8}
    ),
    "gemma3": Family(
        "Gemma3TextConfig",
        "layers",
        "metaspace",
        {**GROUPED, "sliding_window": 4, "query_pre_attn_scalar": 8, "sliding_window_pattern": 2},
    ),
    "opt": Family("OPTConfig", "decoder.layers", "bare", {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "opt-projected": Family("OPTConfig", "decoder.layers", "bare", {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 8}),
}

HEADS = {
    "classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "question_answering": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    "token_classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "masked_lm": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "causal_lm": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}


def class_name(family: str, head: str) -> str | None:
    """The transformers class of a family with a head, or None where there is none."""
    config = getattr(transformers, FAMILIES[family].config)
    name: str | None = HEADS[head].get(config.model_type)
    return name


CASES = [(family, head) for family in FAMILIES for head in HEADS if class_name(family, head)]


def build(family: str, head: str = "classification", *, seed: int = 0, **settings: Any) -> Any:
    """A tiny random model, in evaluation mode."""
    known = FAMILIES[family]
    tokenizer = TOKENIZERS[known.tokenizer]()
    names = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {name: i for i, name in enumerate(LABELS)},
    }
    decoder = {"is_decoder": True} if head == "causal_lm" and known.tokenizer in ("wordpiece", "byte_level") else {}
    config = getattr(transformers, known.config)(
        **{
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": None,
            "eos_token_id": None,
            **({} if head == "question_answering" else names),
            **known.settings,
            **decoder,
            **settings,
        }
    )
    torch.manual_seed(seed)
    return shaken(getattr(transformers, class_name(family, head) or "")(config), seed)


def shaken(model: Any, seed: int = 0) -> Any:
    """The model with large random weights, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(SCALE * noise if parameter.ndim > 1 else parameter + 0.1 * noise)
    return model.eval()


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    return TOKENIZERS[FAMILIES[family].tokenizer]()


@functools.cache
def tiny(family: str, head: str = "classification") -> whence.LayeredModel:
    """The layered model of a family with a head; shared among tests, which leave it as found."""
    return whence.load(build(family, head), tokenizer_of(family))


@dataclass(frozen=True)
class Writer:
    """An encoder–decoder that writes: three blocks read, two write."""

    config: str
    tokenizer: str
    settings: dict[str, Any]


_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 2}
_BART = {
    "d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
}  # fmt: skip
_FROM_PADDING = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None, "decoder_start_token_id": 0}
_FROM_THE_END = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2}
WRITERS: dict[str, Writer] = {
    "t5": Writer("T5Config", "sentences", {**_T5, **_FROM_PADDING}),
    "mt5": Writer(
        "MT5Config",
        "sentences",
        {**_T5, **_FROM_PADDING, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "bart": Writer("BartConfig", "byte_level", {**_BART, **_FROM_THE_END}),
    "marian": Writer("MarianConfig", "sentences", {**_BART, **_FROM_PADDING, "scale_embedding": True}),
    "mbart": Writer("MBartConfig", "byte_level", {**_BART, **_FROM_THE_END}),
    "pegasus": Writer("PegasusConfig", "sentences", {**_BART, **_FROM_PADDING}),
}


def build_writer(family: str, seed: int = 0, **settings: Any) -> Any:
    """A tiny random encoder–decoder that writes, in evaluation mode."""
    known = WRITERS[family]
    kind = getattr(transformers, known.config)
    size = {"vocab_size": len(TOKENIZERS[known.tokenizer]())}
    size |= {"decoder_vocab_size": size["vocab_size"]} if family == "marian" else {}
    config = kind(**{"forced_eos_token_id": None, **size, **known.settings, **settings})
    torch.manual_seed(seed)
    names = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return shaken(getattr(transformers, names[kind.model_type])(config), seed)


@functools.cache
def tiny_writer(family: str) -> whence.LayeredModel:
    """The same as a layered model; shared among tests, which leave it as found."""
    return whence.load(build_writer(family), TOKENIZERS[WRITERS[family].tokenizer]())


def texts_for(family: str, head: str) -> list[Any]:
    """Texts of different length, shortest first, such as the head wants."""
    if head == "question_answering":
        return list(PAIRS)
    if head == "masked_lm":
        mask = tokenizer_of(family).mask_token
        return [f"a {mask} film", f"not the best {mask} of the year", LONG.replace("dull", mask)]
    return list(TEXTS)


def word_tokenizer() -> whence.WordTokenizer:
    names = ["<pad>", "<unk>", "<mask>", *WORDS, *MARKS]
    return whence.WordTokenizer({name: i for i, name in enumerate(names)})


class Recurrent(nn.Module):
    """A block that returns its states and, as recurrent nets do, its last state beside them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRU(width, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, last = self.cell(x)
        return states, last


class GRUClassifier(nn.Module):
    """Two recurrent layers, read at the last real token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(word_tokenizer().vocabulary), 12)
        self.first = Recurrent(12)
        self.second = Recurrent(16)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h, _ = self.first(self.embedding(ids))
        h, _ = self.second(h)
        last = mask.sum(dim=1) - 1
        logits: torch.Tensor = self.head(h[torch.arange(len(h)), last])
        return logits


class MLPClassifier(nn.Module):
    """Two layers over each token by itself, then the mean over real tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(word_tokenizer().vocabulary), 12)
        self.first = nn.Sequential(nn.Linear(12, 16), nn.Tanh())
        self.second = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = self.second(self.first(self.embedding(ids)))
        weights = mask[..., None].to(h)
        logits: torch.Tensor = self.head((h * weights).sum(dim=1) / weights.sum(dim=1))
        return logits


PLAIN: dict[str, type[nn.Module]] = {"gru": GRUClassifier, "mlp": MLPClassifier}


def build_plain(name: str) -> Any:
    torch.manual_seed(0)
    return shaken(PLAIN[name]())


@functools.cache
def tiny_plain(name: str) -> whence.LayeredModel:
    module: Any = build_plain(name)
    return whence.load(module, word_tokenizer(), blocks=[module.first, module.second], labels=LABELS)
