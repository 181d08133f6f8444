"""What MkDocs does beside showing docs/: pages that live elsewhere in the repository, and lists made from the package.

MkDocs calls the functions by their names; see `hooks` in mkdocs.yml.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
ELSEWHERE = {
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "model_card.md": "src/whence/embedded/MODEL_CARD.md",
}
"""Pages of the site by the files they are made of."""
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        for name, content in _notebook(notebook):
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    for mark, lines in {"methods": _methods, "presets": _presets, "commands": _commands}.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", "\n".join(lines()))
    return LINK.sub(lambda found: _link(found, name), markdown)


def _link(found: re.Match[str], page: str) -> str:
    """A link as it is on the site, where some files have other places than in the repository."""
    opening, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    folder = PurePosixPath(ELSEWHERE.get(page, f"docs/{page}")).parent
    meant = os.path.normpath(folder / target)
    places = {source: name for name, source in ELSEWHERE.items()}
    here = places.get(meant, meant.removeprefix("docs/"))
    return f"{opening}{os.path.relpath(here, PurePosixPath(page).parent)}{anchor})"


def _notebook(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """A notebook as a page, and its pictures as files beside it."""
    parts: list[str] = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{number}.png"
                yield name, base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Drawn by the cell above]({name})")
            else:
                text = "".join(output.get("text") or data.get("text/plain", ""))
                parts.append(f"```text\n{text.rstrip()}\n```")
    yield f"{path.stem}.md", "\n\n".join(parts) + f"\n\nThe notebook is `examples/{path.name}`.\n"


def _methods() -> Iterable[str]:
    from whence.methods import METHODS
    from whence.render.wording import options_words

    yield "| method | what a score says | needs | cost | options |\n|---|---|---|---|---|"
    for name, method in METHODS.items():
        sign = "with a sign" if method.meaning.signed else "no sign"
        facts = (f"{method.meaning.sentence}; {sign}", ", ".join(method.needs) or "nothing", method.cost)
        yield _row(f"`{name}`", *facts, options_words(method.options))


def _presets() -> Iterable[str]:
    from whence.methods.presets import PRESETS
    from whence.render.wording import options_words

    yield "| preset | is | method | options |\n|---|---|---|---|"
    for name, preset in PRESETS.items():
        yield _row(f"`{name}`", preset.about, f"`{preset.method}`", options_words(preset.options))


def _commands() -> Iterable[str]:
    from typer.testing import CliRunner

    from whence.cli import app

    for command in app.registered_commands:
        assert command.callback is not None
        name = command.callback.__name__
        told = CliRunner().invoke(app, [name, "--help"], prog_name="whence", terminal_width=100)
        yield f"\n## whence {name}\n\n```text\n{told.stdout.strip()}\n```"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
