"""`whence.compare`: one text explained by several methods, and how far these rank its words alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from whence.errors import InputError, UnknownNameError, UsageError
from whence.explanation import Explanation, Scale
from whence.files import written
from whence.json_records import anything, load_json, of_schema, plain, save_json, several
from whence.methods.explain import explain
from whence.methods.names import method_named
from whence.methods.question import Method
from whence.metrics.rank_correlation import kendall_tau
from whence.models.batching import Text
from whence.models.layered import LayeredModel, Layers
from whence.progress import Progress, reporter
from whence.results import Results, Shown
from whence.targets import Target
from whence.units import Units

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "whence.comparison/1"


@dataclass(frozen=True)
class Comparison(Shown):
    """What several methods say of one text, an explanation per method in the order in which they were asked.

    >>> import whence
    >>> found = whence.compare(whence.load(), "a gorgeous, witty film", ["leave_one_out", "gradient_x_input"])
    >>> found.methods
    ('leave_one_out', 'gradient_x_input')
    >>> found.rank_correlations.shape
    (2, 2)
    """

    explanations: tuple[Explanation, ...]

    def __post_init__(self) -> None:
        if not self.explanations:
            raise UsageError("there is nothing to compare", "give at least one explanation")
        if len({(each.text, each.pair) for each in self.explanations}) > 1:
            raise UsageError(
                "explanations of different texts cannot be compared", "explain one text by several methods"
            )
        if len({None if each.units is None else each.units.units for each in self.explanations}) > 1:
            raise UsageError("explanations in different units cannot be compared", "give units= the same for all")

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(each.method for each in self.explanations)

    def of(self, method: str) -> Explanation:
        """The explanation by that method."""
        if method not in self.methods:
            raise UnknownNameError("method", method, self.methods)
        return self.explanations[self.methods.index(method)]

    @property
    def rank_correlations(self) -> Float[np.ndarray, "method method"]:
        """Kendall's τ-b between the sizes of two methods' scores of words (or units), each at its lowest layer.

        NaN where a method gives all words the same size.
        """
        found = [
            {(word.segment, word.start): abs(word.score) for word in each.gathered()} for each in self.explanations
        ]
        words = sorted({key for sizes in found for key in sizes})
        sizes = np.array([[row.get(key, 0.0) for key in words] for row in found], dtype=np.float64)
        return kendall_tau(sizes, sizes)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types, with a schema version."""
        correlations = plain(self.rank_correlations, nan_as_null=True)
        explanations = [each.to_dict() for each in self.explanations]
        return {"schema": SCHEMA, "explanations": explanations, "rank_correlations": correlations}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """The comparison that `to_dict` wrote; every field is checked."""
        parts = of_schema(data, SCHEMA, "a comparison").get("explanations")
        return cls(tuple(Explanation.from_dict(each) for each in several(anything)(parts, "explanations")))

    def save(self, path: str | Path) -> None:
        """Write the comparison as JSON; a file already there is replaced only once the new one is whole."""
        save_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read a comparison that `save` wrote; nothing in the file is executed."""
        return cls.from_dict(load_json(path))

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per method, layer and word (or unit): method, layer, word, start, end, segment, score."""
        import pandas

        return pandas.DataFrame(
            {
                "method": each.method,
                "layer": layer,
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "segment": word.segment,
                "score": word.score,
            }
            for each in self.explanations
            for layer in each.layers
            for word in each.gathered(layer)
        )

    def to_html(self, path: str | Path | None = None) -> str:
        """The comparison as one self-contained page, returned and, if a path is given, written there."""
        from whence.render.page import page

        return written(page(self.explanations), path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.terminal import comparison_view

        yield comparison_view(self.explanations)

    def __repr__(self) -> str:
        first = self.explanations[0]
        kind = "word" if first.units is None else first.units.kind
        return f"<Comparison of {', '.join(self.methods)}: {len(first.gathered())} {kind}s>"


@overload
def compare(
    model: LayeredModel, texts: Text, methods: Sequence[str | Method], *, target: Target = ...,
    scale: Scale | None = ..., layers: Layers | None = ..., units: Units = ..., seed: int = ...,
    batch_tokens: int | None = ..., progress: Progress = ..., **options: Any,
) -> Comparison: ...  # fmt: skip
@overload
def compare(
    model: LayeredModel, texts: Iterable[Text], methods: Sequence[str | Method], *, target: Target = ...,
    scale: Scale | None = ..., layers: Layers | None = ..., units: Units = ..., seed: int = ...,
    batch_tokens: int | None = ..., progress: Progress = ..., **options: Any,
) -> Results[Comparison]: ...  # fmt: skip
def compare(
    model: LayeredModel,
    texts: Text | Iterable[Text],
    methods: Sequence[str | Method],
    *,
    target: Target = "predicted",
    scale: Scale | None = None,
    layers: Layers | None = None,
    units: Units = "token",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> Comparison | Results[Comparison]:
    """Put several methods side by side on a text.

    >>> import whence
    >>> found = whence.compare(whence.load(), "not a dull film", ["leave_one_out", "lime"], samples=50)
    >>> found.of("leave_one_out").top(1)[0].text
    'not'

    Args:
        model: what `whence.load` gives.
        texts: a text or a pair of texts gives a comparison; several give a list in the same order.
        methods: names from `whence methods` (presets too), or methods of your own.
        target, scale, layers, units, seed, batch_tokens: see `whence.explain`; the same for all methods.
        progress: True draws a bar per method, a function is called with (method, texts done, texts in all).
        options: go to every method that has them; one that none of them has is refused.
    """
    if isinstance(methods, str) or not methods:
        raise UsageError("there is no method to compare", 'give several, as in ["lime", "shapley"]')
    single = isinstance(texts, (str, tuple))
    if not isinstance(texts, Iterable):
        raise InputError(f"texts is {type(texts).__name__}", "give a string, a pair of strings, or a list of these")
    given: list[Text] = [texts] if single else list(texts)  # type: ignore[list-item]
    shares = shared_options(methods, options)
    with reporter(progress) as report:
        by_method = [
            explain(
                model, given, method, target=target, scale=scale, layers=layers, units=units, seed=seed,
                batch_tokens=batch_tokens, progress=report, **share,
            )
            for method, share in zip(methods, shares, strict=True)
        ]  # fmt: skip
    found = Results(Comparison(of_text) for of_text in zip(*by_method, strict=True))
    return found[0] if single else found


def shared_options(methods: Sequence[str | Method], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each method those options that it has; every option must be known to one of them."""
    known = [method_named(method).method.options for method in methods]
    for option in options:
        if not any(option in each for each in known):
            names = ", ".join(str(method) for method in methods)
            raise UnknownNameError(f"option of {names}", option, sorted({name for each in known for name in each}))
    return [{option: value for option, value in options.items() if option in each} for each in known]
