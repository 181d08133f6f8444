"""Records as files: written whole or not at all, numbers rounded so that files stay small, NaN as null."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


def write(record: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps(_plain(record), separators=(",", ":")))
    temporary.replace(path)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
