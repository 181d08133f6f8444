"""What `import whence` adds to `import torch, transformers`, and how soon the embedded model answers.

python benchmarks/start.py
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path

SNIPPETS = {
    "import torch, transformers": "import torch, transformers",
    "import whence and all its names after them": (
        "import torch, transformers; start = clock(); import whence; [getattr(whence, name) for name in whence.__all__]"
    ),
    "whence.load() after that": (
        "import torch, transformers, whence; [getattr(whence, name) for name in whence.__all__]; start = clock(); "
        "whence.load()"
    ),
    "of which transformers' own BERT": (
        "import torch, transformers; start = clock(); transformers.BertForSequenceClassification; "
        "transformers.PreTrainedTokenizerFast"
    ),
    "first explanation after that": (
        "import whence; model = whence.load(); start = clock(); whence.explain(model, 'not the worst film of the year')"
    ),
    "import whence, load and explain": "import whence; whence.explain(whence.load(), 'not the worst film of the year')",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seconds = {}
    for name, snippet in SNIPPETS.items():
        code = f"from time import perf_counter as clock; start = clock(); {snippet}; print(clock() - start)"
        runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(options.repeats)]
        seconds[name] = statistics.median(runs)
        print(f"{name:44} {seconds[name]:6.3f} s (median of {options.repeats})", flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        report = {"seconds": seconds, "repeats": options.repeats, "machine": platform.machine()}
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
