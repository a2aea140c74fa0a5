"""The route of the last hour: what the page's bar of time shows."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import FastAPI, Query
from pydantic import Field
from starlette.responses import Response

from penstock.api.asking import APPLICATION, INVALID, NOT_READY, UNKNOWN_APPLICATION, App, check
from penstock.api.compression import LargeJson
from penstock.api.encoding import to_json
from penstock.api.page.history_body import history_body
from penstock.api.problems import documented, invalid_request
from penstock.api.schemas import BodyModel, FindingBody
from penstock.cluster.read_side import ApplicationHistory, ReadSide
from penstock.common.ids import TaskId
from penstock.common.windows import LARGEST_TIMESTAMP

_LONGEST_LIST = 100_000


_Series = list[float | None]


class ApplicationSeries(BodyModel):
    """The figures of all tasks together."""

    records_per_s: _Series
    lag: _Series
    behind_s: _Series = Field(description="That of the task that is furthest behind.")
    commits_per_s: _Series
    restoring: _Series = Field(description="Number of tasks that restore.")
    dead_letters: _Series = Field(description="Number of dead letters in the step.")


class TaskSeries(BodyModel):
    """The figures of one task."""

    records_per_s: _Series
    behind_s: _Series
    busy: _Series = Field(description="Share of its actor's time, from 0 to 1.")
    actor: list[int | None] = Field(description="Index of its actor in ``actors``; null without one.")
    state: list[int | None] = Field(description="Index of its state in ``states``.")


class OperatorSeries(BodyModel):
    """The figures of one operator, all tasks together."""

    records_per_s: _Series = Field(description="The records that enter it.")
    busy: _Series = Field(description="Share of an actor's time, from 0 to 1, in the task in which it takes most.")


class TopicSeries(BodyModel):
    """The figures of one topic."""

    records_in_per_s: _Series = Field(description="The records that the application reads.")
    records_out_per_s: _Series = Field(description="The records that it writes.")


class SamplesBody(BodyModel):
    """Series of equal length. A step without a sample, and a figure that was not known, is null."""

    application: ApplicationSeries
    actors: list[str]
    states: list[str]
    tasks: dict[str, TaskSeries]
    operators: dict[str, OperatorSeries]
    topics: dict[str, TopicSeries]
    findings: list[FindingBody | None] = Field(description="The worst finding of each step.")


class EventBody(BodyModel):
    """An event, or some equal ones."""

    at_ms: int
    until_ms: int = Field(description="Time of the last of them.")
    times: int
    kind: Literal["state", "group", "move", "restore", "actor", "rollout", "pause", "scale", "log"]
    level: Literal["info", "warning", "error"]
    actor_id: str | None
    task_id: str | None
    sentence: str
    page: str | None = Field(description="The section of ``docs/`` that explains a line of the log. Null if none does.")


class HistoryBody(BodyModel):
    """The last hour, as far as it was asked for. It is lost when the coordinator restarts."""

    step_ms: int = Field(
        description="Milliseconds between two samples: 5,000, and more with more than 300 tasks or so."
    )
    from_ms: int | None = Field(description="Time of the first value of each series. Null without samples.")
    began_ms: int = Field(description="Time at which the history began.")
    samples: SamplesBody
    events: list[EventBody]


_From = Annotated[int, Query(ge=0, description="The earliest time, in ms since 1970")]
_To = Annotated[int, Query(ge=0, le=LARGEST_TIMESTAMP, description="The latest time, in ms since 1970")]
_Tasks = Annotated[
    str | None,
    Query(
        max_length=_LONGEST_LIST,
        description="The tasks whose series are wanted, separated by commas; empty: none; left out: all",
        examples=["0_1,1_3"],
    ),
]
_Details = Annotated[bool, Query(description="False leaves out the series of operators and topics, and the findings")]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add the route."""
    responses = documented({404: UNKNOWN_APPLICATION, 503: NOT_READY, 422: INVALID})

    @app.get(APPLICATION + "/history", tags=["application"], response_model=HistoryBody, responses=responses)
    async def history(
        app: App, from_ms: _From = 0, to_ms: _To = LARGEST_TIMESTAMP, tasks: _Tasks = None, details: _Details = True
    ) -> Response:
        """Figures of the last hour, step by step, and the last events. The coordinator keeps them in memory."""
        check(queries, app)
        wanted = None if tasks is None else _task_ids(tasks)
        found = await queries.history(from_ms, to_ms, wanted is None or bool(wanted), details)
        # Series of an hour of many tasks take a moment, in which other requests are answered.
        body = await asyncio.to_thread(_json, found, wanted, details)
        return LargeJson(body)


def _json(found: ApplicationHistory, wanted: frozenset[TaskId] | None, details: bool) -> bytes:
    return to_json(history_body(found, wanted, details))


def _task_ids(text: str) -> frozenset[TaskId]:
    try:
        return frozenset(TaskId.parse(each) for each in text.split(",") if each)
    except ValueError as error:
        raise invalid_request([("query/tasks", str(error))]) from None
