"""One classifier of the sweep: trained, held to the gate, measured, and written down, once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
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
    AttentionClassifier,
    ClassifierConfig,
    Documents,
    accuracy,
    fit,
    predict,
    roc_auc,
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
    return once(means, f"runs/{job.name}.json", lambda: _measured(job, means))


def try_rates(job: Job, rates: Rates, means: Means) -> dict[str, Any]:
    """How well a job's classifier does on the dev part with these learning rates."""
    data, encoder, projection = setting(job.data, job.encoder, job.projection)
    job = Job(data, encoder, projection, seed=0)

    def made() -> dict[str, Any]:
        corpus = corpus_of(job, means)
        return {"job": asdict(job), **_train(_start(job, corpus, means), job, corpus, means, rates)}

    return once(means, f"rates/{trial_name(data, encoder, projection, rates)}.json", made)


def once(means: Means, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record of that name: from its file, or made now, with the hardware on which it was."""
    path = means.work / name
    if not path.exists():
        on_gpu = means.device.startswith("cuda")
        hardware = torch.cuda.get_device_name(means.device) if on_gpu else f"cpu ({platform.machine()})"
        records.write({**make(), "hardware": hardware}, path)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def _measured(job: Job, means: Means) -> dict[str, Any]:
    started = time.time()
    corpus = corpus_of(job, means)
    model = _start(job, corpus, means)
    training = None if job.control == "untrained" else _train(model, job, corpus, means)
    if job.compared:
        folder = means.work / "models" / job.name
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped before its record
        _keep(model, folder)
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


def corpus_of(job: Job, means: Means) -> corpora.Corpus:
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


def base_of(job: Job, corpus: corpora.Corpus, means: Means) -> tuple[AttentionClassifier, str]:
    """The classifier that all adversaries imitate, and a digest of its weights.

    It comes from its files or, where only its record was kept, is trained again.
    """
    folder = means.work / "models" / job.name
    if not folder.exists():
        model = _start(job, corpus, means)
        _train(model, job, corpus, means)
        _keep(model, folder)
    model, digest = AttentionClassifier.load(folder), hashlib.sha256()
    for name, weights in sorted(model.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    return model.to(means.device), digest.hexdigest()[:16]


def _keep(model: AttentionClassifier, folder: Path) -> None:
    """Save a classifier whole, unless another process was first."""
    own = folder.with_name(f"{folder.name}-{os.getpid()}")
    model.save(own)
    try:
        own.rename(folder)
    except OSError:
        shutil.rmtree(own)
