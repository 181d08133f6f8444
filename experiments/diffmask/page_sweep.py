"""The section on what each setting of a recipe earns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masking import collapsed_layers
from page_models import points_gained, section_models
from wording import agreement_at, bullet, passage, table

OPEN = 0.01  # a layer that masks less is stuck open


def section_sweep(found: Mapping[str, Any], largest: Mapping[str, float], final: Mapping[str, Any]) -> list[str]:
    """Every run of the sweeps, and what they show.

    Args:
        found: results/sweep.json.
        largest: the share of each model's commonest answer, which tells a collapsed layer.
        final: the settings of the control that was trained after all of them.
    """
    lines = ["", "## Which settings earn what"]
    of_recipes, of_models = found["rounds"][:4], found["rounds"][4:]
    every = [run for one in found["rounds"] for run in one["runs"]]
    sizes = {run["model"]: run["dev"]["n_texts"] for one in of_recipes for run in one["runs"]}
    lines += passage(
        f"**By hand, not reproducible**: no script writes the {len(every)} runs of `results/sweep.json`; they were"
        f" started one by one, mostly with one seed, and show what was tried, not what holds. {found['about']} A cell:"
        f" agreement at share masked, on dev ({', '.join(f'{name} n = {size:,}' for name, size in sizes.items())})."
    )
    runs = {run["name"]: run for one in of_recipes for run in one["runs"]}
    rows = []
    for one in of_recipes:
        for run in one["runs"]:
            agreement, masked = run["dev"]["agreement"], run["dev"]["masked"]
            settings = ", ".join(f"{name} {value}" for name, value in run["settings"].items() if name != "steps")
            if run["shortest_text_in_words"] > 1:
                settings += f", texts of {run['shortest_text_in_words']} words or more"
            rows.append(
                [
                    run["name"], run["model"], run["kind"], settings, f"{agreement[-1]:.3f} at {masked[-1]:.3f}",
                    agreement_at(run["dev"]),
                    ", ".join(_open_layers(run, one["layers"])),
                    ", ".join(_collapsed(run, one["layers"], largest[run["model"]])),
                ]
            )  # fmt: skip
    lines += table(
        ["run", "model", "kind", "changed settings", "top entry", "mean over entries", "stuck open", "collapsed"], rows
    )
    layers = found["rounds"][0]["layers"]
    lines += passage(
        "Rounds 1 and 2 ran before a fault of ours was mended: on the GPU the biases of the probes' first layer were"
        " read from a cache of half-precision casts, so that training did not see what it did to them. They chose what"
        " to try next; everything reported above was fitted after the fault was mended. In rounds 1 to 3 a step trained"
        " one layer, from round 4 on every layer."
    )
    lines += ["", "What the runs show:", ""]
    for point in [*_lessons(runs, layers, largest), *_lessons_of_round_4(runs, of_recipes[3]["two_seed_sd"])]:
        lines += bullet(point)
    return lines + section_models(of_models, final)


def _lessons(runs: Mapping[str, Any], layers: Sequence[Any], largest: Mapping[str, float]) -> list[str]:
    """Comparisons of runs that are alike but for what is named."""
    at = {name: agreement_at(run["dev"]) for name, run in runs.items()}
    collapsed = ", ".join(_collapsed(runs["1h4"], layers, largest["SST-2"])) or "none"
    stuck = ", ".join(_open_layers(runs["1h1"], layers)) or "none"
    nearly = {name: len(_open_layers(runs[name], layers, 0.1)) for name in ("1h3", "1h6")}
    first = {name: runs[name]["dev"]["masked"][0] for name in ("2i1", "2i2", "3f2i")}
    top = {name: runs[name]["dev"]["masked"][-1] for name in first}
    same = {name: runs[name]["dev"]["agreement"][-1] for name in first}
    return [
        f"""The mean log-probability as penalty, as released: 1h4 collapses at layer {collapsed} (least agreement
        {min(runs["1h4"]["dev"]["agreement"]):.2f}); as inputs, 1i6 masks more at less agreement
        ({at["1i6"]}) than the nearest run with the mean probability, 1i1 ({at["1i1"]}; all
        texts instead of those of 8 words or more).""",
        f"""Bounded probes, the form of round 1, get stuck open: 1h1 masks nothing at layers {stuck}. 1h3 (bounded) and
        1h6 (plain) differ in this alone: {at["1h3"]} and {at["1h6"]}, with less than 10 %
        masked at {nearly["1h3"]} and {nearly["1h6"]} layers.""",
        f"""One margin for all layers of input probes is spent at once: 2i1 masks {first["2i1"]:.2f} at the embeddings,
        {top["2i1"]:.2f} at the top, agreeing {same["2i1"]:.3f}. With a margin that rises from 0.4 of itself at the
        embeddings 2i2 agrees {same["2i2"]:.3f}, but still masks the same at the embeddings ({first["2i2"]:.2f}) as at
        the top ({top["2i2"]:.2f}): gates above that have run far open learn nothing any more.""",
        f"""In round 3, with logits beyond ±5 pulled back, a margin that rises from 0.3 and the fault mended, 3f2i goes
        from {first["3f2i"]:.2f} at the embeddings to {top["3f2i"]:.2f} at the top, agreeing {same["3f2i"]:.3f}. Which
        of the three frees the gates these runs cannot tell.""",
        f"""A rectified constraint, as in GraphMask, earns little: 3g2i {at["3g2i"]} against 3f2i
        {at["3f2i"]}; 3k2h {at["3k2h"]} against 3h2h {at["3h2h"]}.""",
        f"""Hard gates with a straight-through gradient cost agreement: 1i4 {at["1i4"]} against 1i3
        {at["1i3"]}; 1h5 {at["1h5"]} against 1h3 {at["1h3"]}.""",
    ]


def _lessons_of_round_4(runs: Mapping[str, Any], two_seed_sd: Mapping[str, float]) -> list[str]:
    at = {name: agreement_at(run["dev"]) for name, run in runs.items()}
    lost = {name: -points_gained(runs[name]) for name in ("4a2", "4a7", "4a6")}
    return [
        f"""Every layer in every step: 4c1 {at["4c1"]} after {runs["4c1"]["settings"]["steps"]:,} steps of
        {runs["4c1"]["settings"]["batch_size"]} texts, where 3h2h got {at["3h2h"]} after
        {runs["3h2h"]["settings"]["steps"]:,} of {runs["3h2h"]["settings"]["batch_size"]}; as inputs 4b1
        {at["4b1"]} against 3f2i {at["3f2i"]}.""",
        f"""A smaller learning rate makes seeds agree: the standard deviation of two seeds on dev is
        {two_seed_sd["4a2, 4a9"]:.3f} at 0.002 and {two_seed_sd["4p3s0, 4p3s1"]:.3f} at 0.0005; narrower probes
        ({two_seed_sd["4p1s0, 4p1s1"]:.3f}), nearer limits of the logits ({two_seed_sd["4a8, 4a10"]:.3f}) and 16,000
        sentences of IMDb beside those of SST ({two_seed_sd["4p2s0, 4p2s1"]:.3f}) do less. Of the recipe this alone was
        chosen on dev.""",
        f"""Five classes, hidden states, plain model: nothing tried keeps macro-F1 at two thirds masked. 4a2 loses
        {lost["4a2"]:.1f} points ({at["4a2"]}), 4a7 with a smaller margin {lost["4a7"]:.1f}
        ({at["4a7"]}), 4a6 with more texts {lost["4a6"]:.1f} ({at["4a6"]}).""",
    ]


def _open_layers(run: Mapping[str, Any], layers: Sequence[Any], below: float = OPEN) -> list[str]:
    return [str(layer) for layer, share in zip(layers, run["dev"]["masked"], strict=True) if share < below]


def _collapsed(run: Mapping[str, Any], layers: Sequence[Any], largest: float) -> list[str]:
    found = zip(layers, run["dev"]["agreement"], run["dev"]["masked"], strict=True)
    rows = [{"layer": layer, "masked": masked, "agreement": {"value": same}} for layer, same, masked in found]
    return [str(layer) for layer in collapsed_layers(rows, largest)]
