"""Is a module still what it was? Asked in every call: so what was there is compared, and not walked anew."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_
from weakref import WeakKeyDictionary

from torch import nn

from whence.models.adapters import active_in, adapted
from whence.models.parts import parts_of, weights_of

_version = attrgetter("_version")
_END = object()  # behind the last part, so that one more or one less is seen too


class Seen:
    """What a module was made of: its parts, its weights with how often each had been changed, its adapters in use.

    `inner` are the parts inside the module, `weights` all parameters, each once. It must not hold the module itself,
    which would then never be let go.
    """

    def __init__(self, module: nn.Module) -> None:
        parts = parts_of(module)
        tables = (table for part in parts for table in (part._modules, part._parameters))
        self._tables = [table.values() for table in tables]
        self._held = [*chain.from_iterable(self._tables), _END]
        self.inner = parts[1:]
        self.weights = weights_of(parts)
        self.recurrent = any(isinstance(part, nn.RNNBase) for part in parts)
        self._counted = [weight for weight in self.weights if not weight.is_inference()]  # torch counts no others
        self._versions = list(map(_version, self._counted))
        self._adapters = [(part, active_in(part)) for part in adapted(parts)]

    def holds(self) -> bool:
        """Whether all of that is still so."""
        return (
            all(map(is_, chain(*self._tables, (_END,)), self._held))
            and list(map(_version, self._counted)) == self._versions
            and all(active_in(part) == then for part, then in self._adapters)
        )


_SEEN: WeakKeyDictionary[nn.Module, Seen] = WeakKeyDictionary()


def as_seen(module: nn.Module) -> Seen:
    """The same for as long as nothing in the module changes."""
    seen = _SEEN.get(module)
    if seen is None or not seen.holds():
        seen = _SEEN[module] = Seen(module)
    return seen
