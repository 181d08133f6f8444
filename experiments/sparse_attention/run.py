"""Train and measure the classifiers that a table needs, and print the table beside the paper's.

    python experiments/sparse_attention/run.py --table 6 --data sst --work WORK --workers 2
    python experiments/sparse_attention/run.py --table 6 controls 2 5 --data sst 20news --seeds 0 1 2 --work WORK \
        --device cuda --workers 14

WORK/corpora is what prepare.py wrote. A classifier that was measured already is not trained again: a run that was
stopped goes on where it was, and tables share their classifiers. Tables 1, 3 and 6 and Figures 1 and 4 come from the
same classifiers (softmax and sparsemax), Table 2 and Figures 2 and 3 from the sweep over λ, Table 5 from adversaries of
the softmax classifiers. `--table controls` adds untrained classifiers, labels at random, and random word vectors.
Learning rates are chosen first, with seed 0, by the dev part.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from adversaries import search_adversary
from collect import collect
from jobs import COMPARED, Job, Means, run, try_rates
from paper import ENCODERS, SETS, SPARSITIES
from schedule import Record, Task, side_by_side
from tables import table_text
from training_plan import ATTENTION_SPEEDS, DIVERGENCE_WEIGHTS, setting, trial_name

TABLES = ("1", "3", "6", "controls", "2", "5")
SWEEP = ("softmax", *("sparsemax" if value == 0 else f"sparsegen({value:g})" for value in SPARSITIES))


def jobs_of(table: str, data: Sequence[str], encoders: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """The classifiers that a table rests on: a seed after the other, shortest documents first."""
    projections = {"2": SWEEP, "5": ("softmax",)}.get(table, COMPARED)
    kinds: list[dict[str, str]] = [{}]
    if table == "controls":
        kinds = [{"control": "untrained"}, {"control": "random_labels"}, {"vectors": "random"}]
    return [
        Job(name, encoder, projection, seed, **kind)
        for seed in seeds
        for name in sorted(data, key=("sst", "20news", "imdb").index)
        for encoder in encoders
        for projection in projections
        for kind in kinds
    ]


def tasks_of(table: str, jobs: Sequence[Job], means: Means) -> list[Task]:
    """What is to be done for these jobs: choose learning rates, train and measure, and for Table 5 the adversaries.

    Adversaries of one set and encoder come one after the other: a cell counts with all its seeds or not at all.
    """
    tasks = []
    for job in jobs:
        trials = []
        candidates = means.candidates(job.encoder)
        if len(candidates) > 1 and job.control != "untrained":
            where = setting(job.data, job.encoder, job.projection)
            trials = [Task(trial_name(*where, rates), try_rates, (job, rates, means)) for rates in candidates]
        tasks += [*trials, Task(job.name, run, (job, means), frozenset(trial.name for trial in trials))]
    if table != "5":
        return tasks
    cells = list(dict.fromkeys((job.data, job.encoder) for job in jobs))
    return tasks + [
        Task(f"{job.name} {'frozen' if frozen else 'unfrozen'}", search_adversary,
             (job, frozen, DIVERGENCE_WEIGHTS, means), frozenset([job.name]))
        for job in sorted(jobs, key=lambda job: cells.index((job.data, job.encoder)))
        for frozen in (False, True)
    ]  # fmt: skip


def outcome(task: Task, record: Record | BaseException) -> str:
    """What became of a task, in a line, or the whole of its error."""
    if isinstance(record, BaseException):
        return f"FAILED {task.name}\n{''.join(traceback.format_exception(record))}"
    if "accuracy" in record:
        gate = "  BELOW THE GATE" if record["gate"] is False else ""
        took = f"{record['training_seconds']:.0f} + {record['seconds'] - record['training_seconds']:.0f} s"
        return f"{task.name}  accuracy {record['accuracy']:.3f}{gate}  ({took})"
    if "kind" in record:
        test = record["test"]
        return (
            f"{task.name}  weight {test['settings']['divergence_weight']:g}  "
            f"divergence {test['jensen_shannon']:.3f}  accuracy {test['accuracy']:.3f}  "
            f"({test['n_epochs']} epochs, {test['seconds']:.0f} s)"
        )
    spent = f"({record['n_epochs']} epochs, {record['seconds']:.0f} s)"
    return f"{task.name}  dev ROC-AUC {record['dev_roc_auc']:.4f}  {spent}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=TABLES, required=True, help="most important first")
    parser.add_argument("--data", nargs="+", choices=SETS, default=["sst"])
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--side-seeds", nargs="+", type=int, help="of controls and adversaries, if other ones")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side, on a GPU too")
    parser.add_argument("--batch-tokens", type=int, help="tokens a pass of the measures holds")
    parser.add_argument("--rates", nargs="+", type=float, default=[], help="learning rates to choose among")
    parser.add_argument("--attention-speeds", nargs="+", type=float, default=list(ATTENTION_SPEEDS))
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--adversary-epochs", type=int, default=80)
    parser.add_argument("--n-measured", type=int, help="test documents on which importance is measured; else all")
    parser.add_argument("--sample", type=int, default=6, help="documents on which the forms of influence are compared")
    parser.add_argument("--limit", type=int, help="documents of each part, for a trial")
    parser.add_argument("--seconds", type=float, help="nothing is started after so many seconds")
    parser.add_argument("--ungated", action="store_true", help="show classifiers below the paper's accuracy too")
    args = parser.parse_args()
    means = Means(
        args.work, args.device, args.batch_tokens or (131_072 if args.device.startswith("cuda") else 8_192),
        tuple(args.rates), tuple(args.attention_speeds), args.max_epochs, args.adversary_epochs, args.limit,
        args.n_measured, args.sample,
    )  # fmt: skip
    tasks = []
    for table in args.table:
        seeds = args.side_seeds if args.side_seeds and table in ("controls", "5") else args.seeds
        tasks += tasks_of(table, jobs_of(table, args.data, args.encoders, seeds), means)
    n_tasks, n_failed, number = len({task.name for task in tasks}), 0, 0
    started = time.time()
    for number, (task, record) in enumerate(side_by_side(tasks, args.workers, args.seconds), start=1):
        n_failed += isinstance(record, BaseException)
        print(f"[{number}/{n_tasks}] {time.time() - started:6.0f} s  {outcome(task, record)}", flush=True)
    print(f"{number - n_failed} done, {n_failed} failed, {n_tasks - number} not started")
    results = collect(args.work, ungated=args.ungated)
    for table in args.table:
        print(f"\n{table_text(results, table, args.data)}")
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
