"""How busy others kept the machine while something was measured."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_OF_OTHERS_TOO = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, and what the host gave to other machines


@dataclass(frozen=True)
class Moment:
    """A time, and the processor seconds spent until then: by all, and by this process and its ended children."""

    seconds: float
    by_all: float
    by_us: float

    @classmethod
    def now(cls) -> Moment:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        by_all = sum(int(fields[index]) for index in _OF_OTHERS_TOO) / os.sysconf("SC_CLK_TCK")
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(time.monotonic(), by_all, sum(each.ru_utime + each.ru_stime for each in spent))

    def others_since(self) -> float:
        """How many processors others kept busy on average since this moment."""
        now = Moment.now()
        others = (now.by_all - self.by_all) - (now.by_us - self.by_us)
        return max(0.0, others / (now.seconds - self.seconds))
