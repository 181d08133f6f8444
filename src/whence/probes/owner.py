"""Whose probes these are: they explain the model they were trained for and refuse any other."""

from __future__ import annotations

from weakref import WeakSet

from torch import Tensor

from whence.errors import ModelError
from whence.explanation import ModelRecord
from whence.models.fingerprint import fingerprint, first_difference, is_changed_on_purpose
from whence.models.layered import LayeredModel
from whence.models.unchanged import Seen, as_seen


class Owner:
    """The model that probes were trained for: what it is called, and a fingerprint of its weights."""

    def __init__(self, record: ModelRecord, print_of: dict[str, Tensor]) -> None:
        self.record, self.fingerprint = record, print_of
        self._known: WeakSet[Seen] = WeakSet()  # found to be the right model, and not changed since

    @classmethod
    def of(cls, model: LayeredModel) -> Owner:
        return cls(model.record, fingerprint(model.module))

    def differs_from(self, model: LayeredModel) -> str | None:
        """The name of the first weight in which a model differs from this one; None if it is this one."""
        return first_difference(self.fingerprint, fingerprint(model.module))

    def check(self, model: LayeredModel) -> None:
        """Refuse a model that is not this one, unless it was before a control changed it."""
        if is_changed_on_purpose(model.module):
            return
        seen = model.held.seen or as_seen(model.module)
        if seen in self._known:
            return
        different = self.differs_from(model)
        if different is not None:
            raise ModelError(
                f"these probes were trained for {self.record.id}, and this is another model ({different} differs)",
                "fit probes for this model, or load the one they belong to",
            )
        self._known.add(seen)
