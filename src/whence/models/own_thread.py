"""Changes that one thread sees and no other: a model in use elsewhere keeps answering as it always did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch import nn

_ABSENT = object()
_SETTINGS = ("pad_token_id", "_attn_implementation")


class _Here(threading.local):
    """What this thread reads in place of a config's own: values by (id of the config, setting)."""

    def __init__(self) -> None:
        self.said: dict[tuple[int, str], Any] = {}


_HERE = _Here()
_LOCK = threading.Lock()
_READERS: Counter[int] = Counter()  # threads' changes to each config that are in force, by the config's id


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook for a module that acts in the thread it was made in; in others torch goes on as if there were none."""
    owner = threading.get_ident()
    return lambda *args: hook(*args) if threading.get_ident() == owner else None


@contextmanager
def forwards_through(modules: Iterable[nn.Module], run: Callable[..., Any]) -> Iterator[None]:
    """Inside, in this thread, a module's forward is `run(module, forward, args, kwargs)`; then it is as it was."""
    before = [(module, module.__dict__.get("forward", _ABSENT)) for module in modules]
    try:
        for module, _ in before:
            vars(module)["forward"] = _either(module, run)  # as it is stored in the end: torch looks at it longer
        yield
    finally:
        for module, forward in before:
            if forward is _ABSENT:
                vars(module).pop("forward", None)
            else:
                vars(module)["forward"] = forward


def _either(module: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
    owner, forward = threading.get_ident(), module.forward

    def either(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != owner:
            return forward(*args, **kwargs)
        return run(module, forward, args, kwargs)

    return either


@contextmanager
def config_says(config: Any, setting: str, value: Any) -> Iterator[None]:
    """Inside, this thread reads `value` for a setting of a model's config; every other reads what it always said."""
    key = (id(config), setting)
    with _LOCK:
        if not _READERS[id(config)]:
            kind: type = type(config)
            config.__class__ = _two_faced(kind)
        _READERS[id(config)] += 1
    _HERE.said[key] = value
    try:
        yield
    finally:
        del _HERE.said[key]
        with _LOCK:
            _READERS[id(config)] -= 1
            if not _READERS[id(config)]:
                del _READERS[id(config)]
                config.__class__ = type(config).__base__


@cache
def _two_faced(kind: type) -> type:
    """The same kind of config, but a thread that has a value of its own for a setting reads that."""
    return type(kind.__name__, (kind,), {name: _setting(kind, name) for name in _SETTINGS})


def _setting(kind: type, name: str) -> property:
    usual = getattr(kind, name, None)

    def read(config: Any) -> Any:
        if (id(config), name) in _HERE.said:
            return _HERE.said[id(config), name]
        return usual.__get__(config) if isinstance(usual, property) else vars(config).get(name, usual)

    def write(config: Any, value: Any) -> None:
        if isinstance(usual, property):
            usual.__set__(config, value)
        else:
            vars(config)[name] = value

    return property(read, write)
