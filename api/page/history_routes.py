"""The route of the last hour: what the page's bar of time shows."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from penstock.api.asking import APPLICATION, INVALID, NOT_READY, UNKNOWN_APPLICATION, App, check
from penstock.api.compression import LargeJson
from penstock.api.encoding import to_json
from penstock.api.page.history_bodies import HistoryBody
from penstock.api.page.history_json import history_json
from penstock.api.problems import documented, invalid_request
from penstock.cluster.read_side import ApplicationHistory, ReadSide
from penstock.common.ids import TaskId
from penstock.common.windows import LARGEST_TIMESTAMP

_LONGEST_LIST = 100_000

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
    return to_json(history_json(found, wanted, details))


def _task_ids(text: str) -> frozenset[TaskId]:
    try:
        return frozenset(TaskId.parse(each) for each in text.split(",") if each)
    except ValueError as error:
        raise invalid_request([("query/tasks", str(error))]) from None
