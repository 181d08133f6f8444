"""A lens as one page: what the model says, how sure it is of that layer by layer, and what the head reads everywhere.

Drawn by the scripts in `pages/lens`, which only draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whence.explanation import Layer, height
from whence.render.glossary import words_for
from whence.render.rows import blanks_shown, token_label, unquoted
from whence.render.shell import packed, shell
from whence.render.visible import shortened, visible
from whence.render.wording import layer_words, model_name, model_words, running

if TYPE_CHECKING:
    from whence.lens import Lens
    from whence.lens_answer import LensAnswer

SCHEMA = "whence.lens_page/1"
TITLE = "What the model reads, layer by layer"
_LONGEST = 60  # characters of a token
_LONGEST_RESPONSE = 300  # of those on top

# what stands below the line: what is put on each layer, by what the model is for
_OWN_HEADS = {
    "classification": (
        "The model’s own classifier is put on the states of each layer, as if the blocks above it were not there. It "
        "was trained on the last layer alone: where it is unsure lower down, the decision may be there in a form that "
        "it cannot read."
    ),
    "causal_lm": (
        "The model’s own head, which was trained to say the next token, is put on the state of the last token at each "
        "layer, as if the blocks above it were not there."
    ),
    "masked_lm": (
        "The model’s own head, which was trained to fill in hidden tokens, is put on the state of the mask at each "
        "layer, as if the blocks above it were not there."
    ),
}


def lens_page(lens: Lens) -> str:
    """One self-contained file."""
    return shell("lens", ("path", "lens"), TITLE, page_data(lens), shared=("lens/squares",))


def page_data(lens: Lens) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    tokens = [token_label(lens.tokens, position, lens.text, lens.pair) for position in range(len(lens.tokens))]
    written = () if lens.written is None else lens.written.positions  # it counts as special, but is what is asked about
    special = [token.special and at not in written for at, token in enumerate(lens.tokens)]
    return {
        "schema": SCHEMA,
        "said": sentence(lens),
        "wrote": None if lens.response is None else _cut(running(lens.response.strip())),
        "sources": [
            running(source) for source in (lens.text, lens.pair) if source is not None and source != lens.response
        ],
        "followed": None if lens.written is None else lens.written.positions.start - 1,
        "tokens": {
            "label": [shortened(label, _LONGEST) for label in tokens],
            "special": [int(each) for each in special],
        },
        "lens": lens_data(lens),
        "answer": None if lens.answer is None else _answer(lens.answer, lens.model.task),
        "warnings": [visible(warning) for warning in lens.warnings],
        "facts": [
            ["model", model_words(lens.model)],
            ["head", visible(f"of {model_name(lens.head)}, trained to {_trained(lens)}")],
            ["layers", layer_words(lens.layers)],
            ["tokens", f"{len(lens.tokens)}, of which {sum(special)} special"],
        ],
        "glossary": words_for("layer", "state", "token", "head", "block", "rank"),
    }


def sentence(lens: Lens) -> str:
    """From which layer on what the model says stands fast, in words; without an answer, what is to be seen."""
    answer = lens.answer
    if lens.written is not None:
        return _written(lens.written.settled, lens.layers)
    if answer is None:
        return f"What {visible(model_name(lens.head))} reads in each token, layer by layer."
    first = settled_at(answer)
    if first is None:
        other = said(answer.said[-1])
        return f"Read off at layer {answer.layers[-1]}, the highest looked at, the likeliest is still {other}."
    if first == 0:
        return "Read off layer by layer, that is the likeliest at every one looked at."
    below = said(answer.said[first - 1])
    lowest = answer.layers[first]
    return f"Read off layer by layer, that is the likeliest from layer {lowest} on; just below, {below} is."


def _written(settled: Sequence[Layer | None], layers: Sequence[Layer]) -> str:
    """How much of a response the highest layer would have written, and from where on."""
    at = sorted((layer for layer in settled if layer is not None), key=height)
    highest = layers[-1]
    if len(settled) == 1:
        return (
            f"Read off layer by layer, that is the likeliest from layer {at[0]} on."
            if at
            else f"Not even layer {highest} would write it."
        )
    share = "all" if len(at) == len(settled) else str(len(at))
    half = f"; half of these stay the likeliest from layer {at[(len(at) - 1) // 2]} on" if at else ""
    return f"Layer {highest}, the highest looked at, would write {share} of these {len(settled)} tokens{half}."


def _cut(response: str) -> str:
    return response if len(response) <= _LONGEST_RESPONSE else f"{response[: _LONGEST_RESPONSE - 1]}…"


def settled_at(answer: LensAnswer) -> int | None:
    """The index of the lowest layer from which on the answer stays the likeliest; None if it is not at the highest."""
    first = None
    for index in reversed(range(len(answer.layers))):
        if answer.ranks[index] != 1:
            break
        first = index
    return first


def said(label: str) -> str:
    """An answer as it is read."""
    return shortened(unquoted(label), _LONGEST)


def lens_data(lens: Lens) -> dict[str, Any]:
    """Each word once, and by number in the squares; for a head that says what follows, the token that follows."""
    words: dict[str, int] = {}
    top = [words.setdefault(word, len(words)) for layer in lens.words for square in layer for word in square]
    if lens.written is not None:
        shares: Any = lens.written.shares
    else:
        shares = lens.read_ahead if lens.next_token else lens.read_back
    return {
        "layers": list(lens.layers),
        "k": lens.ids.shape[2],
        "words": [shortened(blanks_shown(word), _LONGEST) for word in words],
        "top": top,
        "probabilities": packed(lens.probabilities),
        "sought": packed(lens.sought_probabilities),
        "ranks": lens.sought_ranks.ravel().tolist(),
        "shares": None if shares is None else shares.tolist(),
        "head": visible(model_name(lens.head)),
        "nextToken": lens.next_token,
        "wrote": lens.written is not None,
    }


def _answer(answer: LensAnswer, task: str) -> dict[str, Any]:
    return {
        "label": said(answer.label),
        "probability": round(answer.probability, 6),
        "position": answer.position,
        "layers": list(answer.layers),
        "said": [said(each) for each in answer.said],
        "probabilities": answer.probabilities.astype(float).round(6).tolist(),
        "ranks": answer.ranks.tolist(),
        "caption": _OWN_HEADS.get(task, ""),
    }


def _trained(lens: Lens) -> str:
    return "say the next token" if lens.next_token else "fill in hidden tokens"
