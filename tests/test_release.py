"""What is released: one version, the extras that README names, and files that install and run without a network."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import whence

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_said_in_one_place() -> None:
    assert whence.__version__ == version("whence")
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited
    assert cited[1] == PROJECT["version"]
    for file in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"^__version__ *=", file.read_text(encoding="utf-8"), flags=re.MULTILINE), file


def test_extras_are_as_documented() -> None:
    documented = re.findall(r"^\| `whence\[(\w+)\]` \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert documented == list(PROJECT["optional-dependencies"])
    advised = {
        extra
        for file in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"whence\[(\w+)\]", file.read_text(encoding="utf-8"))
    }
    assert advised <= set(documented)


def test_everything_imported_is_declared() -> None:
    """An import at any depth: what is not in the standard library is a dependency, or part of an extra."""
    declared = {re.split(r"[\[>=<]", name)[0].replace("-", "_").lower() for name in PROJECT["dependencies"]}
    extras = {"whence", "ray", "jaxtyping", "fastapi", "uvicorn"}
    extras |= {"starlette", "pydantic", "IPython"}  # come with fastapi; are there where it is asked for, in a notebook
    below = {"click": "typer", "jinja2": "transformers", "tokenizers": "transformers", "packaging": "transformers"}
    for file in (ROOT / "src").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        modules = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
        modules += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        for name in {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) - extras:
            assert below.get(name, name).lower() in declared, f"{file}: {name}"


@pytest.mark.minutes
def test_wheel_and_sdist_install_and_run_without_a_network(tmp_path: Path) -> None:
    """Built from the sdist, installed where nothing of the checkout can be seen, and asked for an explanation."""
    packages = [
        path for path in sys.path if Path(path).is_dir() and (Path(path) / "hatchling").parent.name and "site" in path
    ]
    nowhere = "http://127.0.0.1:9"
    offline = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_FIND_LINKS")},
        "PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1", "http_proxy": nowhere, "https_proxy": nowhere, "ALL_PROXY": nowhere,
    }  # fmt: skip
    reach = {**offline, "PYTHONPATH": os.pathsep.join(packages)}

    def run(*command: str | Path, env: dict[str, str] = offline) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", ROOT, env=reach)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    [sdist] = (tmp_path / "dist").glob("*.tar.gz")
    inside = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in inside} == {"whence", f"whence-{PROJECT['version']}.dist-info"}
    assert any(name.endswith("py.typed") for name in inside)
    installed: list[dict[str, bytes]] = []
    for number, release in enumerate((wheel, sdist)):
        clean = tmp_path / f"clean-{number}"
        venv.create(clean, with_pip=False)
        [site] = clean.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text("\n".join(packages))  # not whence: .pth files in there are not read
        python = clean / "bin" / "python"
        build = () if release is wheel else ("--no-build-isolation",)
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
        run(*pip, *build, release, env=reach)
        files = [path for path in (site / "whence").rglob("*") if path.is_file() and path.suffix != ".pyc"]
        installed.append({path.relative_to(site).as_posix(): path.read_bytes() for path in files})
    assert set(installed[0]) == {name for name in inside if name.startswith("whence/")}
    assert installed[0] == installed[1]  # so what runs from one runs from the other
    assert run(clean / "bin" / "whence", "--version").strip() == f"whence {PROJECT['version']}"
    assert Path(run(python, "-c", "import whence; print(whence.__file__)").strip()).is_relative_to(site)
    assert "gorgeous" in run(clean / "bin" / "whence", "explain", "a gorgeous film", "--html", "why.html")
    assert (tmp_path / "why.html").read_text(encoding="utf-8").startswith("<!doctype html>")
