"""What a model writes after a prompt: written anew, read off as it stands, and scored with parts of the prompt gone.

A response is kept as the token ids it was written in. Its text is made from them and never tokenised again: that would
silently change tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.errors import InputError, ModelError, UsageError
from whence.models.batching import micro_batches, usual_batch_tokens
from whence.models.deletion import Deletion
from whence.models.inputs import Encoding, Ids, Prompt, is_chat, is_ids_or_messages
from whence.models.layered import LayeredModel
from whence.models.shared_keys import copied_keys
from whence.tasks.causal_lm import CausalLM
from whence.tasks.response import Response

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

MAX_NEW_TOKENS = 64
"""How much a model writes at most, unless it is told otherwise."""


class Unasked(Enum):
    """That nothing was said about a response: a text is then asked for its next token, and a chat is answered."""

    UNASKED = "unasked"


UNASKED = Unasked.UNASKED
_RESPONDING: WeakKeyDictionary[LayeredModel, LayeredModel] = WeakKeyDictionary()


def responding(model: LayeredModel) -> LayeredModel:
    """The same decoder, asked about whole responses in place of the next token; neither is a copy of the other."""
    if model.reading.responds:
        return model
    if not isinstance(model.reading, CausalLM):
        raise ModelError(
            f"{model.record.id} is a model for {model.reading.task.replace('_', ' ')}: it writes no response",
            "load a decoder (GPT-2, Llama, ...) or an encoder-decoder (T5, BART, ...)",
        )
    if model not in _RESPONDING:
        record = replace(model.record, task=Response.task)
        _RESPONDING[model] = replace(model, reading=Response(model.reading.labels), record=record)
    return _RESPONDING[model]


def given_texts(texts: Any) -> tuple[list[Any], bool]:
    """What a call is about as a list, and whether it was but one: a text, a pair, token ids or a chat."""
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise InputError(
            f"texts is {type(texts).__name__}",
            "give a string, a pair of strings, token ids or a list of messages, or a list of these",
        )
    single = isinstance(texts, (str, tuple)) or is_ids_or_messages(texts)
    return [texts] if single else list(texts), single


def asked_view(model: LayeredModel, texts: Iterable[Any], responses: Any) -> LayeredModel:
    """The model as it is asked about these texts: about responses if some are given or wanted, or the texts are chats;
    else as it is."""
    asks = responses is not UNASKED or model.reading.responds or any(is_chat(text) for text in texts)
    return responding(model) if asks else model


def generate(
    model: LayeredModel,
    prompt: Ids,
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    sample: bool = False,
    seed: int = 0,
) -> list[int]:
    """The token ids that the model writes after a prompt, given as token ids, without the token that ends it.

    All but these options is as the model's own generation config says.

    Args:
        max_new_tokens: how many at most.
        sample: draw from what the model holds likely, by the config's temperature and the like; else the likeliest.
        seed: makes a draw repeatable.
    """
    return _written_after(model, [prompt], max_new_tokens, sample, seed)[0]


def generate_each(
    model: LayeredModel,
    prompts: Sequence[Ids],
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    sample: bool = False,
    seed: int = 0,
) -> list[list[int]]:
    """What the model writes after each prompt. Prompts of one length go together, so that none is ever padded; where
    it draws, each goes alone, so that what is drawn does not depend on the others."""
    if sample:
        return [generate(model, each, max_new_tokens=max_new_tokens, sample=True, seed=seed) for each in prompts]
    found: dict[int, list[int]] = {}
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    size = lambda index: len(prompts[index]) + max_new_tokens  # noqa: E731
    for batch in micro_batches(order, size, usual_batch_tokens(model), equal=True):
        some = [prompts[index] for index in batch]
        found |= zip(batch, _written_after(model, some, max_new_tokens, sample=False, seed=seed), strict=True)
    return [found[index] for index in range(len(prompts))]


def _written_after(
    model: LayeredModel, prompts: Sequence[Ids], max_new_tokens: int, sample: bool, seed: int
) -> list[list[int]]:
    """What the model writes after prompts of one length."""
    if max_new_tokens < 1:
        raise UsageError(f"max_new_tokens must be a number of at least 1, got {max_new_tokens!r}", "give 64")
    module: Any = model.module
    if not hasattr(module, "generate"):
        raise ModelError(f"{model.record.id} cannot write", "load a decoder of transformers, or give response=")
    starts: Ids = getattr(model.tokenizer, "starts", ())  # an encoder–decoder's page holds these and not the prompt
    before = len(starts) if model.encoder_decoder else len(prompts[0])
    longest = getattr(model.tokenizer, "longest", before + max_new_tokens)
    if before >= longest:
        raise InputError(
            f"the prompt takes {before} tokens, the model reads {longest}: none is left for a response",
            "shorten the prompt",
        )
    config = copy.deepcopy(module.generation_config)
    config.max_length = None
    config.max_new_tokens = min(max_new_tokens + max(len(starts) - 1, 0), longest - before)
    if starts:
        config.decoder_start_token_id = starts[0]
    config.num_return_sequences = 1
    config.return_dict_in_generate = False
    config.do_sample = sample
    if not sample:
        for name in ("temperature", "top_p", "top_k", "min_p", "typical_p"):
            setattr(config, name, None)
    if config.pad_token_id is None:
        config.pad_token_id = 0  # stands only behind the end of a response, but a warning would be printed
    ids = torch.tensor([list(prompt) for prompt in prompts], device=model.device)
    devices = [model.device] if model.device.type == "cuda" else []
    with (
        model.held(),
        torch.inference_mode(),
        torch.random.fork_rng(devices=devices),
        copied_keys(ids.device, ids.shape[1]),
    ):
        torch.manual_seed(seed)
        found = module.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return [list(takewhile(lambda number: number not in ends, row)) for row in found[:, before:].tolist()]


def with_responses(
    model: LayeredModel,
    prompts: Sequence[Any],
    responses: Any,
    max_new_tokens: int,
    seed: int,
    *,
    sample: bool = False,
) -> list[tuple[Prompt, str | Ids]]:
    """Prompts with their responses, one each, or None for what the model writes itself; a prompt may also come as a
    pair with its response."""
    given = [responses] * len(prompts) if responses is None or responses is UNASKED else list(responses)
    if isinstance(responses, str) or len(given) != len(prompts):
        raise UsageError(f"{len(prompts)} prompts have not one response each", "give a list of responses, or None")
    found: list[tuple[Prompt, Any]] = []
    for prompt, response in zip(prompts, given, strict=True):
        if isinstance(prompt, tuple) and not is_ids_or_messages(prompt):
            prompt, response = _pair_of(prompt)
        if response is UNASKED and is_chat(prompt) and prompt[-1].get("role") == "assistant":
            prompt, response = prompt[:-1], prompt[-1].get("content") or ""  # the chat as it went
        found.append((prompt, None if response is UNASKED else response))
    unanswered = [index for index, (_, response) in enumerate(found) if response is None]
    before = [_whole_prompt(model, found[index][0]) for index in unanswered]
    written_each = generate_each(model, before, max_new_tokens=max_new_tokens, sample=sample, seed=seed)
    for index, written in zip(unanswered, written_each, strict=True):
        if not written:
            raise InputError("the model answers with nothing: it ends its response at once", "give a response yourself")
        found[index] = (found[index][0], written)
    return found


def _pair_of(prompt: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(prompt) != 2:
        raise InputError(f"a tuple of {len(prompt)} is no prompt with its response", "give (prompt, response)")
    return prompt[0], prompt[1]


def _whole_prompt(model: LayeredModel, prompt: Prompt) -> list[int]:
    before = model.encode_prompt(prompt)
    before.check_asks()
    if before.cut:
        raise InputError(
            f"the prompt takes {len(before) + before.cut} tokens, the model reads {len(before)}",
            "shorten it: what is answered is never cut",
        )
    return before.ids


def answered_each(
    model: LayeredModel,
    prompts: Sequence[Any],
    responses: Any,
    max_new_tokens: int,
    seed: int,
    *,
    sample: bool = False,
) -> list[Encoding]:
    """Prompts with their responses as the model reads them; see `with_responses`."""
    pairs = with_responses(model, prompts, responses, max_new_tokens, seed, sample=sample)
    return [model.encode_response(prompt, response) for prompt, response in pairs]


def answered(
    model: LayeredModel,
    prompt: Prompt,
    response: str | Ids | None,
    *,
    max_new_tokens: int,
    seed: int,
    sample: bool = False,
) -> Encoding:
    """A prompt with its response; None: with what the model writes itself."""
    return answered_each(model, [prompt], [response], max_new_tokens, seed, sample=sample)[0]


def log_probabilities_without(
    model: LayeredModel,
    encoding: Encoding,
    keep: Bool[Tensor, "row token"],
    batch_tokens: int | None = None,
) -> Float[Tensor, "row response"]:
    """The log-probability of each token of a response, for each row with only those tokens of the prompt left that are
    marked in `keep` (of the whole encoding's tokens; the response always stays).

    The others are deleted, and what is alike in all rows is computed once. Logits are held for a micro-batch at a time.
    """
    view = responding(model)
    inputs = view.collate([encoding])
    ids = torch.tensor([encoding.tokens[position].id for position in encoding.response], device=view.device)
    kept = keep | ~view.scored("embeddings", inputs).to(keep.device)
    found = torch.zeros(len(keep), len(ids), device=view.device)
    with view.held(), torch.inference_mode():
        deletion = Deletion(view, inputs, batch_tokens or usual_batch_tokens(view))
        for rows, logits in deletion.logits(torch.zeros(len(keep), dtype=torch.long), kept):
            found[rows.to(found.device)] = chosen_log_probabilities(logits, ids.expand(len(rows), -1))
    return found


def chosen_log_probabilities(
    logits: Float[Tensor, "row read label"], ids: Sequence[int] | Tensor
) -> Float[Tensor, "row read"]:
    """The log-probabilities of the tokens at these ids, in float32."""
    labels = torch.as_tensor(ids, device=logits.device)
    return logits.gather(2, labels[..., None])[..., 0].float() - logits.float().logsumexp(dim=-1)
