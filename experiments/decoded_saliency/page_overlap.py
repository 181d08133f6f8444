"""The parts of the page on tokens: overlap between classes, word clouds, and examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import paper
from contestants import CONTESTANTS
from figures import draw_clouds, draw_examples, draw_overlaps
from findings import ZERO
from page_claims import overlap_interval
from wording import TITLES, link, paragraph

HEAD = (
    "| data | explainer | paper | overlap | without document frequencies | raw scores |",
    "|---|---|---|---|---|---|",
)


def section_overlap(overlaps: dict[str, Any], figures: Path, out: Path) -> list[str]:
    resamples = next(iter(overlaps.values()))["resamples"]
    n_texts = ", ".join(f"{title} n = {overlaps[name]['n_texts']:,}" for name, title in TITLES.items())
    lines = [
        "",
        "## Tokens that speak for two classes (Tables 3 to 9, Figures 4 and 9)",
        "",
        *paragraph(f"""For each predicted class a token's shares of the scores are added up and weighted by its inverse
        document frequency in Wikipedia; the overlap is the share of the first 50 tokens that two classes have in
        common, averaged over pairs. Document frequencies of word pieces are worked out from those of words, as if
        words came independently. The tokenizer is lower-case, so that the upper-case fragments of datelines that
        fill the paper's lists cannot occur. *Raw scores*: without dividing a text's scores by their sum. Intervals: the
        spread of {resamples} resamples of the texts, moved onto the estimate, since a resample has fewer distinct texts
        and a lower overlap on average; where the records keep the ends of the resamples alone, by the middle between
        them. “Smooth (AllenNLP)” has no tokens at all: it adds up the features of a gradient below a LayerNorm, which
        sum to zero, so that its 0 % says nothing. The “paper's rival” of the claims is, of the explainers that the
        paper counts, the one with the lowest overlap here, but for those whose scores are all zero. {n_texts}."""),
        "",
        *HEAD,
    ]
    for name, title in TITLES.items():
        lines += overlap_rows(name, title, overlaps[name])
    for name, title in TITLES.items():
        layers = [facts["overlap"] for facts in overlaps[name]["methods"].values() if facts["group"] == "decoded"]
        shares = ", ".join(f"l{layer} {share:.1%}" for layer, share in enumerate(layers))
        lines += ["", *paragraph(f"{title}, Decoded Grad-CAM at each layer: {shares}.")]
    lines += counts_by_pair(overlaps["ag_news"])
    draw_overlaps(overlaps, figures / "overlap.png")
    lines += [
        "",
        f"![Overlap over k]({link(figures / 'overlap.png', out)})",
        "",
        "Tokens among the first 50 of both:",
        "",
    ]
    for name, title in TITLES.items():
        found = overlaps[name]
        for called in _listed(name, found):
            lists = [
                f"{pair}: {', '.join(f'`{_code(token)}`' for token in tokens) or 'none'}"
                for pair, tokens in found["methods"][called]["shared"].items()
            ]
            lines.append(f"- {title}, {called}: " + "; ".join(lists))
    for name, title in TITLES.items():
        found = overlaps[name]
        for called in [found["chosen"]] if found["chosen"] else []:
            pictures = draw_clouds(found["methods"][called]["top"], figures, name)
            lines += ["", f"{title}, {called}: the 50 heaviest tokens of each predicted class.", ""]
            lines.append(" ".join(f"![{label}]({link(path, out)})" for label, path in pictures.items()))
    return lines


def ordinary_overlap(plain: dict[str, Any]) -> list[str]:
    """The same shares for models that nobody kept decodable."""
    if not plain:
        return []
    n_texts = ", ".join(f"{TITLES[name]} n = {found['n_texts']:,}" for name, found in plain.items())
    lines = ["", "### Overlap after an ordinary fine-tuning", "", f"As above, {n_texts}.", "", *HEAD]
    return [*lines, *(row for name, found in plain.items() for row in overlap_rows(name, TITLES[name], found))]


def overlap_rows(name: str, title: str, found: dict[str, Any]) -> list[str]:
    """The overlap of every explainer, of decoded layers that of the chosen one."""
    rows = []
    for called, facts in found["methods"].items():
        if facts["group"] in ("decoded", "undecoded") and called not in ("Grad-CAM l0", found["chosen"]):
            continue
        mark = "**" if called == found["chosen"] else ""
        number = overlap_interval(facts)
        zero = " (all scores are zero)" if called in ZERO else ""
        rows.append(
            f"| {title} | {mark}{called}{mark}{zero} | {_paper_overlap(name, called, found)} | {number.value:.1%} "
            f"[{number.low:.1%}, {number.high:.1%}] | {facts['without_idf']:.1%} | {facts['raw_scores']:.1%} |"
        )
    return rows


def counts_by_pair(found: dict[str, Any]) -> list[str]:
    """Tables 3 to 8 in numbers: tokens among the first 50 of both classes, the paper's and ours."""
    listed = _listed("ag_news", found)
    lines = ["", f"AG News (n = {found['n_texts']:,}), tokens in common, the paper's count and ours:", ""]
    lines += ["| pair | " + " | ".join(listed) + " |", "|---" * (len(listed) + 1) + "|"]
    for number, pair in enumerate(paper.PAIRS):
        cells = []
        for called in listed:
            theirs = paper.OVERLAPS["ag_news"]["Decoded" if called == found["chosen"] else _rival(called) or ""]
            cells.append(f"{theirs[number]}, {len(found['methods'][called]['shared'][pair])}")
        lines.append(f"| {pair} | " + " | ".join(cells) + " |")
    return lines


def _listed(name: str, found: dict[str, Any]) -> list[str]:
    """The methods of the paper's lists: its rivals, and the chosen layer."""
    rivals = [called for called in found["methods"] if _rival(called) in paper.OVERLAPS[name]]
    return [*rivals, *([found["chosen"]] if found["chosen"] else [])]


def _rival(called: str) -> str | None:
    return CONTESTANTS[called].paper if called in CONTESTANTS else None


def _paper_overlap(name: str, called: str, found: dict[str, Any]) -> str:
    counts = paper.OVERLAPS[name].get("Decoded" if called == found["chosen"] else _rival(called) or "")
    return f"{sum(counts) / (len(counts) * 50):.1%}" if counts else ""


def _code(token: str) -> str:
    return token.replace("`", "ˋ").replace("|", "¦")


def section_examples(overlaps: dict[str, Any], figures: Path, out: Path) -> list[str]:
    lines = [
        "",
        "## Examples",
        "",
        "The texts that the paper shows, where they are among ours; colour: a word's share.",
    ]
    for name, title in TITLES.items():
        found = overlaps[name]
        shown = [called for called in _listed(name, found) if called in found["methods"]]
        for path in draw_examples(found["examples"], shown, figures, name):
            lines += ["", f"![{title}]({link(path, out)})"]
    return lines
