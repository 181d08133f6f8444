"""`whence.load`: one door for the embedded model, hub ids, folders, loaded models and plain modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError
from torch import nn

from whence.errors import FileError, ModelError, UnknownNameError, UsageError, WhenceError, warn_of_old_name
from whence.models.adapters import without_wrapper
from whence.models.head import Head, OwnHead, check_fit, module_head, state_width, vocabulary_of
from whence.models.huggingface_attention import use_attention
from whence.models.inputs import Tokenizer
from whence.models.layered import LayeredModel
from whence.models.self_layered import SelfLayered
from whence.targets import ClassLabels
from whence.tasks import TASKS
from whence.tasks.classification import Classification
from whence.tasks.reading import Reading
from whence.tasks.response import Response
from whence.tasks.similarity import Pooling, Similarity, check_module, pooling_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@runtime_checkable
class Pipeline(Protocol):
    """What `transformers.pipeline` gives: a model with its tokenizer."""

    model: Any
    tokenizer: Any


Source = str | Path | nn.Module | tuple[nn.Module, Any] | Pipeline
ACCESS = ("trust_remote_code", "token", "cache_dir", "local_files_only", "gguf_file")
"""The options that config and tokenizer are loaded with as well as the model."""

LANGUAGE_TASKS = tuple(name for name, reading in TASKS.items() if reading.one_position)


@torch.inference_mode(False)  # weights made inside of it could never have gradients
def load(
    source: Source = "sentiment",
    tokenizer: PreTrainedTokenizerBase | Tokenizer | None = None,
    *,
    task: str | Reading | None = None,
    revision: str | None = None,
    head: Source | LayeredModel | None = None,
    blocks: Sequence[nn.Module] | None = None,
    embedding: nn.Module | None = None,
    labels: Sequence[str] | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> LayeredModel:
    """Make a layered model from whatever you have. A loaded model keeps its dtype and device and is never changed.

    >>> import whence
    >>> whence.load().n_layers
    6

    Args:
        source: "sentiment" or "topic" (the embedded models), a folder, a hub id, a loaded Hugging Face model, or a
            plain torch module. A loaded model and its tokenizer may also come as a pair or as a pipeline of
            transformers. A `PeftModel` is explained as it stands, with its active adapters. A module with a method
            `layered`, such as an `AttentionClassifier`, says the rest itself.
        tokenizer: the tokenizer of a loaded model; for a plain module any object like `whence.WordTokenizer`.
        task: what the model is for, where its head does not tell: a name from `whence.tasks.TASKS`, or a reading of
            your own.
        revision: the branch, tag or commit of a hub model.
        head: the language model whose head reads the states as words, where the model has none of its own: usually
            the one it was fine-tuned from, as a hub id, a folder, a loaded model or a pair with its tokenizer; or a
            plain module from states to logits over the vocabulary.
        blocks: the layers, lowest first, where they are not found by themselves; always for plain modules.
        embedding: the word embedding, where it is not found by itself.
        labels: a plain module's label names.
        trust_remote_code: whether a model's own code may run. It never does unless this is True.
        options: passed on to `from_pretrained` (dtype, device_map, token, gguf_file, ...). Without a dtype, weights
            that are stored in float16 and stay on the CPU become float32: CPUs compute in float16 many times slower.
    """
    if "decoder" in options:
        warn_of_old_name("decoder=", "head=")
        head = options.pop("decoder") if head is None else head
    if isinstance(source, tuple):
        if len(source) != 2 or tokenizer is not None:
            raise UsageError("expected (model, tokenizer)", "whence.load((model, tokenizer))")
        source, tokenizer = source
    if not isinstance(source, nn.Module) and isinstance(source, Pipeline):
        pipeline: Any = source
        source, tokenizer = pipeline.model, tokenizer or pipeline.tokenizer
    if isinstance(task, str) and task not in TASKS:
        raise UnknownNameError("task", task, TASKS)
    if isinstance(source, SelfLayered) and tokenizer is None:
        return source.layered()
    if isinstance(source, nn.Module):
        if options or revision:
            raise UnknownNameError("option for a loaded model", next(iter(options), "revision"), ["task", "blocks"])
        model = _wrap(source, tokenizer, task, blocks, embedding, labels)
        return _with_head(model, head, {"trust_remote_code": trust_remote_code})
    for name, value in {"tokenizer": tokenizer, "blocks": blocks, "embedding": embedding, "labels": labels}.items():
        if value is not None:
            raise UsageError(f"{name}= goes with a loaded model, not with a name", "load the model first")
    if trust_remote_code:  # what is not asked for is off, see ACCESS
        options["trust_remote_code"] = True
    return _with_head(_by_name(str(source), task, revision, options), head, options)


def _wrap(
    module: nn.Module,
    tokenizer: Any,
    task: str | Reading | None,
    blocks: Sequence[nn.Module] | None,
    embedding: nn.Module | None,
    labels: Sequence[str] | None,
) -> LayeredModel:
    module = getattr(module, "_orig_mod", module)  # a compiled module would not see its blocks replaced
    module = without_wrapper(module)
    if hasattr(next(module.children(), None), "auto_model") and hasattr(module, "tokenizer"):
        module, tokenizer, task = _sentence_transformer(module, tokenizer, task)
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise UsageError(
            f"{type(module).__name__} runs copies of the model, whose states nobody can see",
            "give the model inside it: whence.load(model.module, tokenizer)",
        )
    if tokenizer is None:
        raise UsageError("a loaded model needs its tokenizer", "whence.load(model, tokenizer)")
    if hasattr(module, "config") and hasattr(module, "get_input_embeddings"):
        from whence.models.huggingface import wrap_hugging_face

        if labels is not None:
            raise UsageError("labels= goes with a plain module", "a Hugging Face model names them in config.id2label")
        return wrap_hugging_face(module, tokenizer, task=task, blocks=blocks, embedding=embedding)  # type: ignore[arg-type]
    from whence.models.plain import wrap_module

    if isinstance(task, str):
        raise UsageError(f"a plain module's task is classification, not {task!r}", "or a reading of your own as task=")
    if blocks is None or (labels is None and task is None):
        raise UsageError(
            f"{type(module).__name__} is a plain module: whence must be told its layers and labels",
            "whence.load(module, tokenizer, blocks=[module.first, module.second], labels=['no', 'yes'])",
        )
    reading = task or Classification(ClassLabels(tuple(labels or ())))
    return wrap_module(module, tokenizer, blocks=blocks, embedding=embedding, reading=reading)


def _sentence_transformer(
    module: Any, tokenizer: Any, task: str | Reading | None
) -> tuple[nn.Module, Any, str | Reading]:
    """The Hugging Face model inside a SentenceTransformer, its tokenizer, and its pooling as the task."""
    first, *others = module.children()
    pooling: Pooling = "mean"
    for part in others:
        kind = type(part).__name__
        check_module(kind)
        if kind == "Pooling":
            pooling = pooling_of(part.get_config_dict())
    return first.auto_model, tokenizer or module.tokenizer, task or Similarity.pooled(pooling)


def _with_head(model: LayeredModel, head: Source | LayeredModel | None, options: Mapping[str, Any]) -> LayeredModel:
    if head is None:
        return model
    found, vocabulary = _head(model, head, options)
    check_fit(model, found, vocabulary)
    return replace(model, head=found)


def _head(
    model: LayeredModel, source: Source | LayeredModel, options: Mapping[str, Any]
) -> tuple[Head, Mapping[str, int] | None]:
    """The head asked for, and its vocabulary where that is known."""
    if isinstance(source, nn.Module) and not hasattr(source, "get_input_embeddings"):
        return module_head(source, state_width(model)), None
    if isinstance(source, (str, Path)):
        access = {key: options[key] for key in ACCESS if key in options and key != "gguf_file"}
        language_model = _by_name(str(source), None, None, access, among=LANGUAGE_TASKS)
    elif isinstance(source, LayeredModel):
        language_model = source
    elif isinstance(source, tuple):
        language_model = load(source)
    else:
        reader = getattr(model.tokenizer, "tokenizer", None)
        if reader is None:
            raise UsageError("a language model needs its tokenizer", "give head=(model, tokenizer)")
        language_model = load(source, reader)
    if language_model.head is None:
        raise UsageError(
            f"{language_model.record.architecture} has no language-model head",
            "load it with one: AutoModelForMaskedLM or AutoModelForCausalLM",
        )
    if isinstance(source, nn.Module):
        return language_model.head, None
    found = language_model.head
    if isinstance(source, (str, Path)):
        found = _head_alone(found, language_model)
    return found, vocabulary_of(language_model)


def _head_alone(head: Head, language_model: LayeredModel) -> Head:
    """A head loaded for its own sake: it follows the states, and the blocks below it give their memory back."""
    if isinstance(head.read, OwnHead):
        head(next(head.module.parameters()).new_zeros(1, head.n_hidden))  # tried while there are blocks
        for block in language_model.stack.blocks:
            for weight in block.parameters():
                weight.data = weight.data.new_empty(0)
    return replace(head, ours=True)


def _by_name(
    name: str,
    task: str | Reading | None,
    revision: str | None,
    options: dict[str, Any],
    among: Sequence[str] = tuple(TASKS),
) -> LayeredModel:
    from whence.embedded import NAMES, load_embedded

    if name in NAMES and not Path(name).exists():
        from whence.models.huggingface import wrap_hugging_face

        if task is not None or revision is not None or options:
            raise UsageError(f"{name!r} is embedded and comes as it is", "leave out task, revision and other options")
        model, tokenizer, masked_lm_head = load_embedded(name)
        head = module_head(masked_lm_head, model.config.hidden_size, name=f"whence/{name}", ours=True)
        wrapped = wrap_hugging_face(model, tokenizer, head=head)
        return replace(wrapped, record=replace(wrapped.record, embedded=name))
    if name.endswith(".gguf") and Path(name).expanduser().is_file():
        options = {"gguf_file": Path(name).name, **options}
        name = str(Path(name).expanduser().parent)
    if any(mark in name for mark in ("./", "../", "~", "\\")) or name.startswith("/") or Path(name).is_file():
        name = str(Path(name).expanduser())
        if not Path(name).is_dir():
            raise FileError(f"no model folder {name!r}", "give a folder with config.json and model.safetensors")
    if Path(name).is_dir() and "gguf_file" not in options and (file := _gguf_file(Path(name))):
        options = {**options, "gguf_file": file}
    try:
        return _from_pretrained(name, task, revision, options, among)
    except WhenceError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        advice = f"give a folder, a hub id, or one of: {', '.join(NAMES)}"
        if "trust_remote_code" in str(error):
            advice = "if you trust the code that comes with it, say so: trust_remote_code=True, --trust-remote-code"
        elif "gguf_file" in options and isinstance(error, ImportError):
            advice = "GGUF files are read by a package of their own: pip install gguf"
        raise FileError(f"cannot load {name!r}: {reason}", advice) from error


def _gguf_file(folder: Path) -> str | None:
    """The one GGUF file of a folder that holds no other weights, with or without a config."""
    configured = (folder / "config.json").is_file()
    found = sorted(file.name for file in folder.glob("*.gguf"))
    if configured and (not found or any(folder.glob("*.safetensors*"))):
        return None
    if not found:
        raise FileError(f"{str(folder)!r} holds no config.json", "give a folder that save_pretrained wrote")
    if len(found) > 1:
        raise FileError(
            f"{str(folder)!r} holds {len(found)} GGUF files", f"say which: whence.load(..., gguf_file={found[0]!r})"
        )
    return found[0]


def _from_pretrained(
    name: str, task: str | Reading | None, revision: str | None, options: dict[str, Any], among: Sequence[str]
) -> LayeredModel:
    """A model and its tokenizer by hub id or folder; weights are safetensors, remote code only if `options` says so."""
    import transformers

    from whence.models.huggingface import wrap_hugging_face

    options = {"trust_remote_code": False, **options}  # left out, transformers would ask, and take a yes from a pipe
    shared = {"revision": revision, **{key: options[key] for key in ACCESS if key in options}}
    task = task or _task_of(name, shared, among)
    options = {"use_safetensors": True, **options, "output_loading_info": True}
    reading = TASKS[task] if isinstance(task, str) else type(task)
    auto_class = _auto_class(name, reading, shared)
    model, report = getattr(transformers, auto_class).from_pretrained(name, revision=revision, **options)
    if untrained := sorted(key for key in report["missing_keys"] if not key.startswith(reading.unread_weights)):
        raise ModelError(
            f"{name!r} holds no weights for {', '.join(untrained[:3])}{', ...' if len(untrained) > 3 else ''}",
            f"its {reading.task.replace('_', ' ')} head would be random: name the task it was trained for, fine-tune "
            "it, or, if it makes sentence embeddings, say task='similarity' (--task similarity)",
        )
    if model.dtype == torch.float16 and model.device.type == "cpu" and not {"dtype", "torch_dtype"} & set(options):
        model.float()
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **shared)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of no tokenizer at all
        raise FileError(f"{name!r} holds no tokenizer", "save it there too: tokenizer.save_pretrained(folder)")
    if getattr(model.config, "attention_projection", None):  # what it was trained with is not what transformers loads
        use_attention(model)
    return wrap_hugging_face(model, tokenizer, task=task)


def _task_of(name: str, access: Mapping[str, Any], among: Sequence[str]) -> str:
    """What a model is for, by its config; of a language model wanted as a head, what it can be for."""
    import transformers

    from whence.models.huggingface import tasks_of_class, writes_from_source

    config = transformers.AutoConfig.from_pretrained(name, **access)
    named = config.architectures or []
    if any(writes_from_source(each, config) for each in named):
        return Response.task
    known = [task for each in named for task in tasks_of_class(each) if task in among]
    if not known and (among is LANGUAGE_TASKS or "gguf_file" in access):  # many that hold a head do not name it
        masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
        known = ["masked_lm" if masked else "causal_lm"]
    if not known:
        raise UsageError(
            f"{name!r} does not say what it is for (architectures: {', '.join(named) or 'none'})",
            f"say task= one of: {', '.join(TASKS)}; sentence embeddings are for similarity",
        )
    return known[0]


def _auto_class(name: str, reading: type[Reading], access: Mapping[str, Any]) -> str:
    """The class of transformers that loads the model: what writes a response may be an encoder-decoder."""
    import transformers

    if reading.responds and transformers.AutoConfig.from_pretrained(name, **access).is_encoder_decoder:
        return "AutoModelForSeq2SeqLM"
    return reading.auto_class
