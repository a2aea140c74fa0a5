"""The versions of the program: their topologies as pictures, and what differs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, Query
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
from penstock.api.compression import LargeJson
from penstock.api.encoding import shown_json
from penstock.api.page.documents import RolloutDocument, TopologyBody
from penstock.api.problems import ProblemError, documented
from penstock.cluster.read_side import ReadSide

_UNKNOWN = f"{UNKNOWN_APPLICATION}. Or the version is not kept: only those that run, and that before a roll-out, are"
Generation = Annotated[int | None, Query(ge=1, description="The version of the program; none: the one that is to run")]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the routes."""
    responses = documented({404: _UNKNOWN, 422: INVALID, 503: NOT_READY})

    @app.get(APPLICATION + "/topology", tags=["page"], response_model=TopologyBody, responses=responses)
    async def topology(app: App, generation: Generation = None) -> Response:
        """The topology as a picture with all positions, and its operators with the program's functions. Versions whose
        topologies are the same have the same fingerprint."""
        check(queries, app)
        view = await queries.program_view(generation)
        if view is None:
            which = "the program" if generation is None else f"version {generation} of the program"
            raise ProblemError(404, "unknown-version", "There is no such version", f"the coordinator has not {which}")
        return LargeJson(shown_json(view))

    others = documented({404: UNKNOWN_APPLICATION, 422: INVALID, 503: NOT_READY})

    @app.get(APPLICATION + "/rollout", tags=["page"], response_model=RolloutDocument, responses=others)
    async def rollout(app: App) -> Response:
        """The last roll-out of another version of the program, and what differs between the versions, in the words of
        `penstock plan`."""
        check(queries, app)
        view = await queries.rollout_view()
        body = {
            **asdict(view.rollout),
            "phase": view.rollout.phase.value,
            "fingerprints": view.fingerprints,
            "difference": view.difference,
        }
        return shown_response(body)
