"""Writes benchmarks/README.md from the results files, so that no number there is typed in.

python benchmarks/write_readme.py
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

from long_prompts_section import long_prompts_section
from one_pass import METHODS
from page_writing import paragraph
from responses_section import responses_section

HERE = Path(__file__).parent
ASKED_OF_BARE = 0.8  # of the bare model's rate, by `whence serve`

lines = [
    "# Benchmarks",
    "",
    "Made by `benchmarks/write_readme.py` from `benchmarks/results/`; `make bench` measures again (CPU).",
    "",
    "A ratio above 1 says how many times longer the peer takes than whence, on the same sentences, with the same",
    "model, in one run. *bare* is whence's time over that of encoding the texts and the model's own passes alone (the",
    "passes whence counts, rows of the same lengths in batches of the same size, nothing explained); below 1 because",
    "sets of words that come up twice are evaluated once. *difference* is the largest between any two scores;",
    "interpreto's integrated gradients are another quantity.",
    "Memory on the CPU is the growth of the resident set, sampled.",
]
for name, title in {"attribution-cpu": "CPU", "attribution-gpu": "GPU"}.items():
    report = json.loads((HERE / "results" / f"{name}.json").read_text())
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    settings = report["settings"]
    lines += [
        "",
        f"## {title}: {report['hardware']}",
        "",
        f"{report['sentences']} sentences, {report['tokens']:,} tokens; {settings['steps']} steps, windows of "
        f"{settings['window']}, {settings['orders']} orders; median of {settings['repeats']}; {versions}.",
        "",
        "| method | peer | sentences | whence | peer | ratio | bare | memory, whence / peer | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['method']} | {row['peer']} | {row['sentences']} | {row['whence_seconds']:.2f} s "
        f"| {row['peer_seconds']:.2f} s | **{row['ratio']:.1f}** | {row['bare_ratio']:.2f} "
        f"| {row['whence_peak_mb']:.0f} / {row['peer_peak_mb']:.0f} MB | {row['largest_difference']:.0e} |"
        for row in report["rows"]
    ]
for path in sorted((HERE / "results").glob("one_pass-*.json")):
    report = json.loads(path.read_text())
    settings, bare = report["settings"], report["bare"]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    lines += [
        "",
        f"## One pass: {report['hardware']}",
        "",
        *paragraph(f"""{report["sentences"]:,} sentences, {report["tokens"]:,} tokens, {settings["batch_tokens"]:,} a
        batch; median of {settings["repeats"]}; {versions}. *passes* go from tokens to scores and stand beside the
        model's own pass over the same batches; *call* goes from texts to explanations, all that `whence.explain` does,
        and stands beside that pass with the texts tokenised and a label given to each, by transformers alone."""),
        "",
        "| what | passes | x bare | asked | call | x bare | memory of the call |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| bare {beside} | {1000 * bare[f'bare {beside}']['seconds']:.1f} ms | | "
        f"| {1000 * bare[f'bare {beside}, from texts']['seconds']:.1f} ms | "
        f"| {bare[f'bare {beside}, from texts']['peak_mb']:.0f} MB |"
        for beside in settings["asked"]
    ]
    lines += [
        f"| {row['method']} | {1000 * row['passes']['seconds']:.1f} ms | **{row['passes_ratio']:.2f}** "
        f"| {row['asked']} x {row['beside']} | {1000 * row['call']['seconds']:.1f} ms | {row['call_ratio']:.2f} "
        f"| {row['call']['peak_mb']:.0f} MB |"
        for row in report["rows"]
        if row["method"] in METHODS
    ]
    per_text = bare["bare forward"]["seconds"] / report["sentences"]
    lines += [
        "",
        *paragraph(f"""The model's own pass takes {1e6 * per_text:.0f} µs a sentence here, and from the text
        {1e6 * bare["bare forward, from texts"]["seconds"] / report["sentences"]:.0f} µs; what is beyond that is mostly
        Python at work on each text (its label and probabilities, its tokens and words), which weighs the less the
        larger the model is. All explanations written as JSON: {1000 * report["json"]["seconds"]:.1f} ms."""),
        "",
    ]
    if report["peers"]:
        lines += ["| peer | sentences | a sentence | bare forwards in that time | memory |", "|---|---|---|---|---|"]
        lines += [
            f"| {row['peer']} | {row['sentences']} | {1000 * row['seconds'] / row['sentences']:.2f} ms "
            f"| {row['seconds'] / row['sentences'] / per_text:,.0f} | {row['peak_mb']:.0f} MB |"
            for row in report["peers"]
        ]
    lines += ["", *[f"Left out: {name} ({why})." for name, why in report["left_out"].items()]]
for path in sorted((HERE / "results").glob("relevance-*.json")):
    report = json.loads(path.read_text())
    ours, theirs = (
        ", ".join(f"{package} {number}" for package, number in report[each].items())
        for each in ("versions", "lxt_versions")
    )
    times = {
        "lxt, a sentence at a time": report["lxt_seconds"],
        "whence, a sentence at a time": report["whence_seconds"],
        "whence, all in one call": report["whence_together_seconds"],
    }
    lines += [
        "",
        f"## AttnLRP beside lxt: {report['hardware']}",
        "",
        *paragraph(f"""{report["sentences"]:,} sentences, {report["tokens"]:,} tokens; median of {report["repeats"]};
        whence with {ours}; in a Python of its own, as it does not run beside that transformers: {theirs}. The largest
        difference between any two scores is {report["largest_difference"]:.0e}, the largest score
        {report["largest_score"]:.2f}. lxt begins with token ids, whence with the text and ends with all that
        `whence.explain` gives."""),
        "",
        "| what | a sentence |",
        "|---|---|",
        *(f"| {what} | {1000 * seconds / report['sentences']:.2f} ms |" for what, seconds in times.items()),
    ]
for path in sorted((HERE / "results").glob("diffmask-*.json")):
    report = json.loads(path.read_text())
    lines += [
        "",
        f"## DiffMask: {report['hardware']}",
        "",
        "The time to train one layer once: a step of whence trains all of them from one pass over the unmasked texts,",
        "the released way one, everything twice and each time the whole model. And explanations beside the model's own",
        f"forward pass. Batches of {report['settings']['batch_size']} texts; `benchmarks/diffmask.py` says how.",
        "",
        "| what | whence | peer | ratio |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| a layer trained once, {row['kind']} | {1000 * row['whence_seconds']:.1f} ms | released way: "
        f"{1000 * row['released_seconds']:.1f} ms | **{row['ratio']:.2f}** |"
        for row in report["steps"]
    ]
    lines += [
        f"| {row['sentences']} explanations, {row['kind']} | {1000 * row['whence_seconds']:.1f} ms | bare forward: "
        f"{1000 * row['bare_seconds']:.1f} ms | "
        f"{row['bare_seconds'] / row['whence_seconds']:.2f} (cost x {row['ratio']:.2f}) |"
        for row in report["explanations"]
    ]
for path in sorted((HERE / "results").glob("decoded-*.json")):
    report = json.loads(path.read_text())
    a_batch, counts, settings = report["a_batch"], report["counts"], report["settings"]
    longer = report["times_longer"]
    lines += [
        "",
        f"## Decoded saliency: {report['hardware']}",
        "",
        *paragraph(f"""Decoded Grad-CAM of all {counts["layers"]} layers on {report["sentences"]} sentences,
        {report["tokens"]:,} tokens; median of {settings["repeats"]}. Counted a batch: {a_batch["forwards"]:g} forward
        and {a_batch["backwards"]:g} backward of the encoder, {a_batch["head_passes"]:g} passes of the head, over
        {counts["head_rows"]:,} of {report["tokens"] * counts["layers"]:,} states (those with a score). It takes
        **{report["bare_ratio"]:.2f}** times as long as these passes alone over all states (target: at most
        {settings["target"]}), {report["bare_ratio_scored_rows"]:.2f} times as long as over the states with a score; the
        head is {report["head_share_of_bare"]:.0%} of the passes. Integrated gradients ({settings["steps"]} steps) take
        {longer["integrated gradients"]:.1f} times as long, occlusion {longer["occlusion"]:.1f} times, Shapley sampling
        ({settings["orders"]} orders) {longer["Shapley sampling"]:.0f} times."""),
        "",
        "| what | sentences | seconds |",
        "|---|---|---|",
    ]
    lines += [f"| {row['what']} | {row['sentences']} | {row['seconds']:.3f} |" for row in report["rows"]]
for path in sorted((HERE / "results").glob("games-*.json")):
    report = json.loads(path.read_text())
    memory = report["resident_mb"]
    lines += [
        "",
        f"## The games: {report['hardware']}",
        "",
        *paragraph(f"""Hiding and revealing with {report["methods"]} methods at {report["points"]} points on
        {report["sentences"]} sentences: **{report["seconds"] / 60:.1f} minutes**, for {report["maskings_run"]:,}
        maskings of {report["maskings_asked"]:,} (each set of tokens once). Resident memory:
        {memory["after a quarter"]:.0f} MB after a quarter of the texts,
        {memory["at the end"]:.0f} MB at the end, {memory["most"]:.0f} MB at most."""),
    ]
for path in sorted((HERE / "results").glob("responses-*.json")):
    lines += responses_section(json.loads(path.read_text()))
for path in sorted((HERE / "results").glob("long_prompts-*.json")):
    lines += long_prompts_section(json.loads(path.read_text()))
for path in sorted((HERE / "results").glob("serve.json")):
    report = json.loads(path.read_text())
    settings, memory = report["settings"], report["memory"]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    lines += [
        "",
        f"## `whence serve`: {report['hardware']}",
        "",
        *paragraph(f"""Clients that ask again as soon as they are answered, {settings["texts"]} reviews, median of
        {settings["repeats"]} runs of {settings["seconds"]:.0f} s in turn (`benchmarks/serve.py`). *bare* is
        transformers alone behind the same server, in the same batches; *of bare* is the rate over its rate in the same
        turn. {versions}."""),
        "",
        "| clients | asked | requests a second | of bare | p50 | p99 |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['clients']} | {row['asked']} | {row['rate']:.0f} | **{row['of_bare']:.2f}** "
        f"| {row['p50_ms']:.1f} ms | {row['p99_ms']:.1f} ms |"
        for row in report["rows"]
    ]
    after = next(point for point in memory if point[0] >= memory[-1][0] / 10)
    reached = {row["clients"]: row["of_bare"] >= ASKED_OF_BARE for row in report["rows"] if row["asked"] == "one_pass"}
    enough = ", ".join(str(clients) for clients, enough in reached.items() if enough) or "no number"
    short = ", ".join(str(clients) for clients, enough in reached.items() if not enough)
    lines += [
        "",
        *paragraph(f"""Of `one_pass` {ASKED_OF_BARE:.2f} of the bare rate was asked: reached with {enough} of
        clients{f", not with {short}" if short else ""}. What it adds to a pass is its own network and some hundred
        small steps, which weigh the less the larger the model and the more texts are answered together."""),
        "",
        *paragraph(f"""Memory: {after[1]:.0f} MB after {after[0]:,.0f} requests, {memory[-1][1]:.0f} MB after
        {memory[-1][0]:,.0f}, all of different texts."""),
    ]
for path in sorted((HERE / "results").glob("serve_hostile.json")):
    report = json.loads(path.read_text())
    lines += [
        "",
        "## `whence serve` under attack",
        "",
        *paragraph(f"""What was tried, how often, and whether it held: as said, and an ordinary client was answered
        afterwards (`benchmarks/serve_hostile.py`). Memory grew by {report["memory_grew_mb"]:.0f} MB meanwhile."""),
        "",
        "| tried | times | what came of it | held |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['tried']} | {row['times']:,} | {row['what']} | {'yes' if row['held'] else '**no**'} |"
        for row in report["rows"]
    ]
start = json.loads((HERE / "results" / "start.json").read_text())
lines += [
    "",
    "## Start",
    "",
    f"Seconds, median of {start['repeats']} fresh processes.",
    "",
    "| what | seconds |",
    "|---|---|",
]
lines += [f"| {what} | {seconds:.2f} |" for what, seconds in start["seconds"].items()]
if __name__ == "__main__":
    (HERE / "README.md").write_text("\n".join(lines) + "\n")
