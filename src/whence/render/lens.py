"""The lens on a terminal: the text's tokens down, layers across, in each square the word that the head reads there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.text import Text

from whence.lens import Lens
from whence.render.rows import MOST_ROWS, token_label
from whence.render.terminal import facts_view, layer_words, model_words, warnings_view
from whence.render.terminal_pictures import FOR, SHADES, fitted
from whence.render.visible import visible

_NARROWEST, _WIDEST = 8, 14  # columns of a square


def lens_view(lens: Lens, *, everything: bool = False) -> RenderableType:
    """What a terminal shows of a lens: the likeliest word everywhere, or of one layer all that were asked for.

    Args:
        everything: a line for every token, however long the text; otherwise for the first ones.
    """
    shown = len(lens.tokens) if everything else min(len(lens.tokens), MOST_ROWS)
    left_out = len(lens.tokens) - shown
    labels = [token_label(lens.tokens, place, lens.text, lens.pair) for place in range(shown)]
    trained = "to say the next token" if lens.next_token else "to fill in hidden tokens"
    said = (
        f"what the head finds likeliest in the state of each token; it was trained {trained}. "
        f"{SHADES[1:]} say how likely: up to ¼, ½, ¾, 1; blue where it is the token that stands there"
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
                "read back": Text(_read_back(lens)),
                "layers": Text(layer_words(lens.layers)),
                "model": Text(visible(model_words(lens.model))),
                "head": Text(visible(f"of {lens.head}")),
            },
            style="dim",
        ),
    )


def _read_back(lens: Lens) -> str:
    shares = [f"{share:.0%} at {layer}" for layer, share in zip(lens.layers, lens.read_back.tolist(), strict=True)]
    return f"tokens of the text that the head reads as themselves: {', '.join(shares)}"


def _tile(lens: Lens, layer: int, place: int, rank: int, width: int) -> Text:
    """A word with a shade before it that says how likely it is."""
    chance = float(lens.probabilities[layer, place, rank])
    word = word_label(lens.words[layer][place][rank])
    own = int(lens.ids[layer, place, rank]) == lens.tokens[place].id
    level = max(1, min(4, int(chance * 4 - 1e-9) + 1))
    strength = ("dim", "", "", "bold")[level - 1]
    return Text(SHADES[level] + fitted(word, width - 1), f"{strength} {FOR if own else ''}".strip())


def word_label(word: str) -> str:
    """A token of the vocabulary, made safe to show; blanks around it are left out, a token of blanks is not."""
    return visible(word.strip(" ")) or "␣" * len(word)


@dataclass(frozen=True)
class Squares:
    """One line a token, one column a layer; layers that do not fit beside each other go below."""

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
            names = "".join(f" {lens.layers[column]!s:<{cell}}" for column in columns)
            if start:
                yield Text()
            yield Text(f"{'layer':>{label + 2}} {names}", style="dim", no_wrap=True)
            for place, name in enumerate(self.labels):
                special = lens.tokens[place].special
                line = Text("  ", no_wrap=True).append(fitted(name, label), "dim" if special else "bold").append(" ")
                for column in columns:
                    line.append(" ").append_text(_tile(lens, column, place, 0, cell))
                yield line


@dataclass(frozen=True)
class Ranking:
    """One line a token: the words that the head reads at the one layer, likeliest first; what does not fit, below."""

    lens: Lens
    labels: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lens, n_ranks = self.lens, self.lens.ids.shape[2]
        label = min(16, max(cell_len(each) for each in [*self.labels, "layer 99"]))
        own = max(8, *(len(_own(lens, place)) for place in range(len(self.labels))))
        word = min(_WIDEST, 1 + max(cell_len(word_label(each)) for top in lens.words[0] for each in top))
        fit = min(n_ranks, max(1, (options.max_width - label - own - 5) // (word + 7)))
        header = f"  {f'layer {lens.layers[0]}':<{label}}  {'itself':<{own}}"
        yield Text(header + "".join(f"  {rank + 1:<{word + 5}}" for rank in range(fit)), style="dim", no_wrap=True)
        for place, name in enumerate(self.labels):
            for start in range(0, n_ranks, fit):
                line = Text("  ", no_wrap=True)
                line.append(fitted("" if start else name, label), "dim" if lens.tokens[place].special else "bold")
                line.append(f"  {'' if start else _own(lens, place):<{own}}", "dim")
                for rank in range(start, min(start + fit, n_ranks)):
                    line.append("  ").append_text(_tile(lens, 0, place, rank, word))
                    line.append(f" {lens.probabilities[0, place, rank]:>4.0%}", "dim")
                yield line


def _own(lens: Lens, place: int) -> str:
    return f"{lens.own_probabilities[0, place]:.0%}, rank {lens.own_ranks[0, place]}"
