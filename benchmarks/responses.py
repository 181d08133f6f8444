"""Explaining what a decoder wrote: whence beside captum's LLM attribution and inseq, equal scores first, then seconds.

    python benchmarks/responses.py --model FOLDER --out benchmarks/results/responses-cpu.json

Every package explains the same token ids of one prompt and one response, with the same baseline where there is one, and
its scores of every response token are compared with whence's, so that no ratio is won by computing something else.
captum's leave-one-out runs with the whole response in one pass and token by token (its default), always with
`use_cached_outputs=False`: with its default cache, what it says after the first token of a response is wrong. inseq
reads texts, so the text must come back to the same ids. What takes a pass per prompt token and response token (captum's
default, inseq's occlusion, which leaves out the sign) gets the first tokens of the response only, and inseq's path of
integrated gradients also leads through the response's own earlier tokens, which whence leaves as they are, so that only
the first token's scores are the same number; whence's seconds are of the whole response in every row. Packages that are
not installed are left out, with the reason. Every row says how many processors others kept busy while whence and then
the other package ran (where that is not near zero, the ratio of their own processor seconds says more than that of
seconds), and whether it stayed from an earlier run. Before whence is timed it explains a short prompt: it compares a
model's gradients with differences once, when it first meets the model. Where whence can also explain the response as a
whole (`each_token=False`), that is held to the sum of what the others say of its tokens, for which they have no faster
way: their seconds are those of the same run.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from other_work import Moment

import whence
from whence.embedded import reviews
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.models.responses import generate, responding

Table = np.ndarray  # axes (response token, prompt token)


class Timed(NamedTuple):
    """What a package said, how long that took, and how many processors others kept busy meanwhile."""

    scores: Table
    seconds: float
    processor_seconds: float
    busy_others: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder or a hub id of a decoder")
    parser.add_argument("--prompt-tokens", type=int, default=200)
    parser.add_argument("--response-tokens", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contests", nargs="+", default=list(CONTESTS), choices=CONTESTS, help="only these")
    parser.add_argument("--out", type=Path, help="rows that are there and are not measured now stay")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    model = whence.load(options.model)
    prompt = model.encode(" ".join(review["text"] for review in reviews())).ids[: options.prompt_tokens]
    response = generate(model, prompt, max_new_tokens=options.response_tokens)
    encoding = responding(model).encode_response(prompt, response)
    rows, left_out = list[dict[str, Any]](), dict[str, str]()
    if options.out and options.out.exists():
        known = json.loads(options.out.read_text())["rows"]
        measured_now = {*options.contests, *map(as_a_whole, options.contests)}
        rows = [{**row, "earlier": True} for row in known if row["method"] not in measured_now]
    short = responding(model).encode_response(prompt[:12], response[:2])
    for method in options.contests:
        ours, *peers = CONTESTS[method]
        ours(model, short)  # looks at the model's gradients once, before anybody believes them
        mine = timed(ours, model, encoding)
        whole = timed(WHOLE[method], model, encoding) if method in WHOLE else None
        for package, name, peer in peers:
            if (why := missing(package)) is not None:
                left_out[package] = why
                continue
            theirs = timed(peer, model, encoding)
            found = [{"method": method, "package": package, "setting": name, **beside(mine, theirs)}]
            if whole is not None:
                summed = theirs._replace(scores=theirs.scores.sum(axis=0, keepdims=True))
                name = f"{name}, its tokens summed"
                row = {"method": as_a_whole(method), "package": package, "setting": name}
                found.append({**row, **beside(whole, summed), "tokens": len(theirs.scores)})
            for row in found:
                seconds = f"{row['seconds']:8.2f} s / {row['whence_seconds']:6.2f} s = {row['ratio']:6.1f}x"
                told = f"{row['tokens']} tokens, apart by {row['apart']:.1e}"
                print(f"{row['method']:20} {row['package']} {row['setting']:24} {seconds}  {told}", flush=True)
            rows += found
            if options.out:
                write(options, rows, left_out, len(prompt), len(response))


def as_a_whole(method: str) -> str:
    return f"{method}, the whole response"


def beside(mine: Timed, theirs: Timed) -> dict[str, Any]:
    """How far another's scores are from whence's of the same tokens, and how much longer they took."""
    same = mine.scores[: len(theirs.scores)]
    far = float(np.abs(theirs.scores - same).max() / np.abs(same).max())
    return {
        "whence_seconds": mine.seconds, "tokens": len(theirs.scores), "seconds": theirs.seconds,
        "ratio": theirs.seconds / mine.seconds, "apart": far,
        "processor_ratio": theirs.processor_seconds / mine.processor_seconds,
        "busy_others": [mine.busy_others, theirs.busy_others],
    }  # fmt: skip


def missing(package: str) -> str | None:
    try:
        version(package)
    except PackageNotFoundError as error:
        return f"not installed: {error}"
    return None


def timed(run: Callable[[LayeredModel, Encoding], Table], model: LayeredModel, encoding: Encoding) -> Timed:
    others, started, worked = Moment.now(), time.perf_counter(), time.process_time()
    found = run(model, encoding)
    return Timed(found, time.perf_counter() - started, time.process_time() - worked, others.others_since())


def write(
    options: argparse.Namespace, rows: list[dict[str, Any]], left_out: dict[str, str], prompt: int, response: int
) -> None:
    names = ("torch", "transformers", "captum", "inseq", "whence")
    known = json.loads(options.out.read_text())["versions"] if options.out.exists() else {}  # of rows that stay
    report = {
        "rows": rows,
        "left_out": left_out,
        "model": Path(options.model).name,
        "settings": {"prompt_tokens": prompt, "response_tokens": response},
        "hardware": f"{platform.machine()}, {options.threads} threads",
        "versions": known | {name: version(name) for name in names if missing(name) is None},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def explained(model: LayeredModel, encoding: Encoding, method: str, **settings: Any) -> Table:
    first = encoding.response.start
    found = whence.explain(
        model, encoding.ids[:first], method, response=encoding.ids[first:], layers="embeddings", **settings
    )
    assert found.outputs is not None
    return found.outputs.scores[:, 0, :first]


def baseline_of(model: LayeredModel) -> int:
    """An ordinary token, the same for all: that of " the", or any other of the vocabulary."""
    return model.tokenizer.id_of("Ġthe") or 5


def leave_one_out(model: LayeredModel, encoding: Encoding) -> Table:
    return explained(model, encoding, "leave_one_out", baseline=baseline_of(model), special=True)


def gradient_x_input(model: LayeredModel, encoding: Encoding) -> Table:
    return explained(model, encoding, "gradient_x_input")


def whole_gradient_x_input(model: LayeredModel, encoding: Encoding) -> Table:
    first = encoding.response.start
    found = whence.explain(
        model, encoding.ids[:first], "gradient_x_input", response=encoding.ids[first:], layers="embeddings",
        each_token=False,
    )  # fmt: skip
    return found.scores[:, :first]


def captum_leave_one_out(
    model: LayeredModel, encoding: Encoding, *, forward_in_tokens: bool, tokens: int | None = None
) -> Table:
    """Of the first `tokens` of the response, or of all."""
    from captum.attr import FeatureAblation, LLMAttribution

    attribution = LLMAttribution(FeatureAblation(model.module), tokenizer_of(model))
    found = attribution.attribute(
        captum_input(model, encoding),
        target=torch.tensor(encoding.ids[encoding.response.start :][:tokens]),
        use_cached_outputs=False,
        forward_in_tokens=forward_in_tokens,
    )
    return np.asarray(found.token_attr)


def captum_gradient_x_input(model: LayeredModel, encoding: Encoding) -> Table:
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution

    words: Any = model.stack.embedding
    attribution = LLMGradientAttribution(LayerGradientXActivation(model.module, words), tokenizer_of(model))
    found = attribution.attribute(
        captum_input(model, encoding), target=torch.tensor(encoding.ids[encoding.response.start :])
    )
    return np.asarray(found.token_attr)


def captum_input(model: LayeredModel, encoding: Encoding) -> Any:
    """The ids themselves as captum's interpretable input: it would tokenise a text again."""
    from captum.attr import TextTokenInput

    made = TextTokenInput("a", tokenizer_of(model), baselines=baseline_of(model))
    ids = torch.tensor([encoding.ids[: encoding.response.start]])
    made.inp_tensor, made.itp_tensor, made.itp_mask = ids, ids, None
    made.values = [str(number) for number in ids[0].tolist()]
    made.n_itp_features = ids.shape[1]
    return made


def tokenizer_of(model: LayeredModel) -> Any:
    return model.tokenizer.tokenizer  # type: ignore[attr-defined]


def whole_response(model: LayeredModel, encoding: Encoding) -> Table:
    return captum_leave_one_out(model, encoding, forward_in_tokens=False)


def token_by_token(model: LayeredModel, encoding: Encoding) -> Table:
    return captum_leave_one_out(model, encoding, forward_in_tokens=True, tokens=FEW)


def from_unknown(model: LayeredModel, encoding: Encoding, method: str, **settings: Any) -> Table:
    """With the tokenizer's token for the unknown in the place of others, as inseq has it."""
    return explained(model, encoding, method, baseline=tokenizer_of(model).unk_token_id, special=True, **settings)


def sizes_from_unknown(model: LayeredModel, encoding: Encoding) -> Table:
    return np.abs(from_unknown(model, encoding, "leave_one_out"))


def inseq_scores(
    model: LayeredModel, encoding: Encoding, method: str, tokens: int | None = None, counted: int | None = None,
    **settings: Any,
) -> Table:  # fmt: skip
    """Of the first `tokens` of the response, or of all; the first `counted` of them are compared."""
    import inseq  # type: ignore[import-not-found]

    tokenizer, first = tokenizer_of(model), encoding.response.start
    prompt, whole = (tokenizer.decode(ids) for ids in (encoding.ids[:first], encoding.ids))
    if tokenizer(whole)["input_ids"] != list(encoding.ids):
        raise SystemExit("the text comes back to other tokens: choose another number of prompt tokens")
    reader = inseq.load_model(model.module, method, tokenizer=tokenizer, device="cpu")
    found = reader.attribute(
        prompt, whole, attributed_fn="probability", logprob=True, show_progress=False, pretty_progress=False,
        attr_pos_end=None if tokens is None else first + tokens, **settings,
    )  # fmt: skip
    scores = np.asarray(found.sequence_attributions[0].target_attributions)
    scores = scores.sum(-1) if scores.ndim == 3 else scores
    return scores[:first].T[:counted]


STEPS, FEW = 10, 2
WHOLE = {"gradient x input": whole_gradient_x_input}
CONTESTS: dict[str, tuple[Any, ...]] = {
    "gradient x input": (
        gradient_x_input,
        ("captum", "LLMGradientAttribution", captum_gradient_x_input),
        ("inseq", "input_x_gradient", partial(inseq_scores, method="input_x_gradient")),
    ),
    f"integrated gradients, {STEPS} steps": (
        partial(from_unknown, method="integrated_gradients", steps=STEPS),
        (
            "inseq", "integrated_gradients",
            partial(inseq_scores, method="integrated_gradients", counted=1, n_steps=STEPS, internal_batch_size=STEPS),
        ),
    ),
    "leave-one-out": (
        leave_one_out,
        ("captum", "response in one pass", whole_response),
        ("captum", f"token by token, {FEW} tokens", token_by_token),
    ),
    "leave-one-out, unknown": (
        sizes_from_unknown,
        ("inseq", f"occlusion of {FEW} tokens", partial(inseq_scores, method="occlusion", tokens=FEW)),
    ),
}  # fmt: skip


if __name__ == "__main__":
    main()
