"""DiffMask on question answering: masking at every layer, kept answers, and the numbers behind Figures 2, 9, 10 and 14.

    python experiments/diffmask/squad.py --data-dir DATA --work WORK --out experiments/diffmask/results

WORK is where `finetune.py` and `fit_probes.py` left the question answerer and its probes. A sample of dev questions,
among those that the model reads to the end with their passage; gates are deterministic. Writes squad.json, or with
`--only mpnet_squad` the same of WORK/mpnet-squad-0, each seed's probes that are there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import command
import numpy as np
import part_of_speech
import squad_figures
import torch
from masking import by_layer, mask_all, mean_with_interval, records, settings_of, two_readings, write

import whence
from whence.data import Example, read
from whence.learned.diffmask.analyses import answers_kept, keep_by_layer, layers_kept
from whence.learned.diffmask.token_groups import Groups, Tagger, part_of_speech_groups, special_token_groups

KINDS = ("input", "hidden")
FILES = {"squad": "squad", "mpnet_squad": "mpnet-squad-0"}
"""Which model of WORK each file tells of."""
LONGEST = 256  # tokens: what the embedded encoder reads, so that fine-tuning left longer ones out
QUESTIONS = 500
THRESHOLDS = (0.1, 0.25, 0.5, 0.75, 0.9)
RARE = 100
Roles = ("question", "passage", "gold answer", "gold answer, model wrong")


def fitting(model: whence.LayeredModel, examples: Sequence[Example]) -> list[Example]:
    """Those whose question and passage the model reads to their end."""
    return [example for example in examples if model.encode(example.text, example.pair).cut == 0]


def answer_tokens(explanation: whence.Explanation, start: int, text: str) -> list[int]:
    """Positions of the tokens of the passage that lie in an answer."""
    return [
        position
        for position, token in enumerate(explanation.tokens)
        if token.segment == 1 and not token.special and token.start < start + len(text) and token.end > start
    ]


def predicted_tokens(explanation: whence.Explanation) -> list[int]:
    first = explanation.tokens[explanation.prediction.index]
    return answer_tokens(explanation, first.start, explanation.prediction.label)


def is_right(explanation: whence.Explanation, example: Example) -> bool:
    """Whether the predicted answer covers exactly the tokens of one of the gold answers."""
    said = predicted_tokens(explanation)
    return any(said == answer_tokens(explanation, gold.start, gold.text) for gold in example.answers)


def role_groups(explanation: whence.Explanation, example: Example) -> Groups:
    """Question, passage or gold answer (the first annotator's), apart where the model is wrong."""
    gold = set(answer_tokens(explanation, example.answers[0].start, example.answers[0].text))
    answer = "gold answer" if is_right(explanation, example) else "gold answer, model wrong"
    return [
        None if token.special else answer if position in gold else ("question", "passage")[token.segment]
        for position, token in enumerate(explanation.tokens)
    ]


def kept_answers(explanations: Sequence[whence.Explanation], right: Sequence[bool]) -> dict[str, Any]:
    """Of how many predictions every layer keeps the whole answer, and how much it keeps of the rest, by threshold."""
    found = {}
    for above in THRESHOLDS:
        whole = np.array(answers_kept(explanations, above=above), dtype=float)
        top = [explanation.scores[-1] > above for explanation in explanations]
        answers = [predicted_tokens(explanation) for explanation in explanations]
        found[str(above)] = {
            "all_layers": mean_with_interval(whole),
            "all_layers_when_right": mean_with_interval(whole[list(right)]) if any(right) else None,
            "last_entry": mean_with_interval(
                np.array([kept[answer].all() for kept, answer in zip(top, answers, strict=True)], dtype=float)
            ),
            "kept_of_answer_tokens_at_last_entry": float(
                np.mean([kept[answer].mean() for kept, answer in zip(top, answers, strict=True)])
            ),
            "kept_of_all_tokens_at_last_entry": float(np.mean([kept.mean() for kept in top])),
        }
    return found


def what_is_kept(explanations: Sequence[whence.Explanation]) -> list[dict[str, Any]]:
    """At each layer: tokens kept a text, the share of them in the predicted answer, and the fate of question marks."""
    rows = []
    for number, layer in enumerate(explanations[0].layers):
        counts, inside, marks, periods = [], [], [], []
        for explanation in explanations:
            kept = explanation.scores[number] > 0.5
            counts.append(int(kept.sum()))
            if kept.any():
                inside.append(kept[predicted_tokens(explanation)].sum() / kept.sum())
            for token, value in zip(explanation.tokens, explanation.scores[number].tolist(), strict=True):
                if token.text == "?" and token.segment == 0:
                    marks.append(value)
                if token.text in (".", ",") and token.segment == 1:
                    periods.append(value)
        rows.append(
            {
                "layer": layer,
                "tokens_kept": float(np.mean(counts)),
                "share_of_them_in_the_answer": float(np.mean(inside)) if inside else None,
                "question_mark_keep": float(np.mean(marks)),
                "full_stop_and_comma_keep": float(np.mean(periods)),
            }
        )
    return rows


def analyses(explanations: Sequence[whence.Explanation], examples: Sequence[Example], tagger: Tagger) -> dict[str, Any]:
    speech = [part_of_speech_groups(each, tagger) for each in explanations]
    roles = [role_groups(each, example) for each, example in zip(explanations, examples, strict=True)]
    special = [special_token_groups(each) for each in explanations]
    by_speech = layers_kept(explanations, speech).sort_values("mean", ascending=False)
    return {
        "answers_kept": kept_answers(
            explanations, [is_right(*each) for each in zip(explanations, examples, strict=True)]
        ),
        "what_is_kept": what_is_kept(explanations),
        "by_part_of_speech": records(by_speech[by_speech["n_tokens"] >= RARE]),
        "by_role": records(keep_by_layer(explanations, roles, order=Roles)),
        "special_by_layer": records(keep_by_layer(explanations, special)),
        "speech_by_layer": records(keep_by_layer(explanations, speech, order=["PROPN", "NOUN", "DET", "ADP", "PUNCT"])),
    }


def probes_of(work: Path, name: str) -> dict[str, list[Path]]:
    """Of each kind the folders of every seed; of one seed its name does not tell."""
    folders = {kind: [work / "probes" / f"{name}-{kind}{seed}" for seed in ("", *(f"-{n}" for n in range(5)))]
               for kind in KINDS}  # fmt: skip
    return {kind: [folder for folder in some if (folder / "config.json").exists()] for kind, some in folders.items()}


@dataclass(frozen=True)
class Asked:
    """Which model is measured where, on how many questions of dev drawn by chance."""

    work: Path
    name: str
    data_dir: Path
    device: str
    threads: int
    questions: int

    def model(self) -> whence.LayeredModel:
        torch.set_num_threads(self.threads)
        return command.load(self.work / self.name, self.device)

    def drawn(self) -> list[Example]:
        return list(read("squad", data_dir=self.data_dir, split="validation", limit=self.questions, seed=0))


def measured(asked: Asked, folder: Path, *, whole: bool) -> dict[str, Any]:
    """One set of probes: what it masks and which answers it keeps; `whole`: the words it keeps, too."""
    model, own = asked.model(), whence.DiffMask.load(folder)
    examples = fitting(model, asked.drawn())
    texts = [(example.text, example.pair or "") for example in examples]
    _, found = mask_all(model, {"own": own}, [model.encode(*text) for text in texts])
    explanations = whence.explain(model, texts, "diffmask", probes=own)
    right = [is_right(each, example) for each, example in zip(explanations, examples, strict=True)]
    told = {**two_readings(found["own"]), "layers": by_layer(found["own"]),
            "answers_kept": kept_answers(explanations, right)}  # fmt: skip
    if not whole:
        return told
    tagger = part_of_speech.universal_tagger(part_of_speech.Tagger.load(asked.data_dir))
    about = {
        "n_texts": len(examples),
        "exact": mean_with_interval(np.array(right, dtype=float)),
        "mean_tokens": float(np.mean([len(each.tokens) for each in explanations])),
        "mean_answer_tokens": float(np.mean([len(predicted_tokens(each)) for each in explanations])),
    }
    return {**told, **analyses(explanations, examples, tagger), "settings": settings_of(own), "about": about}


def of_all_probes(asked: Asked, jobs: int) -> dict[str, Any]:
    """Of each kind all about its first seed, and of several seeds in short; `jobs` sets of probes at a time."""
    probes = probes_of(asked.work, asked.name)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        runs = {kind: [pool.submit(measured, asked, folder, whole=folder == of_seeds[0]) for folder in of_seeds]
                for kind, of_seeds in probes.items()}  # fmt: skip
        found = {kind: [run.result() for run in of_seeds] for kind, of_seeds in runs.items()}
    report: dict[str, Any] = {}
    for kind, of_seeds in found.items():
        report |= of_seeds[0].pop("about")
        report[kind] = dict(of_seeds[0])
        if len(of_seeds) > 1:
            short = [{name: own[name] for name in ("top", "mean", "layers", "answers_kept")} for own in of_seeds]
            report[kind]["seeds"] = [{"seed": number, **own} for number, own in enumerate(short)]
    return report


def figures(asked: Asked, search_budget: int) -> dict[str, Any]:
    """The numbers behind Figures 2, 9 and 14, of the first seed's probes."""
    model, every = asked.model(), read("squad", data_dir=asked.data_dir, split="validation")
    first = {kind: whence.DiffMask.load(own[0]) for kind, own in probes_of(asked.work, asked.name).items()}
    training = read("squad", data_dir=asked.data_dir, split="train", limit=squad_figures.STATISTICS_TEXTS, seed=0)
    one = squad_figures.find(every, squad_figures.QUESTION)
    two = [squad_figures.find(every, question) for question in squad_figures.TWO_QUESTIONS]
    return {
        "figure_2": squad_figures.one_question(model, first["input"], one, fitting(model, training), search_budget),
        "figure_9": squad_figures.two_questions(model, first, two),
        "figure_14": squad_figures.two_questions(model, first, every[-2:]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command.options(__doc__)
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of dev, spread over all by chance")
    parser.add_argument("--search-budget", type=int, default=squad_figures.BUDGET)
    parser.add_argument("--only", choices=FILES, default="squad", help="which file")
    parser.add_argument("--jobs", type=int, default=1, help="sets of probes at a time")
    args = parser.parse_args(arguments)
    started = time.monotonic()
    asked = Asked(args.work, FILES[args.only], args.data_dir, args.device, args.threads, args.questions)
    report = command.about("questions", args.threads, args.device)
    if "numbers" in args.parts:
        tuned = json.loads((args.work / asked.name / "results.json").read_text())
        report |= {"model": tuned, "n_drawn": len(asked.drawn()), "longest": tuned.get("longest", LONGEST)}
        report |= of_all_probes(asked, args.jobs)
    if "figures" in args.parts:
        report |= figures(asked, args.search_budget)
    report["seconds"] = round(time.monotonic() - started)
    write(report, args.out / command.file_of(args.only, args.parts))


if __name__ == "__main__":
    main()
