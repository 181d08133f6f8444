"""The commands that made the results, with the settings that the results record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HERE = "python experiments/diffmask"


def commands(found: Mapping[str, Any]) -> list[str]:
    """One line each, in order; of results that are not there, none."""
    lines = []
    for name, file in (("sst5", "sst"), ("sst5-gaps", "sst_gaps"), ("squad", "squad")):
        if file in found:
            lines.append(
                f"{HERE}/finetune.py {name.split('-')[0]} {_fine_tuning(found[file]['model'])} --out WORK/{name}"
            )
    if {"sst", "squad", "sentiment"} & set(found):
        lines.append(f"{HERE}/fit_probes.py --data-dir DATA --work WORK --jobs 4")
    if {"sst", "sentiment"} & set(found):
        lines.append(f"{HERE}/sst.py --data-dir DATA --work WORK")
    if "squad" in found:
        own = found["squad"]
        budget = own["figure_2"]["search"]["budget"]
        lines.append(
            f"{HERE}/squad.py --data-dir DATA --work WORK --questions {own['n_drawn']} --search-budget {budget}"
        )
    if "toy" in found:
        own = found["toy"]
        lines.append(
            f"{HERE}/toy.py --seeds {_all(own['seeds'])} --texts {own['n_texts']} --held-out {own['n_held_out']}"
        )
    for name, model in (("table2_gru", "gru"), ("table2_bert", "WORK/sst5")):
        if name in found:
            lines.append(f"{HERE}/table2.py --model {model} --data-dir DATA {_table_2(found[name])}")
    return [*lines, f"{HERE}/write_docs.py"]


def _fine_tuning(model: Mapping[str, Any]) -> str:
    names = {"epochs": "epochs", "batch": "batch", "rate": "rate", "phrase_epochs": "phrase-epochs", "gaps": "gaps",
             "agreement": "agreement", "seed": "seed"}  # fmt: skip
    given = [f"--{option} {model[name]:g}" for name, option in names.items() if model.get(name)]
    return " ".join(["--data-dir DATA", *given])


def _table_2(own: Mapping[str, Any]) -> str:
    search = own["search"]
    limit = [] if search["sentences"] == search["short_enough"] else [f"--limit {search['sentences']}"]
    [steps] = {row["settings"]["steps"] for row in own["rows"].values()}
    tuned = [f"--tune {drawn}" for drawn in {each["drawn"] for each in own.get("tuned", {}).values()}]
    network = [f"--{name} {own['model'][name]}" for name in ("epochs", "width") if name in own["model"]]
    return " ".join(
        [
            f"--split {own['split']} --longest {search['longest']}", *limit, f"--budget {search['budget']}", *tuned,
            f"--steps {steps} --seeds {_all(own['seeds'])}", *network,
        ]
    )  # fmt: skip


def _all(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
