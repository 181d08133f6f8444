"""Writes docs/scoreboard.md, its figures and README's "Which method when" from the results files, so that no number
there is typed in.

python experiments/scoreboard/write_page.py [--results DIR] [--out docs/scoreboard.md]

A section appears when its results file is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import draw_board, passes_per_text
from later_probes import FOLDER as OF_ONE_PASS
from later_probes import LEARNED, LaterProbes

sys.path.append(str(Path(__file__).parents[1]))  # where the modules of all experiments are

from page_writing import bullet, mean, paragraph
from surely_ahead import surely_ahead

from whence.methods.usual import USUAL
from whence.scoreboard.verdict import IN_COMPANY

ROOT = Path(__file__).parents[2]
TITLES = {
    "sst2": "Sentiment: the embedded model on SST-2",
    "ag_news": "Topics: the embedded model on AG News",
    "leaves": "Against people: the embedded model on SST with the labels of its words",
    "imdb": "Longer texts: the embedded model on IMDb",
    "decoder": "A decoder, read at the next token",
    "responses": "What a decoder answers",
}
SHORT = {
    "sst2": "SST-2", "ag_news": "AG News", "leaves": "SST, words", "imdb": "IMDb", "decoder": "decoder",
    "responses": "responses",
}  # fmt: skip
COLUMNS = {
    "faithfulness": "faithfulness", "naopc": "normalised", "second_faithfulness": "hidden otherwise",
    "comprehensiveness": "compr.", "sufficiency": "suff.", "monotonicity": "monot.", "set_kept": "set: kept",
    "set_agreement": "set: agreement", "set_of_best": "set: of the best", "lds": "LDS", "r_squared": "R²",
    "seed_stability": "seeds", "randomisation": "random weights", "auprc": "AUPRC", "forwards": "forwards",
    "backwards": "backwards",
}  # fmt: skip
ABOUT = {
    "sst2": "Sentences of the development set.",
    "ag_news": "News of the test set.",
    "leaves": "Sentences of the development set that are not neutral. AUPRC says how well a method finds the words "
    "whose own sentiment people put on the side of the sentence's.",
    "imdb": "Reviews of the test set, of longer ones the first 256 tokens; the probes saw sentences and phrases only.",
    "decoder": "A language model is shown two short reviews with their sentiment and then a sentence of SST-2; "
    "explained is the word it says next. The words of the two examples take part.",
    "responses": "A language model is asked a question about one or two sentences of SQuAD; explained is its whole "
    "answer, the likeliest, of at most 16 tokens. What the chat template adds always stays. Faithfulness is measured "
    "in the geometric mean of the probabilities of the answer's tokens; the model says the same as long as it would "
    "write the same tokens.",
}

PROBED = "1 forward (of a decoder up to 2), once the probes are trained"
WANTED = (
    ("the order of words that the decision rests on", "one_pass", PROBED),
    ("fair shares that add up, with their error", "amortised_shapley", PROBED),
    ("the same without training, at all layers", "held_still", "1 forward, 1 backward"),
    ("that with attention and gates taking part", "attn_lrp", "1 forward, 1 backward"),
    ("shares that add up to the decision, on any model", "integrated_gradients",
     "25 forwards and backwards, more where these are too few"),
    ("fair shares without training, with their error", "shapley", "up to 25 forwards per word"),
    ("what really happens when a word goes", "leave_one_out", "one forward per word"),
    ("what the model can do without, at every layer", "diffmask", "1 forward, once the probes are trained"),
    ("which words a layer speaks of", "decoded_grad_cam", "1 forward, 1 backward, 1 pass of the head per layer"),
    ("something to beat", "random", "1 forward"),
)  # fmt: skip
"""README's table: what one wants, by which method, at what cost. How faithful it is comes from the boards."""
TRAINED = ("one_pass", "amortised_shapley", "diffmask")
LOWEST = ("embeddings", "words", 0)
ONLY_WITH_MARKS = ("auprc",)  # where people marked words
README_BOARDS = ("sst2", "ag_news", "imdb", "decoder", "responses")
BEGIN, END = "<!-- written by experiments/scoreboard/write_page.py -->", "<!-- until here -->"

arguments = argparse.ArgumentParser(description="Write the page of the scoreboards.")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "scoreboard.md")


def main(given: argparse.Namespace) -> None:
    paths = {name: given.results / f"{name}.json" for name in TITLES}
    boards = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    records = {name: given.results / f"{name}.run.json" for name in boards}
    runs = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in records.items() if path.exists()}
    again = {name: later for name in runs if (later := LaterProbes.of(name, boards[name], runs[name]["faithfulness"]))}
    usual = {name: given.results / f"{name}_usual.json" for name in boards}
    told = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in usual.items() if path.exists()}
    lines = ["# Which explanation should I believe?", "", *opening(boards, again), *across(boards)]
    for name, board in boards.items():
        figure = given.out.parent / "figures" / given.out.stem / f"{name}.png"
        draw_board(board, figure)
        picture = f"![Faithfulness and passes of each method]({figure.relative_to(given.out.parent)})"
        about = ABOUT[name] + right_how_often(given.results / f"{name}_accuracy.json", board)
        about += as_usual(told[name]) if name in told else ""
        about += f" {again[name].told()}" if name in again else ""
        lines += ["", f"## {TITLES[name]}", "", *section(board, runs.get(name), about, picture)]
        lines += masks_tried(OF_ONE_PASS / "response_masks.json") if name == "responses" else []
    given.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    readme = given.out.parents[1] / "README.md"
    if readme.exists():
        readme.write_text(with_methods(readme.read_text(encoding="utf-8"), boards, runs, again, told), encoding="utf-8")
    print(given.out)


def with_methods(
    readme: str, boards: Mapping[str, Any], runs: Mapping[str, Any], again: Mapping[str, LaterProbes],
    told: Mapping[str, Any],
) -> str:  # fmt: skip
    """README with its table of methods made anew; `told` is how usual methods do as they are run."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    known = [name for name in README_BOARDS if name in boards and is_of_today(boards[name])]
    means = {name: {each["entry"]: each["mean"] for each in boards[name]["rankings"]["faithfulness"]} for name in known}
    for name in means.keys() & again.keys():
        means[name] |= again[name].means
    rows = [
        f"| {want} | `{method}` | {passes} | "
        + " | ".join(f"{means[name][method]:.2f}" if method in means[name] else "–" for name in known)
        + " |"
        for want, method, passes in WANTED
    ]
    head = f"| you want | use | passes per text | {' | '.join(SHORT[name] for name in known)} |"
    counts = listed([str(boards[name]["n_texts"]) for name in known])
    best = best_on_each({name: boards[name] for name in known}, runs, again)
    about = paragraph(
        f"The last columns are faithfulness on our boards (n = {counts} texts; random scores get 0): by how much surer "
        "the model is with the words named first than without them, over all shares of words. "
        f"{best} [Whole boards, with intervals](docs/scoreboard.md)."
    )
    if again:
        learned = listed([SHORT[name] for name in again])
        about += paragraph(
            f"What {listed(list(LEARNED))} get on {learned} is of later probes, with which these texts were read again."
        )
    usual = "; ".join(f"`{method}` {whom}" for method, whom in USUAL.items())
    as_run = "".join(
        f" On the board {SHORT[name]}, `{each['method']}` as it is then run gets {each['faithfulness']['mean']:.2f} "
        f"(n = {each['n_texts']})."
        for name, each in told.items()
    )
    about += ["", *paragraph(f"Without a name, `whence explain` takes {usual}. A note says which, and why.{as_run}")]
    table = [BEGIN, "", head, f"|---|---|---|{'---|' * len(known)}", *rows, "", *about, "", END]
    return before + "\n".join(table) + after


def opening(boards: Mapping[str, Any], again: Mapping[str, LaterProbes]) -> list[str]:
    answers = {name: board["verdict"]["answer"] for name, board in boards.items()}
    answers |= {
        name: f"{answers[name]} With later probes: {later.board['verdict']['answer']}" for name, later in again.items()
    }
    return [
        *paragraph(
            "The methods of whence on models and texts of several kinds, under one protocol. Made by "
            "`experiments/scoreboard/write_page.py` from the files in its folder `results/`. What each column says is "
            "defined in [metrics.md](metrics.md). Ranks that the texts leave open are given as a range; *random* and "
            "*single_effects* are controls. Cost is told in passes; seconds came from machines that did other work."
        ),
        "",
        *(line for name, answer in answers.items() for line in bullet(f"{SHORT[name]}: {answer}")),
        *earlier(boards),
    ]


def right_how_often(file: Path, board: Mapping[str, Any]) -> str:
    """Of a model whose task is not its own: what it says may be wrong, and is explained all the same. Nothing where
    that was not asked of this board's texts."""
    if not file.exists():
        return ""
    found = json.loads(file.read_text(encoding="utf-8"))
    judged = {"model": board["model"]["id"], "n_texts": board["n_texts"], "n_held_out": board["settings"]["n_held_out"]}
    if any(found.get(fact, value) != value for fact, value in judged.items()):
        print(f"{file.name} is about other texts or another model than the board, and left out", file=sys.stderr)
        return ""
    right = found["accuracy"]
    beside = (
        f"always saying the commoner class is right on {found['largest_class']:.2f}"
        if "largest_class" in found
        else f"right means that {found['right']}"
    )
    return (
        f" What it says is right on {right['mean']:.2f} [{right['low']:.2f}, {right['high']:.2f}] of the "
        f"n = {found['n_texts']} texts; {beside}."
    )


def as_usual(found: Mapping[str, Any]) -> str:
    """How the usual method of a decoder does as `whence explain` runs it: what usual_method.py found."""
    own, others = found["faithfulness"], {**found["minus"]}
    chosen = others.pop(found["method"])
    level = [name for name, each in others.items() if each["low"] <= 0 <= each["high"]]
    behind = [name for name, each in others.items() if each["high"] < 0]
    others_say = "; ".join(
        f"{what} {listed(names)}" for what, names in (("below", behind), ("not told apart from", level)) if names
    )
    return (
        f" As `whence explain` runs it, {found['how']}, {found['method']} gets {own['mean']:.2f} [{own['low']:.2f}, "
        f"{own['high']:.2f}] on n = {found['n_texts']} texts, {chosen['mean']:+.3f} [{chosen['low']:+.3f}, "
        f"{chosen['high']:+.3f}] beside the same method on this board; by its own 95 % intervals that is "
        f"{others_say or 'above all others'}{', and above all others' if others_say else ''}."
    )


def masks_tried(file: Path) -> list[str]:
    """The settings with which DiffMask was fitted for the board of responses, and what each did on other questions."""
    if not file.exists():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    chosen = found["results"][found["chosen"]]
    lines = paragraph(
        f"DiffMask was fitted with {len(found['results'])} settings. Of each, on questions set aside "
        f"(n = {chosen[0]['n_texts']}): the share that is masked, and how often the model then says the same. Taken is "
        f"*{found['chosen']}*, where the two add up to most."
    )
    heads = " | ".join(
        str(layer["layer"]) if layer["layer"] == "embeddings" else f"layer {layer['layer']}" for layer in chosen
    )
    rows = []
    for name, layers in found["results"].items():
        cells = [f"{layer['masked']:.2f}, {layer['agreement']:.2f}" for layer in layers]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return ["", *lines, "", f"| settings | {heads} |", "|---" * (len(chosen) + 1) + "|", *rows]


def best_on_each(boards: Mapping[str, Any], runs: Mapping[str, Any], again: Mapping[str, LaterProbes]) -> str:
    """The cheapest of the most faithful on each board whose run is known, also among methods that need no training."""
    said = []
    for which, trained in (("", True), (" without trained probes", False)):
        newest = {name: (again[name].board, again[name].texts) for name in again if trained}
        found = {
            SHORT[name]: cheapest_of_the_best(*newest.get(name, (board, runs[name]["faithfulness"])), trained=trained)
            for name, board in boards.items()
            if name in runs
        }
        places = {method: [name for name in found if found[name] == method] for method in found.values() if method}
        told = [f"{method} ({', '.join(names)})" for method, names in places.items()]
        if told:
            said.append(f"The cheapest{which} of those that none is surely ahead of: {', '.join(told)}.")
    return " ".join(said)


def cheapest_of_the_best(board: Mapping[str, Any], texts: Mapping[str, Sequence[float]], *, trained: bool) -> str:
    """In passes, of the most faithful method and those that it is not surely ahead of; methods that ignore the model,
    or are not surely ahead of random scores, do not count."""
    ahead = surely_ahead(texts, board["settings"]["seed"])
    entries = {entry["name"]: entry for entry in board["entries"]}
    judged = [
        ranked["entry"]
        for ranked in board["rankings"]["faithfulness"]
        if ranked["ranks"][0]
        and ranked["entry"] not in board["flagged"]
        and (ranked["entry"], "random") in ahead
        and (trained or method_of(entries[ranked["entry"]]) not in TRAINED)
    ]
    if not judged:
        return ""
    equals = [name for name in judged if (judged[0], name) not in ahead]
    entry = entries[min(equals, key=lambda name: passes_per_text(board, name) or float("inf"))]
    layer = f" at layer {entry['layer']}" if entry["layer"] not in LOWEST else ""
    return f"`{method_of(entry)}`{layer}"


def method_of(entry: Mapping[str, Any]) -> str:
    """Without what its name says of the seed of its probes."""
    return str(entry["name"]).partition("_seed_")[0]


def is_of_today(board: Mapping[str, Any]) -> bool:
    """Whether methods ran at their own defaults."""
    return "budget" in board["settings"]


def earlier(boards: Mapping[str, Any]) -> list[str]:
    """What must be known of boards from before methods ran at their own defaults."""
    old = [SHORT[name] for name, board in boards.items() if not is_of_today(board)]
    told = (
        f"Made before methods ran at their own defaults, and without the one-pass methods: {', '.join(old)}. "
        "There the control was called *oracle*, Shapley sampling had 4 orders, integrated gradients 10 steps, and so "
        "on; for some methods at their defaults see [one_pass.md](one_pass.md)."
    )
    return bullet(told) if old else []


def across(boards: Mapping[str, Any]) -> list[str]:
    """The ranks of every method on all boards, and who is always, or never, to be believed."""
    if len(boards) < 2:
        return []
    ranks = {
        name: {
            ranked["entry"]: ranked["ranks"]
            for ranked in board["rankings"]["faithfulness"]
            if ranked["ranks"][0] and "_seed_" not in ranked["entry"]
        }
        for name, board in boards.items()
    }
    methods = sorted(
        dict.fromkeys(method for of_board in ranks.values() for method in of_board),
        key=lambda method: mean([sum(each[method]) / 2 for each in ranks.values() if method in each]),
    )
    heads = [f"{SHORT[name]} (n = {board['n_texts']})" for name, board in boards.items()]
    lines = ["", "## On all boards", "", f"| method | {' | '.join(heads)} |"]
    lines.append("|---|" + "---:|" * len(boards))
    for method in methods:
        cells = [rank_of(of_board[method]) if method in of_board else "–" for of_board in ranks.values()]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    everywhere = [method for method in methods if all(method in of_board for of_board in ranks.values())]
    first = [method for method in everywhere if all(of_board[method][0] == 1 for of_board in ranks.values())]
    believed = [set(board["verdict"]["believe"]) for board in boards.values()]
    flagged = [method for method in methods if any(method in board["flagged"] for board in boards.values())]
    lines += ["", "Ranks by faithfulness; probes of further seeds are left out."]
    lines += paragraph(
        f"On every board nobody is surely more faithful than {listed(first)}." if first else
        "No method is among the most faithful on every board: the answer depends on the model and the texts."
    )  # fmt: skip
    always = [method for method in everywhere if all(method in each for each in believed)]
    if always and always != first:
        lines += paragraph(f"To be believed on every board: {listed(always)}.")
    if flagged:
        lines += paragraph(f"Found to ignore the model on some board: {listed(flagged)}.")
    return lines


def section(board: Mapping[str, Any], run: Mapping[str, Any] | None, about: str, picture: str) -> list[str]:
    verdict = board["verdict"]
    chose = any(entry["chosen_from"] for entry in board["entries"])
    chosen = board["settings"].get("n_held_out", 0) if chose else 0
    held_out = f", layers chosen on {chosen} others" if chosen else ""
    made = f"Made on {run['device']}, matrices in {run['matrices']}, torch {run['torch']}." if run else ""
    lines = [f"**{verdict['answer']}**", ""]
    lines += paragraph(f"{about} {board['n_texts']} texts{held_out}, `{board['model']['id']}`. {made}")
    lines += [""]
    for reason in (*verdict["reasons"], *(f"{warning}." for warning in board["warnings"])):
        lines += bullet(reason)
    columns = [metric for metric in COLUMNS if metric in board["means"]]
    heads = " | ".join(COLUMNS[metric] for metric in columns)
    lines += ["", picture, "", f"n = {board['n_texts']} texts; intervals are over texts.", ""]
    lines.append(f"| rank | method | layer | {heads} | sign | note |")
    lines.append("|---:|---|---|" + "---:|" * len(columns) + "---|---|")
    signs = {entry["name"]: "±" if entry["meaning"]["signed"] else "+" for entry in board["entries"]}
    layers = {entry["name"]: entry["layer"] for entry in board["entries"]}
    for ranked in board["rankings"]["faithfulness"]:
        rank = rank_of(ranked["ranks"]) if ranked["ranks"][0] else ""
        name = ranked["entry"] if ranked["ranks"][0] else f"*{ranked['entry']}*"
        flag = " (ignores the model)" if ranked["ranks"][0] and ranked["entry"] in board["flagged"] else ""
        cells = [cell(board["means"][metric][ranked["entry"]], metric) for metric in columns]
        sign, note = signs[ranked["entry"]], notes(board, ranked["entry"])
        lines.append(f"| {rank} | {name}{flag} | {layers[ranked['entry']]} | {' | '.join(cells)} | {sign} | {note} |")
    budgets = [f"{entry['name']} ({told})" for entry in board["entries"] if (told := ", ".join(options(entry)))]
    if budgets:
        lines += ["", *paragraph(f"With other options than by default: {', '.join(budgets)}.")]
    missing = [COLUMNS[metric] for metric in COLUMNS if metric not in (*columns, *ONLY_WITH_MARKS)]
    if "batch_difference" not in board["means"]:
        missing.append("whether scores change with the texts in the same batch")
    if missing:
        lines += ["", *paragraph(f"Not measured on this board: {', '.join(missing)}.")]
    if board["left_out"]:
        left_out = "; ".join(f"{name}: {reason}" for name, reason in board["left_out"].items())
        lines += ["", *paragraph(f"Not on this board: {left_out}.")]
    return lines


def notes(board: Mapping[str, Any], name: str) -> str:
    """Other settings than a method's own, and scores that depend on the texts of the same batch."""
    entry = next(each for each in board["entries"] if each["name"] == name)
    found = options(entry)
    change = board["means"].get("batch_difference", {}).get(name)
    if change is not None and change["mean"] > IN_COMPANY:
        found.append(f"changes with its batch, by {change['mean']:.3f} of the largest score")
    return "; ".join(found)


def options(entry: Mapping[str, Any]) -> list[str]:
    """Those that are not the method's own; whose probes it has tells its name."""
    return [f"{option} {value}" for option, value in entry["options"].items() if option != "probes"]


def rank_of(ranks: Sequence[int]) -> str:
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]}–{ranks[1]}"


def cell(found: Mapping[str, float] | None, metric: str) -> str:
    if found is None:
        return "–"
    if metric in ("forwards", "backwards"):
        return f"{found['mean']:.0f}"
    if metric == "faithfulness":
        return f"{found['mean']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{found['mean']:.2f}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


if __name__ == "__main__":
    main(arguments.parse_args())
