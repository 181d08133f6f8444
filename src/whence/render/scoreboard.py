"""A scoreboard on a terminal: the verdict first, then the numbers it comes from."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whence.render.visible import visible
from whence.scoreboard.board import Entry, Scoreboard
from whence.scoreboard.verdict import passes_of

_COLUMNS = ("faithfulness", "naopc", "comprehensiveness", "sufficiency", "randomisation", "auprc")
_HEADS = {
    "faithfulness": "faithful ↑", "naopc": "norm. ↑", "comprehensiveness": "compr. ↑", "sufficiency": "suff. ↓",
    "randomisation": "random w. ↓", "auprc": "AUPRC ↑",
}  # fmt: skip


def board_view(board: Scoreboard) -> RenderableType:
    """What a terminal shows of a scoreboard."""
    verdict = board.verdict
    texts = f"{board.n_texts} text{'s' if board.n_texts != 1 else ''}"
    return Group(
        Rule(Text(f"scoreboard: {visible(board.model.id)}, {texts}", style="bold"), style="dim"),
        Padding(Text(visible(verdict.answer), style="bold"), (1, 2)),
        *(Padding(Text(f"- {visible(reason)}"), (0, 2)) for reason in verdict.reasons),
        *(Padding(Text(f"! {visible(warning)}", style="bold yellow"), (0, 2)) for warning in board.warnings),
        Text(),
        Padding(_table(board), (0, 2)),
        Padding(Text(_legend(board), style="dim"), (1, 2, 0, 2)),
        *(
            Padding(Text(f"left out: {visible(name)} ({visible(reason)})", style="dim"), (0, 2))
            for name, reason in board.left_out.items()
        ),
    )


def _table(board: Scoreboard) -> Table:
    shown = _shown(board)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="center", no_wrap=True)
    for _ in range(len(shown) + 1):
        table.add_column(justify="right", no_wrap=True)
    heads = [visible(_head(board, metric)).replace(" ", "\n", 1) for metric in shown]
    table.add_row("rank", "method, layer", "sign", *heads, "passes", style="dim")
    entries = {entry.name: entry for entry in board.entries}
    for ranked in board.ranking().standings:
        entry = entries[ranked.name]
        first, last = ranked.ranks
        rank = "" if entry.kind == "control" else str(first) if first == last else f"{first}–{last}"
        name = Text(visible(entry.name), style="dim" if entry.kind == "control" else "bold")
        if isinstance(entry.layer, int):
            name.append(f" {entry.layer}", style="dim")
        if entry.name in board.flagged and entry.kind != "control":
            name.append(" ignores the model", style="bold red")
        cells = [_cell(board, entry, metric) for metric in shown]
        passes = passes_of(board, entry.name)
        table.add_row(
            rank,
            name,
            Text("±" if entry.meaning.signed else "+", style="dim"),
            *cells,
            f"{passes:.0f}" if passes else "–",
        )
    return table


def _shown(board: Scoreboard) -> list[str]:
    """The columns of every board, and the metrics of the user's own."""
    own = [name for name, metric in board.kinds.items() if metric.group == "own"]
    return [*(metric for metric in _COLUMNS if metric in board.metrics), *own]


def _head(board: Scoreboard, metric: str) -> str:
    arrows = {"higher": "↑", "lower": "↓", None: "·"}
    return _HEADS.get(metric) or f"{board.kinds[metric].title} {arrows[board.kinds[metric].better]}"


def _cell(board: Scoreboard, entry: Entry, metric: str) -> Text:
    found = board.interval(entry.name, metric)
    if found is None:
        return Text("–", style="dim")
    text = Text(f"{found.mean:.2f}")
    if metric == "faithfulness":
        text.append(f" ±{(found.high - found.low) / 2:.2f}", style="dim")
    return text


def _legend(board: Scoreboard) -> str:
    shown = _shown(board)
    parts = [f"{visible(_head(board, metric))[:-2]}: {visible(board.kinds[metric].sentence)}" for metric in shown]
    return (
        "Ranks that the texts leave open are given as a range (paired tests, Holm, 5 %). "
        f"± is half the 95 % interval. {'. '.join(parts)}. passes: per text, a backward one counts as two. "
        "±: the sign of a score says for or against; +: scores have sizes only. "
        "random and single_effects are controls: the one knows nothing, the other what each word does alone."
    )
