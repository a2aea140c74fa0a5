"""The route of the topology of a version of the program, as a picture."""

from __future__ import annotations

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
)
from penstock.api.compression import LargeJson
from penstock.api.encoding import shown_json
from penstock.api.page.topology_bodies import TopologyBody
from penstock.api.problems import ProblemError, documented
from penstock.cluster.read_side import ReadSide

_UNKNOWN = f"{UNKNOWN_APPLICATION}. Or the version is not kept: only those that run, and that before a roll-out, are"
Generation = Annotated[int | None, Query(ge=1, description="The version of the program; none: the one that is to run")]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the route."""
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
