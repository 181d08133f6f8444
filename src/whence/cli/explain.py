"""`whence explain`: the words of each text that the decision rests on."""

from __future__ import annotations

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
    MethodName,
    ModelName,
    Options,
    Pair,
    Probes,
    Revision,
    Save,
    ScaleName,
    Seed,
    SomeData,
    SomeTexts,
    SpanText,
    TargetName,
    TaskName,
    Trust,
    UnitName,
    Words,
    known_methods,
    methods_of,
    parse_options,
    parse_settings,
    parse_target,
    read_sources,
)
from whence.cli.progress import lenses_of, load_model
from whence.cli.reporting import (
    check_page,
    errors_reported,
    print_json,
    print_views,
    repeat_warnings,
    write_page,
)
from whence.errors import UsageError


def explain(
    texts: SomeTexts = None, data: SomeData = None, model: ModelName = None, method: MethodName = None,
    layers: LayerNames = None, units: UnitName = "token", target: TargetName = None, against: Against = None,
    scale: ScaleName = None,
    pair: Pair = None, span: SpanText = None, at: At = None, task: TaskName = None, revision: Revision = None,
    trust: Trust = False, head: HeadName = None, option: Options = None, probes: Probes = None,
    as_json: Json = False, save: Save = None, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    words: Words = True, all_tokens: AllTokens = False, debug: Debug = False,
) -> None:  # fmt: skip
    """Tell which words of each text the model's decision rests on.

    Write -- before a text that begins with a dash.
    """
    with errors_reported(debug):
        from whence.methods.explain import explain as explain_texts

        sources = read_sources(texts or [], pair, data)
        if save is not None and len(sources) != 1:
            raise UsageError(f"--save holds one explanation, but there are {len(sources)} texts", "use --json > FILE")
        check_page(html)
        settings = parse_settings(layers, scale, seed, batch_tokens) | {"units": units}
        options = parse_options(option or []) | ({} if probes is None else {"probes": probes})
        asked = method or (methods_of(probes)[0] if probes else None)
        method = known_methods([asked])[0] if asked else None
        loaded = load_model(model, task, revision, head, trust=trust)
        wanted = parse_target(loaded.reading.labels, target, against, span, at)
        explanations = explain_texts(loaded, sources, method, target=wanted, progress=True, **settings, **options)
        if save is not None:
            explanations[0].save(save)
        if as_json:
            print_json(explanations)
        else:
            from whence.render.terminal import explanation_view

            print_views(explanation_view(each, words=words, everything=all_tokens) for each in explanations)
        repeat_warnings(explanations, as_json)
        write_page(explanations, html, lenses_of(loaded, explanations) if html else [])
