"""One classifier of the sweep: trained, held to the gate, measured, and written down, once; and adversaries of it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import corpora
import measures
import paper
import records
import torch
from training_plan import ATTENTION_SPEEDS, RATES, Rates, chosen_rates, setting, training_settings, trial_name

from whence.attention import (
    AdversarySettings,
    AttentionClassifier,
    ClassifierConfig,
    Documents,
    accuracy,
    fit,
    measure_adversary,
    predict,
    roc_auc,
    train_adversary,
)

COMPARED = ("softmax", "sparsemax")
CONTROLS = ("none", "untrained", "random_labels")
torch.backends.cudnn.allow_tf32 = False  # float32 is to mean float32 in a BiLSTM too


@dataclass(frozen=True)
class Job:
    """What is trained: the set, the encoder, the projection, the seed, the word vectors to start with, the control."""

    data: str
    encoder: str
    projection: str
    seed: int
    vectors: str = "trained"
    control: str = "none"

    @property
    def name(self) -> str:
        marks = [self.data, self.encoder, self.projection.replace("(", "_").replace(")", ""), f"seed{self.seed}"]
        marks += [] if self.vectors == "trained" else [f"{self.vectors}_vectors"]
        return "-".join(marks + ([] if self.control == "none" else [self.control]))

    @property
    def compared(self) -> bool:
        """Whether the paper has an accuracy for it."""
        return self.projection in COMPARED and (self.vectors, self.control) == ("trained", "none")


@dataclass(frozen=True)
class Means:
    """Where and how jobs are done: folder, device, tokens per pass, learning rates to choose among, trial sizes.

    Importance is measured on `n_measured` test documents, evenly spread; the two forms of influence are compared on
    `sample` of their shorter half, since the second takes a pass per state and coordinate.
    """

    work: Path
    device: str = "cpu"
    batch_tokens: int = 8_192
    rates: tuple[float, ...] = ()
    attention_speeds: tuple[float, ...] = ATTENTION_SPEEDS
    max_epochs: int | None = None
    adversary_epochs: int = 80
    limit: int | None = None
    n_measured: int | None = None
    sample: int = 6

    def candidates(self, encoder: str) -> list[Rates]:
        """Learning rates of the model with factors for the attention, slowest first."""
        return [(rate, speed) for rate in self.rates or RATES[encoder] for speed in self.attention_speeds]


def run(job: Job, means: Means) -> dict[str, Any]:
    """The record of a job: from its file, or made now."""
    return _once(means, f"runs/{job.name}", lambda: _measured(job, means))


def try_rates(job: Job, rates: Rates, means: Means) -> dict[str, Any]:
    """How well a job's classifier does on the dev part with these learning rates."""
    data, encoder, projection = setting(job.data, job.encoder, job.projection)
    job = Job(data, encoder, projection, seed=0)

    def made() -> dict[str, Any]:
        corpus = _corpus(job, means)
        return {"job": asdict(job), **_train(_start(job, corpus, means), job, corpus, means, rates)}

    return _once(means, f"rates/{trial_name(data, encoder, projection, rates)}", made)


def run_adversary(job: Job, frozen: bool, weight: float, means: Means) -> dict[str, Any]:
    """An adversary of a job's classifier with this divergence weight, on the dev and the test part."""
    kind = "frozen" if frozen else "unfrozen"

    def made() -> dict[str, Any]:
        corpus = _corpus(job, means)
        base = _base(job, corpus, means)
        settings = AdversarySettings(
            frozen=frozen, divergence_weight=weight, seed=job.seed, max_epochs=means.adversary_epochs
        )
        started = time.perf_counter()
        model, n_epochs = train_adversary(base, corpus.train, settings, vectors=corpus.vectors)
        spent: dict[str, Any] = {"n_epochs": n_epochs, "seconds": time.perf_counter() - started}
        parts = {"dev": corpus.dev, "test": corpus.test}
        found = {name: measure_adversary(base, model, part, settings, **spent) for name, part in parts.items()}
        wanted = paper.TABLE_5[job.encoder, kind][job.data][0]
        return {
            "job": asdict(job), "kind": kind, "wanted": wanted, **{name: each.to_dict() for name, each in found.items()}
        }  # fmt: skip

    return _once(means, f"adversaries/{job.name}-{kind}-weight{weight:g}", made)


def _once(means: Means, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record of that name: from its file, or made now, with the hardware on which it was."""
    path = means.work / f"{name}.json"
    if not path.exists():
        on_gpu = means.device.startswith("cuda")
        hardware = torch.cuda.get_device_name(means.device) if on_gpu else f"cpu ({platform.machine()})"
        records.write({**make(), "hardware": hardware}, path)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def _measured(job: Job, means: Means) -> dict[str, Any]:
    started = time.time()
    corpus = _corpus(job, means)
    model = _start(job, corpus, means)
    training = None if job.control == "untrained" else _train(model, job, corpus, means)
    if job.compared:
        model.save(means.work / "models" / job.name)
    chances = predict(model, corpus.test)
    record: dict[str, Any] = {
        "job": asdict(job),
        "sizes": {split: len(getattr(corpus, split)) for split in corpora.SPLITS},
        "n_words": len(corpus.vocabulary),
        "training": training,
        "accuracy": accuracy(chances, corpus.test),
        "roc_auc": roc_auc(chances, corpus.test.labels),
    }
    wanted = paper.ACCURACY[job.encoder][job.data] - paper.GATE
    record["gate"] = record["accuracy"] >= wanted if job.compared else None
    record["training_seconds"] = time.time() - started
    documents = _spread(corpus.test, means.n_measured)
    names = measures.MEASURES if job.projection in COMPARED else measures.SWEEP_MEASURES
    record["documents"] = measures.measure(model, documents, names, means.batch_tokens)
    if job.projection in COMPARED:
        record["influence"] = measures.influence(model, documents, means.batch_tokens)
    if job.compared and job.seed == 0:
        by_length = sorted(range(len(documents)), key=lambda row: len(documents.ids[row]))
        shorter = documents.take(by_length[: (len(by_length) + 1) // 2])
        record["forms"] = measures.forms_of_influence(model, _spread(shorter, means.sample), means.batch_tokens)
    record["seconds"] = time.time() - started
    return record


def _spread(documents: Documents, count: int | None) -> Documents:
    """That many of the documents, evenly spread."""
    if count is None or count >= len(documents):
        return documents
    return documents.take([number * len(documents) // count for number in range(count)])


def _corpus(job: Job, means: Means) -> corpora.Corpus:
    corpus = corpora.load(job.data, means.work / "corpora")
    if job.vectors == "random":
        corpus = replace(corpus, vectors=None)
    if means.limit is not None:
        cut: dict[str, Any] = {split: _spread(getattr(corpus, split), means.limit) for split in corpora.SPLITS}
        corpus = replace(corpus, **cut)
    if job.control == "random_labels":
        random = torch.Generator().manual_seed(job.seed)
        order = torch.randperm(len(corpus.train), generator=random).tolist()
        corpus = replace(corpus, train=Documents(corpus.train.ids, tuple(corpus.train.labels[i] for i in order)))
    return corpus


def _start(job: Job, corpus: corpora.Corpus, means: Means) -> AttentionClassifier:
    """The classifier of a job before training."""
    torch.manual_seed(job.seed)
    config = ClassifierConfig(job.encoder, projection=job.projection)  # type: ignore[arg-type]
    return AttentionClassifier(corpus.vocabulary, config, vectors=corpus.vectors).to(means.device).eval()


def _train(
    model: AttentionClassifier, job: Job, corpus: corpora.Corpus, means: Means, rates: Rates | None = None
) -> dict[str, Any]:
    """Train a job's classifier with these learning rates, or with those chosen before, and say how."""
    if rates is None:
        rates = chosen_rates(means.work, job.data, job.encoder, job.projection, means.candidates(job.encoder))
    settings = training_settings(job.data, rates, job.seed, means.max_epochs)
    record = fit(model, corpus.train, corpus.dev, settings)
    return {
        **asdict(settings),
        "best_epoch": record.best,
        "n_epochs": len(record.epochs),
        "dev_roc_auc": record.epochs[record.best].roc_auc,
        "dev_accuracy": record.epochs[record.best].accuracy,
        "seconds": record.seconds,
    }


def _base(job: Job, corpus: corpora.Corpus, means: Means) -> AttentionClassifier:
    """The classifier that all adversaries imitate: from its files or, where only its record was kept, trained again."""
    folder = means.work / "models" / job.name
    if not folder.exists():
        model = _start(job, corpus, means)
        _train(model, job, corpus, means)
        if not folder.exists():  # another process may have been first
            model.save(folder)
    return AttentionClassifier.load(folder).to(means.device)
