"""`whence evaluate`: which explanation to believe, for this model, on these texts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from whence.cli import completion
from whence.cli.arguments import (
    BatchTokens,
    DataDir,
    DataName,
    Debug,
    Generate,
    HeadName,
    Json,
    MaxNewTokens,
    ModelName,
    Probes,
    ResponseColumn,
    Revision,
    Seed,
    Split,
    TaskName,
    Trust,
    asked_responses,
    fetched,
    known_methods,
    methods_of,
    parse_options,
)
from whence.cli.progress import load_model
from whence.cli.reporting import errors_reported, print_line, print_views, say
from whence.errors import UnknownNameError, UsageError
from whence.progress import reporter

if TYPE_CHECKING:
    from whence.data import Example
    from whence.explanation import Layer
    from whence.models.layered import LayeredModel
    from whence.scoreboard.board import Scoreboard

USUAL_LIMIT = 200  # texts: enough for narrow intervals, and minutes of work
SECONDS_BETWEEN_LINES = 10

Folder = Annotated[
    Path, Option("--out", metavar="FOLDER", help="Where the board goes; a killed run goes on from there.")
]
SomeMethods = Annotated[
    str | None,
    Option(
        "--methods",
        metavar="A,B,C",
        help="Names from `whence methods`; without it all that work.",
        autocompletion=completion.methods,
    ),
]
MetricNames = Annotated[
    str | None,
    Option(
        "--metrics", metavar="A,B", help="Names or groups from `whence metrics`.", autocompletion=completion.metrics
    ),
]
LayerName = Annotated[str, Option("--layer", metavar="LAYER", help="best (chosen on held-out texts), each, or one.")]
BudgetName = Annotated[
    str,
    Option("--budget", metavar="full|small", help="small: the dear methods get less, and are so called."),
]
HideName = Annotated[str, Option("--hide", metavar="WAY", help="How a token is hidden.")]
SecondHide = Annotated[str, Option("--second-hide", metavar="WAY", help="How it is hidden for the second ranking.")]
Beam = Annotated[
    int | None, Option("--beam", metavar="N", min=1, help="Width of the search for the best order of a text's words.")
]
SomeLimit = Annotated[int, Option("--limit", metavar="N", min=1, help="At most so many texts, drawn by --seed.")]
MethodOptions = Annotated[
    list[str] | None, Option("--option", "-o", metavar="METHOD.NAME=VALUE", help="A method's option.")
]


def evaluate(
    data: DataName, out: Folder, model: ModelName = None, methods: SomeMethods = None, metrics: MetricNames = None,
    layer: LayerName = "best", budget: BudgetName = "full", hide: HideName = "auto", second_hide: SecondHide = "auto",
    beam: Beam = None, option: MethodOptions = None, probes: Probes = None, data_dir: DataDir = None,
    split: Split = None, limit: SomeLimit = USUAL_LIMIT, task: TaskName = None, revision: Revision = None,
    trust: Trust = False, head: HeadName = None, as_json: Json = False, seed: Seed = 0,
    batch_tokens: BatchTokens = None, debug: Debug = False, response_column: ResponseColumn = None,
    generate: Generate = False, max_new_tokens: MaxNewTokens = None,
) -> None:  # fmt: skip
    """Tell which explanation to believe, for this model, on these texts.

    Every method explains the same texts and is judged by the same tests, beside controls that know nothing, or
    everything. Gold labels and people's marks are used where the data has them. A decoder's next token is explained, or
    its responses: those of a column, or what it generates.
    """
    with errors_reported(debug):
        from whence.metrics.table import chosen_metrics
        from whence.scoreboard.budget import BUDGETS

        names = None if methods is None else known_methods(_names(methods))
        asked = None if metrics is None else _names(metrics)
        chosen_metrics(asked)  # a wrong name is told before a model is loaded
        if budget not in BUDGETS:
            raise UnknownNameError("budget", budget, BUDGETS)
        options = parse_method_options(option or [], fetched(probes), names)
        responses = asked_responses(response_column, generate, max_new_tokens)
        examples = _examples(data, data_dir, split, limit, seed, response_column)
        if response_column is not None:
            responses = {"responses": [example.response for example in examples]}
        loaded = load_model(model, task, revision, head, trust=trust)
        board = _evaluate(
            loaded, examples, methods=names, metrics=asked, options=options, layer=_layer(layer), limit=limit,
            budget=budget, hide=hide, second_hide=second_hide, beam=beam, folder=out, seed=seed,
            batch_tokens=batch_tokens, **responses,
        )  # fmt: skip
        _write(board, out)
        if as_json:
            print_line(board.to_dict())
            sys.stdout.flush()
        else:
            print_views([board])


def _names(listing: str) -> list[str]:
    return [name.strip() for name in listing.split(",") if name.strip()]


def parse_method_options(
    options: Sequence[str], probes: Path | None, asked: Sequence[str] | None
) -> dict[str, dict[str, Any]]:
    """The options of each method; of those asked for (None: all) the ones that probes are for get their folder."""
    served = methods_of(probes) if probes else ()
    found: dict[str, dict[str, Any]] = {name: {"probes": probes} for name in served if asked is None or name in asked}
    for each in options:
        method, dot, rest = each.partition(".")
        if not dot or "=" not in rest or "=" in method:
            raise UsageError(f"{each!r} is not an option", "write METHOD.NAME=VALUE, as in --option lime.samples=200")
        known_methods([method])
        found.setdefault(method, {}).update(parse_options([rest]))
    return found


def _layer(layer: str) -> Layer | str:
    return int(layer) if layer.removeprefix("-").isdecimal() else layer


def _examples(
    data: str, data_dir: Path | None, split: str | None, limit: int, seed: int, response_column: str | None
) -> list[Example]:
    """As many texts as are judged, and some more to choose layers on where the data has them."""
    from whence.data import KNOWN, read
    from whence.scoreboard.evaluate import HELD_OUT

    where = data_dir if data in KNOWN else None
    return read(data, data_dir=where, split=split, limit=limit + HELD_OUT, seed=seed, response_column=response_column)


def _evaluate(model: LayeredModel, examples: Sequence[Example], **settings: Any) -> Scoreboard:
    from whence.scoreboard.evaluate import evaluate as evaluate_methods
    from whence.scoreboard.rationales import leaf_rationale

    rationales = [leaf_rationale(example) for example in examples]
    with reporter(True if sys.stderr.isatty() else StepLines(say)) as report:
        return evaluate_methods(
            model,
            [example.as_input for example in examples],
            None if "responses" in settings else _labels(model, examples),
            rationales=None if all(rationale is None for rationale in rationales) else rationales,
            progress=report,
            announce=lambda sentence: say(f"note: {sentence}"),
            **settings,
        )


def _labels(model: LayeredModel, examples: Sequence[Example]) -> list[int] | None:
    """Gold labels in the model's own numbering; none where texts lack them or they are not the model's."""
    from whence.data import labels_as_ids

    if any(example.label is None for example in examples):
        return None
    try:
        return labels_as_ids(examples, model.reading.labels)
    except (UsageError, UnknownNameError) as error:
        say(f"note: judged without gold labels: {error.problem}")
        return None


class StepLines:
    """Progress where there is no terminal: a line when a step ends, and between these one every few seconds at most.

    Each says what is under way, and what is still to come.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._started = self._said = clock()
        self._steps: dict[str, tuple[int, int]] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        ends = done == total and self._steps.get(step, (0, 0))[0] < total
        self._steps[step] = (done, total)
        now = self._clock()
        if not ends and (not done or now - self._said < SECONDS_BETWEEN_LINES):
            return
        self._said = now
        minutes, seconds = divmod(round(now - self._started), 60)
        under_way = [
            f"{name} {so_far} of {in_all}"
            for name, (so_far, in_all) in self._steps.items()
            if name == step or 0 < so_far < in_all
        ]
        to_come = [name for name, (so_far, _) in self._steps.items() if not so_far]
        rest = f"; to come: {', '.join(to_come)}" if to_come else ""
        self._say(f"{minutes}:{seconds:02} {', '.join(under_way)}{rest}")


def _write(board: Scoreboard, out: Path) -> None:
    from whence.files import write_whole
    from whence.render.scoreboard_page import texts_page

    board.save(out)
    write_whole(texts_page(board), out / "texts.html")
    board.to_html(out / "scoreboard.html", texts="texts.html")
    say(f"board: {(out / 'scoreboard.html').absolute()}")
