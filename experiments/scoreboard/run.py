"""One scoreboard: all methods on one model and one set of texts. A run that was stopped goes on where it was.

python experiments/scoreboard/run.py --board sst2 --data-dir DATA --work WORK [--limit 500] [--threads 2]
python experiments/scoreboard/run.py --board decoder --model FOLDER --data-dir DATA --work WORK
python experiments/scoreboard/run.py --board responses --model FOLDER --data-dir DATA --work WORK --limit 200
python experiments/scoreboard/run.py --board sst2 --model WORK/mpnet-sst2-0 --head WORK/mpnet-head --probes PROBES \
    --data-dir DATA --work WORK --results FOLDER

Boards: sst2, ag_news and imdb (reviews, of longer ones the first 256 tokens; the probes saw none) with the embedded
models, leaves (SST with the labels of its words, for plausibility), sst_test (SST's test sentences, which no choice
rests on), decoder: a causal language model that is shown two reviews with their sentiment, then the text, and is read
at the next token, and responses: what such a model answers to questions about short passages (questions.py), all of it.
On a GPU seconds are not reported: other work may share it, and its passes are not waited for one by one; matrices are
multiplied there in TF32. RESULTS/BOARD.run.json says on what a board was made, and what each method got on each text.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from questions import accuracy, answered, questions

import whence
from whence.cli.evaluate import StepLines
from whence.data import KNOWN, labels_as_ids, read
from whence.methods import METHODS
from whence.metrics.table import METRICS
from whence.render.scoreboard_page import texts_page
from whence.scoreboard.evaluate import HELD_OUT, evaluate
from whence.scoreboard.rationales import NEUTRAL, leaf_rationale


@dataclass(frozen=True)
class Board:
    """Which model and data, and whose probes of fit.py; a prompt turns a classification into a next word, and some are
    answered at length."""

    model: str | None
    data: str
    prompt: str = "{text}"
    labelled: bool = True
    split: str | None = None
    longest: int | None = None
    probes: str = "decoder"
    answered: bool = False


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"shapley_of_probability": ("shapley", {"scale": "probability"})}
"""Methods with other options than their own, by the name that says so."""

UNANSWERED = 16  # questions to which a model may say nothing
EXAMPLES = "Review: a dull plot\nSentiment: negative\nReview: a lovely film\nSentiment: positive\n"
BOARDS = {
    "sst2": Board("sentiment", "sst2", probes="sentiment_reviews"),
    "ag_news": Board("topic", "ag_news", probes="topic"),
    "leaves": Board("sentiment", "sst5", labelled=False, probes="sentiment_reviews"),
    "sst_test": Board("sentiment", "sst5", labelled=False, split="test", probes="sentiment_reviews"),
    "imdb": Board("sentiment", "imdb", longest=256, probes="sentiment_reviews"),
    "decoder": Board(None, "sst2", EXAMPLES + "Review: {text}\nSentiment:", labelled=False),
    "responses": Board(None, "squad", labelled=False, probes="responses", answered=True),
}

arguments = argparse.ArgumentParser(description="Make one scoreboard.")
arguments.add_argument("--board", required=True, choices=BOARDS)
arguments.add_argument("--model", help="folder or hub id: the decoder's, or another classifier's than the embedded")
arguments.add_argument("--head", help="folder of the language model whose head decodes such a classifier")
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--work", type=Path, required=True, help="where the board and its finished pieces go")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--limit", type=int, default=500)
arguments.add_argument("--methods", help="names with commas; by default all that the model allows")
arguments.add_argument("--probes", type=Path, help="folder of experiments/one_pass/fit.py: a decoder's, further seeds")
arguments.add_argument("--metrics", help="names or groups with commas; by default all")
arguments.add_argument("--beam", type=int, help="width of the search for the best order of a text's words")
arguments.add_argument("--layer", default="best", help="best (chosen on held-out texts), words, or a number")
arguments.add_argument("--threads", type=int)
arguments.add_argument("--device", default="cpu")
arguments.add_argument("--batch-tokens", type=int, help="tokens a forward pass holds at most")


def probes_of(folder: Path | None, board: Board, *, embedded: bool) -> dict[int, whence.ShapleyProbes]:
    """By seed: the given model's probes, or those of further seeds than the one that ships with an embedded model."""
    seeds, name = (range(1, 3), board.probes) if embedded else (range(3), board.probes.partition("_")[0])
    found = {} if folder is None else {seed: folder / f"{name}-{seed}" for seed in seeds}
    return {seed: whence.ShapleyProbes.load(each) for seed, each in found.items() if each.is_dir()}


def masks_of(folder: Path | None, board: Board) -> whence.DiffMask | None:
    """DiffMask fitted for the given model."""
    found = None if folder is None else folder / f"{board.probes.partition('_')[0]}_diffmask-0"
    return whence.DiffMask.load(found) if found is not None and found.is_dir() else None


def contestants(
    model: whence.LayeredModel,
    named: str | None,
    probes: dict[int, whence.ShapleyProbes],
    masks: whence.DiffMask | None,
    *,
    answered: bool,
) -> tuple[dict[str, str], dict[str, dict[str, Any]], dict[str, str]]:
    """Names given, or every method that the model allows and Shapley sampling of the probability, as that is what
    faithfulness is measured in; probes under names that tell their seed. Then the options of each, and why others
    cannot take part."""
    methods, options, left_out = dict[str, str](), dict[str, dict[str, Any]](), dict[str, str]()
    tried: dict[str, Any] = {"response": " indeed"} if answered else {}
    for name in named.split(",") if named else [*METHODS, *([] if answered else VARIANTS)]:
        method, changes = VARIANTS.get(name, (name, {}))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whence.explain(model, "a fine film", method, **changes, **tried)
        except whence.WhenceError as error:
            left_out[name] = str(error.problem)
            continue
        methods[name] = method
        options[name] = changes
    if masks is not None and (named is None or "diffmask" in named.split(",")):
        methods["diffmask"], options["diffmask"] = "diffmask", {"probes": masks}
    for seed, of_seed in probes.items():
        for name in ("one_pass", "amortised_shapley"):
            if named is None or name in named.split(","):
                called = f"{name}_seed_{seed}" if seed else name
                methods[called] = name
                options[called] = {"probes": of_seed}
    return methods, options, {name: why for name, why in left_out.items() if name not in methods}


@dataclass(frozen=True)
class Texts:
    """What a board judges, and what else `evaluate` is told of it; layers are chosen on the texts put aside."""

    judged: list[Any]
    aside: list[Any]
    facts: dict[str, Any]


def texts_of(model: whence.LayeredModel, chosen: Board, given: argparse.Namespace) -> Texts:
    examples = read(chosen.data, data_dir=given.data_dir, split=chosen.split)
    if chosen.data == "sst5":
        examples = [example for example in examples if example.label != NEUTRAL]
    if chosen.longest:
        examples = [each for each in examples if len(model.encode(each.text)) <= chosen.longest]
    random.Random(0).shuffle(examples)
    aside, examples = examples[:HELD_OUT], examples[HELD_OUT : HELD_OUT + given.limit]
    return Texts(
        [chosen.prompt.format(text=example.text) for example in examples],
        [chosen.prompt.format(text=example.text) for example in aside],
        {
            "labels": labels_as_ids(examples, model.reading.labels) if chosen.labelled else None,
            "rationales": [leaf_rationale(example) for example in examples] if given.board == "leaves" else None,
        },
    )


def answered_texts_of(model: whence.LayeredModel, chosen: Board, given: argparse.Namespace) -> Texts:
    """Questions and the model's answers, which are kept; how often they are right goes to BOARD_accuracy.json."""
    data = given.data_dir / KNOWN[chosen.data].file
    asked = questions(model, data, "validation", HELD_OUT + given.limit + UNANSWERED)
    pairs = answered(model, asked, given.results / f"{given.board}_answers.json")[: HELD_OUT + given.limit]
    task = {"model": Path(given.model).name, "n_held_out": HELD_OUT, **accuracy(model, pairs[HELD_OUT:])}
    (given.results / f"{given.board}_accuracy.json").write_text(json.dumps(task, indent=1) + "\n", encoding="utf-8")
    prompts = [question.messages for question, _ in pairs]
    said = [ids for _, ids in pairs]
    aside = list(zip(prompts[:HELD_OUT], said[:HELD_OUT], strict=True))
    return Texts(prompts[HELD_OUT:], aside, {"responses": said[HELD_OUT:]})


def main(given: argparse.Namespace) -> None:
    chosen = BOARDS[given.board]
    if given.threads:
        torch.set_num_threads(given.threads)
    on_gpu = given.device.startswith("cuda")
    torch.set_float32_matmul_precision("high" if on_gpu else "highest")
    wanted = given.model or chosen.model
    if wanted is None:
        raise SystemExit(f"the board {given.board} needs --model FOLDER")
    model = whence.load(wanted, head=given.head)
    model.module.to(given.device)
    given.results.mkdir(parents=True, exist_ok=True)
    texts = (answered_texts_of if chosen.answered else texts_of)(model, chosen, given)
    folder = given.work / given.board
    started = time.perf_counter()
    embedded = given.model is None
    probes, masks = probes_of(given.probes, chosen, embedded=embedded), masks_of(given.probes, chosen)
    methods, options, left_out = contestants(model, given.methods, probes, masks, answered=chosen.answered)
    board = evaluate(
        model,
        texts.judged,
        methods=methods,
        options=options,
        metrics=given.metrics.split(",") if given.metrics else [each for each in METRICS if each != "seconds"],
        layer=int(given.layer) if given.layer.isdecimal() else given.layer,
        held_out=texts.aside,
        folder=folder,
        beam=given.beam,
        batch_tokens=given.batch_tokens,
        progress=StepLines(lambda line: print(line, file=sys.stderr, flush=True)),
        announce=lambda sentence: print(sentence, file=sys.stderr, flush=True),
        **texts.facts,
    )
    board = replace(board, left_out={**left_out, **board.left_out})
    if given.model:  # a model is known by its name, not by where it lay in this run
        name = Path(given.model).name
        left_out = {method: why.replace(given.model, name) for method, why in board.left_out.items()}
        entries = tuple(
            replace(entry, options={**entry.options, "probes": f"of {name}"}) if "probes" in entry.options else entry
            for entry in board.entries
        )
        board = replace(board, model=replace(board.model, id=name), left_out=left_out, entries=entries)
    board.save(folder)
    (folder / "texts.html").write_text(texts_page(board), encoding="utf-8")
    board.to_html(folder / "scoreboard.html", texts="texts.html")
    shutil.copy(folder / "scoreboard.json", given.results / f"{given.board}.json")
    board.to_html(given.results / f"{given.board}.html")
    seconds = time.perf_counter() - started
    record = {
        "device": torch.cuda.get_device_name() if on_gpu else f"cpu, {torch.get_num_threads()} threads",
        "matrices": "TF32" if on_gpu else "float32", "torch": torch.__version__, "seconds": round(seconds),
        "faithfulness": {
            entry.name: [round(float(value), 5) for value in values]
            for entry, values in zip(board.entries, board.values["faithfulness"], strict=True)
        },
    }  # fmt: skip
    (given.results / f"{given.board}.run.json").write_text(json.dumps(record), encoding="utf-8")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{board.verdict.answer}\n{seconds:.0f} s, {peak:.0f} MB at the peak, {folder}")


if __name__ == "__main__":
    main(arguments.parse_args())
