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
for path in sorted((HERE / "results").glob("diffmask-*.json")):
    report = json.loads(path.read_text())
    lines += [
        "",
        f"## DiffMask: {report['hardware']}",
        "",
        "A training step beside one done the released way (everything twice, each time the whole model), and an",
        "explanation beside the model's own forward pass; `benchmarks/diffmask.py` says how.",
        "",
        "| what | whence | peer | ratio |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| a step, {row['kind']} | {1000 * row['whence_seconds']:.1f} ms | released way: "
        f"{1000 * row['released_seconds']:.1f} ms | **{row['ratio']:.2f}** |"
        for row in report["steps"]
    ]
    lines += [
        f"| {row['sentences']} explanations, {row['kind']} | {1000 * row['whence_seconds']:.1f} ms | bare forward: "
        f"{1000 * row['bare_seconds']:.1f} ms | {row['bare_seconds'] / row['whence_seconds']:.2f} |"
        for row in report["explanations"]
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
