"""The route to the stacks of a stream actor, for a flame graph. It needs a token with the scope ``operate``."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import Field
from starlette.responses import Response

from penstock.api.asking import APPLICATION, INVALID, UNKNOWN_APPLICATION, WITH_BODY, Actor, App, check, json_response
from penstock.api.problems import ProblemError, documented
from penstock.api.schemas import BodyModel
from penstock.cluster.read_side import LONGEST_FLAME_S, FlameOwner, FlameRefused, ReadSide

_UNKNOWN = f"{UNKNOWN_APPLICATION}; or it has no such stream actor"
_NOT_NOW = "The application does not run, the actor does not answer, or it takes stacks for another request"


class FlameAsked(BodyModel):
    """The body of the request."""

    seconds: float = Field(LONGEST_FLAME_S, gt=0, le=LONGEST_FLAME_S, description="Seconds to look at the process")


class FlameBody(BodyModel):
    """The stacks of an actor's process."""

    stacks: list[list[str | int]] = Field(
        description="Different stacks, the most common first: the thread's name, its frames from the outermost to the "
        "innermost, and the number of samples"
    )
    samples: int = Field(description="Number of samples of all threads")
    seconds: float = Field(description="Seconds that the process was looked at")
    sampler: str = Field(description="py-spy, or penstock: a thread of the process itself")
    note: str | None = Field(description="The reason for another sampler than py-spy, and its effect on the figures")
    files: dict[str, FlameOwner] = Field(
        description="The owner of the code in each file that frames name: the program, penstock, an installed package, "
        "or Python itself"
    )


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the route."""

    @app.post(
        # Ids of actors have a slash.
        APPLICATION + "/actors/{actor:path}/flame",
        tags=["application"],
        response_model=FlameBody,
        responses=documented({404: _UNKNOWN, 422: INVALID, 503: _NOT_NOW}) | WITH_BODY,
    )
    async def flame(app: App, actor: Actor, body: FlameAsked) -> Response:
        """Look at the threads of a stream actor's process for some seconds, 100 times a second. One request at a time
        for each actor. By py-spy if it is installed on the actor's node and may look at processes there."""
        check(queries, app)
        found = await queries.flame(actor, body.seconds)
        if found is None:
            detail = f"application {queries.application_id!r} has no stream actor {actor!r} now"
            raise ProblemError(404, "unknown-actor", "There is no such stream actor", detail)
        if isinstance(found, FlameRefused):
            wait_s = int(found.again_s) + 1
            detail = f"actor {actor} takes stacks for another request, for {wait_s} s more at most"
            raise ProblemError(503, "flame-busy", "The actor takes stacks already", detail, retry_after_s=wait_s)
        stacks = [[*frames, count] for frames, count in found.stacks]
        answer = {"samples": found.samples, "seconds": found.seconds, "sampler": found.sampler, "note": found.note}
        return json_response({"stacks": stacks, **answer, "files": found.files})
