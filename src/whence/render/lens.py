"""The lens on a terminal: the text's tokens down, layers across, in each square the word that the head reads there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.text import Text

from whence.lens import Lens
from whence.render.rows import MOST_ROWS, blanks_shown, token_label
from whence.render.terminal import facts_view, warnings_view
from whence.render.terminal_pictures import FOR, SHADES, fitted
from whence.render.visible import visible
from whence.render.wording import layer_words, model_words

_NARROWEST, _WIDEST = 8, 14  # columns of a square


def lens_view(lens: Lens, *, everything: bool = False) -> RenderableType:
    """What a terminal shows of a lens: the likeliest word everywhere, or of one layer all that were asked for.

    Args:
        everything: a line for every token, however long the text; otherwise for the first ones.
    """
    shown = len(lens.tokens) if everything else min(len(lens.tokens), MOST_ROWS)
    left_out = len(lens.tokens) - shown
    labels = [token_label(lens.tokens, position, lens.text, lens.pair) for position in range(shown)]
    trained = "to say the next token" if lens.next_token else "to fill in hidden tokens"
    right = "follows" if lens.next_token else "stands there"
    said = (
        f"what the head finds likeliest in the state of each token; it was trained {trained}. "
        f"{SHADES[1:]} say how likely: up to ¼, ½, ¾, 1; blue where it is the token that {right}"
    )
    return Group(
        *warnings_view(lens.warnings),
        Rule(Text("lens", style="bold"), style="dim"),
        Text(),
        Ranking(lens, labels) if len(lens.layers) == 1 else Squares(lens, labels),
        *(
            [Text(f"  {left_out} of {len(lens.tokens)} lines are not shown; --all-tokens shows them", "yellow")]
            * bool(left_out)
        ),
        Text(),
        facts_view(
            {
                "squares": Text(said, style="not dim"),
                "read ahead" if lens.next_token else "read back": Text(_share_words(lens)),
                "layers": Text(layer_words(lens.layers)),
                "model": Text(model_words(lens.model)),
                "head": Text(visible(f"of {lens.head}")),
            },
            style="dim",
        ),
    )


def _share_words(lens: Lens) -> str:
    found = lens.read_ahead if lens.next_token else lens.read_back
    if found is None:
        return ""
    shares = [f"{share:.0%} at {layer}" for layer, share in zip(lens.layers, found.tolist(), strict=True)]
    what = "says before they come" if lens.next_token else "reads as themselves"
    return f"tokens of the text that the head {what}: {', '.join(shares)}"


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
    labels: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lens = self.lens
        label = min(16, max(cell_len(each) for each in [*self.labels, "layer"]))
        room = max(_NARROWEST, options.max_width - label - 3)
        fit = min(len(lens.layers), max(1, room // (_NARROWEST + 1)))
        cell = min(_WIDEST, room // fit - 1)
        for start in range(0, len(lens.layers), fit):
            columns = range(start, min(start + fit, len(lens.layers)))
            names = "".join(f" {fitted(str(lens.layers[column]), cell)}" for column in columns)
            if start:
                yield Text()
            yield Text(f"{'layer':>{label + 2}} {names}", style="dim", no_wrap=True)
            for position, name in enumerate(self.labels):
                special = lens.tokens[position].special
                line = Text("  ", no_wrap=True).append(fitted(name, label), "dim" if special else "bold").append(" ")
                for column in columns:
                    line.append(" ").append_text(_tile(lens, column, position, 0, cell))
                yield line


@dataclass(frozen=True)
class Ranking:
    """One line per token: the words that the head reads at the one layer, likeliest first; what does not fit, below."""

    lens: Lens
    labels: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lens, n_ranks = self.lens, self.lens.ids.shape[2]
        label = min(16, max(cell_len(each) for each in [*self.labels, "layer 99"]))
        sought = [_sought(lens, position) for position in range(len(self.labels))]
        wide = max(8, *map(len, sought))
        word = min(_WIDEST, 1 + max(cell_len(blanks_shown(each)) for top in lens.words[0] for each in top))
        fit = min(n_ranks, max(1, (options.max_width - label - wide - 5) // (word + 7)))
        header = f"  {f'layer {lens.layers[0]}':<{label}}  {'the next' if lens.next_token else 'itself':<{wide}}"
        yield Text(header + "".join(f"  {rank + 1:<{word + 5}}" for rank in range(fit)), style="dim", no_wrap=True)
        for position, name in enumerate(self.labels):
            for start in range(0, n_ranks, fit):
                line = Text("  ", no_wrap=True)
                line.append(fitted("" if start else name, label), "dim" if lens.tokens[position].special else "bold")
                line.append(f"  {'' if start else sought[position]:<{wide}}", "dim")
                for rank in range(start, min(start + fit, n_ranks)):
                    line.append("  ").append_text(_tile(lens, 0, position, rank, word))
                    line.append(f" {lens.probabilities[0, position, rank]:>4.0%}", "dim")
                yield line


def _sought(lens: Lens, position: int) -> str:
    rank = int(lens.sought_ranks[0, position])
    return f"{lens.sought_probabilities[0, position]:.0%}, rank {rank}" if rank else "–"
