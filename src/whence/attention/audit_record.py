"""What an attention audit found: plain numbers, to be shown, saved and judged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.attention.attention_maps import AttentionLayer
from whence.explanation import ModelRecord
from whence.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console, ConsoleOptions, RenderResult

    from whence.attention.verdict import Verdict

SCHEMA = 1


@dataclass(frozen=True)
class Agreement:
    """How far attention and an importance measure rank the tokens alike: the mean of Kendall's τ-b over the texts.

    `head` counts from 1; None is the mean over heads. `tie_null` is the τ that shared zeros alone explain, `excess`
    what there is beyond it; `low` and `high` bound the 95 % interval of the mean. Texts on which τ is undefined (all
    weights or all scores equal) are left out and counted.
    """

    layer: AttentionLayer
    head: int | None
    measure: str
    tau: float
    low: float
    high: float
    spread: float
    tie_null: float
    excess: float
    excess_low: float
    excess_high: float
    n_undefined: int


@dataclass(frozen=True)
class AttentionConcentration:
    """How evenly a head (None: the mean over heads) attends: normalised entropy (1 is uniform), share above zero."""

    layer: AttentionLayer
    head: int | None
    entropy: float
    spread: float
    nonzero: float
    n_undefined: int


@dataclass(frozen=True)
class MeasureConcentration:
    """How evenly an importance measure spreads the sizes of its scores: normalised entropy, share above zero."""

    measure: str
    entropy: float
    spread: float
    nonzero: float
    n_undefined: int


@dataclass(frozen=True)
class MeasureAgreement:
    """How far two importance measures rank the tokens alike: what attention may be held against."""

    first: str
    second: str
    tau: float
    low: float
    high: float
    n_undefined: int


@dataclass(frozen=True)
class AttentionAudit:
    """Does a model's attention tell which inputs matter? The numbers; `verdict` puts them into words."""

    model: ModelRecord
    n_texts: int
    queries: str
    scale: str
    measures: tuple[str, ...]
    layers: tuple[AttentionLayer, ...]
    agreements: tuple[Agreement, ...]
    attention: tuple[AttentionConcentration, ...]
    importance: tuple[MeasureConcentration, ...]
    between: tuple[MeasureAgreement, ...]
    n_too_short: int
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The answer in plain words, with the reasons."""
        from whence.attention.verdict import judge

        return judge(self)

    def of_layer(self, layer: AttentionLayer, head: int | None = None) -> list[Agreement]:
        """The agreements of a head, or of the mean over heads, one a measure."""
        return [each for each in self.agreements if each.layer == layer and each.head == head]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types (NaN becomes null), the verdict in words included."""
        verdict = self.verdict
        words = {"answer": verdict.answer, "reasons": list(verdict.reasons)}
        return {"schema": SCHEMA, "kind": "attention_audit", "verdict": words, **_plain(asdict(self))}

    def save(self, path: str | Path) -> None:
        """Write the audit as JSON; a file already there is replaced only once the new one is whole."""
        write_whole(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n", path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw agreement by layer, a line a measure, on matplotlib axes (new ones if none are given)."""
        from whence.render.audit import plot_agreement

        return plot_agreement(self, ax)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.audit import audit_view

        yield audit_view(self)

    def __repr__(self) -> str:
        return f"<AttentionAudit of {self.model.id} on {self.n_texts} texts: {self.verdict.answer}>"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
