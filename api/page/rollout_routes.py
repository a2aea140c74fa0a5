"""The route of the last roll-out of another version of the program."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from penstock.api.asking import (
    APPLICATION,
    INVALID,
    NOT_READY,
    UNKNOWN_APPLICATION,
    App,
    check,
    shown_response,
)
from penstock.api.page.rollout_bodies import RolloutViewBody
from penstock.api.problems import documented
from penstock.api.status import rollout_body
from penstock.cluster.read_side import ReadSide


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the route."""
    responses = documented({404: UNKNOWN_APPLICATION, 422: INVALID, 503: NOT_READY})

    @app.get(APPLICATION + "/rollout", tags=["page"], response_model=RolloutViewBody, responses=responses)
    async def rollout(app: App) -> Response:
        """The last roll-out of another version of the program, and what differs between the versions, in the words of
        `penstock plan`."""
        check(queries, app)
        view = await queries.rollout_view()
        body = rollout_body(view.rollout)
        return shown_response({**body, "fingerprints": view.fingerprints, "difference": view.difference})
