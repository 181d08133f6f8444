"""One classifier of the sweep: trained, held to the gate, measured, and written down, once."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import corpora
import measures
import paper
import torch

from whence.attention.adversary import AdversarySettings, measure_adversary, search_divergence_weight
from whence.attention.classifier import AttentionClassifier, ClassifierConfig
from whence.attention.documents import Documents
from whence.attention.training import PAPER, TrainingRecord, TrainingSettings, accuracy, predict, roc_auc, train

COMPARED = ("softmax", "sparsemax")
CONTROLS = ("none", "untrained", "random_labels")


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


@dataclass(frozen=True)
class Means:
    """Where and how jobs are done: folder, device, tokens a pass, learning rates to choose among, trial sizes.

    The two forms of influence are compared on `sample` documents: the second takes a pass a state and coordinate.
    """

    work: Path
    device: str = "cpu"
    batch_tokens: int = 8_192
    rates: tuple[float, ...] = ()
    attention_speeds: tuple[float, ...] = (1.0, 10.0)
    max_epochs: int | None = None
    limit: int | None = None
    sample: int = 6
    ungated: bool = False


def run(job: Job, means: Means) -> dict[str, Any]:
    """The record of a job: from its file, or made now."""
    path = means.work / "runs" / f"{job.name}.json"
    if path.exists():
        return json.loads(path.read_text())
    corpus = _corpus(job, means)
    started = time.time()
    model, training = _trained(job, corpus, means)
    chances = predict(model, corpus.test)
    record: dict[str, Any] = {
        "job": asdict(job),
        "sizes": {split: len(getattr(corpus, split)) for split in corpora.SPLITS},
        "n_words": len(corpus.vocabulary),
        "training": training,
        "accuracy": accuracy(chances, corpus.test),
        "roc_auc": roc_auc(chances, corpus.test.labels),
    }
    wanted = paper.ACCURACY[job.encoder][job.data]
    compared = job.projection in COMPARED and (job.control, job.vectors) == ("none", "trained")
    record["gate"] = record["accuracy"] >= wanted - paper.GATE if compared else None
    if record["gate"] is not False or means.ungated:
        names = measures.MEASURES if job.projection in COMPARED else measures.SWEEP_MEASURES
        record["documents"] = measures.measure(model, corpus.test, names, means.batch_tokens)
        if job.projection in COMPARED:
            record["influence"] = measures.influence(model, corpus.test, means.batch_tokens)
        if compared and job.seed == 0:
            step = max(1, len(corpus.test) // means.sample)
            sample = corpus.test.take(range(0, len(corpus.test), step)[: means.sample])
            record["forms"] = measures.forms_of_influence(model, sample, means.batch_tokens)
    if compared:
        model.save(means.work / "models" / job.name, corpus.vocabulary)
    record["seconds"] = time.time() - started
    _write(record, path)
    return record


def _corpus(job: Job, means: Means) -> corpora.Corpus:
    corpus = corpora.load(job.data, means.work / "corpora")
    if job.vectors == "random":
        corpus = replace(corpus, vectors=None)
    if means.limit is not None:
        cut = {split: getattr(corpus, split).take(range(means.limit)) for split in corpora.SPLITS}
        corpus = replace(corpus, **cut)
    if job.control == "random_labels":
        random = torch.Generator().manual_seed(job.seed)
        order = torch.randperm(len(corpus.train), generator=random).tolist()
        corpus = replace(corpus, train=Documents(corpus.train.ids, tuple(corpus.train.labels[i] for i in order)))
    return corpus


def _trained(job: Job, corpus: corpora.Corpus, means: Means) -> tuple[AttentionClassifier, dict[str, Any]]:
    """The classifier with the learning rates that do best on the held-out part, and what was tried."""
    usual = PAPER[job.encoder]  # type: ignore[index]
    tried: list[tuple[AttentionClassifier, TrainingSettings, TrainingRecord | None]] = []
    for rate in means.rates or (usual.learning_rate,):
        for speed in means.attention_speeds:
            epochs = means.max_epochs or usual.max_epochs
            settings = replace(usual, learning_rate=rate, attention_speed=speed, max_epochs=epochs, seed=job.seed)
            torch.manual_seed(job.seed)
            config = ClassifierConfig(len(corpus.vocabulary), job.encoder, projection=job.projection)  # type: ignore[arg-type]
            model = AttentionClassifier(config, corpus.vectors).to(means.device)
            if job.control == "untrained":
                return model.eval(), {"settings": None, "tried": []}
            tried.append((model, settings, train(model, corpus.train, corpus.dev, settings)))
    model, settings, record = max(tried, key=lambda each: each[2].epochs[each[2].best].roc_auc)
    return model, {
        "settings": asdict(settings),
        "best_epoch": record.best,
        "n_epochs": len(record.epochs),
        "dev_roc_auc": record.epochs[record.best].roc_auc,
        "tried": [
            {
                "learning_rate": each.learning_rate,
                "attention_speed": each.attention_speed,
                "dev_roc_auc": found.epochs[found.best].roc_auc,
                "n_epochs": len(found.epochs),
                "seconds": found.seconds,
            }
            for _, each, found in tried
        ],
    }


def run_adversaries(job: Job, frozen: bool, weights: tuple[float, ...], means: Means) -> dict[str, Any]:
    """Adversaries of a job's classifier with growing divergence weight, until the paper's divergence on dev."""
    kind = "frozen" if frozen else "unfrozen"
    path = means.work / "adversaries" / f"{job.name}-{kind}.json"
    if path.exists():
        return json.loads(path.read_text())
    base, _ = AttentionClassifier.load(means.work / "models" / job.name)
    base.to(means.device)
    corpus = _corpus(job, means)
    wanted = paper.TABLE_5[job.encoder, kind][job.data][0]
    settings = AdversarySettings(frozen=frozen, seed=job.seed)
    settings = replace(settings, max_epochs=means.max_epochs or settings.max_epochs)
    found = search_divergence_weight(
        base, corpus.train, corpus.dev, settings, weights=weights, wanted=wanted, vectors=corpus.vectors
    )
    on_test = [measure_adversary(base, model, corpus.test, held_out.settings) for model, held_out in found]
    adversaries = [
        {"dev": held_out.to_dict(), "test": test.to_dict()} for (_, held_out), test in zip(found, on_test, strict=True)
    ]
    record = {"job": asdict(job), "kind": kind, "wanted": wanted, "adversaries": adversaries}
    _write(record, path)
    return record


def _write(record: dict[str, Any], path: Path) -> None:
    """Whole or not at all, with numbers rounded so that files stay small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    temporary.write_text(json.dumps(_plain(record)))
    temporary.replace(path)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
