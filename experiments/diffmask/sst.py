"""DiffMask on sentiment: what masking does to answers, five-seed stability, and the numbers behind Figures 5 to 8.

    python experiments/diffmask/sst.py --data-dir DATA --work WORK --out experiments/diffmask/results

WORK is where `finetune.py` and `fit_probes.py` left the five-class models and their probes. Gates are deterministic (a
token is kept iff it is likelier kept than not) and everything is measured on the dev part, at every layer; the seeds'
means on the test part too. Writes sst.json (five classes), sst_gaps.json (five classes, the model trained with gaps:
neither the published settings nor figures) and sentiment.json (the embedded models with the probes that ship with
them). With `--only mpnet_sst_0` the same of WORK/mpnet-sst5-0, with as many of its probes as are there; `--parts`
leaves out the figures, or all else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import command
import numpy as np
import sst_figures
import torch
from masking import (
    COLLAPSED,
    NO_BETTER,
    Masked,
    by_layer,
    collapsed_layers,
    draws,
    interval,
    macro_f1,
    mask_all,
    mean_with_interval,
    released_macro_f1,
    settings_of,
    two_readings,
    write,
)

import whence
from whence.data import Example, labels_as_ids, read
from whence.models.batching import batches, usual_batch_tokens
from whence.models.inputs import Encoding

PLAIN, GAPS = "sst5", "sst5-gaps"
FILES = {"sst": PLAIN, "sst_gaps": GAPS, **{f"mpnet_sst_{seed}": f"mpnet-sst5-{seed}" for seed in range(3)}}
"""Which model of WORK each file tells of."""
KINDS: tuple[Literal["input", "hidden"], ...] = ("input", "hidden")
SEEDS = (0, 1, 2, 3, 4)
PUBLISHED = ("released", "paper")
TOPIC_TEXTS = 1_000
NOISES = 200


def score_run(gold: np.ndarray, whole: np.ndarray, found: Masked, weights: np.ndarray) -> dict[str, Any]:
    """Accuracy and macro-F1 of the masked texts at each layer, and how they differ from those of the whole ones."""
    unmasked = macro_f1(gold, whole, weights)
    f1 = np.array([macro_f1(gold, said, weights) for said in found.said])
    released = [released_macro_f1(gold, said) for said in found.said]
    right = found.said == gold
    layers = by_layer(found)
    for number, row in enumerate(layers):
        row["accuracy"] = float(right[number].mean())
        row["macro_f1"] = float(f1[number, 0])
        row["released_macro_f1"] = released[number]
    readings = two_readings(found)
    for name, values, its_right, its_released in (
        ("top", f1[-1], right[-1], released[-1]),
        ("mean", f1.mean(axis=0), right.mean(axis=0), float(np.mean(released))),
    ):
        readings[name] |= {
            "accuracy": float(its_right.mean()),
            "macro_f1": interval(values),
            "macro_f1_change": interval(values - unmasked),
            "released_macro_f1": its_released,
        }
    largest = float(np.bincount(whole).max() / len(whole))
    return {**readings, "layers": layers, "collapsed": collapsed_layers(layers, largest)}


def over_seeds(
    gold: np.ndarray,
    whole: np.ndarray,
    runs: Sequence[Masked],
    scored: Sequence[Mapping[str, Any]],
    weights: np.ndarray,
) -> dict[str, Any]:
    """Means and standard deviations over seeds; the interval of the seeds' mean change in F1 is over sentences."""
    unmasked = macro_f1(gold, whole, weights)
    f1 = np.array([[macro_f1(gold, said, weights) for said in run.said] for run in runs])  # seed layer resample
    summary: dict[str, Any] = {"n_seeds": len(runs)}
    for reading, values in (("top", f1[:, -1]), ("mean", f1.mean(axis=1))):
        row: dict[str, Any] = {"macro_f1": interval(values.mean(axis=0))}
        row["macro_f1_change"] = interval(values.mean(axis=0) - unmasked)
        for name in ("masked", "agreement", "accuracy", "macro_f1", "macro_f1_change", "released_macro_f1"):
            each = [found[reading][name] for found in scored]
            numbers = np.array([one["value"] if isinstance(one, dict) else one for one in each])
            row.setdefault(name, {"value": float(numbers.mean())})
            row[name]["sd"] = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
        summary[reading] = row
    return summary


def stability(runs: Sequence[Sequence[np.ndarray]], layers: Sequence[whence.Layer]) -> dict[str, Any]:
    """The standard deviation over seeds of each keep probability, averaged over tokens and layers of all sentences.

    Of each seed an array of layers x tokens for every sentence.
    """
    keep = np.stack([np.concatenate(run, axis=1) for run in runs])  # seed layer token
    sentences = zip(*runs, strict=True)
    of_text = np.array([np.stack(cells).std(axis=0, ddof=1).mean() for cells in sentences])
    return {
        "ddof_0": float(keep.std(axis=0).mean()),
        "ddof_1": float(keep.std(axis=0, ddof=1).mean()),
        "ddof_1_mean_of_sentences": mean_with_interval(of_text),
        "by_layer_ddof_1": dict(zip(map(str, layers), keep.std(axis=0, ddof=1).mean(axis=1).tolist(), strict=True)),
        "share_of_decisions_that_differ": float(((keep > 0.5).any(axis=0) & ~(keep > 0.5).all(axis=0)).mean()),
        "n_cells": int(keep[0].size),
    }


@torch.no_grad()
def lost_by_chance(
    model: whence.LayeredModel, encodings: Sequence[Encoding], gold: np.ndarray, agreements: Mapping[str, float]
) -> dict[str, Any]:
    """What macro-F1 loses when as many answers change by chance: by noise on the logits of the whole texts.

    A masked text whose answer changes need not be a worse one; this says what to expect if changes are blind.
    """
    logits = np.zeros((len(encodings), 5))
    for indices in batches(model, encodings, usual_batch_tokens(model)):
        logits[indices] = model.states(model.collate([encodings[index] for index in indices])).logits.cpu().numpy()
    whole, generator = logits.argmax(axis=1), np.random.default_rng(0)
    noise = generator.normal(size=(NOISES, *logits.shape))
    once = np.ones((1, len(gold)))
    found = {}
    for name, wanted in agreements.items():
        low, high = 0.0, 10.0
        for _ in range(20):  # more noise, less agreement
            middle = (low + high) / 2
            agree = float(((logits + middle * noise).argmax(axis=2) == whole).mean())
            low, high = (middle, high) if agree > wanted else (low, middle)
        said = (logits + low * noise).argmax(axis=2)
        changes = [float(macro_f1(gold, each, once)[0] - macro_f1(gold, whole, once)[0]) for each in said]
        found[name] = {
            "agreement": float((said == whole).mean()),
            "noise": low,
            "macro_f1_change": float(np.mean(changes)),
            "sd": float(np.std(changes, ddof=1)),
            "draws": NOISES,
        }
    return found


def keep_probabilities(model: whence.LayeredModel, probes: whence.DiffMask, texts: Sequence[str]) -> list[np.ndarray]:
    return [explanation.scores for explanation in whence.explain(model, texts, "diffmask", probes=probes)]


def masked_part(
    model: whence.LayeredModel, probes: Mapping[str, whence.DiffMask], examples: Sequence[Example]
) -> tuple[dict[str, Any], dict[str, Masked]]:
    """What masking by every set of probes does to one part of the data, and the masks themselves."""
    gold = np.array(labels_as_ids(examples, model.reading.labels))
    encodings = [model.encode(example.text) for example in examples]
    whole, found = mask_all(model, probes, encodings)
    weights = draws(len(examples))
    shares = np.bincount(whole, minlength=5) / len(whole)
    report: dict[str, Any] = {
        "n_texts": len(examples),
        "n_tokens": sum(map(len, encodings)),
        "unmasked": {
            "accuracy": mean_with_interval((whole == gold).astype(float)),
            "macro_f1": interval(macro_f1(gold, whole, weights)),
            "released_macro_f1": released_macro_f1(gold, whole),
            "largest_predicted_class": float(shares.max()),
            "predicted_shares": shares.tolist(),
        },
        "runs": {},
        "recipes": {},
    }
    for key, own in probes.items():
        report["runs"][key] = score_run(gold, whole, found[key], weights) | {"settings": settings_of(own)}
    for kind in kinds_of(probes):
        mine = _seeds(kind, probes)
        scored = [report["runs"][key] for key in mine]
        report["recipes"][kind] = over_seeds(gold, whole, [found[key] for key in mine], scored, weights)
        report["recipes"][kind]["collapsed_seeds"] = [key for key in mine if report["runs"][key]["collapsed"]]
    agreements = {
        f"{kind}, {reading}": report["recipes"][kind][reading]["agreement"]["value"]
        for kind in report["recipes"]
        for reading in ("top", "mean")
    }
    return report | {"by_chance": lost_by_chance(model, encodings, gold, agreements)}, found


def _seeds(kind: str, probes: Mapping[str, Any]) -> list[str]:
    return [key for seed in SEEDS if (key := f"{kind}-{seed}") in probes]


def kinds_of(probes: Mapping[str, Any]) -> list[str]:
    """Kinds of which there are seeds: of a model's published settings alone there are none."""
    return [kind for kind in KINDS if _seeds(kind, probes)]


def five_classes(name: str, data_dir: Path, work: Path, limit: int | None, device: str) -> dict[str, Any]:
    """One fine-tuned model of WORK; plain ones with the published settings."""
    model = command.load(work / name, device)
    dev, test = (read("sst5", data_dir=data_dir, split=split, limit=limit) for split in ("dev", "test"))
    plain = name != GAPS
    probes = {
        f"{kind}-{run}": whence.DiffMask.load(folder)
        for kind in KINDS
        for run in (*map(str, SEEDS), *(PUBLISHED if plain else ()))
        if ((folder := work / "probes" / f"{name}-{kind}-{run}") / "config.json").exists()
    }
    report, found = masked_part(model, probes, dev)
    report["model"] = json.loads((work / name / "results.json").read_text())
    report["collapse"] = (
        f"at least {COLLAPSED} masked, agreement at most {NO_BETTER} above the commonest answer's share"
    )
    sentences = [example.text for example in dev]
    report["stability"] = {
        kind: stability(
            [keep_probabilities(model, probes[key], sentences) for key in _seeds(kind, probes)],
            found[_seeds(kind, probes)[0]].layers,
        )
        for kind in kinds_of(probes)
    }
    report["test"], _ = masked_part(model, probes if name.startswith("mpnet") else _ours(probes), test)
    if not name.startswith("mpnet"):
        del report["test"]["runs"]  # the means are enough there
    return report


def figures(name: str, data_dir: Path, work: Path, limit: int | None, device: str) -> dict[str, Any]:
    """The numbers behind the figures, of the first seed's probes."""
    model = command.load(work / name, device)
    dev = read("sst5", data_dir=data_dir, split="dev", limit=limit)
    probes = {str(kind): whence.DiffMask.load(work / "probes" / f"{name}-{kind}-0") for kind in KINDS}
    return {"n_texts": len(dev), "figures": sst_figures.numbers(model, probes, dev, data_dir)}


def _ours(probes: Mapping[str, whence.DiffMask]) -> dict[str, whence.DiffMask]:
    return {key: own for key, own in probes.items() if not key.endswith(PUBLISHED)}


def embedded(name: str, examples: Sequence[Example]) -> dict[str, Any]:
    """An embedded model with its probes at every layer."""
    model = whence.load(name)
    probes: dict[str, whence.DiffMask] = {kind: whence.DiffMask.embedded(name, kind) for kind in KINDS}
    gold = np.array(labels_as_ids(examples, model.reading.labels))
    whole, found = mask_all(model, probes, [model.encode(example.text) for example in examples])
    largest = float(np.bincount(whole).max() / len(whole))
    report: dict[str, Any] = {
        "n_texts": len(examples),
        "accuracy": mean_with_interval((whole == gold).astype(float)),
        "largest_predicted_class": largest,
    }
    for kind, run in found.items():
        layers = by_layer(run)
        for number, row in enumerate(layers):
            row["accuracy"] = float((run.said[number] == gold).mean())
        report[kind] = {
            **two_readings(run),
            "layers": layers,
            "collapsed": collapsed_layers(layers, largest),
            "settings": settings_of(probes[kind]),
        }
    return report


def embedded_models(data_dir: Path, limit: int | None) -> dict[str, Any]:
    sentences = read("sst2", data_dir=data_dir, split="dev", limit=limit)
    news = read("ag_news", data_dir=data_dir, split="test", limit=limit or TOPIC_TEXTS, seed=0)
    return {"sentiment": embedded("sentiment", sentences), "topic": embedded("topic", news)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command.options(__doc__)
    parser.add_argument("--only", choices=[*FILES, "sentiment"], help="one file; else the first two and sentiment")
    parser.add_argument("--limit", type=int, help="texts, for a trial")
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    about = command.about("texts", args.threads, args.device)
    for file in [args.only] if args.only else ["sst", "sst_gaps", "sentiment"]:
        started = time.process_time()
        report: dict[str, Any] = {}
        if file == "sentiment":
            report = embedded_models(args.data_dir, args.limit)
        elif "numbers" in args.parts:
            report = five_classes(FILES[file], args.data_dir, args.work, args.limit, args.device)
        if "figures" in args.parts and file not in ("sentiment", "sst_gaps"):
            report |= figures(FILES[file], args.data_dir, args.work, args.limit, args.device)
        report["cpu_seconds"] = round(time.process_time() - started)
        write({**about, **report}, args.out / command.file_of(file, args.parts))


if __name__ == "__main__":
    main()
