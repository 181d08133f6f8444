"""Writes docs/one_pass.md from the results files and the shipped probes, so that no number there is typed in.

python experiments/one_pass/write_page.py [--out docs/one_pass.md] [--scoreboards DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from judged import Judged

from whence.metrics.confidence import paired_difference

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, paragraph

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
SCOREBOARDS = ROOT / "experiments" / "scoreboard" / "results"
BOARDS = {
    "sst2": ("SST-2, development set", RESULTS),
    "sst_test": ("SST, test set", RESULTS),
    "ag_news": ("AG News, test set", RESULTS),
    "imdb": ("IMDb, the first 256 tokens of reviews", None),
    "decoder": ("A decoder's next word", RESULTS),
    "responses": ("What a decoder answers", None),
}
"""By title, with the folder of their results if it is not that of the scoreboards."""
COMPARED = (
    ("held_still", ("integrated_gradients",)),
    ("attn_lrp", ("integrated_gradients",)),
    ("amortised_shapley", ("shapley_of_probability", "shapley")),
    ("one_pass", ("shapley_of_probability", "shapley", "held_still", "amortised_shapley")),
)
"""Which of the cheap methods is held to which other."""
TOLD_FIRST = (
    ("one_pass", "amortised_shapley"),
    ("held_still", "integrated_gradients"),
    ("attn_lrp", "integrated_gradients"),
)
"""Pairs whose relation stands in the first lines, as they ship."""
MODELS = {"sentiment": "sentiment (SST-2)", "topic": "topic (AG News)"}
DECODERS = {"decoder-0": "decoder, next word", "responses-0": "decoder, answers"}
AIMED_AT = ("sst2", "sst_test", "ag_news")
"""Where the mean of both was to be surely above Shapley sampling: our aim."""
WITHIN = {"sst2": 0.01, "sst_test": 0.01, "ag_news": 0.01, "imdb": 0.03}
"""By how much learned Shapley values may fall short of sampled ones, by board: our aim."""
RIVAL = "shapley of the probability"
"""What runs are compared with: of the two Shapley samplings of 25 orders the one that shares out what is judged."""


def main(out: Path, scoreboards: Path = SCOREBOARDS) -> None:
    files = {name: folder or scoreboards for name, (_, folder) in BOARDS.items()}
    known = {
        name: Judged.read(BOARDS[name][0], folder / f"{name}.json", scoreboards)
        for name, folder in files.items()
        if (folder / f"{name}.json").exists()
    }
    boards = {name: judged for name, judged in known.items() if "one_pass" in judged.means}
    runs = {path.stem: _read(path) for path in sorted((RESULTS / "search").glob("*.json"))}
    lines = ["# The most faithful answer from one pass", "", *opening(boards)]
    lines += ["", "## Held to the dear methods", "", *compared(boards)]
    for judged in boards.values():
        lines += ["", f"## {judged.title}", "", *of_board(judged.board)]
    first = Judged.read(BOARDS["sst2"][0], RESULTS / "sst2_first_probes.json", RESULTS)
    lines += ["", "## SST-2 was read twice", "", *first_probes(first)]
    if (scoreboards / "decoder.json").exists():
        before = Judged.read(BOARDS["decoder"][0], scoreboards / "decoder.json", scoreboards)
        lines += ["", "## So was the decoder's board", "", *first_relevance(before)]
    lines += ["", "## What the answer means", "", *meaning(), "", "## The stated error", "", *errors()]
    lines += ["", "## The search", "", *search(runs)]
    if (RESULTS / "decoder_scale.json").exists():
        lines += ["", "## Relevance of a decoder: of the logit or of the log-probability?", ""]
        lines += of_decoder(_read(RESULTS / "decoder_scale.json"))
    if (RESULTS / "choice.json").exists():
        lines += ["", "## Which texts to train on", "", *choice(_read(RESULTS / "choice.json"))]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def opening(boards: Mapping[str, Judged]) -> Iterator[str]:
    yield from paragraph(
        "Probes that read the states of the ordinary forward pass tell each token's Shapley value and its share with "
        "the network held still (of a decoder: by AttnLRP); `one_pass` is the mean of the two, `amortised_shapley` the "
        "first alone. Made by "
        "`experiments/one_pass/write_page.py` from the files in its folder `results/`."
    )
    yield ""
    for key, judged in boards.items():
        rivals = [name for name in ("shapley_of_probability", "shapley") if name in judged.means]
        for name in rivals:
            seeds = judged.seeds("one_pass")
            n_sure = sum(judged.relation(each, name) == "surely above" for each in seeds)
            told = f"surely above `{name}` (25 orders) with {n_sure} of {len(seeds)} seeds"
            n_below = sum(judged.relation(each, name) == "surely below" for each in seeds)
            found = f", and surely below it with {n_below}" if n_below else ""
            found += "" if n_sure == len(seeds) or key not in AIMED_AT else "; our aim was all of them"
            yield from bullet(f"{judged.title} (n = {judged.board['n_texts']}): `one_pass` is {told}{found}.")
        if not rivals:
            yield from bullet(f"{judged.title}, without Shapley sampling: {judged.board['verdict']['answer']}")
    yield from bullet(f"`amortised_shapley` beside `shapley_of_probability`, its worst seed: {_shortfalls(boards)}.")
    for method, other in TOLD_FIRST:
        relations = [
            f"{judged.relation(method, other)} ({judged.title})"
            for judged in boards.values()
            if {method, other} <= judged.means.keys()
        ]
        yield from bullet(f"`{method}` beside `{other}`: {'; '.join(relations)}.")
    missing = [title for name, (title, _) in BOARDS.items() if name not in boards]
    if missing:
        yield from bullet(f"Not judged yet with probes: {'; '.join(missing)}.")


def _stated_errors() -> dict[str, Any]:
    file = RESULTS / "stated_errors.json"
    return _read(file) if file.exists() else {}


def _shortfalls(boards: Mapping[str, Judged]) -> str:
    said = []
    for name, judged in boards.items():
        if "shapley_of_probability" in judged.means:
            worst = min(judged.means[each] for each in judged.seeds("amortised_shapley"))
            beside = worst - judged.means["shapley_of_probability"]
            most = WITHIN.get(name)
            found = "" if most is None or beside >= -most else ", not reached"
            aim = "" if most is None else f", our aim: no more than {most} below{found}"
            said.append(f"{beside:+.4f} ({judged.title}{aim})")
    return "; ".join(said)


def compared(boards: Mapping[str, Judged]) -> Iterator[str]:
    yield from paragraph(
        "Differences of mean faithfulness on the same texts, for each seed of the probes; *surely* means that the "
        "paired tests of that board (Holm over all its pairs, 5 %) tell the two apart, or, where its run did not keep "
        "what each text got, that the ranks they leave open do not meet. The 95 % intervals are of the pair alone. "
        "`shapley` shares out the logit, as it does by "
        "default; `shapley_of_probability` shares out what faithfulness is measured in and is the harder rival."
    )
    yield from ("", "| board | n | method | beside | difference | |", "|---|---|---|---|---|---|")
    for judged in boards.values():
        for method, rivals in COMPARED:
            for one in judged.seeds(method):
                for named in rivals:
                    of_seed = f"{named}{one.removeprefix(method)}"
                    rival = of_seed if of_seed in judged.means else named
                    if rival in judged.means:
                        known = {one, rival} <= judged.texts.keys()
                        alone = f"{judged.means[one] - judged.means[rival]:+.4f}"
                        difference = _beyond(judged.texts[one], judged.texts[rival]) if known else alone
                        n_texts, relation = judged.board["n_texts"], judged.relation(one, rival)
                        yield f"| {judged.title} | {n_texts} | {one} | {rival} | {difference} | {relation} |"


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


def first_probes(judged: Judged) -> Iterator[str]:
    """Said so that nobody takes the second reading of a board for the first."""
    yield from paragraph(
        f"The {judged.board['n_texts']} texts of SST-2 were first read with probes trained on SST-2 alone. That "
        "reading is why sentences of reviews were added; whether they help was then judged on training texts (the last "
        "section), but a board that was seen before is not as strong evidence as one seen once, and 500 texts were too "
        "few to tell the best apart. So SST's test set, on which no choice rests, is read too: first with the probes "
        "that ship, then beside two further seeds. The first reading of SST-2, beside `shapley_of_probability`:"
    )
    yield from ("", "| method | faithfulness | difference | |", "|---|---|---|---|")
    for method in ("amortised_shapley", "one_pass"):
        for one in judged.seeds(method):
            difference = judged.means[one] - judged.means["shapley_of_probability"]
            relation = judged.relation(one, "shapley_of_probability")
            yield f"| {one} | {judged.means[one]:.4f} | {difference:+.4f} | {relation} |"


def first_relevance(before: Judged) -> Iterator[str]:
    means, rival = before.means, "shapley_of_probability"
    yield from paragraph(
        f"Its {before.board['n_texts']} texts were first read with probes that learnt the shares of the network held "
        f"still: `one_pass` got {means['one_pass']:.3f} (beside `{rival}`: {before.relation('one_pass', rival)}), "
        f"`amortised_shapley` {means['amortised_shapley']:.3f}, and AttnLRP, which needs none, "
        f"{means['attn_lrp']:.3f}. Since then probes of decoders learn AttnLRP's shares. Training texts say the same "
        "of the two (below), but this reading was known by then, so the second is not as strong evidence as a first. "
        "The board of what a decoder answers was read once."
    )


def meaning() -> Iterator[str]:
    yield from paragraph(
        "The Shapley part keeps its meaning: shares of f(text) − f(all tokens absent), which add up exactly; the "
        "latter takes a pass of its own for the first text of each length, and for every response, which is why "
        "decoders have up to two forwards above. The part by relevance is what a token contributes to the logit once "
        "attention, norms and slopes are fixed at their values; of what a decoder says it is AttnLRP's share of the "
        "log-probability, which was the more faithful of the two on training texts (below). The mean divides each by "
        "the sum of its sizes first, so it has no unit and adds up to nothing: it is an order of words that two "
        "different accounts share, and nothing more. "
        "`whence explain --method one_pass -o part=shapley` (or `relevance`) gives one of them alone."
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
    embedded = ROOT / "src" / "whence" / "embedded"
    known = {title: _read(embedded / name / "shapley" / "config.json")["calibration"] for name, title in MODELS.items()}
    of_decoders = _stated_errors()
    known |= {title: of_decoders[run] for run, title in DECODERS.items() if run in of_decoders}
    for title, found in known.items():
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
    arguments.add_argument("--scoreboards", type=Path, default=SCOREBOARDS)
    given = arguments.parse_args()
    main(given.out, given.scoreboards)
