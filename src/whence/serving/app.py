"""The routes: the live page, the JSON API under the names that Python has, and its schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from whence.errors import FileError, ModelError, UsageError, WhenceError
from whence.explanation import Explanation
from whence.methods import METHODS
from whence.methods.names import method_named
from whence.render.live_page import live_page
from whence.render.page import TITLE, page, page_data
from whence.render.visible import visible
from whence.serving.asked import AskedExplanation, AskedPage, AskedPrediction, check
from whence.serving.docs import DOCS_POLICY, docs_page
from whence.serving.guard import NOTHING
from whence.serving.jobs import ENDED, Job, Jobs
from whence.serving.limits import LOG, BusyError, FailedError, Limits, TooLargeError, TooLongError
from whence.serving.models import Models, as_json

LOOKED_AFTER = 0.15
"""Seconds between two looks at a job that somebody watches."""
STATUS: tuple[tuple[type[WhenceError], int], ...] = (
    (TooLargeError, 413),
    (UsageError, 400),
    (FileError, 400),
    (ModelError, 422),
    (BusyError, 503),
    (TooLongError, 504),
)

_TELEMETRY = ("tracing", "metrics", "logs", "operation_spans", "auto_configure")


class Json(Response):
    """What is JSON already."""

    media_type = "application/json"


def make_app(models: Models, jobs: Jobs, limits: Limits, *, log_texts: bool = False) -> FastAPI:
    """The app over these models; it must stand behind a `Guard`."""
    app = FastAPI(
        title="whence",
        summary="Which words a text model's decision rests on.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        telemetry=cast("Any", dict.fromkeys(_TELEMETRY, False)),  # nothing of a text leaves
    )
    content, policy = live_page([served.about() for served in models], list(_methods()))

    def noted(asked: AskedPrediction | AskedExplanation) -> None:
        check(asked, limits)
        if log_texts:
            LOG.info("%s", asked.model_dump_json())

    @app.get("/", include_in_schema=False)
    async def live() -> Response:
        return HTMLResponse(content, headers={"content-security-policy": policy})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()), headers={"content-security-policy": DOCS_POLICY})

    @app.get("/api/models")
    async def list_models() -> list[dict[str, Any]]:
        """The models given at the start, with their labels, layers and methods; the first is the usual one."""
        return [served.about() for served in models]

    @app.get("/api/methods")
    async def list_methods() -> list[dict[str, Any]]:
        """The methods with what they need, cost and mean; those of few passes answer at once."""
        return list(_methods())

    @app.post("/api/predict", response_class=Json)
    async def predict(asked: AskedPrediction) -> Response:
        """What the model says of a text."""
        noted(asked)
        return Json(await models.named(asked.model).answer(asked))

    @app.post("/api/explain", response_class=Json)
    async def explain(asked: AskedExplanation) -> Response:
        """An explanation at once, by a method of few passes: what `Explanation.to_dict` gives."""
        noted(asked)
        served = models.named(asked.model)
        if not served.takes_few_passes(asked):
            what = "a response" if asked.responds else str(asked.method or served.usual)
            raise UsageError(f"{what} takes many passes of the model", "post the same to /api/jobs")
        return Json(await served.answer(asked))

    @app.post("/api/jobs", status_code=202)
    async def begin_job(asked: AskedExplanation) -> dict[str, Any]:
        """An explanation by any method, in the queue: its id says where to look for it."""
        noted(asked)
        served = models.named(asked.model)
        method_named(asked.method or served.usual)  # one that does not exist need not wait to be told so
        return jobs.add(asked, served).record()

    @app.get("/api/jobs/{job}")
    async def look_at_job(job: str) -> dict[str, Any]:
        """Where a job stands: queued, running, done, failed or cancelled. One that nobody asks after is given up."""
        found = jobs.named(job)
        return {**found.record(), "ahead": jobs.ahead(found) if found.state == "queued" else 0}

    @app.get("/api/jobs/{job}/explanation", response_class=Json)
    async def take_explanation(job: str) -> Response:
        """What a job that is done found out."""
        found = jobs.named(job)
        if found.answer is None:
            raise UsageError(f"the job is {found.state}", "an explanation is there once it is done")
        return Json(found.answer)

    @app.delete("/api/jobs/{job}")
    async def cancel_job(job: str) -> dict[str, Any]:
        """Cancel a job, wherever it stands."""
        found = jobs.named(job)
        found.cancel()
        return found.record()

    @app.get("/api/jobs/{job}/events", response_class=StreamingResponse)
    async def watch_job(job: str, request: Request) -> Response:
        """A job's progress as server-sent events, each a record of it; the last has it ended."""
        return StreamingResponse(_events(jobs, jobs.named(job), request), media_type="text/event-stream")

    @app.post("/api/page/data", response_class=Json)
    async def draw_page(asked: AskedPage) -> Response:
        """What a page of these explanations shows, worked out for its scripts to draw."""
        return Json(await asyncio.to_thread(_page_data, asked))

    @app.post("/api/page", response_class=HTMLResponse)
    async def make_page(asked: AskedPage) -> Response:
        """Explanations as the one self-contained page that `whence explain --html` writes."""
        return Response(
            await asyncio.to_thread(_page, asked),
            media_type="text/html; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="whence.html"', "content-security-policy": NOTHING},
        )

    app.add_exception_handler(WhenceError, _refused)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _failed)
    return app


def _page(asked: AskedPage) -> str:
    return page([Explanation.from_dict(each) for each in asked.explanations], title=asked.title or TITLE)


def _page_data(asked: AskedPage) -> bytes:
    explanations = [Explanation.from_dict(each) for each in asked.explanations]
    heading = {"title": visible(asked.title or TITLE), "version": visible(explanations[0].whence_version)}
    return as_json({**heading, **page_data(explanations)})


def _methods() -> Iterator[dict[str, Any]]:
    for name, method in METHODS.items():
        known = {option: value for option, value in method.options.items() if option != "probes"}
        plain = {option: value if isinstance(value, (int, float, str)) else None for option, value in known.items()}
        yield {
            "name": name, "meaning": method.meaning.sentence, "needs": list(method.needs), "cost": method.cost,
            "few_passes": method.few_passes, "options": plain,
        }  # fmt: skip


async def _events(jobs: Jobs, job: Job, request: Request) -> AsyncIterator[str]:
    said = ""
    while True:
        jobs.named(job.id)  # somebody still looks
        record = {**job.record(), "ahead": jobs.ahead(job) if job.state == "queued" else 0}
        told_now = f"data: {json.dumps(record)}\n\n"
        if told_now != said:
            said = told_now
            yield said
        if record["state"] in ENDED:
            return
        await asyncio.sleep(LOOKED_AFTER)
        if await request.is_disconnected():
            return


def _error(status: int, problem: str, advice: str, headers: dict[str, str] | None = None) -> Response:
    return Json(as_json({"problem": problem, "advice": advice}), status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    error = cast(WhenceError, error)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    return _error(
        status,
        error.problem,
        error.advice,
        {"retry-after": str(error.seconds)} if isinstance(error, BusyError) else None,
    )


async def _misunderstood(request: Request, error: Exception) -> Response:
    """Where and why a request does not fit the schema, without what it said."""
    problems = cast(RequestValidationError, error).errors()
    first = problems[0]
    where = ".".join(part for part in first["loc"] if isinstance(part, str) and part != "body")[:200]
    return _error(422, f"{where or 'the request'}: {first['msg']}"[:500], "see /docs for what may be asked")


async def _not_found(request: Request, error: Exception) -> Response:
    found = cast(HTTPException, error)
    return _error(found.status_code, str(found.detail)[:200], "see /docs for what there is", dict(found.headers or {}))


async def _failed(request: Request, error: Exception) -> Response:
    seen = FailedError(error)
    return _error(500, seen.problem, seen.advice)
