"""The package as a whole: what it exports, which way imports point, and how light it is."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import whence

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "whence"

# lower parts never import higher ones, not even inside a function; parts in one line may import each other
STOREYS = (
    ("columns", "errors", "memory", "progress", "units"),
    ("files", "results"),
    ("json_records",),
    ("tokens",),
    ("explanation", "explanation_json"),
    ("store",),
    ("metrics",),
    ("targets",),
    ("tasks",),
    ("selection",),
    ("data", "embedded"),
    ("models",),
    ("lens", "lens_answer", "lens_json", "lens_response", "probes"),
    ("engine",),
    ("methods",),
    ("comparison", "testing"),
    ("learned",),
    ("attention",),
    ("scoreboard", "citing"),
    ("corpus",),
    ("render",),
    ("serving",),
    ("cli",),
)
STOREY = {part: number for number, parts in enumerate(STOREYS) for part in parts}

# The only ways up, each when it is used and not before: a result draws itself in one line.
DOORS = {
    "explanation.py": "render",
    "results.py": "render",
    "lens.py": "render",
    "comparison.py": "render",
    "engine/result.py": "render",
    "attention/audit_record.py": "render",
    "scoreboard/board.py": "render",
    "citing/citations.py": "render",
}


def part_of(module: str) -> str:
    return module.split(".")[1]


def imports(tree: ast.AST, lazy: bool = False) -> list[tuple[str, bool]]:
    """The modules of whence that a file imports, and whether only when a function is called."""
    found: list[tuple[str, bool]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("whence."):
            found.append((node.module, lazy))
        elif isinstance(node, ast.ImportFrom) and node.module == "whence":
            found += [(f"whence.{name.name}", lazy) for name in node.names]
        elif isinstance(node, ast.Import):
            found += [(name.name, lazy) for name in node.names if name.name.startswith("whence.")]
        else:
            found += imports(node, lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
    return found


def upward(file: str, tree: ast.AST) -> list[str]:
    """The imports of a file that point up and go through no door."""
    mine = STOREY[Path(file).parts[0].removesuffix(".py")]
    return [
        module
        for module, lazy in imports(tree)
        if STOREY[part_of(module)] > mine and not (lazy and DOORS.get(file) == part_of(module))
    ]


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_imports_point_one_way(file: Path) -> None:
    if file != PACKAGE / "__init__.py":  # the door itself
        assert upward(file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text())) == []


def test_the_import_test_can_fail() -> None:
    eager = ast.parse("if True:\n    from whence.methods.explain import explain\n")
    lazy = ast.parse("class A:\n    def f(self):\n        from whence.render.page import page\n")
    assert upward("models/layered.py", eager) == ["whence.methods.explain"]
    assert upward("models/layered.py", lazy) == upward("units.py", lazy) == ["whence.render.page"]
    assert upward("explanation.py", lazy) == []
    assert upward("explanation.py", ast.parse("from whence.render.page import page")) == ["whence.render.page"]
    assert upward("cli/explain.py", eager) == []


def test_no_door_is_left_open() -> None:
    """A door that nobody goes through is taken out of the list."""
    for file, part in DOORS.items():
        used = [module for module, lazy in imports(ast.parse((PACKAGE / file).read_text())) if lazy]
        assert part in {part_of(module) for module in used}, file


def test_every_part_has_a_storey() -> None:
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__", "__pycache__"} == set(STOREY)


PUBLIC = re.findall(r"^\| `(whence[\w.]*)` \|", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE)


def test_public_modules_exist_and_say_what_they_are_for() -> None:
    assert {"whence", "whence.data", "whence.testing"} <= set(PUBLIC)
    for name in PUBLIC:
        assert importlib.import_module(name).__doc__, name


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_every_module_says_what_it_is(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text())), file


def test_exported_names_are_listed_and_exist() -> None:
    assert whence.__all__ == sorted(whence.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert len(whence.__all__) <= 44, "what users hold: calls, their results, what they are asked about, and errors"
    assert all(hasattr(whence, name) for name in whence.__all__)


@pytest.mark.parametrize("name", ["Encoding", "Inputs", "States"])
def test_names_taken_back_still_work_and_say_where_they_are(name: str) -> None:
    assert name not in whence.__all__
    with pytest.warns(whence.WhenceWarning, match=rf"^whence.{name} is now called whence\.models\.\w+\.{name}"):
        assert getattr(whence, name).__name__ == name


HEAVY = (
    "accelerate", "captum", "datasets", "entmax", "matplotlib", "pandas", "pyarrow", "rich", "scipy", "sklearn",
    "transformers", "typer",
)  # fmt: skip


def loaded_after(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_is_light() -> None:
    assert loaded_after("import whence") == set()


def test_the_light_import_test_can_fail() -> None:
    assert "matplotlib" in loaded_after("import whence, matplotlib")


def test_version_and_changelog_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_pickle_anywhere() -> None:
    for file in [*PACKAGE.rglob("*.py"), *(ROOT / "training").rglob("*.py")]:
        text = file.read_text()
        assert "import pickle" not in text, file
        assert "torch.load(" not in text, file
        assert "torch.save(" not in text, file


def test_records_and_pages_name_no_folder_of_a_machine() -> None:
    folders = re.compile(r"/(?:home|root|tmp|work|Users)/\w|site-packages")
    assert folders.search("cannot import (/home/someone/.venv/lib/python3.11/site-packages/a.py)")
    written = [*ROOT.glob("benchmarks/results/*.json"), *ROOT.glob("experiments/*/results/**/*.json")]
    for file in [*written, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        found = folders.search(file.read_text(encoding="utf-8"))
        assert found is None, f"{file}: {found}"


def test_old_names_work_and_say_what_they_are_called_now(bert: whence.LayeredModel) -> None:
    old: Any = "words"
    with pytest.warns(whence.WhenceWarning, match='layer "words" is now called layer "embeddings"'):
        assert whence.explain(bert, "a witty film", "random", layers=old).layers == ("embeddings",)
    with pytest.warns(whence.WhenceWarning, match="decoder= is now called head="):
        again = whence.load("sentiment", decoder="topic")
    with pytest.warns(whence.WhenceWarning, match="LayeredModel.decoder is now called LayeredModel.head"):
        assert again.decoder is again.head
    with pytest.warns(whence.WhenceWarning, match="Lens.decoder is now called Lens.head"):
        assert whence.decode_layers(bert, "a witty film").decoder
    with pytest.warns(whence.WhenceWarning, match="DiffMask.shipped is now called DiffMask.embedded"):
        assert whence.DiffMask.shipped("sentiment").kind == "input"
