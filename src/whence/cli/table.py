"""`whence table`: what a corpus run found, on a terminal or as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from whence.cli.arguments import Debug, MethodName, parse_layers
from whence.cli.reporting import errors_reported, print_line, print_views, say
from whence.errors import UsageError

if TYPE_CHECKING:
    import pandas

    from whence.corpus.corpus import Corpus
    from whence.explanation import Layer

Folder = Annotated[Path, Argument(metavar="FOLDER", help="What `whence run` wrote.")]
TopWords = Annotated[bool, Option("--top-words", help="A row per word: its mean score over texts, with an interval.")]
By = Annotated[str | None, Option("--by", metavar="COLUMN", help="A table for each value, as of label or prediction.")]
LayerName = Annotated[str | None, Option("--layer", metavar="LAYER", help="A layer; by default the lowest there is.")]
MinTexts = Annotated[int | None, Option("--min-texts", metavar="N", min=1, help="Only words of so many texts.")]
Rows = Annotated[int, Option("--limit", metavar="N", min=1, help="Rows (of each group) to show.")]
ToFile = Annotated[Path | None, Option("--csv", metavar="FILE", help="Write all rows to a file.")]
AsJson = Annotated[bool, Option("--json", help="Print all rows as JSON, one object per line.")]
LONGEST = 60  # characters of a text


def table(
    folder: Folder, top_words: TopWords = False, by: By = None, method: MethodName = None, layer: LayerName = None,
    min_texts: MinTexts = None, limit: Rows = 15, csv: ToFile = None, as_json: AsJson = False, debug: Debug = False,
) -> None:  # fmt: skip
    """Show what a corpus run found: its texts or, with --top-words, the words that speak for what."""
    with errors_reported(debug):
        from whence.corpus.corpus import Corpus

        corpus = Corpus.open(folder)
        layers: Any = parse_layers(layer)
        chosen = corpus.layer(method, layers[0] if layers else None)
        if by is not None and not top_words:
            raise UsageError("--by goes with --top-words", "whence table FOLDER --top-words --by label")
        frame = _words(corpus, by, method, chosen, min_texts) if top_words else _texts(corpus)
        if not corpus.complete:
            say(f"note: the run is not complete: {len(corpus):,} texts so far")
        if csv is not None:
            from whence.files import write_whole

            write_whole(frame.to_csv(index=False), csv)
            say(f"table: {csv.absolute()}")
        if as_json:
            for row in frame.to_dict("records"):
                print_line({name: None if value != value else value for name, value in row.items()})
            sys.stdout.flush()
        elif csv is None:
            shown = frame.groupby(by, sort=False).head(limit) if by and top_words else frame.head(limit)
            print_views([_view(shown, corpus, chosen, top_words)])


def _words(corpus: Corpus, by: str | None, method: str | None, layer: Layer, min_texts: int | None) -> pandas.DataFrame:
    from whence.corpus.top_words import top_words

    return top_words(corpus, by, method=method, layer=layer, min_texts=min_texts)


def _texts(corpus: Corpus) -> pandas.DataFrame:
    columns = ["id", "text", "label", "prediction", "probability", "error"]
    there = corpus.schema("texts").names
    return corpus.texts([name for name in columns if name in there])


def _view(frame: pandas.DataFrame, corpus: Corpus, layer: Layer, words: bool) -> Any:
    """A table for a terminal, in which no character of a text can steer it."""
    from rich.table import Table
    from rich.text import Text

    from whence.render.visible import shortened

    title = f"{len(corpus):,} texts" + (f", scores at layer {layer}" if words else "")
    view = Table(title=title, title_justify="left", box=None)
    for name in frame.columns:
        number = frame[name].dtype.kind in "if"
        view.add_column(str(name), justify="right" if number else "left", no_wrap=number)
    for row in frame.itertuples(index=False):
        cells = ("" if value is None or value != value else value for value in row)
        view.add_row(
            *(Text(f"{cell:.4g}" if isinstance(cell, float) else shortened(str(cell), LONGEST)) for cell in cells)
        )
    return view
