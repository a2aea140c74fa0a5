"""Routes that change something: they need a token with the scope ``operate``, if there are tokens."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from penstock.api import schemas
from penstock.api.asking import APPLICATION, INVALID, NOT_READY, UNKNOWN_APPLICATION, App, check, json_response
from penstock.api.problems import documented
from penstock.api.status import application_body
from penstock.cluster.read_side import ReadSide


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the routes."""
    responses = documented({404: UNKNOWN_APPLICATION, 503: NOT_READY, 422: INVALID})

    @app.post(APPLICATION + "/pause", tags=["application"], response_model=schemas.ApplicationBody, responses=responses)
    async def pause(app: App) -> Response:
        """Keep all tasks from processing records and punctuating, until ``resume``. They are still committed and
        restored, and queries are answered. Idempotent."""
        check(queries, app)
        return json_response(application_body(await queries.pause(True)))

    @app.post(
        APPLICATION + "/resume", tags=["application"], response_model=schemas.ApplicationBody, responses=responses
    )
    async def resume(app: App) -> Response:
        """Let tasks process again after ``pause``. Idempotent."""
        check(queries, app)
        return json_response(application_body(await queries.pause(False)))
