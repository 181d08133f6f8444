"""The package as a whole: what it exports, which way imports point, and how light it is."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import whence

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "whence"

# lower parts never import higher ones; parts in one line may import each other
STOREYS = (
    ("errors", "units"),
    ("files", "store"),
    ("explanation", "explanation_json"),
    ("metrics",),
    ("targets",),
    ("data", "embedded"),
    ("models",),
    ("lens",),
    ("methods",),
    ("testing", "engine", "learned", "attention"),
    ("scoreboard",),
    ("render",),
    ("cli",),
)
STOREY = {part: number for number, parts in enumerate(STOREYS) for part in parts}


def part_of(module: str) -> str:
    return module.split(".")[1]


def imports(tree: ast.AST) -> list[str]:
    """The modules of whence that a file imports when it is itself imported, not those it loads when used."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("whence."):
            found.append(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "whence":
            found += [f"whence.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("whence.")]
        else:
            found += imports(node)
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_one_way(file: Path) -> None:
    if file == PACKAGE / "__init__.py":
        return
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imports(ast.parse(file.read_text())):
        if part_of(module) in STOREY:
            assert STOREY[part_of(module)] <= STOREY[part], f"{part} must not import {module}"


def test_the_import_test_can_fail() -> None:
    upward = ast.parse("if True:\n    from whence.methods.explain import explain\n")
    assert [STOREY[part_of(module)] > STOREY["models"] for module in imports(upward)] == [True]


def test_every_part_has_a_storey() -> None:
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__", "__pycache__"} == set(STOREY)


def test_exported_names_are_listed_and_exist() -> None:
    assert whence.__all__ == sorted(whence.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert len(whence.__all__) <= 35
    assert all(hasattr(whence, name) for name in whence.__all__)


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
