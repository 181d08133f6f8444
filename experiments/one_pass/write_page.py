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

from whence.metrics.confidence import paired_difference

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, paragraph

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
BOARDS = {
    "sst2": ("SST-2, development set", RESULTS / "sst2.json"),
    "ag_news": ("AG News, test set", RESULTS / "ag_news.json"),
    "imdb": ("IMDb, reviews of up to 256 tokens", ROOT / "experiments" / "scoreboard" / "results" / "imdb.json"),
}
COMPARED = (
    ("held_still", ("integrated_gradients",)),
    ("amortised_shapley", ("shapley_of_probability", "shapley")),
    ("one_pass", ("shapley_of_probability", "shapley")),
)
"""Which of the cheap methods is held to which of the dear ones."""
MODELS = {"sentiment": "sentiment (SST-2)", "topic": "topic (AG News)"}
RIVAL = "shapley of the probability"
"""What runs are compared with: of the two Shapley samplings of 25 orders the one that shares out what is judged."""


def main(out: Path) -> None:
    boards = {name: (title, _read(path)) for name, (title, path) in BOARDS.items() if path.exists()}
    runs = {path.stem: _read(path) for path in sorted((RESULTS / "search").glob("*.json"))}
    lines = ["# The most faithful answer from one pass", "", *opening(boards)]
    lines += ["", "## Held to the dear methods", "", *compared(boards)]
    for title, board in boards.values():
        lines += ["", f"## {title}", "", *of_board(board)]
    lines += ["", "## SST-2 was read twice", "", *first_probes(_read(RESULTS / "sst2_first_probes.json"))]
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
    for title, board in boards.values():
        for name in ("shapley_of_probability", "shapley"):
            seeds = [each for each in _seeds(board, "one_pass") if name in _ranks(board)]
            if seeds:
                sure = [each for each in seeds if _relation(board, each, name) == "surely above"]
                yield from bullet(
                    f"{title}: `one_pass` is surely above `{name}` (25 orders) with {len(sure)} of {len(seeds)} seeds."
                )
    yield from bullet("Not judged yet: a decoder with probes of its own.")


def compared(boards: Mapping[str, Any]) -> Iterator[str]:
    yield from paragraph(
        "Differences of mean faithfulness on the same texts, for each seed of the probes; *surely* means that the "
        "paired tests of that board (Holm over all its pairs, 5 %) keep the two ranks apart. The 95 % intervals are of "
        "the pair alone, where the board's run kept what each text got. `shapley` shares out the logit, as it does by "
        "default; `shapley_of_probability` shares out what faithfulness is measured in and is the harder rival."
    )
    yield from ("", "| board | n | method | beside | difference | |", "|---|---|---|---|---|---|")
    for key, (title, board) in boards.items():
        means = {each["entry"]: each["mean"] for each in board["rankings"]["faithfulness"]}
        texts = _read(BOARDS[key][1].with_suffix(".run.json")).get("faithfulness", {})
        for method, rivals in COMPARED:
            for one in _seeds(board, method):
                for rival in rivals:
                    if rival in means:
                        known = _beyond(texts[one], texts[rival]) if one in texts else None
                        difference = known or f"{means[one] - means[rival]:+.4f}"
                        relation = _relation(board, one, rival)
                        yield f"| {title} | {board['n_texts']} | {one} | {rival} | {difference} | {relation} |"


def _seeds(board: Mapping[str, Any], method: str) -> list[str]:
    """The method as it ships, and with probes of further seeds."""
    return sorted(name for name in _ranks(board) if name == method or name.startswith(f"{method}_seed_"))


def _ranks(board: Mapping[str, Any]) -> dict[str, list[int]]:
    return {each["entry"]: each["ranks"] for each in board["rankings"]["faithfulness"]}


def _relation(board: Mapping[str, Any], one: str, other: str) -> str:
    here, there = _ranks(board)[one], _ranks(board)[other]
    return "surely above" if here[1] < there[0] else "surely below" if here[0] > there[1] else "not told apart"


def of_board(board: Mapping[str, Any]) -> Iterator[str]:
    ranked = board["rankings"]["faithfulness"]
    passes = board["means"]
    yield from paragraph(
        f"{board['n_texts']} texts, `{board['model']['id']}`, layers chosen on {board['settings']['n_held_out']} "
        f"others. {board['verdict']['answer']} Shapley sampling has 25 orders, integrated gradients 25 steps or more; "
        "`one_pass_seed_1` and so on are probes trained anew with other seeds."
    )
    yield from ("", "| rank | method | faithfulness | forwards | backwards |", "|---|---|---|---|---|")
    for each in ranked:
        first, last = each["ranks"]
        rank = "" if not first else f"{first}" if first == last else f"{first}–{last}"
        costs = [passes[name].get(each["entry"]) for name in ("forwards", "backwards")]
        shown = ["–" if cost is None else f"{cost['mean']:.1f}" for cost in costs]
        interval = f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"
        yield f"| {rank} | {each['entry']} | {interval} | {shown[0]} | {shown[1]} |"


def first_probes(board: Mapping[str, Any]) -> Iterator[str]:
    """Said so that nobody takes the second reading of a board for the first."""
    means = {each["entry"]: each["mean"] for each in board["rankings"]["faithfulness"]}
    yield from paragraph(
        f"The {board['n_texts']} texts above were first read with probes trained on SST-2 alone. That reading is why "
        "sentences of reviews were added; whether they help was then judged on training texts (the last section), but "
        "a board that was seen before is not as strong evidence as one seen once. The first reading, beside "
        "`shapley_of_probability`:"
    )
    yield from ("", "| method | faithfulness | difference | |", "|---|---|---|---|")
    for method in ("amortised_shapley", "one_pass"):
        for one in _seeds(board, method):
            difference = means[one] - means["shapley_of_probability"]
            relation = _relation(board, one, "shapley_of_probability")
            yield f"| {one} | {means[one]:.4f} | {difference:+.4f} | {relation} |"


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
    yield from paragraph(
        "Each run was judged on the same training texts that no probe saw; 1,000 steps, seed 0, two blocks, unless "
        "its name says otherwise (`long`: 2,400 steps and one block; `game`: 300 further steps with the game itself as "
        "the objective). Differences are to Shapley sampling of the probability with 25 orders on the same texts, with "
        "95 % intervals. One block did as well as two and is what `whence fit` takes. Of SST-2's training texts many "
        "are phrases of others, so that probes had seen parts of the judged sentences: what they reach there they do "
        "not reach on the development set (above)."
    )
    for model, title in MODELS.items():
        bare = runs[f"{model}-yardsticks"]["faithfulness"]
        n_texts = len(bare[RIVAL])
        yield from ("", f"### {title}, n = {n_texts}", "")
        yield from ("| run | weights | what | faithfulness | beyond Shapley sampling |", "|---|---|---|---|---|")
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
        f"`{found['model']}`, n = {found['n_prompts']} prompts with training sentences of SST-2: the word it says "
        "next, hidden words taken out of attention or deleted. The last column is the log-probability's advantage, "
        "with its 95 % interval. By this `attn_lrp` shares out the log-probability of a next word unless told "
        "otherwise."
    )
    yield from ("", "| hidden by | method | logit | log-probability | difference |", "|---|---|---|---|---|")
    for way, each in found["faithfulness"].items():
        for method in dict.fromkeys(name.partition(",")[0] for name in each if "," in name):
            one, other = each[f"{method}, logit"], each[f"{method}, log_probability"]
            yield f"| {way} | {method} | {np.mean(one):.3f} | {np.mean(other):.3f} | {_beyond(other, one)} |"


def choice(found: Mapping[str, Any]) -> Iterator[str]:
    yield from paragraph(
        "Phrases and sentences of SST-2 alone (`sentiment`), or also single sentences of IMDb's training reviews "
        "(`sentiment_reviews`), judged on training texts that neither saw: sentences of SST-2 and whole reviews of "
        "IMDb. Means over three seeds each, with the 95 % interval of the difference over texts. The second ship."
    )
    yield from ("", "| texts | number | what | SST-2 alone | with sentences of reviews | difference |",
                "|---|---|---|---|---|---|")  # fmt: skip
    for kind, each in found.items():
        for part in ("both", "shapley"):
            one, other = (_over_seeds(each["faithfulness"], name, part) for name in ("sentiment", "sentiment_reviews"))
            row = f"{np.mean(one):.4f} | {np.mean(other):.4f} | {_beyond(other, one)}"
            yield f"| {kind} | {each['n_texts']} | {part} | {row} |"


def _over_seeds(faithfulness: Mapping[str, list[float]], name: str, part: str) -> list[float]:
    seeds = [values for run, values in faithfulness.items() if run.startswith(f"{name}-") and run.endswith(part)]
    means: list[float] = np.mean(seeds, axis=0).tolist()
    return means


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
