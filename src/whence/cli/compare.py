"""`whence compare`: several methods side by side on one text."""

from __future__ import annotations

from whence.cli.arguments import (
    Against,
    AllTokens,
    At,
    BatchTokens,
    BoardFolder,
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
    Trust,
    UnitName,
    fetched,
    known_methods,
    parse_options,
    parse_settings,
    parse_target,
    parse_units,
    read_texts,
)
from whence.cli.progress import lenses_of, load_model
from whence.cli.reporting import (
    board_at,
    check_page,
    errors_reported,
    print_json,
    print_views,
    repeat_warnings,
    write_page,
)
from whence.errors import UsageError


def compare(
    text: OneText, methods: MethodNames, model: ModelName = None, layers: LayerNames = None, units: UnitName = "token",
    target: TargetName = None, against: Against = None, scale: ScaleName = None, pair: Pair = None,
    span: SpanText = None, at: At = None, task: TaskName = None, revision: Revision = None, trust: Trust = False,
    head: HeadName = None, option: Options = None, probes: Probes = None,
    as_json: Json = False, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    all_tokens: AllTokens = False, debug: Debug = False, board: BoardFolder = None,
) -> None:  # fmt: skip
    """Put several methods side by side on one text.

    Below the words stands how far the methods agree. An option goes to every method that has it.
    """
    with errors_reported(debug):
        from whence.comparison import compare as compare_methods
        from whence.comparison import shared_options

        given = read_texts([text])
        if len(given) != 1:
            raise UsageError(f"one text is compared at a time, but there are {len(given)}", "give one line")
        check_page(html)
        found = board_at(board)
        names = known_methods([name.strip() for name in methods.split(",") if name.strip()])
        if not names:
            raise UsageError("no method is named", "give some with commas: --methods held_still,shapley")
        settings = parse_settings(layers, scale, seed, batch_tokens) | {"units": parse_units(units)}
        probes = fetched(probes)
        options = parse_options(option or []) | ({} if probes is None else {"probes": probes})
        shared_options(names, options)  # checked before a model is loaded
        loaded = load_model(model, task, revision, head, trust=trust)
        settings["target"] = parse_target(loaded.reading.labels, target, against, span, at)
        source = given[0] if pair is None else (given[0], pair)
        explanations = compare_methods(loaded, source, names, progress=True, **settings, **options).explanations
        if as_json:
            print_json(explanations)
        else:
            from whence.render.terminal import comparison_view

            print_views([comparison_view(explanations, everything=all_tokens)])
        repeat_warnings(explanations, as_json)
        write_page(explanations, html, lenses_of(loaded, explanations) if html else [], found)
