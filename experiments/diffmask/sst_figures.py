"""The numbers behind Figures 5 to 8 and 13: sentences by every method at every layer, dev by groups of tokens."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import part_of_speech
from masking import records

import whence
from whence.data import Example, read
from whence.learned.diffmask.analyses import keep_by_layer, layers_kept
from whence.learned.diffmask.per_example import DIFFMASK_PER_TEXT
from whence.learned.diffmask.token_groups import (
    SENTIMENTS,
    Tagger,
    part_of_speech_groups,
    sentiment_groups,
    spaced_spans,
    special_token_groups,
)
from whence.methods.state_statistics import StateStatistics

SENTENCE = "A fast , funny , highly enjoyable movie ."
STEPS = 50  # of the methods that search by gradient descent, as published for this task
STATISTICS_TEXTS = 500
PER_TEXT = {"margin": 0.1, "penalty": "share", "steps": 300, "rate": 0.1, "choose": "last"}
LEARNED_RATE = 0.03
RARE = 30  # a group of fewer tokens is left out


def numbers(
    model: whence.LayeredModel, probes: Mapping[str, whence.DiffMask], dev: Sequence[Example], data_dir: Path
) -> dict[str, Any]:
    everywhere = ("embeddings", *range(model.n_layers + 1))
    return {
        "figure_5": one_sentence(SENTENCE, model, probes, data_dir, everywhere),
        "figure_13": one_sentence(dev[0].text, model, probes, data_dir, everywhere),
        **groups_of_tokens(
            model, probes, dev, part_of_speech.universal_tagger(part_of_speech.Tagger.load(data_dir), spaced_spans)
        ),
    }


def one_sentence(
    sentence: str,
    model: whence.LayeredModel,
    probes: Mapping[str, whence.DiffMask],
    data_dir: Path,
    everywhere: tuple[Any, ...],
) -> dict[str, Any]:
    """Scores of the tokens of one sentence at every layer, by the methods of Figures 5, 7 and 13."""
    texts = [example.text for example in read("sst5", data_dir=data_dir, split="train", limit=STATISTICS_TEXTS, seed=0)]
    usual = StateStatistics(everywhere, by_position=True).fit(model, texts)
    settings: dict[str, tuple[Any, dict[str, Any]]] = {
        "attention": ("attention", {}),
        "information bottleneck (Schulz et al.)": (
            "information_bottleneck",
            {"layers": everywhere, "steps": STEPS, "beta": 10.0, "statistics": usual, "special": True},
        ),
        "noise tolerance (Guan et al.)": (
            "noise_tolerance",
            {"layers": everywhere, "steps": STEPS, "weight": 0.1, "score": "inverse", "special": True},
        ),
        "integrated gradients": (
            "integrated_gradients",
            {"layers": everywhere, "steps": STEPS, "baseline": "zero", "special": True},
        ),
        "DiffMask, hidden": ("diffmask", {"probes": probes["hidden"]}),
        "DiffMask, input": ("diffmask", {"probes": probes["input"]}),
        "per text, hidden, learned baseline": (
            DIFFMASK_PER_TEXT,
            {"layers": everywhere, **PER_TEXT, "learn_baseline": True, "baseline_rate": LEARNED_RATE},
        ),
        "per text, hidden, zero baseline": (DIFFMASK_PER_TEXT, {"layers": everywhere, **PER_TEXT}),
    }
    maps: dict[str, Any] = {}
    for name, (method, options) in settings.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", whence.WhenceWarning)  # a layer at which nothing is kept scores all zero
            found = whence.explain(model, sentence, method, **options)
        scores = np.abs(found.scores.astype(float))
        maps[name] = {"layers": list(found.layers), "scores": scores.T.tolist()}
    return {
        "sentence": sentence,
        "predicted": str(found.prediction),
        "tokens": [token.text for token in found.tokens],
        "maps": maps,
        "settings": {
            "steps": STEPS, "statistics_texts": STATISTICS_TEXTS, "beta": 10.0, "noise_weight": 0.1,
            "per_text": PER_TEXT, "per_text_learned_baseline_rate": LEARNED_RATE,
        },
    }  # fmt: skip


def groups_of_tokens(
    model: whence.LayeredModel, probes: Mapping[str, whence.DiffMask], dev: Sequence[Example], tagger: Tagger
) -> dict[str, Any]:
    """Layers that keep a token by part of speech and sentiment, and special tokens layer by layer (Figures 6 and 8)."""
    found: dict[str, Any] = {}
    for kind, own in probes.items():
        explanations = whence.explain(model, [example.text for example in dev], "diffmask", probes=own)
        speech = [part_of_speech_groups(each, tagger) for each in explanations]
        sentiment = [
            sentiment_groups(each, example.token_labels or ()) for each, example in zip(explanations, dev, strict=True)
        ]
        special = [special_token_groups(each) for each in explanations]
        by_speech = layers_kept(explanations, speech).sort_values("mean", ascending=False)
        found[f"{kind}_by_part_of_speech"] = records(by_speech[by_speech["n_tokens"] >= RARE])
        found[f"{kind}_by_sentiment"] = records(layers_kept(explanations, sentiment, order=SENTIMENTS))
        found[f"{kind}_special_by_layer"] = records(keep_by_layer(explanations, special))
        found[f"{kind}_speech_by_layer"] = records(
            keep_by_layer(explanations, speech, order=["ADJ", "NOUN", "DET", "PUNCT", "PRON"])
        )
    return found
