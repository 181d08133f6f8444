"""Two processes share a fit and end with the probes of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_probes import quick_shares
from safetensors.torch import load_file
from tiny_models import TEXTS, tiny

from whence import DiffMask, ShapleyProbes
from whence.probes.diffmask import Kind

# fits in both processes at once: texts of many lengths, batches that do not divide evenly, an end that both must find
SCRIPT = """
import os
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from accelerate import PartialState
processes = PartialState(cpu=True)
assert processes.num_processes == 2
import quick_probes, tiny_models, whence
from whence.learned import checkpoint
from test_processes import RUNS, SHARES, fitted
checkpoint.SECONDS = (-1,)
out = Path(sys.argv[2])
quick_probes.quick_shares(tiny_models.tiny("bert"), folder=out / "shares", **SHARES)
for name in RUNS:
    probes = fitted(name, out / name)
    again = whence.DiffMask.load(out / name)  # whole for both as soon as either goes on
    for one, other in zip(probes.fitted_.probes.parameters(), again.fitted_.probes.parameters(), strict=True):
        assert torch.equal(one, other)
try:
    whence.DiffMask(steps=1, batch_size=1).fit(tiny_models.tiny("bert"), tiny_models.TEXTS)
except whence.UsageError as error:
    assert "1 texts per step are too few for 2 processes" in str(error), error
else:
    raise AssertionError("one text for two processes was not refused")
os.write(1, f"done {processes.process_index}\\n".encode())  # at once: two processes write to one pipe
"""
RUNS: dict[str, tuple[Kind, str, dict[str, Any]]] = {
    "hidden": ("hidden", "whence", {"steps": 6, "batch_size": 5}),
    "input": ("input", "released", {"steps": 8, "batch_size": 5, "warm_up": 0, "learning_rate": 0.01}),
    "early end": ("hidden", "whence", {"steps": 40, "batch_size": 2, "learning_rate": 1e-9, "multiplier": 0.0,
                                       "baseline_learning_rate": 1e-9, "cool_down": 0.1}),
}  # fmt: skip


SHARES: dict[str, Any] = {"steps": 6, "step_tokens": 45, "seed": 1}


def fitted(name: str, folder: Path | None = None) -> DiffMask:
    kind, recipe, changes = RUNS[name]
    probes = DiffMask(kind, recipe, **{"start": 0.0, **changes})
    return probes.fit(tiny("bert"), TEXTS * 4, folder=folder, patience=2, validations=20, seed=1)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes wrote."""
    folder = tmp_path_factory.mktemp("shared")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    launcher = [
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "localhost:0",
    ]
    result = subprocess.run(
        [sys.executable, "-m", *launcher, str(script), str(Path(__file__).parent), str(folder)],
        capture_output=True, text=True, timeout=150, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert sorted(line for line in result.stdout.splitlines() if "done" in line) == ["done 0", "done 1"]
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_end_with_the_probes_of_one(name: str, shared: Path) -> None:
    assert sorted(path.name for path in (shared / name).iterdir()) == ["README.md", "config.json", "model.safetensors"]
    alone = fitted(name)
    together = DiffMask.load(shared / name)
    assert alone.fitted_ is not None
    assert together.fitted_ is not None
    weights, others = alone.fitted_.probes.state_dict(), together.fitted_.probes.state_dict()
    for key, weight in weights.items():
        torch.testing.assert_close(others[key], weight, rtol=1e-5, atol=1e-5)
    assert [each["step"] for each in alone.fitted_.history] == [each["step"] for each in together.fitted_.history]
    assert all(value.isfinite().all() for value in load_file(shared / name / "model.safetensors").values())


def test_two_processes_end_with_the_shapley_probes_of_one(shared: Path) -> None:
    alone = quick_shares(tiny("bert"), **SHARES)
    together = ShapleyProbes.load(shared / "shares")
    assert together.fitted_ is not None
    assert together.fitted_.history[-1]["step"] == 6
    untrained = quick_shares(tiny("bert"), **{**SHARES, "steps": 1, "learning_rate": 1e-9})
    ours, theirs, before = (each.explain(tiny("bert"), TEXTS[2]).row() for each in (alone, together, untrained))
    assert np.abs(ours - before).max() > 1e-2, "something was learnt"
    np.testing.assert_allclose(theirs, ours, atol=1e-3)  # a weight that nothing moves is moved by rounding alone


def test_the_early_end_is_early(shared: Path) -> None:
    together = DiffMask.load(shared / "early end")
    assert together.fitted_ is not None
    assert together.fitted_.history[-1]["step"] == 24  # half of 40, and a tenth to cool down
