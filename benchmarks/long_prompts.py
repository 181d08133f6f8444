"""Time and peak memory of explaining a decoder's next token from prompts of 250 to 4,000 tokens, beside other packages.

    python benchmarks/long_prompts.py --model FOLDER --out benchmarks/results/long_prompts-cpu.json
    python benchmarks/long_prompts.py --model FOLDER --device cuda --lengths 4000 8000 16000 32000 --packages whence ...

Each contestant runs in a process of its own, the shorter prompts first; its memory is the peak of the resident set (on
a GPU, of tensors) less what it was with the model loaded and a short text explained. A process that takes more memory
or time than allowed is ended and that length is written down as failed, with the reason; longer ones are not tried.
Methods that take many passes run with few, under a name that says so: their time grows with the passes, their memory
does not. The slope is that of memory per token between the two longest prompts: of memory that grows with the square of
the length it doubles each time the length does. Rows that are in the file already and are not measured now stay, and
every row says how many processors others kept busy while it was measured: where that is not near zero, its seconds say
little, and the processor seconds that its own threads took say more. Prompts longer than the model was made for are
read all the same, since rotary positions go on: what it makes of them means nothing, time and memory are what they
would be. Peers are left out, with the reason, where they cannot be imported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from other_work import Moment

import whence
from whence.embedded import reviews

LENGTHS = (250, 500, 1_000, 2_000, 4_000)
STEPS = 2
WITH_ERROR = ", and what they miss"
"""Of captum's integrated gradients on request: by how much they do not add up, which whence's always tell."""
WHENCE: dict[str, tuple[str, dict[str, Any]]] = {
    "gradient": ("gradient", {}),
    "gradient x input": ("gradient_x_input", {}),
    "Grad-CAM": ("grad_cam", {}),
    "AttnLRP": ("attn_lrp", {}),
    "held still": ("held_still", {}),
    "DeepLiftSHAP": ("deep_lift_shap", {}),
    f"integrated gradients, {STEPS} steps": ("integrated_gradients", {"steps": STEPS}),
    f"SmoothGrad, {STEPS} samples": ("smooth_grad", {"samples": STEPS}),
    f"GradientSHAP, {STEPS} samples": ("gradient_shap", {"samples": STEPS}),
    "information bottleneck, 1 step": ("information_bottleneck", {"steps": 1, "samples": 1}),
    "noise tolerance, 1 step": ("noise_tolerance", {"steps": 1}),
    "decoded Grad-CAM, one layer": ("decoded_grad_cam", {"layers": 15}),
    "attention": ("attention", {}),
}
CAPTUM = (
    "gradient x input",
    f"integrated gradients, {STEPS} steps",
    f"integrated gradients, {STEPS} steps{WITH_ERROR}",
)
INSEQ = {
    "gradient x input": ("input_x_gradient", {}),
    f"integrated gradients, {STEPS} steps": ("integrated_gradients", {"n_steps": STEPS, "internal_batch_size": 1}),
    "attention": ("attention", {}),
}

Explain = Callable[[str], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder or a hub id of a decoder")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--packages", nargs="+", default=("whence", "captum", "inseq"))
    parser.add_argument("--methods", nargs="+", help="only these, by the names in the table")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most-mb", type=float, default=16_000, help="resident memory at which a process is ended")
    parser.add_argument("--most-seconds", type=float, default=900, help="for one prompt")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)  # package and method: what a child is asked
    options = parser.parse_args()
    if options.only:
        package, method = options.only
        measure(options.model, package, method, options.lengths, options.threads, options.device)
        return
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    if options.out and options.out.exists():
        rows = {(row["package"], row["method"]): row for row in json.loads(options.out.read_text())["rows"]}
    for package, methods in {"whence": WHENCE, "captum": CAPTUM, "inseq": INSEQ}.items():
        if package not in options.packages:
            continue
        try:
            version(package)
        except PackageNotFoundError as error:
            left_out[package] = f"not installed: {error}"
            continue
        for method in methods:
            if options.methods is None or method in options.methods:
                began = Moment.now()
                row = {"package": package, "method": method, **child(options, package, method)}
                rows[package, method] = row | {"busy_others": began.others_since()}
                show(rows[package, method])
                if options.out:
                    write(options, list(rows.values()), left_out)
    for package, why in left_out.items():
        print(f"left out: {package} ({why})")


def write(options: argparse.Namespace, rows: list[dict[str, Any]], left_out: dict[str, str]) -> None:
    names = ("torch", "transformers", *options.packages)
    known = json.loads(options.out.read_text())["versions"] if options.out.exists() else {}  # of rows that stay
    report = {
        "rows": rows,
        "left_out": left_out,
        "model": Path(options.model).name,
        "settings": {
            "lengths": list(options.lengths),
            "most_mb": options.most_mb,
            "most_seconds": options.most_seconds,
        },
        "hardware": hardware(options),
        "versions": known | {name: version(name) for name in names if name not in left_out},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def hardware(options: argparse.Namespace) -> str:
    on_gpu = options.device.startswith("cuda")
    return torch.cuda.get_device_name() if on_gpu else f"{platform.machine()}, {options.threads} threads"


def child(options: argparse.Namespace, package: str, method: str) -> dict[str, Any]:
    """What a process of its own says of each length, and why it ended, if it did not come to the end."""
    command = [sys.executable, __file__, "--model", options.model, "--threads", str(options.threads)]
    command += ["--device", options.device, "--only", package, method, "--lengths", *map(str, options.lengths)]
    with TemporaryDirectory() as folder:
        said, complaints, ended = Path(folder) / "said", Path(folder) / "complaints", ""
        with said.open("w") as out, complaints.open("w") as errors:
            process = subprocess.Popen(command, stdout=out, stderr=errors)
        since, known = time.monotonic(), 0
        while process.poll() is None and not ended:
            time.sleep(0.2)
            if (lines := said.read_text().count("\n")) > known:
                since, known = time.monotonic(), lines
            if resident_mb(process.pid) > options.most_mb:
                ended = f"more than {options.most_mb:,.0f} MB"
            elif known and time.monotonic() - since > options.most_seconds:
                ended = f"more than {options.most_seconds:,.0f} s"
        process.kill()
        process.wait()
        lines_said, last = said.read_text().splitlines(), (complaints.read_text().strip() or "?").splitlines()[-1]
    _, *points = [json.loads(line) for line in lines_said if line.startswith("{")] or [{}]
    if len(points) == len(options.lengths):
        return {"points": points, "slope_kb": slope(points)}
    failed = {"tokens": options.lengths[len(points)], "why": ended or last}
    return {"points": points, "slope_kb": slope(points), "failed": failed}


def resident_mb(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:  # it has just ended
        return 0.0
    return int(fields[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def slope(points: Sequence[dict[str, Any]]) -> float | None:
    """Kilobytes per token between the two longest prompts."""
    if len(points) < 2:
        return None
    shorter, longer = points[-2:]
    return float(1e3 * (longer["peak_mb"] - shorter["peak_mb"]) / (longer["tokens"] - shorter["tokens"]))


def measure(name: str, package: str, method: str, lengths: Sequence[int], threads: int, device: str) -> None:
    """In a child: one line of JSON when ready, and one for each length."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    model = whence.load(name)
    model.module.to(device)
    model.tokenizer.longest = max(model.tokenizer.longest, *lengths)  # type: ignore[attr-defined]
    makers: dict[str, Callable[[whence.LayeredModel, str], Explain]] = {
        "whence": whence_contestant, "captum": captum_contestant, "inseq": inseq_contestant,
    }  # fmt: skip
    explain = makers[package](model, method)
    explain(prompt(model, 20))
    before = peak_mb(device)
    print(json.dumps({"ready": before}), flush=True)
    for length in lengths:
        text = prompt(model, length)
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        started, worked = time.perf_counter(), time.process_time()
        explain(text)
        point = {
            "tokens": length,
            "seconds": time.perf_counter() - started,
            "processor_seconds": time.process_time() - worked,
            "peak_mb": peak_mb(device) - before,
        }
        print(json.dumps(point), flush=True)


def peak_mb(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / 1e6


def prompt(model: whence.LayeredModel, length: int) -> str:
    """So many tokens of film reviews, over and over where there are not enough."""
    texts = [review["text"] for review in reviews()]
    whole = model.encode(" ".join(texts * (1 + length // (10 * len(texts)))))
    assert len(whole) >= length, "film reviews are longer than ten tokens"
    return whole.text[: whole.tokens[length - 1].end]


def whence_contestant(model: whence.LayeredModel, method: str) -> Explain:
    name, options = WHENCE[method]
    return lambda text: whence.explain(model, text, name, **options)


def captum_contestant(model: whence.LayeredModel, method: str) -> Explain:
    """At the word embeddings, of the likeliest next token's logit, a point of the path at a time."""
    from captum.attr import InputXGradient, IntegratedGradients

    module: Any = model.module

    def logits(words: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = module(inputs_embeds=words, use_cache=False, logits_to_keep=1).logits[:, -1]
        return found

    def explain(text: str) -> object:
        words = model.embed(model.collate([model.encode(text)]).ids)
        with torch.no_grad():
            target = int(logits(words).argmax())
        if method == CAPTUM[0]:
            return InputXGradient(logits).attribute(words.requires_grad_(), target=target)
        return IntegratedGradients(logits).attribute(
            words, target=target, n_steps=STEPS, internal_batch_size=1,
            return_convergence_delta=method.endswith(WITH_ERROR),
        )  # fmt: skip

    return explain


def inseq_contestant(model: whence.LayeredModel, method: str) -> Explain:
    import inseq  # type: ignore[import-not-found]

    name, options = INSEQ[method]
    tokenizer = model.tokenizer.tokenizer  # type: ignore[attr-defined]
    if name == "attention":
        model.module.set_attn_implementation("eager")  # type: ignore[operator]  # the others give no weights
    reader = inseq.load_model(model.module, name, tokenizer=tokenizer, device="cpu")

    def explain(text: str) -> object:
        return reader.attribute(
            text, generation_args={"max_new_tokens": 1, "do_sample": False}, show_progress=False, **options
        )

    return explain


def show(row: dict[str, Any]) -> None:
    points = "  ".join(f"{each['tokens']}: {each['seconds']:.1f} s {each['peak_mb']:.0f} MB" for each in row["points"])
    print(f"{row['package']:7} {row['method']:34} {points}  {row.get('failed', '')}", flush=True)


if __name__ == "__main__":
    main()
