"""The commands that made the results, with the settings that the results record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contestants import GROUPS, RANDOM_ORDERS
from wording import TITLES

HERE = "python experiments/decoded_saliency"
RESULTS = "experiments/decoded_saliency/results"
SCRIPTS = {"games": "tables", "overlap": "overlap"}
Records = Mapping[str, Mapping[str, Any]]
N_TEXTS = {"sst2": 872, "ag_news": 7_600}  # of dev and of test
KNOBS = ("epochs", "batch", "rate", "dropout", "masked_lm_weight", "seed")


def commands(games: Mapping[str, Any], plain: Records, whole: Records, plain_whole: Records) -> list[str]:
    """Those of the embedded models, one for the sets that were played alike, then those of the ordinary ones.

    `whole` and `plain_whole` are of all texts of sets of which the others have a sample.
    """
    alike: dict[str, list[str]] = {}
    for name, found in games.items():
        alike.setdefault(_settings(name, found), []).append(name)
    lines = ["# Tables 1 and 2, Figures 2, 3, 5 and 6, controls; then Tables 3 to 9, Figures 4, 7, 8 and 9, examples"]
    for settings, sets in alike.items():
        of = "" if len(sets) == len(games) else f"--sets {' '.join(sets)} "
        lines += [f"{HERE}/{script}.py --data-dir DIR {of}{settings}" for script in ("tables", "overlap")]
    lines += _ordinary(plain, "ordinary")
    for name, found in whole["games"].items():
        lines.append(f"# {TITLES[name]}, all texts")
        lines += [
            f"{HERE}/{script}.py --data-dir DIR --sets {name} \\\n"
            f"    {_settings(name, found)} --out {RESULTS}/all_texts"
            for kind, script in SCRIPTS.items()
            if name in whole[kind]
        ]
    lines += _ordinary(plain_whole, "all_texts/ordinary", ", all texts")
    return [*lines, f"{HERE}/write_page.py"]


def _settings(name: str, found: Mapping[str, Any]) -> str:
    sample = [] if found["n_texts"] == N_TEXTS[name] else [f"--sample {found['n_texts']}"]
    device = [] if "cores" in found["hardware"] else ["--device cuda"]
    tokens = [f"--batch-tokens {found['batch_tokens']}"] if found.get("batch_tokens") else []
    played = {facts["group"] for facts in found["contestants"].values()}
    groups = [each for each in GROUPS if each in played]
    fewer = [] if len(groups) == len(GROUPS) else [f"--groups {' '.join(groups)}"]
    fewer += [] if found["floor"] else ["--no-ablations"]
    fewer += [] if found["random_orders"] == RANDOM_ORDERS else [f"--random-orders {found['random_orders']}"]
    return " ".join([*sample, *fewer, f"--seed {found['seed']}", f"--jobs {found['jobs']}", *tokens, *device])


def _ordinary(plain: Records, folder: str, texts: str = "") -> list[str]:
    """How other models were made and played on: TEXT is what training/prepare.py writes."""
    return [
        line
        for name, made in plain["training"].items()
        for line in [
            f"# {TITLES[name]} after an ordinary fine-tuning{texts}",
            *_made_and_played(
                name, plain["games"][name], made["knobs"], folder, [k for k in SCRIPTS if name in plain[k]]
            ),
        ]
    ]


def _made_and_played(
    name: str, found: Mapping[str, Any], knobs: Mapping[str, Any], folder: str, kinds: list[str]
) -> list[str]:
    model, encoder = f"WORK/{knobs['out']}", f"WORK/{knobs['pretrained']}"
    options = " ".join(f"--{knob.replace('_', '-')} {knobs[knob]:g}" for knob in KNOBS)
    words = " --train-words" if knobs["train_words"] else ""
    return [
        f"python training/finetune.py --pretrained {encoder} --train TEXT/{knobs['train']} \\",
        f"    --heldout TEXT/{knobs['heldout']} --labels {' '.join(knobs['labels'])} \\",
        f"    {options}{words} --out {model}",
        *(
            f"{HERE}/{SCRIPTS[kind]}.py --data-dir DIR --sets {name} --model {model} --head {encoder} \\\n"
            f"    {_settings(name, found)} --out {RESULTS}/{folder}"
            for kind in kinds
        ),
    ]
