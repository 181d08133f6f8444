"""Train and measure the classifiers that a table needs, and print the table beside the paper's.

    python experiments/sparse_attention/run.py --table 6 --data sst --work WORK --workers 2
    python experiments/sparse_attention/run.py --table 2 --data sst 20news --work WORK --device cuda --workers 12

WORK/corpora is what prepare.py wrote. A classifier that was measured already is not trained again: a run that was
stopped goes on where it was, and tables share their classifiers. Tables 1, 3 and 6 and Figures 1 and 4 come from the
same classifiers (softmax and sparsemax), Table 2 and Figures 2 and 3 from the sweep over λ, Table 5 from adversaries of
the softmax classifiers. `--table controls` adds untrained classifiers, labels at random, and random word vectors.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from collect import collect
from jobs import COMPARED, Job, Means, run, run_adversaries
from paper import ENCODERS, SETS, SPARSITIES
from tables import table_text

WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the divergence in an adversary's loss


def jobs_of(table: str, data: list[str], encoders: list[str], seeds: list[int]) -> list[Job]:
    """The classifiers that a table rests on, shortest documents first."""
    sweep = ("softmax", *(f"sparsegen({value:g})" for value in SPARSITIES))
    projections = sweep if table == "2" else ("softmax",) if table == "5" else COMPARED
    found = []
    for name in sorted(data, key=("sst", "20news", "imdb").index):
        for seed in seeds:
            for encoder in encoders:
                for projection in projections:
                    projection = "sparsemax" if projection == "sparsegen(0)" else projection  # the same thing
                    job = Job(name, encoder, projection, seed)
                    if table != "controls":
                        found.append(job)
                        continue
                    found += [
                        Job(name, encoder, projection, seed, control=each) for each in ("untrained", "random_labels")
                    ]
                    found.append(Job(name, encoder, projection, seed, vectors="random"))
    return found


def side_by_side(
    function: Callable[..., dict[str, Any]], calls: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """The results of the calls with their jobs, as they come, from as many processes as asked for."""
    if workers == 1:
        for call in calls:
            yield call[0], function(*call)
        return
    n_threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (n_threads,)) as pool:
        waiting = {pool.submit(function, *call): call[0] for call in calls}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=["1", "2", "3", "5", "6", "controls"], required=True)
    parser.add_argument("--data", nargs="+", choices=SETS, default=["sst"])
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side, on a GPU too")
    parser.add_argument("--batch-tokens", type=int, help="tokens a pass of the measures holds")
    parser.add_argument(
        "--rates", nargs="+", type=float, default=[], help="learning rates to choose among; else the paper's"
    )
    parser.add_argument("--attention-speeds", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--sample", type=int, default=6, help="documents on which the forms of influence are compared")
    parser.add_argument("--limit", type=int, help="documents of each part, for a trial")
    parser.add_argument(
        "--ungated", action="store_true", help="measure classifiers that fall short of the paper's accuracy too"
    )
    args = parser.parse_args()
    means = Means(
        args.work, args.device, args.batch_tokens or (65_536 if args.device.startswith("cuda") else 8_192),
        tuple(args.rates), tuple(args.attention_speeds), args.max_epochs, args.limit, args.sample, args.ungated,
    )  # fmt: skip
    jobs = jobs_of(args.table, args.data, args.encoders, args.seeds)
    started = time.time()
    for number, (job, record) in enumerate(side_by_side(run, [(job, means) for job in jobs], args.workers), start=1):
        gate = "  BELOW THE GATE" if record["gate"] is False else ""
        said = f"{job.name}  accuracy {record['accuracy']:.3f}{gate}"
        print(f"[{number}/{len(jobs)}] {time.time() - started:6.0f} s  {said}", flush=True)
    searches = [(job, frozen, WEIGHTS, means) for job in jobs for frozen in (True, False)] if args.table == "5" else []
    for number, (job, record) in enumerate(side_by_side(run_adversaries, searches, args.workers), start=1):
        said = f"{job.name} {record['kind']}  divergence {record['adversaries'][-1]['test']['jensen_shannon']:.3f}"
        print(f"[{number}/{len(searches)}] {time.time() - started:6.0f} s  {said}", flush=True)
    print()
    print(table_text(collect(args.work), args.table, args.data))


if __name__ == "__main__":
    main()
