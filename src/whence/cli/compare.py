"""`whence compare`: several methods side by side on one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence.cli.arguments import (
    Against,
    AllTokens,
    At,
    BatchTokens,
    Debug,
    HeadName,
    Html,
    Json,
    LayerNames,
    MethodNames,
    ModelName,
    OneText,
    Options,
    Pair,
    Probes,
    Revision,
    ScaleName,
    Seed,
    SpanText,
    TargetName,
    TaskName,
    known_methods,
    parse_options,
    parse_settings,
    parse_target,
    read_texts,
)
from whence.cli.progress import explain_texts, lenses_of, load_model
from whence.cli.reporting import (
    check_page,
    errors_reported,
    print_json,
    print_views,
    repeat_warnings,
    write_page,
)
from whence.errors import UnknownNameError, UsageError


def compare(
    text: OneText, methods: MethodNames, model: ModelName = None, layers: LayerNames = None,
    target: TargetName = None, against: Against = None, scale: ScaleName = None, pair: Pair = None,
    span: SpanText = None, at: At = None, task: TaskName = None, revision: Revision = None,
    head: HeadName = None, option: Options = None, probes: Probes = None,
    as_json: Json = False, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    all_tokens: AllTokens = False, debug: Debug = False,
) -> None:  # fmt: skip
    """Put several methods side by side on one text.

    Below the words stands how far the methods agree. An option goes to every method that has it.
    """
    with errors_reported(debug):
        given = read_texts([text])
        if len(given) != 1:
            raise UsageError(f"one text is compared at a time, but there are {len(given)}", "give one line")
        check_page(html)
        names = known_methods([name.strip() for name in methods.split(",") if name.strip()])
        settings = parse_settings(layers, scale, seed, batch_tokens)
        options = parse_options(option or []) | ({} if probes is None else {"probes": probes})
        shares = _shared_options(names, options)
        loaded = load_model(model, task, revision, head)
        settings["target"] = parse_target(loaded.reading.labels, target, against, span, at)
        explanations = [
            explain_texts(loaded, given, pair, name, **settings, **share)[0]
            for name, share in zip(names, shares, strict=True)
        ]
        if as_json:
            print_json(explanations)
        else:
            from whence.render.terminal import comparison_view

            print_views([comparison_view(explanations, everything=all_tokens)])
        repeat_warnings(explanations, as_json)
        write_page(explanations, html, lenses_of(loaded, explanations) if html else [])


def _shared_options(names: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """For each method those options that it has; every option must be known to one of them."""
    from whence.methods.names import method_named

    known = [method_named(name).method.options for name in names]
    for option in options:
        if not any(option in each for each in known):
            raise UnknownNameError(
                f"option of {', '.join(names)}", option, sorted({name for each in known for name in each})
            )
    return [{option: value for option, value in options.items() if option in each} for each in known]
