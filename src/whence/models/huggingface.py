"""Hugging Face models as layered models: blocks found by structure, heads by the library's own names."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UnknownArchitectureError, UsageError
from whence.explanation import ModelRecord
from whence.models.adapters import active_adapters
from whence.models.head import Head, OwnHead
from whence.models.huggingface_tokenizer import HuggingFaceTokenizer, padding_of_config, text_config
from whence.models.inputs import Inputs, KeysAndValues
from whence.models.layered import LayeredModel
from whence.models.own_thread import config_says, in_this_thread
from whence.models.parts import first_weight
from whence.models.shared_keys import copied_keys
from whence.models.stack import Stack
from whence.models.vocabulary import VocabularyLabels
from whence.tasks import TASKS
from whence.tasks.reading import Reading

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def wrap_hugging_face(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    task: str | Reading | None = None,
    blocks: Sequence[nn.Module] | None = None,
    embedding: nn.Module | None = None,
    head: Head | None = None,
) -> LayeredModel:
    """A loaded Hugging Face model and its tokenizer as a layered model; neither is changed."""
    if writes_from_source(type(model).__name__, model.config):
        from whence.models.huggingface_encoder_decoder import wrap_encoder_decoder

        if blocks is not None or embedding is not None:
            raise UsageError(
                f"{type(model).__name__} is an encoder-decoder that writes: both of its stacks are explained",
                "leave out blocks= and embedding=",
            )
        return wrap_encoder_decoder(model, tokenizer, task)
    reading = task or _task_of(model)
    if isinstance(reading, str):
        reading = TASKS[reading].of_config(model.config, VocabularyLabels(tokenizer))
    found = find_blocks(model) if blocks is None else tuple(blocks)
    n_layers = int(getattr(text_config(model), "num_hidden_layers", len(found))) if blocks is None else len(found)
    stack = Stack(embedding or model.get_input_embeddings(), found, n_layers, _beside(model, found))
    if reading.reads_vocabulary and head is None:
        head = _own_head(model, stack, reading)
    return LayeredModel(
        module=model,
        stack=stack,
        tokenizer=HuggingFaceTokenizer.of_model(model, tokenizer, keeps_text=reading.keeps_text),
        reading=reading,
        record=ModelRecord(
            id=" with adapter ".join([str(model.config.name_or_path or type(model).__name__), *active_adapters(model)]),
            revision=getattr(model.config, "_commit_hash", None),
            architecture=type(model).__name__,
            task=reading.task,
        ),
        run=lambda inputs: _logits(model, reading, inputs),
        attend=lambda inputs: _attentions(model, inputs),
        head=head,
        remember=(lambda inputs: _keys_and_values(model, inputs)) if _may_remember(model) else None,
    )


def _own_head(model: PreTrainedModel, stack: Stack, reading: Reading) -> Head:
    """The head of a language model, run without its blocks. Not a call of the model, so nobody's hooks see a text."""

    def run(n_rows: int) -> Float[Tensor, "row vocabulary"]:
        ids = torch.zeros(n_rows, 1, dtype=torch.long, device=first_weight(stack.embedding).device)
        everywhere = torch.ones_like(ids, dtype=torch.bool)
        inputs = Inputs((), ids, everywhere, ~everywhere, {})
        return model.forward(**_arguments(model, inputs, ids)).logits[:, 0]  # type: ignore[no-any-return]

    return Head(
        model,
        OwnHead(stack, run),
        str(model.config.name_or_path or type(model).__name__),
        n_hidden=text_config(model).hidden_size,
        n_vocabulary=len(model.get_input_embeddings().weight),  # type: ignore[arg-type]
        next_token=reading.next_token,
    )


def writes_from_source(class_name: str, config: Any) -> bool:
    """Whether a class of transformers is an encoder-decoder that writes: a translation, a summary, an answer."""
    writes = class_name.endswith(("ForConditionalGeneration", "Seq2SeqLM", "MTModel"))
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return writes and bool(getattr(text, "is_encoder_decoder", False))


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """The model's stack of blocks: the outermost list of alike modules, as many as there are layers.

    ALBERT shares blocks among layers and says how many there are.
    """
    config = text_config(model)
    wanted = getattr(config, "num_hidden_groups", None) or getattr(config, "num_hidden_layers", None)
    lists = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.ModuleList) and len(part) and len({type(block) for block in part}) == 1
    }
    fitting = {name: part for name, part in lists.items() if wanted and len(part) == wanted}
    outermost = [name for name in fitting if not any(name.startswith(f"{other}.") for other in fitting)]
    if len(outermost) == 1:
        return tuple(fitting[outermost[0]])
    looked = f"a list of {wanted} alike blocks (config.num_hidden_layers)" if wanted else "config.num_hidden_layers"
    shown = ", ".join(f"{name} ({len(part)} x {type(part[0]).__name__})" for name, part in lists.items()) or "no list"
    example = f"blocks=model.{next(iter(lists))}" if lists else "blocks=[first_block, second_block]"
    if getattr(config, "is_encoder_decoder", False):
        example += ", embedding=the embedding in front of them"
    raise UnknownArchitectureError(
        f"{'no' if not outermost else 'more than one'} stack of blocks found in {type(model).__name__}",
        f"  looked for:  {looked}\n  found:       {shown}\n  next:        {_next_step(model, example)}",
    )


def _next_step(model: nn.Module, example: str) -> str:
    """What to try where blocks are not found; nothing where they hand on more than a state, as T5's do."""
    if any(name.endswith("relative_attention_bias") for name, _ in model.named_modules()):
        return "none yet: the blocks hand on position biases, so none can be resumed by itself"
    return f"whence.load(model, tokenizer, {example})"


def _beside(model: nn.Module, blocks: Sequence[nn.Module]) -> list[nn.Module]:
    """The modules next to the list of blocks."""
    for owner in model.modules():
        parts = list(owner.children())
        for part in parts:
            if isinstance(part, nn.ModuleList) and any(block is blocks[0] for block in part):
                return [other for other in parts if other is not part]
    return []


def _task_of(model: nn.Module) -> str:
    for task in tasks_of_class(type(model).__name__):
        return task
    raise UsageError(
        f"the head of {type(model).__name__} does not tell what the model is for",
        f"load a class with a head, or say task= one of: {', '.join(TASKS)}",
    )


def tasks_of_class(name: str) -> list[str]:
    """The tasks that a class of transformers is for: it is named after the head it carries."""
    return [task for task, reading in TASKS.items() if name.endswith(reading.class_endings)]


def _logits(model: PreTrainedModel, reading: Reading, inputs: Inputs) -> Float[Tensor, "batch *token label"]:
    with (
        vocabulary_read_at(model, inputs.read_at) as picked,
        _padding_known(model, inputs) as ids,
        copied_keys(ids.device, ids.shape[1]),
    ):
        output = dict(model(**_arguments(model, inputs, ids)))
    if inputs.read_at is not None and "logits" in output:
        logits: Tensor = output["logits"] if picked else read_tokens(output["logits"], inputs.read_at)
        output["logits"] = logits.reshape(*inputs.read_at.shape, -1)
    try:
        return reading.read(output, inputs.attended, inputs.reference)
    except KeyError as error:
        raise ModelError(
            f"{type(model).__name__} returned no {error.args[0]}, which {reading.task.replace('_', ' ')} reads",
            "load a class with a head",
        ) from error


def _arguments(model: PreTrainedModel, inputs: Inputs, ids: Int[Tensor, "batch token"]) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": inputs.attended.long(),
        **inputs.features,
        **without_extras(model),
    }
    if _takes(model, "use_cache"):
        arguments["use_cache"] = inputs.past is not None
    if inputs.past is not None:
        from transformers import DynamicCache

        before = torch.ones(len(ids), inputs.past[0][0].shape[-2], dtype=torch.long, device=ids.device)
        arguments["attention_mask"] = torch.cat([before, arguments["attention_mask"]], dim=1)
        arguments["past_key_values"] = DynamicCache(inputs.past)
    return arguments


def without_extras(model: PreTrainedModel) -> dict[str, Any]:
    """The arguments by which a model returns what its head gives, whatever else its config asks for."""
    asked = [name for name in ("output_hidden_states", "output_attentions") if getattr(model.config, name, False)]
    return {"return_dict": True, **dict.fromkeys(asked, False)}


def _may_remember(model: PreTrainedModel) -> bool:
    """Whether a model takes the keys and values of earlier tokens, and what they are depends on nothing that follows.

    Some rotary positions are scaled by the length of the text.
    """
    rotary = getattr(text_config(model), "rope_parameters", None) or {}
    kinds = {str(each.get("rope_type")) for each in (rotary, *rotary.values()) if isinstance(each, dict)}
    return _takes(model, "past_key_values") and not {"dynamic", "longrope"} & kinds


def _takes(model: PreTrainedModel, argument: str) -> bool:
    """Whether a model's forward has an argument of that name."""
    forward = model.forward
    kind: Any = type(model)
    is_of_its_class = getattr(forward, "__func__", None) is kind.forward
    return argument in (_arguments_of_class(kind) if is_of_its_class else inspect.signature(forward).parameters)


@cache
def _arguments_of_class(kind: type[nn.Module]) -> Collection[str]:
    """What the forward of a class takes: looked up once, since it is asked before every pass."""
    return tuple(inspect.signature(kind.forward).parameters)


def _keys_and_values(model: PreTrainedModel, inputs: Inputs) -> KeysAndValues:
    from transformers import DynamicCache

    cache: Any = DynamicCache()
    with (
        vocabulary_read_at(model, inputs.read_at),
        _padding_known(model, inputs) as ids,
        copied_keys(ids.device, ids.shape[1]),
    ):
        model(**{**_arguments(model, inputs, ids), "use_cache": True, "past_key_values": cache})
    return tuple((layer.keys, layer.values) for layer in cache.layers)


@contextmanager
def vocabulary_read_at(model: PreTrainedModel, read_at: Int[Tensor, " batch *read"] | None) -> Iterator[bool]:
    """Let the last matrix of a language model see only the tokens that are read, so that no row holds a whole table of
    logits; false where that cannot be."""
    head: nn.Module | None = None if read_at is None else model.get_output_embeddings()  # type: ignore[no-untyped-call]
    if read_at is None or head is None:
        yield False
        return

    def keep_read(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, *rest = args
        return (read_tokens(hidden, read_at), *rest)

    handle = head.register_forward_pre_hook(in_this_thread(keep_read))
    try:
        yield True
    finally:
        handle.remove()


def read_tokens(
    values: Float[Tensor, "batch token feature"], read_at: Int[Tensor, " batch *read"]
) -> Float[Tensor, "batch some feature"]:
    """What stands at the tokens that are read."""
    rows = torch.arange(len(values), device=values.device)[:, None]
    return values[rows, read_at.reshape(len(values), -1)]


@contextmanager
def _padding_known(model: PreTrainedModel, inputs: Inputs) -> Iterator[Int[Tensor, "batch token"]]:
    """Decoders classify at the last token that is not padding, and refuse a batch where config names no padding.

    There the ids come padded with one that none of the texts uses, and config names it for the time of the call.
    """
    if len(inputs) == 1 or padding_of_config(model) is not None:
        yield inputs.ids
        return
    used = set(inputs.ids[inputs.mask].tolist())
    unused = next(number for number in range(len(used) + 1) if number not in used)
    with config_says(text_config(model), "pad_token_id", unused):
        yield inputs.ids.masked_fill(~inputs.mask, unused)


def _attentions(model: PreTrainedModel, inputs: Inputs) -> list[Float[Tensor, "batch attention_head query key"]]:
    """Each block's attention weights; the fused kernels give none, so the plain one serves for this call only."""
    with (
        readable_attention(model),
        hooks_as_found(model),
        vocabulary_read_at(model, inputs.read_at),
        _padding_known(model, inputs) as ids,
    ):
        weights = model(**{**_arguments(model, inputs, ids), "output_attentions": True}).attentions
    if not weights:
        raise ModelError(f"{type(model).__name__} gives no attention weights", "choose another method")
    return list(weights)


@contextmanager
def hooks_as_found(model: nn.Module) -> Iterator[None]:
    """The first time transformers is asked for attention it puts hooks into the model, marks it, and leaves both."""
    before = [(part, set(part._forward_hooks), set(vars(part))) for part in model.modules()]
    try:
        yield
    finally:
        for part, hooks, names in before:
            for number in set(part._forward_hooks) - hooks:
                del part._forward_hooks[number]
            for name in set(vars(part)) - names:
                delattr(part, name)


@contextmanager
def readable_attention(model: PreTrainedModel) -> Iterator[None]:
    """An attention that gives its weights: the plain one in place of a fused kernel, and any other as it is."""
    parts: list[Any] = [part for part in model.modules() if hasattr(part, "_can_set_attn_implementation")]
    configs = {id(part.config): part.config for part in parts if part._can_set_attn_implementation()}
    with ExitStack() as stack:
        for config in configs.values():
            name = str(config._attn_implementation)
            if name.startswith(("sdpa", "flash", "flex", "paged")) or "/" in name:  # with "/": a kernel from the hub
                stack.enter_context(config_says(config, "_attn_implementation", "eager"))
        yield
