"""Writes benchmarks/README.md from the results files, so that no number there is typed in.

python benchmarks/write_readme.py
"""

import json
from pathlib import Path

HERE = Path(__file__).parent

lines = [
    "# Benchmarks",
    "",
    "Made by `benchmarks/write_readme.py` from `benchmarks/results/`; `make bench` measures again (CPU).",
    "",
    "A ratio above 1 says how many times longer the peer takes than whence, on the same sentences, with the same",
    "model, in one run. *bare* is whence's time over that of the model's own passes alone (the same number of rows in",
    "batches of the same size, nothing explained); below 1 because sets of words that come up twice are evaluated",
    "once. *difference* is the largest between any two scores; interpreto's integrated gradients are another quantity.",
    "Memory on the CPU is the growth of the resident set, sampled. The GPU run used a model of the same shape,",
    "fine-tuned in the same call (`sentiment-1` of the model card).",
]
for name, title in {"attribution-cpu": "CPU", "attribution-gpu": "GPU"}.items():
    report = json.loads((HERE / "results" / f"{name}.json").read_text())
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    settings = report["settings"]
    lines += [
        "",
        f"## {title}: {report['hardware']}",
        "",
        f"{report['sentences']} sentences, {report['tokens']:,} tokens; {settings['steps']} steps, windows of "
        f"{settings['window']}, {settings['orders']} orders; median of {settings['repeats']}; {versions}.",
        "",
        "| method | peer | sentences | whence | peer | ratio | bare | memory, whence / peer | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['method']} | {row['peer']} | {row['sentences']} | {row['whence_seconds']:.2f} s "
        f"| {row['peer_seconds']:.2f} s | **{row['ratio']:.1f}** | {row['bare_ratio']:.2f} "
        f"| {row['whence_peak_mb']:.0f} / {row['peer_peak_mb']:.0f} MB | {row['largest_difference']:.0e} |"
        for row in report["rows"]
    ]
start = json.loads((HERE / "results" / "start.json").read_text())
lines += [
    "",
    "## Start",
    "",
    f"Seconds, median of {start['repeats']} fresh processes.",
    "",
    "| what | seconds |",
    "|---|---|",
]
lines += [f"| {what} | {seconds:.2f} |" for what, seconds in start["seconds"].items()]
(HERE / "README.md").write_text("\n".join(lines) + "\n")
