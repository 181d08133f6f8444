"""`whence explain`: the words of each text that the decision rests on."""

from __future__ import annotations

from typing import Any

from whence.cli.arguments import (
    Against,
    AllTokens,
    At,
    BatchTokens,
    BoardFolder,
    Debug,
    EachWord,
    Generate,
    HeadName,
    Html,
    Json,
    LayerNames,
    MaxNewTokens,
    MessagesFile,
    MethodName,
    ModelName,
    Options,
    Pair,
    Probes,
    ResponseText,
    Revision,
    Sample,
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
    Whole,
    WithoutText,
    Words,
    asked_of_response,
    fetched,
    known_methods,
    methods_of,
    parse_options,
    parse_response_target,
    parse_settings,
    parse_target,
    parse_units,
    read_messages,
    read_sources,
    tag_targets,
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


def explain(
    texts: SomeTexts = None, data: SomeData = None, model: ModelName = None, method: MethodName = None,
    layers: LayerNames = None, units: UnitName = "token", target: TargetName = None, against: Against = None,
    scale: ScaleName = None,
    pair: Pair = None, span: SpanText = None, at: At = None, each_word: EachWord = False, task: TaskName = None,
    revision: Revision = None,
    trust: Trust = False, head: HeadName = None, option: Options = None, probes: Probes = None,
    as_json: Json = False, save: Save = None, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    words: Words = True, all_tokens: AllTokens = False, debug: Debug = False,
    response: ResponseText = None, generate: Generate = False, max_new_tokens: MaxNewTokens = None,
    sample: Sample = False,
    messages: MessagesFile = None, without: WithoutText = None, whole: Whole = False, board: BoardFolder = None,
) -> None:  # fmt: skip
    """Tell which words of each text the model's decision, or a decoder's response, rests on.

    Write -- before a text that begins with a dash.
    """
    with errors_reported(debug):
        from whence.methods.explain import explain as explain_texts

        sources: list[Any] = read_sources(texts or [], pair, data) if messages is None else [read_messages(messages)]
        if messages is not None and (texts or data is not None or pair is not None):
            raise UsageError("--messages takes the place of a text", "leave out one of them")
        responds = response is not None or generate or messages is not None
        if response is not None and (generate or len(sources) != 1):
            raise UsageError("--response is that of one text", "give one text, or let the model --generate them")
        if sample and (response is not None or not responds):
            raise UsageError("--sample is a way to write a response", "give --generate or --messages with it")
        if without is not None and not responds:
            raise UsageError("--without asks about a response", "give --response or --generate with it")
        if save is not None and len(sources) != 1:
            raise UsageError(f"--save holds one explanation, but there are {len(sources)} texts", "use --json > FILE")
        check_page(html)
        found = board_at(board)
        settings = parse_settings(layers, scale, seed, batch_tokens) | {"units": parse_units(units)}
        probes = fetched(probes)
        options = parse_options(option or []) | ({} if probes is None else {"probes": probes})
        asked = method or (methods_of(probes)[0] if probes else None)
        method = known_methods([asked])[0] if asked else None
        loaded = load_model(model, task, revision, head, trust=trust)
        if whole and not (responds or loaded.reading.responds):
            raise UsageError("--whole asks about a response", "give --response or --generate with it")
        if responds or loaded.reading.responds:
            wanted = parse_response_target(target, at)
            settings |= asked_of_response(response, against, without, max_new_tokens, generate or messages is None)
            settings |= {"each_token": not whole, "sample": sample}
        else:
            wanted = parse_target(loaded.reading.labels, target, against, span, at)
        if each_word:
            explanations: list[Any] = [
                explain_texts(loaded, source, method, target=tag, **settings, **options)
                for source in sources
                for tag in tag_targets(loaded, source, wanted)
            ]
        else:
            explanations = explain_texts(loaded, sources, method, target=wanted, progress=True, **settings, **options)
        if save is not None:
            explanations[0].save(save)
        if as_json:
            print_json(explanations)
        else:
            from whence.render.terminal import explanation_view

            print_views(explanation_view(each, words=words, everything=all_tokens) for each in explanations)
        repeat_warnings(explanations, as_json)
        write_page(explanations, html, lenses_of(loaded, explanations) if html else [], found)
