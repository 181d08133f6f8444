"""Table 2 of the DiffMask paper: do masks fitted to single sentences find the smallest sufficient ones?

    python experiments/diffmask/table2.py --model gru --data-dir DATA --device cuda
    python experiments/diffmask/table2.py --model WORK/sst5 --data-dir DATA --device cuda

Dev sentences of five-class SST of at most 25 word pieces, [CLS] and [SEP] counted. The problem is one and the same for
all: keep the fewest tokens (special ones count like any other) such that KL(output on the whole || output on what is
kept) is at most 0.1, a dropped token's word embedding being zero. The exact search solves it; DiffMask and REINFORCE
fit gates to each sentence and keep what is likelier kept than not.

Precision, recall and F1 of the kept tokens are means over sentences (the paper's are no harmonic means, so they must
be too), against that one of the smallest sets that matches best. Sparsity is the share of all tokens dropped.
Optimality is the share of sentences whose mask meets the constraint with as few tokens as any can. Sentences that the
search did not solve within its budget are counted and left out.

The paper's text reads as if the model were BERT, its code has this experiment only for a GRU over frozen word
embeddings: both can be had. Neither gives step sizes, steps or how gates become sets: the settings here were chosen on
sentences of the training part (--split train); with `--tune 60` DiffMask and its rival are each given the best of the
same step sizes on so many of them. A run that was stopped goes on: what is done stands beside the results, in
NAME.part.json. With a model from a folder, --jobs processes share the search and the rows.

Of the sentences that the search did not solve, what can be said without an optimum is said: how many tokens a mask
keeps, beside the size below which no set will do. A mask of just that size that meets the constraint is optimal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import load
from torch import Tensor, nn

import whence
from whence.data import KNOWN, read
from whence.files import write_whole
from whence.learned.diffmask.erasure import KeptSets, smallest_kept_sets
from whence.learned.diffmask.per_example import DIFFMASK_PER_TEXT
from whence.learned.diffmask.reinforce import REINFORCE_PER_TEXT
from whence.methods.question import Method
from whence.metrics.confidence import mean_interval
from whence.models.batching import batches, usual_batch_tokens

HERE = Path(__file__).parent
MARGIN = 0.1
PAPER = {
    "DiffMask": {"precision": 87.12, "recall": 91.68, "f1": 87.15, "sparsity": 76.58, "optimality": 45.33},
    "REINFORCE": {"precision": 78.13, "recall": 86.40, "f1": 77.31, "sparsity": 78.57, "optimality": 15.67},
}
SHARED = {"margin": MARGIN, "steps": 1_000, "multiplier_rate": 0.1, "baseline": "zero", "special": True}
DIFFMASK = {**SHARED, "rate": 0.05, "penalty": "share"}
CORRECTED = {**SHARED, "rate": 0.1, "form": "corrected", "decay": 0.9, "penalty": "share"}
RELEASED = {**SHARED, "rate": 0.1, "form": "released", "decay": 0.99, "penalty": "log"}
# a thousand steps on each of hundreds of texts: together, and so with rounding that depends on the batch
MASKS, SAMPLED_MASKS = (replace(method, one_by_one=False) for method in (DIFFMASK_PER_TEXT, REINFORCE_PER_TEXT))
ROWS: dict[str, tuple[Method, dict[str, Any]]] = {
    "DiffMask": (MASKS, {**DIFFMASK, "choose": "smallest"}),
    "DiffMask, last step": (MASKS, {**DIFFMASK, "choose": "last"}),
    "DiffMask, released penalty, last step": (MASKS, {**DIFFMASK, "penalty": "log", "choose": "last"}),
    "REINFORCE, corrected": (SAMPLED_MASKS, {**CORRECTED, "choose": "smallest"}),
    "REINFORCE, corrected, last step": (SAMPLED_MASKS, {**CORRECTED, "choose": "last"}),
    "REINFORCE, released": (SAMPLED_MASKS, {**RELEASED, "choose": "smallest"}),
    "REINFORCE, released, last step": (SAMPLED_MASKS, {**RELEASED, "choose": "last"}),
}


RATES = (0.03, 0.1, 0.3)
TUNED = {"DiffMask": "DiffMask", "REINFORCE": "REINFORCE, corrected"}
SENTENCES_AT_ONCE = 32
Work = Callable[[whence.LayeredModel], Any]


class Progress:
    """What is done of a run, in a file, by name; another run's file is not gone on with."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, known = path, json.loads(path.read_text()) if path.exists() else {}
        self.done: dict[str, Any] = known if known.get("settings") == settings else {"settings": settings}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.done:
            self.done[name] = make()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(json.dumps(self.done), self.path)
        return self.done[name]

    def all_of(self, work: Mapping[str, Work], workers: Workers) -> dict[str, Any]:
        """What each piece of work gives, by name; what was not done before is shared out, and told when it is done."""

        def tell(name: str, make: Callable[[], Any]) -> None:
            self.once(name, make)
            print(f"done: {name}", flush=True)

        workers.run({name: one for name, one in work.items() if name not in self.done}, tell)
        return {name: self.done[name] for name in work}


@dataclass(frozen=True)
class Workers:
    """A model, and processes that read it from a folder too, if there are any."""

    model: whence.LayeredModel
    pool: Executor | None

    def run(self, work: Mapping[str, Work], tell: Callable[[str, Callable[[], Any]], None]) -> None:
        if self.pool is None:
            for name, one in work.items():
                tell(name, partial(one, self.model))
            return
        runs = {self.pool.submit(_with_model, one): name for name, one in work.items()}
        for run in as_completed(runs):
            tell(runs[run], run.result)


@contextmanager
def workers_of(model: whence.LayeredModel, folder: Path | None, device: str, jobs: int) -> Iterator[Workers]:
    if folder is None or jobs == 1:
        yield Workers(model, None)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_read_model, initargs=(folder, device)) as pool:
        yield Workers(model, pool)


def _read_model(folder: Path, device: str) -> None:
    warnings.simplefilter("ignore", whence.WhenceWarning)
    _OWN_MODEL.append(load(folder, device))


def _with_model(work: Work) -> Any:
    return work(_OWN_MODEL[0])


_OWN_MODEL: list[whence.LayeredModel] = []
"""Of a process that shares in the work: its model."""


class GRUClassifier(nn.Module):
    """Frozen word embeddings, one recurrent layer, read at the last token: the released code's model for this table."""

    def __init__(self, words: Tensor, width: int, n_labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(words.detach().clone(), freeze=True)
        self.dropout = nn.Dropout(0.3)
        self.gru = nn.GRU(words.shape[1], width, batch_first=True)
        self.head = nn.Linear(width, n_labels)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states, _ = self.gru(self.dropout(self.embedding(ids)))
        last = states[torch.arange(len(states), device=states.device), mask.sum(dim=1) - 1]
        logits: Tensor = self.head(self.dropout(last))
        return logits


def train_gru(data_dir: Path, device: str, width: int | None, epochs: int, seed: int) -> whence.LayeredModel:
    """Fixed epochs on the training part; dev has no say."""
    torch.manual_seed(seed)
    embedded = whence.load()
    words = embedded.stack.embedding.weight
    assert isinstance(words, Tensor)
    labels = KNOWN["sst5"].labels
    module = GRUClassifier(words, width or words.shape[1], len(labels)).to(device)
    model = whence.load(module, embedded.tokenizer, blocks=[module.gru], labels=labels)
    examples = read("sst5", data_dir=data_dir, split="train")
    encodings = [model.encode(example.text) for example in examples]
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01)
    module.train()
    for _ in range(epochs):
        order = sorted(torch.randperm(len(encodings)).tolist(), key=lambda index: len(encodings[index]) // 4)
        chunks = [order[first : first + 64] for first in range(0, len(order), 64)]
        for chunk in torch.randperm(len(chunks)).tolist():
            inputs = model.collate([encodings[index] for index in chunks[chunk]])
            gold = torch.tensor([int(examples[index].label or 0) for index in chunks[chunk]], device=device)
            loss = nn.functional.cross_entropy(module(inputs.ids, inputs.mask), gold)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
    return model


@torch.inference_mode()
def accuracy(model: whence.LayeredModel, data_dir: Path, split: str) -> float:
    examples = read("sst5", data_dir=data_dir, split=split)
    encodings = [model.encode(example.text) for example in examples]
    right = 0
    for indices in batches(model, encodings, usual_batch_tokens(model)):
        said = model.states(model.collate([encodings[index] for index in indices])).logits.argmax(dim=-1).tolist()
        right += sum(guess == examples[index].label for guess, index in zip(said, indices, strict=True))
    return right / len(examples)


@torch.inference_mode()
def moved_by(model: whence.LayeredModel, texts: Sequence[str], kept: Sequence[set[int]]) -> np.ndarray:
    """The divergence of each text's output when only some of its tokens are kept."""
    encodings = [model.encode(text) for text in texts]
    moved = np.zeros(len(texts))
    for indices in batches(model, encodings, usual_batch_tokens(model)):
        inputs = model.collate([encodings[index] for index in indices])
        states = model.states(inputs)
        keep = torch.zeros(inputs.ids.shape)
        for row, index in enumerate(indices):
            keep[row, sorted(kept[index])] = 1
        changed = model.resume("embeddings", states.embeddings * keep[..., None].to(states.embeddings), inputs)
        moved[indices] = model.reading.divergence(states.logits, changed, inputs.mask).cpu().numpy()
    return moved


def against(kept: set[int], optimum: KeptSets) -> tuple[float, float, float]:
    """Precision, recall and F1 against the best-matching optimum; of two empty sets 1, of one empty set 0."""

    def measures(best: set[int]) -> tuple[float, float, float]:
        if not kept or not best:
            same = float(kept == best)
            return same, same, same
        both = len(kept & best)
        return both / len(kept), both / len(best), 2 * both / (len(kept) + len(best))

    return max((measures(set(best)) for best in optimum.sets), key=lambda each: each[2])


def measure(
    model: whence.LayeredModel,
    *,
    row: str,
    texts: Sequence[str],
    searched: Sequence[KeptSets],
    seeds: Sequence[int],
    **run: Any,
) -> dict[str, Any]:
    """One row of the table: means over sentences (and seeds) in percent, with bootstrap intervals over sentences."""
    method, settings = ROWS[row]
    settings = {**settings, **run}
    started = time.perf_counter()
    solved = np.array([each.found for each in searched])
    optima = [each for each in searched if each.found]
    at_least = np.array([each.at_least for each in searched])
    columns: dict[str, list[np.ndarray]] = {}
    unsolved: dict[str, list[float]] = {}
    for seed in seeds:
        explanations = whence.explain(model, texts, method, seed=seed, **settings)
        of_all = [set(np.flatnonzero(explanation.scores[0] > 0.5).tolist()) for explanation in explanations]
        kept = [mine for mine, each in zip(of_all, searched, strict=True) if each.found]
        matches = np.array([against(mine, optimum) for mine, optimum in zip(kept, optima, strict=True)])
        met_by_all = moved_by(model, texts, of_all) <= MARGIN
        sizes_of_all = np.array([len(mine) for mine in of_all])
        met, sizes = met_by_all[solved], sizes_of_all[solved]
        lengths = np.array([len(optimum.tokens) for optimum in optima])
        of_unsolved = {
            "kept": sizes_of_all, "constraint met": 100 * met_by_all,
            "surely optimal": 100 * (met_by_all & (sizes_of_all == at_least)),
        }  # fmt: skip
        for name, values in of_unsolved.items() if not solved.all() else ():
            unsolved.setdefault(name, []).append(round(float(values[~solved].mean()), 2))
        found = {
            "precision": matches[:, 0],
            "recall": matches[:, 1],
            "f1": matches[:, 2],
            "sparsity": (lengths - sizes) / lengths.mean(),  # whose mean is the share of all tokens
            "optimality": met & (sizes == [optimum.size for optimum in optima]),
            "constraint met": met,
        }
        for name, values in found.items():
            columns.setdefault(name, []).append(100 * values.astype(float))
    means = {name: np.mean(values, axis=0) for name, values in columns.items()}
    intervals = {name: mean_interval(values) for name, values in means.items()}
    hard = np.array([optimum.size != 0 for optimum in optima])
    return {
        **{name: round(interval.mean, 2) for name, interval in intervals.items()},
        "confidence_intervals_95": {
            name: [round(interval.low, 2), round(interval.high, 2)] for name, interval in intervals.items()
        },
        "each_seed": {name: [round(float(one.mean()), 2) for one in values] for name, values in columns.items()},
        "where_the_optimum_is_not_empty": {
            name: round(float(means[name][hard].mean()), 2) for name in ("f1", "optimality") if hard.any()
        },
        **({"unsolved": unsolved} if unsolved else {}),
        "settings": {name: value for name, value in settings.items() if name != "batch_tokens"},
        "seconds": round(time.perf_counter() - started, 1),
    }


def search(model: whence.LayeredModel, *, texts: Sequence[str], **options: Any) -> list[Any]:
    """The smallest sufficient sets of some sentences, as a file can hold them."""
    found = smallest_kept_sets(model, texts, constraint="divergence", margin=MARGIN, **options)
    return [[each.sets, each.at_least, each.complete, each.evaluations] for each in found]


def searched_sets(texts: Sequence[str], progress: Progress, workers: Workers, **options: Any) -> list[KeptSets]:
    """The smallest sufficient sets of every sentence, some sentences at a time."""
    work = {
        f"search {start} of {hash_of(texts)}": partial(
            search, texts=texts[start : start + SENTENCES_AT_ONCE], **options
        )
        for start in range(0, len(texts), SENTENCES_AT_ONCE)
    }
    known = [each for some in progress.all_of(work, workers).values() for each in some]
    return [
        KeptSets(workers.model.encode(text).tokens, tuple(map(tuple, sets)), *others)
        for text, (sets, *others) in zip(texts, known, strict=True)
    ]


def hash_of(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def tuned(
    texts: Sequence[str], progress: Progress, workers: Workers, budget: int, **run: Any
) -> dict[str, dict[str, Any]]:
    """For each of the two rivals the step sizes with the best F1 on these sentences, and what all of them gave."""
    searched = searched_sets(texts, progress, workers, budget=budget, batch_tokens=run["batch_tokens"])
    solved = [(text, found) for text, found in zip(texts, searched, strict=True) if found.found]
    ours, optima = [text for text, _ in solved], [found for _, found in solved]
    tuning = {
        f"tuning {row} {rate}": partial(
            measure, row=row, texts=ours, searched=optima, seeds=[0], **{**run, "rate": rate}
        )
        for row in TUNED.values()
        for rate in RATES
    }
    done = progress.all_of(tuning, workers)
    found = {}
    for family, row in TUNED.items():
        tried = {rate: done[f"tuning {row} {rate}"]["f1"] for rate in RATES}
        found[family] = {
            "rate": max(tried, key=tried.__getitem__),
            "drawn": len(texts),
            "n": len(ours),
            "f1_by_rate": tried,
        }
        print(f"{family}: {found[family]}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gru", help="'gru', trained here, or the folder of a five-class SST model")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="by default results/table2_gru.json or table2_bert.json")
    parser.add_argument("--split", default="dev", help="'train' to choose settings")
    parser.add_argument("--limit", type=int, help="sentences, spread over all by chance")
    parser.add_argument("--longest", type=int, default=25, help="word pieces, special ones counted")
    parser.add_argument("--budget", type=int, default=1_000_000, help="sets tried per sentence at most")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=SHARED["steps"])
    parser.add_argument("--width", type=int, help="of the GRU; by default that of the word embeddings")
    parser.add_argument("--epochs", type=int, default=5, help="of the GRU")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--tune", type=int, help="training sentences on which step sizes are chosen")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of a model from a folder")
    args = parser.parse_args(arguments)
    folder = None if args.model == "gru" else Path(args.model)
    if args.jobs > 1 and folder is None:
        parser.error("--jobs is for a model from a folder: the GRU is trained in this process alone")
    out = args.out or HERE / "results" / f"table2_{'gru' if args.model == 'gru' else 'bert'}.json"

    started = time.perf_counter()
    if folder is None:
        model = train_gru(args.data_dir, args.device, args.width, args.epochs, seed=0)
    else:
        model = load(folder, args.device)
    print(f"model ready in {time.perf_counter() - started:.0f} s", flush=True)
    apart = ("data_dir", "out", "rows", "device", "jobs")  # of which the numbers do not depend
    told = {name: value for name, value in vars(args).items() if name not in apart}
    progress = Progress(out.with_suffix(".part.json"), told)
    with workers_of(model, folder, args.device, args.jobs) as workers:
        record = measured(args, progress, workers)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
    progress.path.unlink(missing_ok=True)


def measured(args: argparse.Namespace, progress: Progress, workers: Workers) -> dict[str, Any]:
    """The table of one model."""
    model = workers.model
    sentences = [example.text for example in read("sst5", data_dir=args.data_dir, split=args.split)]
    short = [text for text in sentences if len(model.encode(text)) <= args.longest]
    n_short = len(short)
    if args.limit is not None and args.limit < len(short):
        chosen = np.random.default_rng(0).choice(len(short), args.limit, replace=False)
        short = [short[index] for index in sorted(chosen.tolist())]
    print(f"{len(short)} of {len(sentences)} sentences", flush=True)

    steps: dict[str, Any] = {"steps": args.steps, "batch_tokens": args.batch_tokens}
    warnings.simplefilter("ignore", whence.WhenceWarning)  # an empty set is no mishap here
    found_rates: dict[str, dict[str, Any]] = {}
    if args.tune:
        training = [each.text for each in read("sst5", data_dir=args.data_dir, split="train")]
        fitting = [text for text in training if len(model.encode(text)) <= args.longest]
        chosen = np.random.default_rng(0).choice(len(fitting), min(args.tune, len(fitting)), replace=False)
        drawn = [fitting[index] for index in sorted(chosen.tolist())]
        found_rates = tuned(drawn, progress, workers, args.budget, **steps)
    started = time.perf_counter()
    searched = searched_sets(short, progress, workers, budget=args.budget, batch_tokens=args.batch_tokens)
    seconds = time.perf_counter() - started
    optima = [found for found in searched if found.found]
    bounds = [found.at_least for found in searched if not found.found]
    print(f"search in {seconds:.0f} s, {len(bounds)} not solved", flush=True)
    n_tokens = sum(len(found.tokens) for found in optima)
    record: dict[str, Any] = {
        "paper": PAPER,
        "rows": {},
        "constraint": f"KL(whole || kept) <= {MARGIN} in search, training and judging; dropped words are zero",
        "gates": "kept iff the keep probability is above one half",
        "ties": "the smallest set that matches best",
        "search": {
            "sentences": len(short),
            "short_enough": n_short,
            "sentences_in_all": len(sentences),
            "longest": args.longest,
            "budget": args.budget,
            "not_solved": len(bounds),
            **({"not_solved_keep_at_least": round(float(np.mean(bounds)), 2)} if bounds else {}),
            "not_all_optima_listed": sum(not found.complete for found in optima),
            "sizes": dict(sorted(Counter(len(found.sets[0]) for found in optima).items())),
            "sparsity": round(100 * (1 - sum(len(found.sets[0]) for found in optima) / n_tokens), 2),
            "mean_number_of_optima": round(float(np.mean([len(found.sets) for found in optima])), 2),
            "sets_tried": sum(found.evaluations for found in searched),
            "seconds": round(seconds, 1),
        },
        "model": {
            "name": "GRU over the embedded model's frozen word embeddings" if args.model == "gru" else family_of(model),
            "accuracy": round(accuracy(model, args.data_dir, args.split), 4),
            **({"epochs": args.epochs, "width": model.module.gru.hidden_size} if args.model == "gru" else {}),  # type: ignore[union-attr]
        },
        "tuned": found_rates,
        "split": args.split,
        "seeds": args.seeds,
        "hardware": hardware(args.device),
        "threads": torch.get_num_threads(),
        "versions": {"whence": version("whence"), "torch": torch.__version__},
    }
    rows = {}
    for row in [row for row in ROWS if row in args.rows]:
        rates = {"rate": found_rates[row.split(",")[0]]["rate"]} if found_rates else {}
        rows[row] = partial(measure, row=row, texts=short, searched=searched, seeds=args.seeds, **rates, **steps)
    record["rows"] = progress.all_of(rows, workers)
    for row, found in record["rows"].items():
        shown = {name: found[name] for name in ("precision", "recall", "f1", "sparsity", "optimality")}
        print(f"{row}: {shown} in {found['seconds']} s", flush=True)
    return record


def hardware(device: str) -> str:
    if not device.startswith("cuda"):
        return f"cpu ({platform.machine()})"
    rounded = ", matrices in TF32" if torch.get_float32_matmul_precision() == "high" else ""
    return f"{torch.cuda.get_device_name()}{rounded}"


def family_of(model: whence.LayeredModel) -> str:
    """BERT, MPNet, ...: the model's class without its head."""
    return model.record.architecture.split("For")[0].upper().replace("MPNET", "MPNet")


if __name__ == "__main__":
    main()
