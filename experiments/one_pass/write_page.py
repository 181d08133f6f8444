"""Writes docs/one_pass.md from the results files and the shipped probes, so that no number there is typed in.

python experiments/one_pass/write_page.py [--out docs/one_pass.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from search import VARIANTS

from whence.metrics.confidence import paired_difference

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, paragraph

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
BOARDS = {"sst2": "SST-2, development set", "ag_news": "AG News, test set"}
MODELS = {"sentiment": "sentiment (SST-2)", "topic": "topic (AG News)"}
RIVAL = "shapley of the probability"
"""What runs are compared with: of the two Shapley samplings of 25 orders the one that shares out what is judged."""


def main(out: Path) -> None:
    boards = {name: _read(RESULTS / f"{name}.json") for name in BOARDS if (RESULTS / f"{name}.json").exists()}
    runs = {path.stem: _read(path) for path in sorted((RESULTS / "search").glob("*.json"))}
    lines = ["# The most faithful answer from one pass", "", *opening(boards)]
    for name, board in boards.items():
        lines += ["", f"## {BOARDS[name]}", "", *of_board(board)]
    lines += ["", "## What the answer means", "", *meaning(), "", "## The stated error", "", *errors()]
    lines += ["", "## The search", "", *search(runs)]
    if (RESULTS / "decoder_scale.json").exists():
        lines += ["", "## Relevance of a decoder: of the logit or of the log-probability?", ""]
        lines += of_decoder(_read(RESULTS / "decoder_scale.json"))
    if (RESULTS / "choice.json").exists():
        lines += ["", "## Which texts to train on", "", *choice(_read(RESULTS / "choice.json"))]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def opening(boards: Mapping[str, Any]) -> Iterator[str]:
    yield from paragraph(
        "Probes that read the states of the ordinary forward pass tell each token's Shapley value and its share with "
        "the network held still; `one_pass` is the mean of the two, `amortised_shapley` the first alone. Made by "
        "`experiments/one_pass/write_page.py` from the files in its folder `results/`."
    )
    yield ""
    for name, board in boards.items():
        best = board["verdict"]["believe"]
        yield from bullet(f"{BOARDS[name]}, {board['n_texts']} texts: {board['verdict']['answer']} "
                          f"({', '.join(best)} cannot be told apart.)")  # fmt: skip
    missing = [title for name, title in BOARDS.items() if name not in boards]
    told = [*(f"{title}" for title in missing), "the words of SST", "reviews of IMDb", "a decoder"]
    yield from bullet(
        "`one_pass_seed_1` and so on are probes trained anew with other seeds. On AG News probes were judged as stored "
        "in float16; they ship in int8."
    )
    yield from bullet(f"Not judged yet: {', '.join(told)}; more than one seed of the sentiment probes.")


def of_board(board: Mapping[str, Any]) -> Iterator[str]:
    ranked = board["rankings"]["faithfulness"]
    passes = board["means"]
    yield from paragraph(
        f"{board['n_texts']} texts, `{board['model']['id']}`, layers chosen on {board['settings']['n_held_out']} "
        "others. "
        "Ranks by paired tests (Holm, 5 %); `shapley` shares out the logit, `shapley_of_probability` the probability, "
        "which is what faithfulness is measured in; both with 25 orders, integrated gradients with 25 steps or more."
    )
    yield from ("", "| rank | method | faithfulness | forwards | backwards |", "|---|---|---|---|---|")
    for each in ranked:
        first, last = each["ranks"]
        rank = "" if not first else f"{first}" if first == last else f"{first}–{last}"
        costs = [passes[name].get(each["entry"]) for name in ("forwards", "backwards")]
        shown = ["–" if cost is None else f"{cost['mean']:.1f}" for cost in costs]
        interval = f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"
        yield f"| {rank} | {each['entry']} | {interval} | {shown[0]} | {shown[1]} |"


def meaning() -> Iterator[str]:
    yield from paragraph(
        "The Shapley part keeps its meaning: shares of f(text) − f(all tokens absent), which add up exactly. The held-"
        "still part is what a token contributes to the logit once attention, norms and slopes are fixed at their "
        "values. The mean divides each by the sum of its sizes first, so it has no unit and adds up to nothing: it is "
        "an order of words that two different accounts share, and nothing more. "
        "`whence explain --method one_pass -o part=shapley` (or `held_still`) gives one of them alone."
    )


def errors() -> Iterator[str]:
    yield from paragraph(
        "Beside a Shapley sampling of held-out texts, half of which set the error that answers state; the numbers are "
        "of the other half."
    )
    columns = (
        "| model | texts | orders | correlation | squared error | the sampling's own | stated 90 % intervals hold |"
    )
    yield from ("", columns, "|---|---|---|---|---|---|---|")
    for name, title in MODELS.items():
        found = _read(ROOT / "src" / "whence" / "embedded" / name / "shapley" / "config.json")["calibration"]
        yield (
            f"| {title} | {found['n_texts']} | {found['orders']} | {found['correlation']:.3f} | {found['loss']:.4f} | "
            f"{found['floor']:.4f} | {found['coverage']:.1%} |"
        )


def search(runs: Mapping[str, Any]) -> Iterator[str]:
    done = sorted({name.partition("-")[2] for name in runs} - {"yardsticks"})
    open_ = [name for name in VARIANTS if name not in done]
    yield from paragraph(
        "Each run was judged on the same 400 training texts that no probe saw; 1,000 steps, seed 0, two blocks, unless "
        "its name says otherwise. Differences are to Shapley sampling of the probability with 25 orders on the same "
        "texts, with 95 % intervals. One block did as well as two and is what `whence fit` takes. Written down but not "
        f"run: {', '.join(open_)}."
    )
    for model, title in MODELS.items():
        bare = runs[f"{model}-yardsticks"]["faithfulness"]
        yield from ("", f"### {title}", "", "| run | weights | what | faithfulness | beyond Shapley sampling |",
                    "|---|---|---|---|---|")  # fmt: skip
        for name in bare:
            yield f"| no training | – | {name} | {np.mean(bare[name]):.4f} | {_beyond(bare[name], bare[RIVAL])} |"
        for name, run in runs.items():
            if not name.startswith(f"{model}-") or name.endswith("yardsticks"):
                continue
            for part, values in run["faithfulness"].items():
                size = f"{run['n_weights'] / 1e6:.2f} M"
                difference = _beyond(values, bare[RIVAL])
                yield f"| {name.partition('-')[2]} | {size} | {part} | {np.mean(values):.4f} | {difference} |"


def of_decoder(found: Mapping[str, Any]) -> Iterator[str]:
    yield from paragraph(
        f"`{found['model']}`, {found['n_prompts']} prompts with training sentences of SST-2: the word it says next, "
        "hidden words taken out of attention or deleted. The last column is the log-probability's advantage, with its "
        "95 % interval. By this `attn_lrp` shares out the log-probability of a next word unless told otherwise."
    )
    yield from ("", "| hidden by | method | logit | log-probability | difference |", "|---|---|---|---|---|")
    for way, each in found["faithfulness"].items():
        for method in dict.fromkeys(name.partition(",")[0] for name in each if "," in name):
            one, other = each[f"{method}, logit"], each[f"{method}, log_probability"]
            yield f"| {way} | {method} | {np.mean(one):.3f} | {np.mean(other):.3f} | {_beyond(other, one)} |"


def choice(found: Mapping[str, Any]) -> Iterator[str]:
    yield from paragraph(
        "Phrases and sentences of SST-2 alone, or also texts made of 3 to 12 of them (`joined`), judged on training "
        "texts that neither saw: sentences of SST-2 and whole reviews of IMDb."
    )
    yield from ("", "| texts | number | what | faithfulness |", "|---|---|---|---|")
    for kind, each in found.items():
        for name, values in each["faithfulness"].items():
            yield f"| {kind} | {each['n_texts']} | {name} | {np.mean(values):.4f} |"


def _beyond(values: list[float], rival: list[float]) -> str:
    if values == rival:
        return "–"
    found = paired_difference(np.array(values), np.array(rival))
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Write the page of one-pass explanations.")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "one_pass.md")
    main(arguments.parse_args().out)
