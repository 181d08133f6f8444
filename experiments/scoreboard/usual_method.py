"""How faithful the usual method of a decoder is, as `whence explain` runs it, beside what others got on the board?

python experiments/scoreboard/usual_method.py --board decoder --model FOLDER --data-dir DATA
python experiments/scoreboard/usual_method.py --board responses --model FOLDER --data-dir DATA

A board judges a method at its own defaults and, where it has several layers, at the one that did best on other texts.
The usual method of a next word is read at the layer nearest the words, where a score belongs to a word and not to a
state; that of a response takes tokens out, where others put a common word in their place. So the board's texts are
judged that way too, beside what each method got on the board, text by text. Reads RESULTS/BOARD.json, BOARD.run.json
and, of responses, BOARD_answers.json; writes RESULTS/BOARD_usual.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from run import BOARDS, answered_texts_of, texts_of

import whence
from whence.metrics.confidence import mean_interval, paired_difference
from whence.models.responses import responding

sys.path.append(str(Path(__file__).parents[1]))  # where faithfulness is

from faithfulness import faithfulness

ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "decoder": ("attn_lrp", "at layer 0", {"layers": 0}),
    "responses": (
        "leave_one_out",
        "by deletion, where all others on this board put a common word in a token's place",
        {"baseline": "delete"},
    ),
}
"""By board: the method, in words how it runs, and the options for that."""
AT_A_TIME = 10  # texts, so that one sees how far it is

arguments = argparse.ArgumentParser(description="The usual method of a decoder as `whence explain` runs it.")
arguments.add_argument("--board", required=True, choices=ASKED)
arguments.add_argument("--model", required=True)
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--device", default="cpu")


def main(given: argparse.Namespace) -> None:
    file = given.results / f"{given.board}_usual.json"
    board = json.loads((given.results / f"{given.board}.json").read_text(encoding="utf-8"))
    judged = json.loads((given.results / f"{given.board}.run.json").read_text(encoding="utf-8"))["faithfulness"]
    chosen = BOARDS[given.board]
    given.limit = board["n_texts"]  # what the board's own script takes from the command line
    model = whence.load(given.model)
    model.module.to(given.device)
    texts = (answered_texts_of if chosen.answered else texts_of)(model, chosen, given)
    view = responding(model) if chosen.answered else model
    asked = list(zip(texts.judged, texts.facts["responses"], strict=True)) if chosen.answered else texts.judged
    method, how, options = ASKED[given.board]
    here = np.array([each for some in parts(asked) for each in worth(view, some, method, options)])
    record = {
        "model": Path(given.model).name,
        "method": method,
        "how": how,
        "n_texts": len(asked),
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else "cpu",
        "faithfulness": asdict(mean_interval(here)),
        "minus": {name: asdict(paired_difference(here, np.array(of))) for name, of in judged.items()},
    }
    print(method, record["faithfulness"])
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def parts(texts: list[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(texts), AT_A_TIME):
        print(f"{begin} of {len(texts)}", file=sys.stderr, flush=True)
        yield texts[begin : begin + AT_A_TIME]


def worth(model: whence.LayeredModel, texts: list[Any], method: str, options: dict[str, Any]) -> list[float]:
    rows = [np.asarray(each.scores[0]) for each in whence.explain(model, texts, method, **options)]
    return faithfulness(model, texts, {method: rows})[method]


if __name__ == "__main__":
    main(arguments.parse_args())
