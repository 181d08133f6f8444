"""Records as files: written whole or not at all, numbers rounded so that files stay small, NaN as null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whence.files import write_whole
from whence.json_records import plain


def write(record: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(json.dumps(_rounded(plain(record, nan_as_null=True)), separators=(",", ":")), path)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
