"""Routes that change something: they need a token with the scope ``operate``, if there are tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path
from starlette.responses import Response

from penstock.api import schemas
from penstock.api.asking import (
    APPLICATION,
    INVALID,
    NOT_READY,
    UNKNOWN_APPLICATION,
    WITH_BODY,
    Actor,
    App,
    check,
    shown_response,
)
from penstock.api.problems import ProblemError, documented, invalid_request
from penstock.api.status import application_body
from penstock.cluster.read_side import ReadSide
from penstock.common.ids import TaskId

_RESPONSES = documented({404: UNKNOWN_APPLICATION, 503: NOT_READY, 422: INVALID})
_REFUSABLE = _RESPONSES | documented({409: "The application does not do that now: ``detail`` says why"})
_WITH_BODY = _REFUSABLE | WITH_BODY
_Task = Annotated[str, Path(description="The id of a task, such as 1_3")]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the routes."""
    _pause(app, queries)
    _change(app, queries)


def _pause(app: FastAPI, queries: ReadSide) -> None:
    @app.post(
        APPLICATION + "/pause", tags=["application"], response_model=schemas.ApplicationBody, responses=_RESPONSES
    )
    async def pause(app: App) -> Response:
        """Keep all tasks from processing records and punctuating, until ``resume``. They are still committed and
        restored, and queries are answered. Idempotent."""
        check(queries, app)
        return shown_response(application_body(await queries.operations.pause(True)))

    @app.post(
        APPLICATION + "/resume", tags=["application"], response_model=schemas.ApplicationBody, responses=_RESPONSES
    )
    async def resume(app: App) -> Response:
        """Let tasks process again after ``pause``. Idempotent."""
        check(queries, app)
        return shown_response(application_body(await queries.operations.pause(False)))


def _change(app: FastAPI, queries: ReadSide) -> None:
    async def done(refused: str | None) -> Response:
        if refused is not None:
            raise ProblemError(409, "refused", "The application does not do that now", refused)
        return shown_response(application_body(await queries.status()))

    @app.post(
        APPLICATION + "/scale",
        tags=["application"],
        response_model=schemas.ApplicationBody,
        responses=_WITH_BODY,
    )
    async def scale(app: App, body: schemas.ScaleBody) -> Response:
        """Set the number of stream actors from now on. Answers before they have started or ended. Idempotent."""
        check(queries, app)
        return await done(await queries.operations.scale(body.count))

    @app.post(
        # Ids of actors have a slash.
        APPLICATION + "/actors/{actor:path}/restart",
        tags=["application"],
        response_model=schemas.ApplicationBody,
        responses=_REFUSABLE,
    )
    async def restart(app: App, actor: Actor) -> Response:
        """Let a stream actor commit and end, and start another in its place. Standbys that have caught up take its
        tasks at once; the others wait for the new actor. Answers before that is done."""
        check(queries, app)
        return await done(await queries.operations.restart(actor))

    @app.post(
        APPLICATION + "/tasks/{task}/move",
        tags=["application"],
        response_model=schemas.ApplicationBody,
        responses=_WITH_BODY,
    )
    async def move(app: App, task: _Task, body: schemas.MoveBody) -> Response:
        """Move a task to another stream actor: at once if it has no state there to restore, else when its stores are
        warmed up. It stays there until a stream actor comes or goes. Answers before that is done. Idempotent."""
        check(queries, app)
        try:
            task_id = TaskId.parse(task)
        except ValueError as error:
            raise invalid_request([("path/task", str(error))]) from None
        return await done(await queries.operations.move(task_id, body.to))
