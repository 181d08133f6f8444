"""The parts of the page on the games: tables, controls, ablations, and what the head reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paper
from contestants import CONTESTANTS
from figures import draw_games, draw_layers
from findings import GAME_WORDS, comparison
from wording import TITLES, link, paragraph

from whence.metrics.many_comparisons import holm

TABLE = {"sst2": 1, "ag_news": 2}


def section_games(name: str, found: dict[str, Any], figures: Path, out: Path) -> list[str]:
    """Table 1 or 2, with the paper's numbers, and the figures."""
    theirs, title = paper.GAMES[name], TITLES[name]
    draw_games(found, figures / f"{name}-games.png")
    draw_layers(found, figures / f"{name}-layers.png")
    lines = [
        "",
        f"## The games on {title} (Table {TABLE[name]})",
        "",
        *paragraph(f"""Area under the curve of accuracy against gold labels. *Revealing* should be high, *hiding* low. A
        hidden token is masked and removed from attention; special tokens stay. Random: the mean of
        {found["random_orders"]} orders. A text is without an order if all its scores are equal: then its tokens go in
        the order of the text. “Smooth (AllenNLP)” has none anywhere: the features of a gradient below a LayerNorm sum
        to zero, whatever the text. n = {found["n_texts"]:,}, one model."""),
        "",
        *areas(name, found),
    ]
    best = paper.BEST[name]
    lines += [
        "",
        *paragraph(f"""Bold: the layer chosen on one half of the texts. The paper's model has {paper.N_LAYERS} layers,
        so its layers are not ours; its best is {best} with {theirs[best][0]:.3f} and {theirs[best][1]:.3f}."""),
        "",
        f"![The games on {title}]({link(figures / f'{name}-games.png', out)})",
        "",
        f"![All layers on {title}]({link(figures / f'{name}-layers.png', out)})",
    ]
    return lines


def areas(name: str, found: dict[str, Any]) -> list[str]:
    """Both areas of every explainer, beside the paper's."""
    lines = [
        "| explainer | paper: revealing | paper: hiding | revealing | hiding | texts without an order |",
        "|---|---|---|---|---|---|",
    ]
    chosen = found["chosen"].get("Decoded Grad-CAM")
    for called, facts in found["contestants"].items():
        if facts["group"] not in ("decoded", "package", "sane", "random") and called != "Grad-CAM l0":
            continue
        row = paper.GAMES[name].get(_paper_name(called, facts))
        revealing, hiding = (f"{value:.3f}" for value in row) if row else ("", "")
        mark = "**" if called == chosen else ""
        lines.append(
            f"| {mark}{called}{mark} | {revealing} | {hiding} | {_interval(facts['revealing'])} "
            f"| {_interval(facts['hiding'])} | {facts['hiding']['without_order']} |"
        )
    return lines


def _paper_name(called: str, facts: dict[str, Any]) -> str:
    if called in ("Grad-CAM l0", "Random"):
        return called
    contestant = CONTESTANTS[facts["name"]]
    return "" if contestant.group == "decoded" else contestant.paper or ""


def _interval(facts: dict[str, float]) -> str:
    return f"{facts['auc']:.3f} [{facts['low']:.3f}, {facts['high']:.3f}]"


def against(title: str, rows: list[dict[str, Any]]) -> list[str]:
    """The chosen layer of decoded Grad-CAM against each of its rivals."""
    if not rows:
        return []
    lines = [
        "",
        f"{title}: {rows[0]['ours']} on n = {rows[0]['n']:,} texts, against",
        "",
        "| rival | game | difference | p | decoding is |",
        "|---|---|---|---|---|",
    ]
    for row, p in zip(rows, holm(np.array([row["p"] for row in rows])), strict=True):
        lines.append(
            f"| {row['what']} ({row['rival']}) | {row['game']} | {row['mean']:+.3f} [{row['low']:+.3f}, "
            f"{row['high']:+.3f}] | {p:.3f} | {comparison(row, p)} |"
        )
    return lines


def section_ordinary(plain: dict[str, Any]) -> list[str]:
    """The same contest on models that nobody kept decodable."""
    if not plain:
        return []
    models = ", ".join(
        f"{TITLES[name]} n = {found['n_texts']:,}, accuracy {found['accuracy']:.3f}, {found['hardware']}"
        for name, found in plain.items()
    )
    lines = [
        "",
        "## After an ordinary fine-tuning",
        "",
        *paragraph(f"""All weights of another encoder of the same shape (its own pretraining) were fine-tuned, words
        included, with no loss but the task's; the head that decodes is the pretrained one. Otherwise as above: the
        layer is chosen on one half and compared on the other, p by Holm. {models}; one fine-tuning seed."""),
    ]
    for name, found in plain.items():
        about = f"{TITLES[name]}, n = {found['n_texts']:,}: Table {TABLE[name]} on this model, as above."
        lines += ["", about, "", *areas(name, found), *against(TITLES[name], found["differences"])]
    return lines


def section_controls(games: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## Is it the decoding?",
        "",
        *paragraph("""The layer was chosen on one half of the texts (largest revealing minus hiding) and is compared on
        the other half, text by text. p: sign-flip test, corrected by Holm over the rows of a data set. *Better* means a
        higher area in revealing, a lower one in hiding."""),
    ]
    for name, title in TITLES.items():
        lines += against(title, games[name]["differences"])
    for name, title in TITLES.items():
        lines += [
            "",
            f"All layers of the controls on {title} (revealing / hiding, all texts, n = {games[name]['n_texts']:,}):",
            "",
        ]
        table = _by_layer(games[name], ("decoded", "undecoded", "control"))
        layers = sorted({layer for row in table.values() for layer in row})
        lines += [
            f"| {title} | " + " | ".join(f"l{layer}" for layer in layers) + " |",
            "|---" * (len(layers) + 1) + "|",
        ]
        for method, row in table.items():
            cells = [f"{row[layer][0]:.3f} / {row[layer][1]:.3f}" if layer in row else "" for layer in layers]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append("")
    shared = all(found["head"]["shares_the_word_embeddings"] for found in games.values())
    if shared:
        lines += paragraph("""A head with the fine-tuned word embeddings would be one more control. Here it is the same
        head: the embedded models were fine-tuned with their word embeddings frozen and shared with the head, so that
        control would say nothing.""")
    return lines


def _by_layer(found: dict[str, Any], groups: tuple[str, ...]) -> dict[str, dict[int, tuple[float, float]]]:
    table: dict[str, dict[int, tuple[float, float]]] = {}
    for facts in found["contestants"].values():
        if facts["group"] in groups:
            table.setdefault(facts["name"], {})[facts["layer"]] = (facts["revealing"]["auc"], facts["hiding"]["auc"])
    return table


def section_ablations(games: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## What the paper leaves open",
        "",
        "**The threshold τ**: at the chosen layer, on the half used for choosing (revealing / hiding), "
        f"{_sizes(games, 'n_choosing')}.",
        "",
        "| data | layer | " + " | ".join(f"τ = {tau}" for tau in (1, 3, 5, 10)) + " | all tokens |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        everyone = games[name]["contestants"]
        chosen = games[name]["chosen"].get("Decoded Grad-CAM", "")
        if chosen:
            layer = everyone[chosen]["layer"]
            cells = []
            for called in [*(f"tau {tau} l{layer}" for tau in (1, 3, 5, 10)), chosen]:
                facts = everyone.get(called)
                cells.append(" / ".join(f"{facts[g]['choosing']['auc']:.3f}" for g in GAME_WORDS) if facts else "")
            lines.append(f"| {title} | {layer} | " + " | ".join(cells) + " |")
    lines += [
        "",
        *paragraph(f"""**Rounding, order and ties** (revealing / hiding, all texts, {_sizes(games)}). With shares cut
        off (`floor`) instead of rounded, a random order does not get the same area in both games;
        the paper's random areas differ too."""),
        "",
        "| data | explainer | as in the tables | floor | by absolute value | ties at random |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        found = games[name]
        for called, floored in found["floor"].items():
            facts = found["contestants"]
            if facts[called]["group"] == "decoded" and called != found["chosen"].get("Decoded Grad-CAM"):
                continue
            absolute, ties = facts.get(f"{called}, absolute"), facts.get(f"{called}, ties at random")
            lines.append(
                f"| {title} | {called} | {_both(facts[called])} | {_both(floored)} "
                f"| {_both(absolute) if absolute else ''} | {_both(ties) if ties else ''} |"
            )
    for name, title in TITLES.items():
        gaps = [facts["hiding"]["auc"] - facts["revealing"]["auc"] for facts in (
            games[name]["contestants"]["Random"], games[name]["floor"]["Random"])]  # fmt: skip
        theirs = paper.GAMES[name]["Random"]
        lines += [
            "",
            *paragraph(f"""{title}, hiding minus revealing of random orders: {gaps[0]:+.4f} rounded, {gaps[1]:+.4f} cut
            off, {theirs[1] - theirs[0]:+.3f} in the paper."""),
        ]
    return lines


def _sizes(games: dict[str, Any], which: str = "n_texts") -> str:
    return ", ".join(f"{title} n = {games[name][which]:,}" for name, title in TITLES.items())


def _both(facts: dict[str, Any]) -> str:
    return f"{facts['revealing']['auc']:.3f} / {facts['hiding']['auc']:.3f}"


def section_head(games: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## What the head reads at each layer",
        "",
        *paragraph("""Mean probability / median rank that the head gives to the token that stands at a position, through
        the fine-tuned encoders; the [model card](../src/whence/embedded/MODEL_CARD.md) has the same of the encoder
        before fine-tuning."""),
        "",
    ]
    first = next(iter(games.values()))["head"]["probability"]
    lines += [
        "| data | " + " | ".join(f"l{layer}" for layer in range(len(first))) + " |",
        "|---" * (len(first) + 1) + "|",
    ]
    models = {title: games[name] for name, title in TITLES.items()}
    models |= {f"{TITLES[name]}, ordinary fine-tuning": found for name, found in plain.items()}
    for title, found in models.items():
        head = found["head"]
        cells = [f"{p:.3f} / {r:.0f}" for p, r in zip(head["probability"], head["median_rank"], strict=True)]
        lines.append(f"| {title} (n = {head['n_texts']}) | " + " | ".join(cells) + " |")
    return lines
