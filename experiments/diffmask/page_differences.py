"""The section of docs/diffmask.md on where paper, released code and this work part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import paper
from wording import passage, table


def section_differences(sst: Mapping[str, Any] | None) -> list[str]:
    """Where paper, released code and this work part, in words."""
    lines = ["", "## What differs, and why"]
    steps = paper.STEPS
    rows = [
        ["model", "BERT-base and BERT-large", "the embedded BERT of six layers, 256 wide; entries: embeddings, 0 … 6"],
        ["five-class model", "fine-tuned on sentences", "the same; a second one, trained with gaps, as a control"],
        ["gates when judged", "sampled, a random layer a batch", "deterministic, every layer, all texts"],
        ["penalty", "log of P(kept) (code), expected count (print)", "mean P(kept); the others by name"],
        ["probe", "bounded (code), bilinear (print)", "the code's unbounded form, logits beyond ±5 pulled back"],
        ["margin", "the same at all layers, in nats", "graded over layers, a share of what masking everything costs"],
        [
            "a step",
            "one layer; every pass twice",
            "every layer, from one pass over the unmasked texts; one for both players",
        ],
        ["training", f"{steps['released']:,} steps (code), {steps['paper']:,} (print)", _own_steps(sst)],
        ["integrated gradients", "with a factor too many", "as published by Sundararajan et al."],
    ]
    return lines + table(["", "paper and released code", "here"], rows)


def section_missing(table_2: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What of the paper is not here."""
    lines = ["", "## Not tried"]
    lonely = [own["model"]["name"].split()[0] for own in table_2.values() if len(own["seeds"]) == 1]
    seeds = f"Table 2 on {' and '.join(lonely)} was run with one seed, and " if lonely else ""
    return lines + passage(
        f"""Figure 11 (a sketch of the gates' distribution), Figure 13 (Figure 5 for a second sentence) and Figure 14
        (Figure 9 for a second passage) were not drawn; BERT-base and BERT-large were not at hand. {seeds}Table 2 and
        SQuAD were run on dev only."""
    )


def _own_steps(sst: Mapping[str, Any] | None) -> str:
    if sst is None:
        return "see the settings of each run"
    steps = {kind: sst["runs"][f"{kind}-0"]["settings"]["recipe"]["steps"] for kind in ("input", "hidden")}
    return f"{steps['input']:,} steps (inputs), {steps['hidden']:,} (hidden states)"
