"""The lens on a terminal: the text's tokens down, layers across, in each square the word that the head reads there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.text import Text

from whence.lens import Lens
from whence.render.rows import MOST_ROWS, blanks_shown, token_label
from whence.render.terminal import facts_view, warnings_view
from whence.render.terminal_pictures import FOR, SHADES, fitted
from whence.render.visible import visible
from whence.render.wording import layer_words, model_name, model_words

if TYPE_CHECKING:
    from jaxtyping import Float

_NARROWEST, _WIDEST = 8, 14  # columns of a square


def lens_view(lens: Lens, *, everything: bool = False) -> RenderableType:
    """What a terminal shows of a lens: the likeliest word everywhere, or of one layer all that were asked for.

    Args:
        everything: a line for every token, however long the text; otherwise for the first ones.
    """
    positions = _positions(lens)
    left_out = 0 if everything else max(0, len(positions) - MOST_ROWS)
    lines = [_line(lens, position) for position in positions[: len(positions) - left_out]]
    trained = "to say the next token" if lens.next_token else "to fill in hidden tokens"
    right = "follows" if lens.next_token else "stands there"
    what = f"what the head finds likeliest in the state of each token; it was trained {trained}"
    if lens.written is not None:
        what, right = "what each layer would have written in the place of each token of the response", "was written"
    said = f"{what}. {SHADES[1:]} say how likely: up to ¼, ½, ¾, 1; blue where it is the token that {right}"
    return Group(
        *warnings_view(lens.warnings),
        Rule(Text("lens", style="bold"), style="dim"),
        Text(),
        Ranking(lens, lines) if len(lens.layers) == 1 else Squares(lens, lines),
        *(
            [Text(f"  {left_out} of {len(positions)} lines are not shown; --all-tokens shows them", "yellow")]
            * bool(left_out)
        ),
        Text(),
        facts_view(
            {
                "squares": Text(said, style="not dim"),
                **_shares(lens),
                "layers": Text(layer_words(lens.layers)),
                "model": Text(model_words(lens.model)),
                "head": Text(visible(f"of {model_name(lens.head)}")),
            },
            style="dim",
        ),
    )


@dataclass(frozen=True)
class Line:
    """A line of the picture: the position whose state is read, and the token that it is about."""

    position: int
    label: str
    special: bool


def _positions(lens: Lens) -> range:
    """Whose states are shown: those of all tokens, or those at which a response is read off."""
    if lens.written is None:
        return range(len(lens.tokens))
    return range(lens.written.positions.start - 1, lens.written.positions.stop - 1)


def _line(lens: Lens, position: int) -> Line:
    about = position if lens.written is None else position + 1
    # a response counts as special, but here it is what is asked about
    special = lens.written is None and lens.tokens[position].special
    return Line(position, token_label(lens.tokens, about, lens.text, lens.pair), special)


def _shares(lens: Lens) -> dict[str, Text]:
    """How often each layer is right, in words."""
    if lens.written is not None:
        shares = _listed(lens, lens.written.shares)
        settled = [layer for layer in lens.written.settled if layer is not None]
        found = {"written": Text(f"tokens of the response that each layer would have written: {shares}")}
        if settled:
            half = sorted(settled, key=lambda layer: -1 if layer == "embeddings" else layer)[(len(settled) - 1) // 2]
            found["settled"] = Text(f"half of those that the last layer writes stay the likeliest from layer {half} on")
        return found
    of_text = lens.read_ahead if lens.next_token else lens.read_back
    what = "says before they come" if lens.next_token else "reads as themselves"
    told = "" if of_text is None else f"tokens of the text that the head {what}: {_listed(lens, of_text)}"
    return {"read ahead" if lens.next_token else "read back": Text(told)}


def _listed(lens: Lens, shares: Float[np.ndarray, " layer"]) -> str:
    return ", ".join(f"{share:.0%} at {layer}" for layer, share in zip(lens.layers, shares.tolist(), strict=True))


def _tile(lens: Lens, layer: int, position: int, rank: int, width: int) -> Text:
    """A word with a shade before it that says how likely it is."""
    chance = float(lens.probabilities[layer, position, rank])
    word = blanks_shown(lens.words[layer][position][rank])
    sought = position + lens.next_token
    right = sought < len(lens.tokens) and int(lens.ids[layer, position, rank]) == lens.tokens[sought].id
    level = max(1, min(4, int(chance * 4 - 1e-9) + 1))
    strength = ("dim", "", "", "bold")[level - 1]
    return Text(SHADES[level] + fitted(word, width - 1), f"{strength} {FOR if right else ''}".strip())


@dataclass(frozen=True)
class Squares:
    """One line per token, one column per layer; layers that do not fit beside each other go below."""

    lens: Lens
    lines: Sequence[Line]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lens = self.lens
        label = min(16, max(cell_len(each) for each in [*(line.label for line in self.lines), "layer"]))
        room = max(_NARROWEST, options.max_width - label - 3)
        fit = min(len(lens.layers), max(1, room // (_NARROWEST + 1)))
        cell = min(_WIDEST, room // fit - 1)
        for start in range(0, len(lens.layers), fit):
            columns = range(start, min(start + fit, len(lens.layers)))
            names = "".join(f" {fitted(str(lens.layers[column]), cell)}" for column in columns)
            if start:
                yield Text()
            yield Text(f"{'layer':>{label + 2}} {names}", style="dim", no_wrap=True)
            for each in self.lines:
                style = "dim" if each.special else "bold"
                line = Text("  ", no_wrap=True).append(fitted(each.label, label), style).append(" ")
                for column in columns:
                    line.append(" ").append_text(_tile(lens, column, each.position, 0, cell))
                yield line


@dataclass(frozen=True)
class Ranking:
    """One line per token: the words that the head reads at the one layer, likeliest first; what does not fit, below."""

    lens: Lens
    lines: Sequence[Line]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lens, n_ranks = self.lens, self.lens.ids.shape[2]
        label = min(16, max(cell_len(each) for each in [*(line.label for line in self.lines), "layer 99"]))
        sought = [_sought(lens, line.position) for line in self.lines]
        wide = max(8, *map(len, sought))
        word = min(_WIDEST, 1 + max(cell_len(blanks_shown(each)) for top in lens.words[0] for each in top))
        fit = min(n_ranks, max(1, (options.max_width - label - wide - 5) // (word + 7)))
        column = "the next" if lens.next_token and lens.written is None else "itself"
        header = f"  {f'layer {lens.layers[0]}':<{label}}  {column:<{wide}}"
        yield Text(header + "".join(f"  {rank + 1:<{word + 5}}" for rank in range(fit)), style="dim", no_wrap=True)
        for each, told in zip(self.lines, sought, strict=True):
            for start in range(0, n_ranks, fit):
                line = Text("  ", no_wrap=True)
                line.append(fitted("" if start else each.label, label), "dim" if each.special else "bold")
                line.append(f"  {'' if start else told:<{wide}}", "dim")
                for rank in range(start, min(start + fit, n_ranks)):
                    line.append("  ").append_text(_tile(lens, 0, each.position, rank, word))
                    line.append(f" {lens.probabilities[0, each.position, rank]:>4.0%}", "dim")
                yield line


def _sought(lens: Lens, position: int) -> str:
    rank = int(lens.sought_ranks[0, position])
    return f"{lens.sought_probabilities[0, position]:.0%}, rank {rank}" if rank else "–"
