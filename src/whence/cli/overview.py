"""`whence overview`: what a person wants to see of a corpus first, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from whence.cli.arguments import Debug, MethodName, parse_layers
from whence.cli.reporting import check_page, errors_reported, say
from whence.cli.table import Folder, LayerName

Page = Annotated[Path, Option("--html", metavar="FILE", help="Write a page that any browser shows.")]
WithTexts = Annotated[
    bool, Option("--texts/--no-texts", help="Write a page of the texts it names beside it, word by word.")
]


def overview(
    folder: Folder, html: Page, method: MethodName = None, layer: LayerName = None, texts: WithTexts = True,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Show a corpus run as a page: classes, mistakes, the words that drive each class, disagreements, errors."""
    with errors_reported(debug):
        from whence.corpus.corpus import Corpus
        from whence.corpus.overview import overview as overview_of
        from whence.files import write_whole
        from whence.render.overview import named_rows, overview_page, texts_page

        check_page(html)
        layers: Any = parse_layers(layer)
        found = overview_of(Corpus.open(folder), method=method, layer=layers[0] if layers else None)
        beside = html.with_name(f"{html.stem}-texts.html")
        with_texts = texts and bool(named_rows(found))
        if with_texts:
            write_whole(texts_page(found), beside)
        write_whole(overview_page(found, texts=beside.name if with_texts else None), html)
        say(f"page: {html.absolute()}")
