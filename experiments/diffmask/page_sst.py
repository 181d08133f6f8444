"""The sections on sentiment: two classes, five classes, and Figures 5 to 8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import page_figures
import paper
from wording import between, layer_names, passage, percent, picture, points, table, with_sd

READINGS = {"top": "top entry", "mean": "mean over entries"}
KINDS = {"input": "inputs", "hidden": "hidden states"}


def readings(kind: str) -> list[tuple[str, str]]:
    """How layers are summed up; of hidden states the top entry says nothing, since [CLS] alone is read there."""
    return [(key, words) for key, words in READINGS.items() if kind == "input" or key == "mean"]


def section_embedded(found: Mapping[str, Any]) -> list[str]:
    """The embedded models with the probes that ship with them, layer by layer."""
    lines = ["", "## The probes that ship with the embedded models"]
    data = {"sentiment": "SST-2, the whole dev part", "topic": "AG News, a sample of the test part (seed 0)"}
    for name, where in data.items():
        own = found[name]
        lines += passage(
            f"**{name}** ({where}, n = {own['n_texts']:,} texts; the unmasked model is right on"
            f" {between(own['accuracy'])}; it says its commonest class on {own['largest_predicted_class']:.3f}). Each"
            " cell: agreement with the unmasked model at the share masked."
        )
        layers = [row["layer"] for row in own["input"]["layers"]]
        rows = []
        for kind, title in KINDS.items():
            cells = [f"{row['agreement']['value']:.3f} at {row['masked']:.3f}" for row in own[kind]["layers"]]
            mean = own[kind]["mean"]
            rows.append([title, *cells, f"{mean['agreement']['value']:.3f} at {mean['masked']['value']:.3f}"])
            accuracy = [f"{row['accuracy']:.3f}" for row in own[kind]["layers"]]
            rows.append([f"{title}: accuracy", *accuracy, f"{sum(map(float, accuracy)) / len(accuracy):.3f}"])
        lines += table(["", *map(str, layers), "mean"], rows)
    return lines


def section_five_classes(found: Mapping[str, Any], figures: Path, page: Path) -> list[str]:
    unmasked, model = found["unmasked"], found["model"]
    released = paper.SST_F1
    lines = ["", "## Five-class SST"]
    lines += passage(
        f"The embedded encoder, fine-tuned on the {model['train']:,} training sentences ({model['steps']:,} steps of"
        f" {model['batch']}); all of dev, n = {found['n_texts']:,} sentences (test stands on the first page and under"
        " the positive control). Unmasked: accuracy"
        f" {between(unmasked['accuracy'])}, macro-F1 {between(unmasked['macro_f1'])}; macro-F1 as the released code"
        f" computes it (per batch of 64, where a class absent from a batch counts 0)"
        f" {unmasked['released_macro_f1']:.3f}. The paper reports {released['unmasked']} %: the metric alone"
        " explains so low a level, so compare changes, or the last column. The paper does not say at which layers it"
        " masks: both readings are given. “whence” is the mean over five seeds ± their standard deviation; the interval"
        " of the change is over sentences."
    )
    rows = [
        [
            KINDS[kind], "the paper's report", "not stated", percent(released[kind]["masked"] / 100), "",
            f"{released[kind]['masked_f1']}", f"{released[kind]['masked_f1'] - released['unmasked']:+.1f}", "",
        ]
        for kind in KINDS
    ]  # fmt: skip
    for kind, title in KINDS.items():
        for reading, words in readings(kind):
            own = found["recipes"][kind][reading]
            rows.append(
                [
                    title, "whence", words, f"{with_sd(own['masked'], 100, 1)} %", with_sd(own["agreement"]),
                    with_sd(own["macro_f1"], 100, 1), points(own["macro_f1_change"]),
                    with_sd(own["released_macro_f1"], 100, 1),
                ]
            )  # fmt: skip
        for recipe in ("released", "paper"):
            for reading, words in readings(kind):
                run = found["runs"][f"{kind}-{recipe}"][reading]
                rows.append(
                    [
                        title, recipe, words, percent(run["masked"]["value"]), f"{run['agreement']['value']:.3f}",
                        f"{100 * run['macro_f1']['value']:.1f}", points(run["macro_f1_change"]),
                        f"{100 * run['released_macro_f1']:.1f}",
                    ]
                )  # fmt: skip
    lines += table(
        ["masked", "recipe", "at", "share masked", "agreement", "macro-F1", "change in points", "F1 as released"], rows
    )
    top = found["recipes"]["input"]["top"]
    lines += passage(
        f"Agreement is the stricter measure: with the inputs masked at the top entry"
        f" {percent(1 - top['agreement']['value'])} of the answers are others, yet {percent(top['accuracy']['value'])}"
        f" are right, against {percent(unmasked['accuracy']['value'])} unmasked."
    )
    lines += _without_last_entry(found) + _by_chance(found)
    lines += picture(figures / "sst-layers.png", page, "Agreement and share masked, layer by layer")
    lines += every_run(found) + _published(found) + stability_tables(found)
    return lines


def _without_last_entry(found: Mapping[str, Any]) -> list[str]:
    """How much of the share masked is the last entry's, where masking hidden states costs nothing by construction."""
    runs = [run["layers"] for key, run in found["runs"].items() if key.startswith("hidden-") and key[-1].isdigit()]
    with_it, without = (
        sum(sum(row["masked"] for row in rows) / len(rows) for rows in parts) / len(parts)
        for parts in (runs, [rows[:-1] for rows in runs])
    )
    return passage(
        f"The mean over entries of hidden states holds the last one too, where only [CLS] is read: {percent(with_it)}"
        f" are masked with it, {percent(without)} without."
    )


def _by_chance(found: Mapping[str, Any]) -> list[str]:
    """What macro-F1 would lose if as many answers changed blindly."""
    parts = []
    for key, title in {
        "input, top": "inputs at the top entry",
        "hidden, mean": "hidden states, mean over entries",
    }.items():
        kind, reading = key.split(", ")
        chance = found["by_chance"][key]
        own = found["recipes"][kind][reading]["macro_f1_change"]["value"]
        better = own > chance["macro_f1_change"] + 2 * chance["sd"]
        parts.append(
            f"{title}: {100 * own:+.1f} points, by chance {100 * chance['macro_f1_change']:+.1f} ±"
            f" {100 * chance['sd']:.1f}, so the new answers are {'better than' if better else 'about as good as'} blind"
        )
    return passage(
        "The classes lie close together: noise on the logits that changes as many answers as masking does costs"
        f" macro-F1 too ({found['by_chance']['input, top']['draws']} draws, ± their standard deviation)."
        f" {'; '.join(parts)}."
    )


def every_run(found: Mapping[str, Any]) -> list[str]:
    rows = []
    for key, run in found["runs"].items():
        kind, name = key.split("-")
        for reading, words in readings(kind):
            own = run[reading]
            rows.append(
                [
                    kind, f"seed {name}" if name.isdigit() else name, words,
                    percent(own["masked"]["value"]), between(own["agreement"]), f"{own['accuracy']:.3f}",
                    points(own["macro_f1_change"]), layer_names(run["collapsed"]),
                ]
            )  # fmt: skip
    lines = ["", "### Every run"]
    lines += passage(f"On dev, n = {found['n_texts']:,}. A layer has collapsed if: {found['collapse']}.")
    return lines + table(
        ["kind", "run", "at", "masked", "agreement", "accuracy", "change in F1, points", "collapsed layers"], rows
    )


def _published(found: Mapping[str, Any]) -> list[str]:
    """What became of the published settings here, and why."""
    lines = ["", "### The published settings"]
    keys = [f"{kind}-{recipe}" for recipe in paper.STEPS for kind in KINDS]
    rows = [
        [key, *(f"{row['agreement']['value']:.2f} at {row['masked']:.2f}" for row in found["runs"][key]["layers"])]
        for key in keys
    ]
    layers = [str(row["layer"]) for row in found["runs"][keys[0]]["layers"]]
    about = f"Agreement at share masked, layer by layer, on dev, n = {found['n_texts']:,}:"
    lines += ["", about, *table(["", *layers], rows)]
    for recipe, steps in paper.STEPS.items():
        runs = {kind: found["runs"][f"{kind}-{recipe}"] for kind in KINDS}
        trained = runs["input"]["settings"]["recipe"]
        lost = {kind: run["collapsed"] for kind, run in runs.items()}
        n_layers = len(runs["input"]["layers"])
        said = "; ".join(f"{KINDS[kind]}: {len(each)} of {n_layers} layers" for kind, each in lost.items())
        lines += passage(
            f"**{recipe}** was trained for {trained['steps']:,} steps here, not for its own {steps:,}: less than its"
            f" authors gave it. Margin {trained['margin']} nats, penalty “{trained['penalty']}”, probe"
            f" “{trained['probe']}”. Collapsed: {said}."
        )
    run = found["runs"]["input-paper"]
    top, margin = run["layers"][-1], run["settings"]["margin_in_nats"]
    cost = found["runs"]["input-0"]["settings"]["everything_masked_in_nats"]
    saved, excess = found["n_tokens"] / found["n_texts"], top["divergence"] - margin
    visits = run["settings"]["recipe"]["steps"] / len(run["layers"])
    lines += passage(
        f"Why the printed settings collapse on this model: with the mask token for every word the output moves by"
        f" {cost:.2f} nats, but against a learned baseline {percent(top['masked'])} of the inputs are masked at the top"
        f" for {top['divergence']:.2f} nats, only {excess:.2f} more than the margin of {margin}. The penalty counts"
        f" tokens, {saved:.0f} a sentence: the multiplier would have to pass {saved / excess:.0f} before even keeping"
        f" all of them pays, and at a rate of {run['settings']['recipe']['multiplier_learning_rate']} a step it has"
        f" {visits:.0f} steps a layer to get there. By then the gates are shut, and no gradient comes back through"
        " them."
        " The margin of the usual recipe is therefore a share of what masking everything costs, and its penalty a share"
        " of the sentence."
    )
    return lines


def stability_tables(found: Mapping[str, Any]) -> list[str]:
    lines = ["", "### Stability over five seeds"]
    lines += passage(
        "The standard deviation over seeds of the keep probability of each token at each layer, averaged over all dev"
        f" sentences, n = {found['n_texts']:,}. A seed changes the first weights, the held-out"
        " sentences, the batches and the noise."
    )
    rows = []
    for kind, own in found["stability"].items():
        rows.append(
            [
                KINDS[kind], f"{paper.SST_STABILITY[kind]}", f"{own['ddof_0']:.4f}", f"{own['ddof_1']:.4f}",
                between(own["ddof_1_mean_of_sentences"], 4), percent(own["share_of_decisions_that_differ"]),
            ]
        )  # fmt: skip
    lines += table(
        [
            "",
            "paper",
            "sd (ddof 0)",
            "sd (ddof 1)",
            "mean of sentences' means (ddof 1)",
            "cells kept by some seeds only",
        ],
        rows,
    )
    layers = list(found["stability"]["input"]["by_layer_ddof_1"])
    rows = [
        [KINDS[kind], *(f"{own['by_layer_ddof_1'][layer]:.3f}" for layer in layers)]
        for kind, own in found["stability"].items()
    ]
    about = f"By layer (ddof 1), n = {found['n_texts']:,}:"
    return [*lines, "", about, *table(["", *layers], rows)]


def section_figures(found: Mapping[str, Any], figures: Path, page: Path) -> list[str]:
    own = found["figures"]
    one, how = own["figure_5"], own["figure_5"]["settings"]
    lines = ["", "## Figures 5 to 8"]
    lines += passage(
        f"**Figure 5.** “{one['sentence']}”, predicted {one['predicted']}; every column divided by its largest value."
        f" {how['steps']} steps each; statistics of {how['statistics_texts']} training sentences. Attention has no"
        " value below the first block (grey). At the last layer the model reads [CLS] alone; it scores highest there"
        f" by: {', '.join(_methods_that_find_cls(one))}."
    )
    lines += picture(page_figures.figure_5(one, figures), page, "Figure 5")
    lines += passage("**Figure 6.** Keep probability of the special tokens as hidden states, all of dev, seed 0.")
    lines += picture(page_figures.figure_6(own["hidden_special_by_layer"], figures), page, "Figure 6")
    masks = {name: _mean(one["maps"][name]["scores"]) for name in page_figures.WITHOUT_AMORTISATION}
    lines += passage(
        "**Figure 7.** The same sentence, keep probabilities. Without amortisation a learned baseline takes the"
        f" sentence's place: mean keep probability {masks['per text, hidden, learned baseline']:.2f}, against"
        f" {masks['per text, hidden, zero baseline']:.2f} with a zero baseline, where no pattern shows;"
        f" {masks['DiffMask, hidden']:.2f} with probes. Per text: {how['per_text']['steps']} steps, margin"
        f" {how['per_text']['margin']} nats, the gates of the last step, baseline learned at a rate of"
        f" {how['per_text_learned_baseline_rate']}."
    )
    lines += picture(page_figures.figure_7(one, figures), page, "Figure 7")
    lines += passage(
        "**Figure 8.** Layers that keep a token (keep probabilities added up), all of dev, seed 0: dot the mean, thick"
        " line its 95 % interval over sentences, thin line one standard deviation; number of tokens in brackets."
    )
    lines += picture(page_figures.figure_8(own, figures), page, "Figure 8")
    return lines + _claims(own, found["n_texts"])


def _mean(rows: Sequence[Sequence[float]]) -> float:
    return sum(map(sum, rows)) / sum(map(len, rows))


def _methods_that_find_cls(one: Mapping[str, Any]) -> list[str]:
    top = {name: [row[-1] for row in one["maps"][name]["scores"]] for name in page_figures.OTHER_METHODS}
    return [name for name, scores in top.items() if scores.index(max(scores)) == 0]


def _only(values: Iterable[float | None]) -> float:
    """The one value; not a number where there were too few tokens for one."""
    found = next(iter(values), None)
    return float("nan") if found is None else float(found)


def _claims(own: Mapping[str, Any], n_texts: int) -> list[str]:
    """The paper's prose on SST against our numbers."""

    def kept(name: str, group: str) -> float:
        return _only(row["mean"] for row in own[name] if row["group"] == group)

    def at(name: str, group: str, layer: Any) -> float:
        return _only(row["mean"] for row in own[name] if row["group"] == group and row["layer"] == layer)

    speech = "hidden_by_part_of_speech"
    n_layers = own[speech][0]["n_layers"]
    top = [row["layer"] for row in own["hidden_special_by_layer"]][-1]
    first = [
        f"{group} {at(name, group, 0):.2f}"
        for name, group in (
            ("input_speech_by_layer", "PUNCT"),
            ("input_special_by_layer", "[CLS]"),
            ("input_special_by_layer", "[SEP]"),
        )
    ]
    polar = "; ".join(
        f"{kind}: very negative {kept(name, 'very negative'):.1f}, neutral {kept(name, 'neutral'):.1f}, very positive"
        f" {kept(name, 'very positive'):.1f}"
        for kind, name in (("inputs", "input_by_sentiment"), ("hidden", "hidden_by_sentiment"))
    )
    ours = {group: kept(speech, group) / n_layers for group in paper.NOTEBOOK_HIDDEN_POS}
    inputs = [
        f"{group} {kept('input_by_part_of_speech', group):.1f}" for group in ("ADJ", "NOUN", "DET", "PUNCT", "PRON")
    ]
    rows = [
        [
            "punctuation and separators are dropped as inputs even low down",
            f"keep probability at layer 0: {', '.join(first)}",
        ],
        [
            "as hidden states the separators, [SEP] above all, matter most",
            f"share of layers that keep [CLS] {ours['[CLS]']:.2f}, [SEP] {ours['[SEP]']:.2f}, ADJ {ours['ADJ']:.2f}"
            + (": the other way round" if ours["[SEP]"] < ours["ADJ"] else ""),
        ],
        [
            "information is still being gathered high up (layer 11 of 12)",
            f"adjectives as hidden states, keep probability at layer {top - 1} of {top}:"
            f" {at('hidden_speech_by_layer', 'ADJ', top - 1):.2f}, at {top - 2}:"
            f" {at('hidden_speech_by_layer', 'ADJ', top - 2):.2f}",
        ],
        [
            "adjectives and nouns are kept; determiners, punctuation, pronouns dropped",
            f"inputs, layers of {n_layers}: {', '.join(inputs)}",
        ],
        ["strongly polar words are kept longer", polar],
    ]  # fmt: skip
    about = f"What the paper says of SST in words, and what is seen here (dev, n = {n_texts:,} sentences, seed 0):"
    lines = ["", about, *table(["said", "seen"], rows)]
    rows = [
        [group, f"{value / paper.SST_ENTRIES:.2f}", f"{ours[group]:.2f}"]
        for group, value in paper.NOTEBOOK_HIDDEN_POS.items()
    ]
    rows += [
        [group, f"{value / paper.SST_ENTRIES:.2f}", f"{kept('hidden_by_sentiment', group) / n_layers:.2f}"]
        for group, value in paper.NOTEBOOK_HIDDEN_SENTIMENT.items()
    ]
    lines += [
        "",
        "Hidden states, share of layers that keep a token, beside the plots of the released notebook (read by eye), "
        f"n = {n_texts:,}:",
    ]
    return lines + table(["group", "notebook", "here"], rows)
