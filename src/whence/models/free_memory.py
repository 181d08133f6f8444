"""How much memory is free: a GPU's, or the machine's, or what a container is allowed of it."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")
_UNKNOWN = 8 * 2**30  # bytes, where the system does not say: those of a small machine


def free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_stats_as_nested_dict(device)  # as they are: to sort them all by name takes longer
        gone: int = held["reserved_bytes"]["all"]["current"] - held["allocated_bytes"]["all"]["current"]  # of tensors
        return free + gone
    return min(_free_in_machine(), _free_in_container())


def _free_in_machine() -> int:
    try:
        lines = _MACHINE.read_text().splitlines()
    except OSError:  # not Linux
        names = getattr(os, "sysconf_names", {})
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if "SC_PHYS_PAGES" in names else _UNKNOWN
    found = [int(line.split()[1]) * 1_024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else _UNKNOWN


def _free_in_container() -> int:
    """What is left up to the limit of a control group; very much where there is none."""
    try:
        most, used = ((_CONTAINER / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(0, int(most) - int(used))
    except (OSError, ValueError):  # no such group, or "max"
        return 2**63
