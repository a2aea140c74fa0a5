"""Routes to the records of one key: those of a store's changelog, and those of the topic that places its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from starlette.responses import Response

from penstock.api.asking import (
    INVALID,
    KAFKA_REFUSES,
    READS_BUSY,
    STORE,
    UNKNOWN_STORE,
    App,
    Key,
    Store,
    check,
    invalid_key,
    key_of,
    ms_of,
)
from penstock.api.page.record_bodies import KeyRecordsBody
from penstock.api.page.record_json import key_records_json
from penstock.api.problems import ProblemError, documented
from penstock.cluster.read_side import ReadSide
from penstock.cluster.record_side import KeyRecords, KeyScan
from penstock.common.errors import SerializationError
from penstock.common.written_times import WRITTEN

_LONGEST_CURSOR = 100_000
_MOST_RECORDS, _MOST_OFFSETS = 1000, 1_000_000
_BAD = "Bad key or cursor; or the store has no changelog, or one with other keys"
_RESPONSES = documented({400: _BAD, 404: UNKNOWN_STORE, 422: INVALID, 500: KAFKA_REFUSES, 503: READS_BUSY})

_Since = Annotated[
    str | None, Query(alias="from", description=f"Not before the first record of this time or later: {WRITTEN}")
]
_Limit = Annotated[int, Query(ge=1, le=_MOST_RECORDS, description="Records per answer")]
_Offsets = Annotated[int, Query(ge=1, le=_MOST_OFFSETS, description="Offsets that are looked at per answer")]
_Cursor = Annotated[str | None, Query(max_length=_LONGEST_CURSOR, description="The cursor of the previous answer")]


def _scan(limit: _Limit = 100, offsets: _Offsets = 100_000, since: _Since = None, cursor: _Cursor = None) -> KeyScan:
    return KeyScan(limit, offsets, None if since is None else ms_of("from", since, 0), cursor)


_Scan = Annotated[KeyScan, Depends(_scan)]
_Ask = Callable[[str, Any, KeyScan], Awaitable[KeyRecords]]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add these routes to ``app``."""
    options: dict[str, Any] = {"tags": ["stores"], "response_model": KeyRecordsBody, "responses": _RESPONSES}

    @app.get(STORE + "/life/{key:path}", **options)
    async def life(app: App, store: Store, key: Key, scan: _Scan) -> Response:
        """The versions of a key, or of its windows, that the store's changelog still has, the newest first. A changelog
        is compacted: older versions may be gone."""
        check(queries, app)
        return await _answer(queries, queries.records.life, store, key, scan)

    @app.get(STORE + "/inputs/{key:path}", **options)
    async def inputs(app: App, store: Store, key: Key, scan: _Scan) -> Response:
        """The records with this key in the topic whose partitions decide where the store's keys are, the newest first:
        a source topic or a repartition topic. Which of them changed the store is not known, and records with other
        keys may have changed it, too."""
        check(queries, app)
        return await _answer(queries, queries.records.inputs, store, key, scan)


async def _answer(queries: ReadSide, ask: _Ask, store: str, key: str, scan: KeyScan) -> Response:
    try:
        found = await ask(store, key_of(await queries.key_serde(store), store, key), scan)
    except SerializationError as error:
        raise invalid_key(str(error)) from error
    except ValueError as error:
        if scan.cursor is None:
            raise
        raise ProblemError(400, "invalid-cursor", "The cursor cannot be read", str(error)) from error
    return Response(await asyncio.to_thread(key_records_json, store, found), media_type="application/json")
