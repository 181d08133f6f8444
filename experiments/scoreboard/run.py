"""One scoreboard: all methods on one model and one set of texts. A run that was stopped goes on where it was.

python experiments/scoreboard/run.py --board sst2 --data-dir DATA --work WORK [--limit 500] [--threads 2]
python experiments/scoreboard/run.py --board decoder --model FOLDER --data-dir DATA --work WORK

Boards: sst2 and ag_news with the embedded models, leaves (SST with the labels of its words, for plausibility), and
decoder: a causal language model that is given each text with a question after it, and is read at the next token.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import whence
from whence.data import labels_as_ids, read
from whence.render.scoreboard_page import texts_page
from whence.scoreboard.evaluate import HELD_OUT, evaluate
from whence.scoreboard.rationales import NEUTRAL, leaf_rationale


@dataclass(frozen=True)
class Board:
    """Which model and data; a prompt turns a classification into a next word."""

    model: str | None
    data: str
    prompt: str = "{text}"
    labelled: bool = True


BOARDS = {
    "sst2": Board("sentiment", "sst2"),
    "ag_news": Board("topic", "ag_news"),
    "leaves": Board("sentiment", "sst5", labelled=False),
    "decoder": Board(None, "sst2", "{text}\nIs this review positive or negative? It is", labelled=False),
}

arguments = argparse.ArgumentParser(description="Make one scoreboard.")
arguments.add_argument("--board", required=True, choices=BOARDS)
arguments.add_argument("--model", help="the decoder's folder or hub id")
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--work", type=Path, required=True, help="where the board and its finished pieces go")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--limit", type=int, default=500)
arguments.add_argument("--methods", help="names with commas; by default all that the model allows")
arguments.add_argument("--threads", type=int)
arguments.add_argument("--device", default="cpu")


def main(given: argparse.Namespace) -> None:
    chosen = BOARDS[given.board]
    if given.threads:
        torch.set_num_threads(given.threads)
    model = whence.load(chosen.model or given.model)
    model.module.to(given.device)
    examples = read(chosen.data, data_dir=given.data_dir, limit=given.limit + HELD_OUT, seed=0)
    if given.board == "leaves":
        examples = [example for example in examples if example.label != NEUTRAL]
    aside, examples = examples[:HELD_OUT], examples[HELD_OUT:]
    folder = given.work / given.board
    started = time.perf_counter()
    board = evaluate(
        model,
        [chosen.prompt.format(text=example.text) for example in examples],
        labels_as_ids(examples, model.reading.labels) if chosen.labelled else None,
        methods=given.methods.split(",") if given.methods else None,
        rationales=[leaf_rationale(example) for example in examples] if given.board == "leaves" else None,
        held_out=[chosen.prompt.format(text=example.text) for example in aside],
        folder=folder,
        progress=lambda step, done, total: print(f"{step}: {done} of {total}", file=sys.stderr),
    )
    board.save(folder)
    (folder / "texts.html").write_text(texts_page(board), encoding="utf-8")
    board.to_html(folder / "scoreboard.html", texts="texts.html")
    given.results.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "scoreboard.json", given.results / f"{given.board}.json")
    board.to_html(given.results / f"{given.board}.html")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{board.verdict.answer}\n{time.perf_counter() - started:.0f} s, {peak:.0f} MB at the peak, {folder}")


if __name__ == "__main__":
    main(arguments.parse_args())
