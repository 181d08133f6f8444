"""What the paper says in two ways, and which of them the numbers support; every sentence is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import paper
from claims import DENSE, falls_surely, is_uniform
from tables import NAMES, REMOVALS, Results, chosen_adversary, in_order, mean_of, sound_searches


def contradictions(results: Results, data: Sequence[str]) -> str:
    """C1 to C12, one paragraph each."""
    makers: tuple[Callable[[Results, Sequence[str]], str], ...] = (_c1, _c2, _c3, _c4, _c5, _c6, _c8, _c9)
    found = [each(results, data) for each in makers]
    found += [
        "**C7.** That the Jensen-Shannon divergence bounds the total variation from below compares attentions with "
        "predictions; it is not used here.",
        "**C10.** Table 1 is taken over all states p of a document, not only p = i.",
        "**C11.** Importance and attention are computed in float64, since nearly uniform attention (λ ≪ 0) "
        "is ranked by "
        "its last digits; influence on states, of which only entropies are reported, in float32.",
        "**C12.** In the remark below equation (1) the scores z, not the inputs x, become −∞ at masked words.",
    ]
    return "\n\n".join(sorted(found, key=lambda text: int(text[3 : text.index(".")])))


def _c1(results: Results, data: Sequence[str]) -> str:
    swept = [
        each for each in results["sweep"] if each["quantity"] == "entropy g_x" and each["tau_of_means"] is not None
    ]
    numbers = [falls_surely(each) for each in swept]
    falls = sum(number.high < 0 for number in numbers)
    weakest = max(numbers, default=None)
    at_worst = f" (weakest: {weakest.value:+.2f} [{weakest.low:+.2f}, {weakest.high:+.2f}])" if weakest else ""
    pairs = [
        (
            mean_of(results, name, encoder, "sparsemax", "influence"),
            mean_of(results, name, encoder, "softmax", "influence"),
        )
        for encoder in paper.ENCODERS
        for name in data
    ]
    return (
        "**C1.** Larger λ is sparser, so the negative correlations of Table 2 mean that entropy *falls* with "
        "sparsity; the "
        f"text reads them the other way. Here it surely falls in {falls} of {len(swept)} settings{at_worst}. "
        f"In Table 1 sparsemax lowers the entropy in 5 of 6 of the paper's cells, here in {in_order(pairs)}."
    )


def _c2(results: Results, data: Sequence[str]) -> str:
    losses: dict[str, list[float]] = {"frozen": [], "unfrozen": []}
    sound = [
        search for name in data for encoder in paper.ENCODERS for kind in losses
        for search in sound_searches(results, name, encoder, kind).values()
    ]  # fmt: skip
    for record in sound or results["adversaries"]:
        test = chosen_adversary(record)
        losses[record["kind"]].append(test["accuracy"] - test["base_accuracy"])
    said = "; ".join(f"{kind} {np.mean(each):+.3f} (n = {len(each)} searches)" for kind, each in losses.items() if each)
    how_well = "Cells of three or more seeds, each of one base" if sound else "Not tried well enough to say (Table 5)"
    return (
        "**C2.** The appendix says that the frozen adversary redistributes information, the main text that "
        "the unfrozen one "
        f"does; only the latter can. {how_well}. Mean change of accuracy: {said or 'none'}."
    )


def _c3(results: Results, data: Sequence[str]) -> str:
    said = []
    for encoder in paper.ENCODERS:
        cells = [
            (mean_of(results, name, encoder, each, "tau D_x"), mean_of(results, name, encoder, each, "tau D_h"))
            for name in data
            for each in ("softmax", "sparsemax")
        ]
        said.append(f"{NAMES[encoder]} {in_order(cells)}")
    return (
        "**C3.** Figure 4 claims that attention has a higher rank correlation with leave-one-out of states than "
        "of inputs in all models; the "
        f"paper's own Table 6 has it so in 1 of 6 Transformer cells. Here (removal at the attention): "
        f"{', '.join(said)}.{_ranked_by_last_digits(results, data)}"
    )


def _ranked_by_last_digits(results: Results, data: Sequence[str]) -> str:
    """Of which cells among those counted attention is all but uniform."""
    found = [
        f"{NAMES[name]} {NAMES[encoder]}"
        for encoder in paper.ENCODERS for name in data if is_uniform(results, name, encoder, DENSE)
    ]  # fmt: skip
    return f" († softmax is all but uniform: {', '.join(found)}.)" if found else ""


def _c4(results: Results, data: Sequence[str]) -> str:
    distances = {}
    for removal, about in REMOVALS.items():
        gaps = []
        for name in data:
            for projection in ("softmax", "sparsemax"):
                ours = mean_of(results, name, "transformer", projection, f"tau {removal}")
                if ours is not None:
                    gaps.append(abs(ours - paper.TABLE_6["transformer", projection][name]["D_h"][0]))
        if gaps:
            distances[about] = float(np.mean(gaps))
    if not distances:
        return "**C4.** Not run."
    nearest = min(distances, key=lambda about: distances[about])
    said = ", ".join(f"{about} {gap:.2f}" for about, gap in distances.items())
    return (
        "**C4.** With a constant query, removing a state from sparse attention changes nothing off its "
        "support, which alone "
        "would lift τ far above the paper's 0.15 to 0.25 for Transformers. Mean distance from the paper's "
        "Transformer row "
        f"under each meaning of removal: {said}. Nearest: {nearest}.{_ranked_by_last_digits(results, data)}"
    )


def _c5(results: Results, data: Sequence[str]) -> str:
    cells = [
        (mean_of(results, name, encoder, "sparsemax", quantity), mean_of(results, name, encoder, "softmax", quantity))
        for name in data
        for encoder in paper.ENCODERS
        for quantity in ("tau g_x", "tau D_x")
    ]
    swept = {
        f"{NAMES[each['data']]} {NAMES[each['encoder']]} (n = {each['n_models']})": falls_surely(each)
        for each in results["sweep"]
        if each["quantity"] == "tau g_x" and each["tau_of_means"] is not None
    }
    said = ", ".join(f"{name} {tau.value:+.2f} [{tau.low:+.2f}, {tau.high:+.2f}]" for name, tau in swept.items())
    return (
        "**C5.** That rank correlation with input importance falls with sparsity is shown for IMDb alone; between "
        "sparsemax and "
        f"softmax it falls in 7 of the paper's 12 cells. Here: {in_order(cells)}. Correlation of λ with τ(attention, "
        f"gradient at the inputs): {said or 'sweep not run'}.{_ranked_by_last_digits(results, data)}"
    )


def _c6(results: Results, data: Sequence[str]) -> str:
    reached = [
        chosen_adversary(record)["jensen_shannon"] >= record["wanted"] - 0.02 for record in results["adversaries"]
    ]
    return (
        "**C6.** The text optimises the Jensen-Shannon divergence, the loss it cites the Kullback-Leibler "
        "divergence. The "
        f"former is used here; {sum(reached)} of {len(reached)} adversaries come within 0.02 of the paper's divergence."
    )


def _c8(results: Results, data: Sequence[str]) -> str:
    chosen = Counter(
        (NAMES[group["encoder"]], training["learning_rate"], training["attention_speed"])
        for group in results["classifiers"]
        for training in group["training"]
        if training
    )
    said = "; ".join(
        f"{encoder} {rate:g} and ×{speed:g} ({count} classifiers)"
        for (encoder, rate, speed), count in sorted(chosen.items())
    )
    return (
        "**C8.** The learning rate of the attention is the same or ten times larger, the paper does not say "
        "where. Both were tried, with the paper's rate for the rest and larger ones, and chosen by ROC-AUC on the dev "
        f"part with seed 0. Chosen: {said}."
    )


def _c9(results: Results, data: Sequence[str]) -> str:
    said = []
    for name in data:
        sizes = next(each["sizes"] for each in results["classifiers"] if each["data"] == name)
        ours = f"{sizes['train']:,} / {sizes['test']:,}"
        said.append(f"{NAMES[name]} {' / '.join(f'{n:,}' for n in paper.SIZES[name])} → {ours}")
    return f"**C9.** Documents to train and test, paper → here (the base code's recipe): {'; '.join(said)}."
