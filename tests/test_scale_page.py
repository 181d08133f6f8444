"""The page on a billion texts says what the result file says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def test_the_page_is_made_from_the_results() -> None:
    specification = importlib.util.spec_from_file_location("write_scale", ROOT / "benchmarks" / "write_scale.py")
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.page(json.loads(module.RESULTS.read_text())) == module.PAGE.read_text()


def test_every_run_killed_was_the_same_in_the_end() -> None:
    for name in ("corpus_kills", "corpus_kills_ray"):
        path = ROOT / "benchmarks" / "results" / f"{name}.json"
        if path.exists():
            report = json.loads(path.read_text())
            assert report["runs_equal"] == report["runs_compared"] > 0
            assert len(report["kills"]) >= 5
