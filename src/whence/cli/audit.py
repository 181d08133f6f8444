"""`whence audit`: does the model's attention tell which inputs matter?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from whence.cli import completion
from whence.cli.arguments import (
    BatchTokens,
    DataDir,
    Debug,
    Html,
    Json,
    ModelName,
    Revision,
    Seed,
    Split,
    TaskName,
    Trust,
    known_methods,
    read_texts,
)
from whence.cli.progress import load_model
from whence.cli.reporting import check_page, errors_reported, print_line, print_views, say
from whence.errors import FileError, UsageError
from whence.progress import reporter

if TYPE_CHECKING:
    from whence.attention.audit_record import AttentionAudit
    from whence.models.batching import Text
    from whence.models.layered import LayeredModel

USUAL_LIMIT = 200  # texts of a data set: enough for narrow intervals, and seconds or minutes of work

SomeTexts = Annotated[list[str] | None, Argument(metavar="TEXT", help="Texts; - reads standard input.")]
SomeData = Annotated[str | None, Option("--data", metavar="FILE|NAME", help="A file of texts, or a set such as sst2.")]
SomeLimit = Annotated[int, Option("--limit", metavar="N", min=1, help="At most so many texts of --data.")]
Measures = Annotated[
    str | None,
    Option("--measures", metavar="A,B", help="Names from `whence methods`.", autocompletion=completion.methods),
]
Queries = Annotated[str, Option("--queries", metavar="WHO", help="Whose attention: all, first or last tokens'.")]
Folder = Annotated[
    Path | None, Option("--out", metavar="FOLDER", help="Write audit.json, audit.html and two figures there.")
]


def audit(
    texts: SomeTexts = None, model: ModelName = None, data: SomeData = None, data_dir: DataDir = None,
    split: Split = None, limit: SomeLimit = USUAL_LIMIT, measures: Measures = None, queries: Queries = "all",
    out: Folder = None, html: Html = None, task: TaskName = None, revision: Revision = None, trust: Trust = False,
    as_json: Json = False, seed: Seed = 0, batch_tokens: BatchTokens = None, debug: Debug = False,
) -> None:  # fmt: skip
    """Tell whether the model's attention says which inputs matter, layer by layer.

    Attention is held against importance measures, text by text; some hundred texts make the numbers sure.
    """
    with errors_reported(debug):
        names = [name.strip() for name in (measures or "").split(",") if name.strip()]
        settings = {"measures": known_methods(names)} if names else {}
        _check_out(out)
        check_page(html)
        given = _texts(texts or [], data, data_dir, split, limit, seed)
        loaded = load_model(model, task, revision, trust=trust)
        found = _audit(loaded, given, queries=queries, seed=seed, batch_tokens=batch_tokens, **settings)
        if out is not None:
            _write(found, out)
        if as_json:
            print_line(found.to_dict())
            sys.stdout.flush()
        else:
            print_views([found])
        if html is not None:
            found.to_html(html)
            say(f"page: {html.absolute()}")


def _texts(
    texts: Sequence[str], data: str | None, data_dir: Path | None, split: str | None, limit: int, seed: int
) -> list[Text]:
    if data is None:
        if not texts:
            raise UsageError("there is no text to audit", "give texts, or --data FILE")
        return list(read_texts(texts))
    if texts:
        raise UsageError("texts were given, and --data too", "give one of the two")
    from whence.data import read

    examples = read(data, data_dir=data_dir, split=split, limit=limit, seed=seed)
    return [each.text if each.pair is None else (each.text, each.pair) for each in examples]


def _audit(model: LayeredModel, texts: Sequence[Text], **settings: Any) -> AttentionAudit:
    from whence.attention.audit import audit_attention

    with reporter(True) as report:
        return audit_attention(model, texts, progress=report, **settings)


def _check_out(out: Path | None) -> None:
    """Before the model runs, so that no work is lost for want of a folder."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(out)!r}: {error.strerror}", "choose another") from error


def _write(found: AttentionAudit, out: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from whence.render.audit import plot_heads, plot_rank_correlation
    from whence.render.figure_file import write_figure

    found.save(out / "audit.json")
    found.to_html(out / "audit.html")
    for name, draw in {"rank_correlation": plot_rank_correlation, "heads": plot_heads}.items():
        ax = draw(found)  # type: ignore[operator]
        write_figure(ax.figure, out / f"{name}.png")
    say(f"audit: {out.absolute()}")
