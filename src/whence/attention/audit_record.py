"""What an attention audit found: plain numbers, to be shown, saved and judged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.attention.attention_maps import AttentionLayer
from whence.errors import FileError, warn_of_old_name
from whence.explanation import ModelRecord
from whence.files import write_whole, written
from whence.json_records import load_json, plain
from whence.results import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from rich.console import Console, ConsoleOptions, RenderResult

    from whence.attention.verdict import Verdict

SCHEMA = 2
_ADVICE = "give a file that AttentionAudit.save wrote"


@dataclass(frozen=True)
class RankCorrelation:
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
class MeasureCorrelation:
    """How far two importance measures rank the tokens alike: what attention is held against. See `RankCorrelation`."""

    first: str
    second: str
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
class AttentionAudit(Shown):
    """Does a model's attention tell which inputs matter? The numbers; `verdict` puts them into words."""

    model: ModelRecord
    n_texts: int
    queries: str
    scale: str
    measures: tuple[str, ...]
    layers: tuple[AttentionLayer, ...]
    rank_correlations: tuple[RankCorrelation, ...]
    attention: tuple[AttentionConcentration, ...]
    importance: tuple[MeasureConcentration, ...]
    between: tuple[MeasureCorrelation, ...]
    n_too_short: int
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The answer in plain words, with the reasons."""
        from whence.attention.verdict import judge

        return judge(self)

    @property
    def agreements(self) -> tuple[RankCorrelation, ...]:
        """The old name of `rank_correlations`."""
        warn_of_old_name("AttentionAudit.agreements", "rank_correlations")
        return self.rank_correlations

    def of_layer(self, layer: AttentionLayer, head: int | None = None) -> list[RankCorrelation]:
        """The rank correlations of a head, or of the mean over heads, one per measure."""
        return [each for each in self.rank_correlations if each.layer == layer and each.head == head]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types (NaN becomes null), the verdict in words included."""
        verdict = self.verdict
        words = {"answer": verdict.answer, "reasons": list(verdict.reasons)}
        return {"schema": SCHEMA, "kind": "attention_audit", "verdict": words, **plain(self, nan_as_null=True)}

    def save(self, path: str | Path) -> None:
        """Write the audit as JSON; a file already there is replaced only once the new one is whole."""
        write_whole(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n", path)

    @classmethod
    def load(cls, path: str | Path) -> AttentionAudit:
        """The audit that `save` wrote."""
        return cls.from_dict(load_json(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AttentionAudit:
        """The audit of which `to_dict` gave this; the verdict is drawn anew from its numbers."""
        if not isinstance(data, Mapping) or data.get("kind") != "attention_audit":
            raise FileError("this is no attention audit", _ADVICE)
        if data.get("schema") != SCHEMA:
            raise FileError(f"the audit has schema {data.get('schema')!r}, not {SCHEMA}", "audit the model again")
        try:
            return cls(**{field.name: _read(field.name, data[field.name]) for field in fields(cls)})
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"the audit is broken: {type(error).__name__}: {error}", _ADVICE) from error

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per layer, head (missing: the mean over heads) and measure, with all that `RankCorrelation` holds."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rank_correlations])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the rank correlation by layer, a line per measure, on matplotlib axes (new ones if none are given)."""
        from whence.render.audit import plot_rank_correlation

        return plot_rank_correlation(self, ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """The audit as one self-contained page, returned and, if a path is given, written there."""
        from whence.render.audit_page import audit_page

        return written(audit_page(self), path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.audit import audit_view

        yield audit_view(self)

    def __repr__(self) -> str:
        return f"<AttentionAudit of {self.model.id} on {self.n_texts} texts: {self.verdict.answer}>"


_ROWS = {
    "rank_correlations": RankCorrelation,
    "attention": AttentionConcentration,
    "importance": MeasureConcentration,
    "between": MeasureCorrelation,
}


def _read(name: str, value: Any) -> Any:
    """A field of an audit from what JSON has of it."""
    if name == "model":
        return ModelRecord(**value)
    if name in _ROWS:
        return tuple(_row(_ROWS[name], each) for each in value)
    return tuple(value) if isinstance(value, list) else value


def _row(kind: type, data: Mapping[str, Any]) -> Any:
    """A row of numbers: null is NaN again."""
    numbers = {field.name for field in fields(kind) if field.type == "float"}
    return kind(**{name: math.nan if value is None and name in numbers else value for name, value in data.items()})
