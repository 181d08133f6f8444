"""`whence cite`: an answer to a question about documents, and what each of its sentences rests on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from whence.cli.arguments import BatchTokens, Debug, Html, Json, ModelName, Revision, Sample, Save, Seed, Trust
from whence.cli.progress import load_model
from whence.cli.reporting import check_page, errors_reported, print_line, print_views, say
from whence.errors import UnknownNameError, UsageError

Question = Annotated[str, Option("--question", metavar="TEXT", help="What is asked.")]
DocumentPaths = Annotated[
    list[Path], Option("--documents", metavar="FOLDER|FILE", help="Texts (.txt, .md), a folder of them, or a table.")
]
GivenAnswer = Annotated[
    str | None, Option("--answer", metavar="TEXT", help="The answer to look at; else the model writes one.")
]
CitingMethod = Annotated[
    str, Option("--method", metavar="NAME", help="balanced, context_cite, leave_one_out, shapley, attention, ...")
]
SourceUnits = Annotated[str, Option("--sources", metavar="UNIT", help="What is cited: sentence, paragraph, document.")]
Budget = Annotated[str, Option("--budget", metavar="N|auto", help="Sets of sources asked about; auto: until settled.")]

Longest = Annotated[int, Option("--max-new-tokens", metavar="N", min=1, help="How long the model's answer may be.")]


def cite(
    question: Question, documents: DocumentPaths, model: ModelName = None, answer: GivenAnswer = None,
    method: CitingMethod = "balanced", sources: SourceUnits = "sentence", budget: Budget = "auto",
    max_new_tokens: Longest = 128, sample: Sample = False, revision: Revision = None, trust: Trust = False,
    as_json: Json = False, save: Save = None, html: Html = None, seed: Seed = 0, batch_tokens: BatchTokens = None,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Answer a question about documents, and tell which sources each sentence of the answer rests on."""
    with errors_reported(debug):
        from whence.citing.cite import CITING_METHODS
        from whence.citing.cite import cite as cite_answer
        from whence.citing.documents import SOURCE_UNITS, read_documents
        from whence.render.citations import citations_view

        if model is None:
            raise UsageError("no model is named, and no embedded one writes", "name a decoder, as in --model gpt2")
        if method not in CITING_METHODS:
            raise UnknownNameError("citing method", method, CITING_METHODS)
        if sources not in SOURCE_UNITS:
            raise UnknownNameError("unit of sources", sources, SOURCE_UNITS)
        if budget != "auto" and not budget.isdecimal():
            raise UsageError(f"--budget is {budget!r}", "give a number of sets, or auto")
        check_page(html)
        texts = read_documents(documents)
        loaded = load_model(model, None, revision, trust=trust)
        found = cite_answer(
            loaded, question, texts, answer=answer, method=method, sources=sources,
            budget="auto" if budget == "auto" else int(budget), max_new_tokens=max_new_tokens, sample=sample, seed=seed,
            batch_tokens=batch_tokens,
        )  # fmt: skip
        if save is not None:
            found.save(save)
        if as_json:
            print_line(found.to_dict())
            sys.stdout.flush()
        else:
            print_views([citations_view(found)])
        if as_json or not sys.stdout.isatty():
            for warning in found.warnings:
                say(f"warning: {warning}")
        if html is not None:
            found.to_html(html)
            say(f"page: {html.absolute()}")
