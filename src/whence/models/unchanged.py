"""Is a module still what it was? Asked in every call: so what was there is compared, and not walked anew."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

from whence.models.adapters import active_in, adapted
from whence.models.parts import parts_of


class Seen:
    """What a module was made of: its parts, its weights with how often each had been changed, its adapters in use.

    It must not hold the module itself, which would then never be let go.
    """

    def __init__(self, module: nn.Module) -> None:
        parts = parts_of(module)
        self._parts = [(part._modules, tuple(part._modules.values())) for part in parts if part._modules]
        self._tables = [part._parameters for part in parts]
        self._sizes = list(map(len, self._tables))
        held = ((table, name, table[name]) for table in self._tables for name in table)
        self._weights = [(table, name, weight, weight._version) for table, name, weight in held if weight is not None]
        self._adapters = [(part, active_in(part)) for part in adapted(parts)]

    def holds(self) -> bool:
        """Whether all of that is still so."""
        return (
            all(tuple(table.values()) == then for table, then in self._parts)
            and list(map(len, self._tables)) == self._sizes
            and all(table.get(name) is was and was._version == then for table, name, was, then in self._weights)
            and all(active_in(part) == then for part, then in self._adapters)
        )


_SEEN: WeakKeyDictionary[nn.Module, Seen] = WeakKeyDictionary()


def as_seen(module: nn.Module) -> Seen:
    """The same for as long as nothing in the module changes."""
    seen = _SEEN.get(module)
    if seen is None or not seen.holds():
        seen = _SEEN[module] = Seen(module)
    return seen
