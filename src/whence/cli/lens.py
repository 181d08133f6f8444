"""`whence lens`: the words that a language-model head reads at each layer."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from whence.cli.arguments import (
    AllTokens,
    Debug,
    Generate,
    HeadName,
    Html,
    Json,
    LayerNames,
    MaxNewTokens,
    ModelName,
    OneText,
    Pair,
    ResponseText,
    Revision,
    TaskName,
    Trust,
    asked_of_response,
    parse_layers,
    read_texts,
)
from whence.cli.progress import load_model
from whence.cli.reporting import check_page, errors_reported, print_line, print_views, say
from whence.errors import UsageError

Top = Annotated[int, Option("--top", metavar="K", min=1, help="How many words at each position.")]


def lens(
    text: OneText, model: ModelName = None, head: HeadName = None, layers: LayerNames = None, top: Top = 5,
    pair: Pair = None, task: TaskName = None, revision: Revision = None, trust: Trust = False,
    as_json: Json = False, html: Html = None, all_tokens: AllTokens = False, debug: Debug = False,
    response: ResponseText = None, generate: Generate = False, max_new_tokens: MaxNewTokens = None,
) -> None:  # fmt: skip
    """Show the words that a language-model head reads at each layer of a text, or what each layer would have written.

    One layer alone is shown with all the words asked for. Of a response every token is shown, in whose place each layer
    would have written a word.
    """
    with errors_reported(debug):
        given = read_texts([text])
        if len(given) != 1:
            raise UsageError(f"a lens shows one text, but there are {len(given)}", "give one line")
        if response is not None and (generate or pair is not None):
            raise UsageError("--response takes the place of --generate and of --pair", "leave out one of them")
        check_page(html)
        loaded = load_model(model, task, revision, head, trust=trust)

        from whence.lens import decode_layers
        from whence.render.lens import lens_view

        source = given[0] if pair is None else (given[0], pair)
        asked = asked_of_response(response, None, None, max_new_tokens, generate)
        (found,) = decode_layers(loaded, [source], top, parse_layers(layers) or "all", **asked)
        if as_json:
            print_line(found.to_dict())
            sys.stdout.flush()
        else:
            print_views([lens_view(found, everything=all_tokens)])
        if as_json or not sys.stdout.isatty():
            for warning in found.warnings:
                say(f"warning: {warning}")
        if html is not None:
            found.to_html(html)
            say(f"page: {html.absolute()}")
