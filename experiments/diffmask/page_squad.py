"""The section on question answering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import page_figures
import paper
from wording import between, passage, percent, picture, table

KINDS = {"input": "inputs", "hidden": "hidden states"}


def section_squad(found: Mapping[str, Any], figures: Path, page: Path) -> list[str]:
    model = found["model"]
    lines = ["", "## Question answering"]
    lines += passage(
        f"The embedded encoder, fine-tuned on SQuAD ({model['train']:,} questions, {model['steps']:,} steps): the exact"
        f" answer on {percent(model['dev']['exact'])} of the {model['dev']['n']:,} dev questions that fit into"
        f" {found['longest']} tokens. Measured here: n = {found['n_texts']:,} of them, those that fit among"
        f" {found['n_drawn']:,} drawn by chance (seed 0); exact {between(found['exact'])};"
        f" {found['mean_tokens']:.0f} tokens on average, {found['mean_answer_tokens']:.1f} of them in the predicted"
        " answer. Agreement asks that both ends stay. The paper's model has 24 layers and is far better, so what counts"
        " is the pattern."
    )
    layers = [row["layer"] for row in found["input"]["layers"]]
    rows = []
    for kind, title in KINDS.items():
        own = found[kind]["layers"]
        rows.append([f"{title}: agreement", *(f"{row['agreement']['value']:.3f}" for row in own)])
        rows.append([f"{title}: masked", *(f"{row['masked']:.3f}" for row in own)])
        rows.append([f"{title}: divergence", *(f"{row['divergence']:.2f}" for row in own)])
    lines += table(["", *map(str, layers)], rows)
    lines += _stuck(found) + _answers(found) + _figures(found, figures, page) + _claims(found)
    return lines


def _stuck(found: Mapping[str, Any]) -> list[str]:
    open_layers = {kind: [str(row["layer"]) for row in found[kind]["layers"] if row["masked"] < 0.01] for kind in KINDS}
    said = "; ".join(f"{KINDS[kind]} at {', '.join(each)}" for kind, each in open_layers.items() if each)
    steps = found["input"]["settings"]["recipe"]["steps"]
    return passage(
        f"Layers at which less than 1 % is masked: {said or 'none'}. The probes there are still open: they were trained"
        f" for {steps:,} steps only, with the settings found on sentiment, and none were searched for here."
    )


def _answers(found: Mapping[str, Any]) -> list[str]:
    lines = ["", "### Is the predicted answer kept?"]
    lines += passage(
        f"The paper: in {percent(paper.ANSWER_KEPT, 0)} of cases all layers keep the span that is predicted;"
        " the threshold is not given. Here, all tokens of the answer, at every layer, above a keep probability; for all"
        f" predictions (n = {found['n_texts']:,}) and for those that are exactly right. Beside it the"
        " shares of the answer's tokens and of all tokens that the last entry keeps. (At the last layer the head reads"
        " where an answer starts and ends: as hidden states, the tokens between need not be kept there.)"
    )
    rows = []
    for above in found["input"]["answers_kept"]:
        cells = [above]
        for kind in KINDS:
            own = found[kind]["answers_kept"][above]
            right = own["all_layers_when_right"]
            cells += [
                between(own["all_layers"]), "–" if right is None else between(right),
                f"{own['kept_of_answer_tokens_at_last_entry']:.3f} / {own['kept_of_all_tokens_at_last_entry']:.3f}",
            ]  # fmt: skip
        rows.append(cells)
    head = ["keep probability above"]
    for title in KINDS.values():
        head += [
            f"{title}: all layers",
            f"{title}: where the model is right",
            f"{title}: tokens kept at the last entry",
        ]
    return lines + table(head, rows)


def _figures(found: Mapping[str, Any], figures: Path, page: Path) -> list[str]:
    one, search, how = found["figure_2"], found["figure_2"]["search"], found["figure_2"]["settings"]
    lines = passage(
        f"**Figure 2.** The paper's own question, “{one['question']}”, predicted “{one['predicted']}”; every row"
        f" divided by its largest value. Exact search, the answer always kept, dropped words zero: {search['said']}"
        f" ({search['evaluations']:,} sets tried, {search['budget']:,} allowed). {how['steps']} steps of descent each;"
        f" per text with a margin of {how['per_text']['margin']} nats and a zero baseline."
    )
    if search["found"]:
        kept = [" ".join(one["tokens"][position] for position in each) for each in search["sets"][:5]]
        lines += passage(
            "The smallest sets: "
            + "; ".join(f"“{each}”" for each in kept)
            + ". As in the paper, that a few words suffice does not say that the model reads only these: the search"
            " looks for an input on which the same answer comes out, with hindsight."
        )
    lines += passage(_figure_2_shows(one))
    lines += picture(page_figures.figure_2(one, figures), page, "Figure 2")
    said = "; ".join(
        f"{n}. “{each['question']}” → “{each['predicted']}”" for n, each in enumerate(found["figure_9"], 1)
    )
    lines += passage(
        f"**Figure 9.** Keep probabilities (as they are, not divided by the column's largest), two questions on one"
        f" passage; the predicted answer in bold. {said}."
    )
    top = found["input"]["what_is_kept"][-1]
    in_answer = top["share_of_them_in_the_answer"] or 0.0  # none if nothing is kept
    lines += passage(
        "This is not what the paper's Figure 9 shows: there the top layers keep little but the answer, here the last"
        f" entry keeps {top['tokens_kept']:.0f} of {found['mean_tokens']:.0f} tokens (mean of n ="
        f" {found['n_texts']:,}), of which {percent(in_answer, 0)} belong to the answer."
    )
    lines += picture(page_figures.figure_9(found["figure_9"], figures), page, "Figure 9")
    lines += passage(
        "**Figure 10.** Layers that keep a token, by part of speech; marks as in Figure 8. This is not what the paper's"
        f" Figure 10 shows either: as inputs the longest kept are {_longest_kept(found)} here, while the paper drops"
        " separators and punctuation first."
    )
    lines += picture(page_figures.figure_10(found, figures), page, "Figure 10")
    lines += passage(
        "Mean keep probability of the question, the passage (outside the answer) and the gold answer (of the first"
        " annotator), the last apart where the model is wrong:"
    )
    return lines + picture(page_figures.squad_roles(found, figures), page, "Question, passage and answer")


def _figure_2_shows(one: Mapping[str, Any]) -> str:
    kept = {name: sum(score > max(scores) / 2 for score in scores) for name, scores in one["scores"].items()}
    return (
        "This is not what the paper's Figure 2 shows: there DiffMask makes the few words stand out that the answer"
        f" needs. Here {kept['DiffMask, input, summed over entries']} of {len(one['tokens'])} tokens score more than"
        f" half of the largest with probes, and {kept['DiffMask per text']} with the mask fitted to this text."
    )


def _longest_kept(found: Mapping[str, Any]) -> str:
    rows = sorted(found["input"]["by_part_of_speech"], key=lambda row: -row["mean"])[:3]
    return ", ".join(f"{row['group']} ({row['mean']:.1f} of {row['n_layers']})" for row in rows)


def _claims(found: Mapping[str, Any]) -> list[str]:
    """The paper's prose on SQuAD against our numbers; its layers are counted of 24."""

    def by_layer(kind: str, name: str, group: str) -> str:
        rows = [row for row in found[kind][name] if row["group"] == group]
        return " ".join("–" if row["mean"] is None else f"{row['mean']:.2f}" for row in rows)

    def facts(kind: str, name: str) -> str:
        return " ".join("–" if row[name] is None else f"{row[name]:.2f}" for row in found[kind]["what_is_kept"])

    separators = sorted(
        {row["group"] for row in found["input"]["special_by_layer"] if row["group"].startswith("[SEP]")}
    )
    sep = "; ".join(f"{group}: {by_layer('input', 'special_by_layer', group)}" for group in separators)
    kept = {row["group"]: row["mean"] for row in found["input"]["by_part_of_speech"]}
    small = [f"{group} {kept[group]:.1f}" for group in ("[CLS]", "DET", "ADP", "NOUN", "PROPN") if group in kept]
    n_layers = found["input"]["by_part_of_speech"][0]["n_layers"]
    rows = [
        ["[SEP] is not needed after layer 12 or so", f"inputs, {sep}"],
        [
            "names are kept long: 18 layers or more to drop one (proper nouns stand for them here)",
            f"inputs, proper nouns: {by_layer('input', 'speech_by_layer', 'PROPN')}",
        ],
        [
            "17 to 20 layers to drop wrong candidates; the top four keep little but the answer",
            "inputs, share of kept tokens inside the predicted answer: "
            f"{facts('input', 'share_of_them_in_the_answer')}; tokens kept: {facts('input', 'tokens_kept')}",
        ],
        [
            "as hidden states, above layer 21 only the answer is kept",
            "share of kept tokens inside the predicted answer: "
            f"{facts('hidden', 'share_of_them_in_the_answer')}; tokens kept: {facts('hidden', 'tokens_kept')}",
        ],
        [
            "the question mark is always dropped",
            f"inputs: {facts('input', 'question_mark_keep')}; hidden: {facts('hidden', 'question_mark_keep')}",
        ],
        [
            "[CLS] is of no use; determiners and prepositions are largely ignored",
            f"inputs, layers of {n_layers}: {', '.join(small)}",
        ],
    ]  # fmt: skip
    layers = ", ".join(str(row["layer"]) for row in found["input"]["layers"])
    lines = passage(
        f"What the paper says of SQuAD in words, and what is seen here (keep probabilities at {layers}; dev,"
        f" n = {found['n_texts']:,} questions, one seed):"
    )
    lines += table(["said", "seen"], rows)
    rows = [
        [group, f"{value / paper.QA_ENTRIES:.2f}", *_notebook_cell(kept, group, n_layers)]
        for group, value in paper.NOTEBOOK_INPUT_QA_POS.items()
    ]
    lines += passage(
        "Inputs, share of layers that keep a token, beside the plots of the released notebook (read by eye),"
        f" n = {found['n_texts']:,}:"
    )
    return lines + table(["group", "notebook", "here"], rows)


def _notebook_cell(kept: Mapping[str, float], group: str, n_layers: int) -> list[str]:
    same = [value / n_layers for name, value in kept.items() if name == group or name.startswith(f"{group} ")]
    return [", ".join(f"{value:.2f}" for value in same) or "too rare"]
