"""Hugging Face's encoder–decoders that write (T5, BART, Marian, ...) as layered models of two stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UsageError
from whence.explanation import ModelRecord
from whence.models.encoder_decoder import EncoderDecoder, Sides
from whence.models.head import Head, OwnHead
from whence.models.huggingface import (
    find_blocks,
    hooks_as_found,
    read_tokens,
    readable_attention,
    vocabulary_read_at,
    without_extras,
)
from whence.models.huggingface_tokenizer import HuggingFaceTokenizer
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.models.stack import Stack
from whence.models.vocabulary import VocabularyLabels
from whence.tasks.reading import Reading
from whence.tasks.response import Response

if TYPE_CHECKING:
    from jaxtyping import Float
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def wrap_encoder_decoder(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: str | Reading | None
) -> LayeredModel:
    """A loaded encoder–decoder and its tokenizer as a layered model; neither is changed. It is asked for responses."""
    if task not in (None, Response.task) and not isinstance(task, Response):
        raise UsageError(
            f"{type(model).__name__} writes a text of its own: its task is {Response.task}, not {task}",
            "leave out task=; of encoder-decoders those with a classification head take blocks= and embedding=",
        )
    if model.main_input_name != "input_ids":
        raise ModelError(f"{type(model).__name__} reads {model.main_input_name}, no text", "whence explains texts")
    stacks = _stacks(model)
    reading = Response(VocabularyLabels(tokenizer))
    name = str(model.config.name_or_path or type(model).__name__)
    return LayeredModel(
        module=model,
        stack=stacks,
        tokenizer=HuggingFaceTokenizer.of_model(model, tokenizer, keeps_text=False, starts=_starts(model)),
        reading=reading,
        record=ModelRecord(name, getattr(model.config, "_commit_hash", None), type(model).__name__, reading.task),
        run=lambda inputs: _logits(model, inputs),
        attend=lambda inputs: _attentions(model, inputs),
        head=_own_head(model, stacks, name),
    )


def _stacks(model: Any) -> EncoderDecoder:
    encoder, decoder = (_stack(part) for part in (model.get_encoder(), model.get_decoder()))
    sizes = [tuple(part.get_input_embeddings().weight.shape) for part in (model.get_encoder(), model.get_decoder())]
    if sizes[0] != sizes[1]:
        raise ModelError(
            f"{type(model).__name__} has word embeddings of {sizes[0]} numbers for its source and of {sizes[1]} for "
            "what it writes",
            "only encoder-decoders with one vocabulary and one width can be explained",
        )
    return EncoderDecoder(encoder, decoder, model.get_encoder())


def _stack(part: Any) -> Stack:
    """The blocks of the encoder or the decoder; T5's first hands position biases on to the others."""
    lists = [each for each in part.children() if isinstance(each, nn.ModuleList)]
    blocks = tuple(lists[0]) if len(lists) == 1 else find_blocks(part)
    biased = [any(name.endswith("relative_attention_bias") for name, _ in block.named_modules()) for block in blocks]
    return Stack(part.get_input_embeddings(), blocks, len(blocks), hands_on=biased[0] and not any(biased[1:]))


def _starts(model: Any) -> tuple[int, ...]:
    """What the model begins to write with: its first token and, where one is forced behind it, a language, that."""
    said = (model.generation_config, model.config)
    first = next((each.decoder_start_token_id for each in said if _known(each, "decoder_start_token_id")), None)
    if first is None:
        first = next((each.bos_token_id for each in said if _known(each, "bos_token_id")), None)
    if first is None:
        raise ModelError(
            f"{type(model).__name__} does not say with which token it begins to write",
            "set model.generation_config.decoder_start_token_id",
        )
    forced = model.generation_config.forced_bos_token_id
    return (int(first),) if forced is None else (int(first), int(forced))


def _known(config: Any, name: str) -> bool:
    return getattr(config, name, None) is not None


def _arguments(model: PreTrainedModel, inputs: Inputs, sides: Sides) -> dict[str, Any]:
    padding = model.config.pad_token_id
    padding = 0 if padding is None else padding
    return {
        "input_ids": sides.source.ids(inputs, padding),
        "attention_mask": (inputs.attended.gather(1, sides.source.at) & sides.source.real).long(),
        "decoder_input_ids": sides.written.ids(inputs, padding),
        "use_cache": False,
        **without_extras(model),
    }


def _logits(model: PreTrainedModel, inputs: Inputs) -> Float[Tensor, "batch *token label"]:
    """What the decoder says at the tokens that are read; its padding stands behind, where nothing looks."""
    sides = Sides(inputs)
    assert inputs.read_at is not None, "a vocabulary is read somewhere"
    rows = inputs.read_at.reshape(len(inputs.ids), -1)
    read_at = sides.written.column.gather(1, rows)
    with vocabulary_read_at(model, read_at) as picked:
        found: Tensor = model(**_arguments(model, inputs, sides)).logits
    logits = found if picked else read_tokens(found, read_at)
    return logits.reshape(*inputs.read_at.shape, -1)


def _attentions(model: PreTrainedModel, inputs: Inputs) -> list[Float[Tensor, "batch attention_head query key"]]:
    """Each block's attention weights between all tokens. A block of the decoder looks twice, at what was written and at
    the source, with weights that add up to one each time."""
    sides = Sides(inputs)
    source, written = sides.source, sides.written
    with readable_attention(model), hooks_as_found(model), torch.no_grad():
        output = model(**{**_arguments(model, inputs, sides), "output_attentions": True})
    if not output.encoder_attentions or not output.cross_attentions:
        raise ModelError(f"{type(model).__name__} gives no attention weights", "choose another method")
    low = [sides.attention(weights, source, source) for weights in output.encoder_attentions]
    both = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    high = [sides.attention(own, written, written) + sides.attention(cross, written, source) for own, cross in both]
    return low + high


def _own_head(model: Any, stacks: EncoderDecoder, name: str) -> Head:
    """What the model runs after the decoder's last block. Not a call of the model, so nobody's hooks see a text."""
    words: Tensor = model.get_encoder().get_input_embeddings().weight
    width = words.shape[-1]

    def run(n_rows: int) -> Float[Tensor, "row vocabulary"]:
        nothing = words.new_zeros(n_rows, 1, width)
        ids = torch.zeros(n_rows, 1, dtype=torch.long, device=nothing.device)
        arguments = {"encoder_outputs": (nothing,), "decoder_input_ids": ids, "use_cache": False}
        return model.forward(**arguments, **without_extras(model)).logits[:, 0]  # type: ignore[no-any-return]

    vocabulary = len(model.get_output_embeddings().weight)
    return Head(model, OwnHead(stacks.decoder, run), name, width, vocabulary, next_token=True)
