"""The commands that made the results, with the settings that the results record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wording import TITLES

HERE = "python experiments/decoded_saliency"
N_TEXTS = {"sst2": 872, "ag_news": 7_600}  # of dev and of test
KNOBS = ("epochs", "batch", "rate", "dropout", "masked_lm_weight", "seed")


def commands(games: Mapping[str, Any], plain: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Those of the embedded models, one for the sets that were played alike, then those of the ordinary ones."""
    alike: dict[str, list[str]] = {}
    for name, found in games.items():
        alike.setdefault(_settings(name, found), []).append(name)
    lines = ["# Tables 1 and 2, Figures 2, 3, 5 and 6, controls; then Tables 3 to 9, Figures 4, 7, 8 and 9, examples"]
    for settings, sets in alike.items():
        of = "" if len(sets) == len(games) else f"--sets {' '.join(sets)} "
        lines += [f"{HERE}/{script}.py --data-dir DIR {of}{settings}" for script in ("tables", "overlap")]
    for name, made in plain["training"].items():
        lines += _ordinary(name, plain["games"][name], made["knobs"])
    return [*lines, f"{HERE}/write_page.py"]


def _settings(name: str, found: Mapping[str, Any]) -> str:
    sample = [] if found["n_texts"] == N_TEXTS[name] else [f"--sample {found['n_texts']}"]
    device = [] if "cores" in found["hardware"] else ["--device cuda"]
    tokens = [f"--batch-tokens {found['batch_tokens']}"] if found.get("batch_tokens") else []
    return " ".join([*sample, f"--seed {found['seed']}", f"--jobs {found['jobs']}", *tokens, *device])


def _ordinary(name: str, found: Mapping[str, Any], knobs: Mapping[str, Any]) -> list[str]:
    """How another model was made and played on: TEXT is what training/prepare.py writes."""
    model, encoder = f"WORK/{knobs['out']}", f"WORK/{knobs['pretrained']}"
    options = " ".join(f"--{knob.replace('_', '-')} {knobs[knob]:g}" for knob in KNOBS)
    words = " --train-words" if knobs["train_words"] else ""
    return [
        f"# {TITLES[name]} after an ordinary fine-tuning",
        f"python training/finetune.py --pretrained {encoder} --train TEXT/{knobs['train']} \\",
        f"    --heldout TEXT/{knobs['heldout']} --labels {' '.join(knobs['labels'])} \\",
        f"    {options}{words} --out {model}",
        *(
            f"{HERE}/{script}.py --data-dir DIR --sets {name} --model {model} --head {encoder} \\\n"
            f"    {_settings(name, found)} --out experiments/decoded_saliency/results/ordinary"
            for script in ("tables", "overlap")
        ),
    ]
