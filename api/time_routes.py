"""Routes to window stores, session stores and versioned stores: rows by key and time."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from penstock.api import schemas
from penstock.api.asking import (
    ASK_A_STORE,
    SCANS,
    STORE,
    UNKNOWN_STORE,
    App,
    Asking,
    From,
    Key,
    Paging,
    Store,
    To,
    answer_page,
    answer_row,
    check,
    invalid_key,
    key_of,
    keys_between,
    ms_of,
    times_between,
)
from penstock.api.problems import documented
from penstock.cluster.read_side import (
    MultiVersionedKeyQuery,
    ReadSide,
    SessionQuery,
    SessionRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.common.errors import SerializationError
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.common.written_times import WRITTEN


def _time(description: str) -> object:
    return Query(description=f"{description}: {WRITTEN}")


_StartFrom = Annotated[str | None, _time("Windows that start at this time or later; none: all")]
_StartTo = Annotated[str | None, _time("Windows that start at this time or earlier; none: all")]
_EarliestEnd = Annotated[str | None, _time("Sessions that end at this time or later; none: all")]
_LatestStart = Annotated[str | None, _time("Sessions that start at this time or earlier; none: all")]
_AsOf = Annotated[str | None, _time("The version that was valid then; none: the latest")]
_ValidFrom = Annotated[str | None, _time("Versions that were valid at this time or later; none: all")]
_ValidTo = Annotated[str | None, _time("Versions that were valid at this time or earlier; none: all")]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add these routes to ``app``."""
    _windows(app, queries)
    _sessions(app, queries)
    _versions(app, queries)


def _windows(app: FastAPI, queries: ReadSide) -> None:
    options = {"tags": ["windows"], "response_model": schemas.WindowsBody, "responses": ASK_A_STORE}

    @app.get(STORE + "/windows/{key:path}", **options)  # type: ignore[arg-type]  # options of any type
    async def windows_of_key(
        app: App,
        store: Store,
        key: Key,
        reading: Asking,
        pages: Paging,
        time_from: _StartFrom = None,
        time_to: _StartTo = None,
    ) -> Response:
        """The windows of a key that have not expired, by their start. Kafka Streams: ``fetch(key, from, to)``."""
        check(queries, app)
        wanted = key_of(await queries.key_serde(store), store, key)
        times = times_between("time_from", time_from, "time_to", time_to)
        query = WindowKeyQuery(wanted, *times, descending=pages.descending)
        return await answer_page(queries, store, query, pages, reading)

    @app.get(STORE + "/windows", **(options | SCANS))  # type: ignore[arg-type]  # options of any type
    async def windows(
        app: App,
        store: Store,
        reading: Asking,
        pages: Paging,
        from_key: From = None,
        to: To = None,
        time_from: _StartFrom = None,
        time_to: _StartTo = None,
    ) -> Response:
        """The windows of all keys, or of a range of keys, that have not expired: in the order of the keys' serialised
        bytes, of one key by their start. Kafka Streams: ``fetchAll``."""
        check(queries, app)
        ends = await keys_between(queries, store, from_key, to)
        times = times_between("time_from", time_from, "time_to", time_to)
        query = WindowRangeQuery(*times, *ends, descending=pages.descending)
        return await answer_page(queries, store, query, pages, reading)


def _sessions(app: FastAPI, queries: ReadSide) -> None:
    options = {"tags": ["sessions"], "response_model": schemas.WindowsBody, "responses": ASK_A_STORE}

    @app.get(STORE + "/sessions/{key:path}", **options)  # type: ignore[arg-type]  # options of any type
    async def sessions_of_key(
        app: App,
        store: Store,
        key: Key,
        reading: Asking,
        pages: Paging,
        earliest_end: _EarliestEnd = None,
        latest_start: _LatestStart = None,
    ) -> Response:
        """The sessions of a key that have not expired, by their end. Kafka Streams: ``findSessions(key, …)``."""
        check(queries, app)
        wanted = key_of(await queries.key_serde(store), store, key)
        query = SessionQuery(wanted, *_session_times(earliest_end, latest_start), descending=pages.descending)
        return await answer_page(queries, store, query, pages, reading)

    @app.get(STORE + "/sessions", **(options | SCANS))  # type: ignore[arg-type]  # options of any type
    async def sessions(
        app: App,
        store: Store,
        reading: Asking,
        pages: Paging,
        from_key: From = None,
        to: To = None,
        earliest_end: _EarliestEnd = None,
        latest_start: _LatestStart = None,
    ) -> Response:
        """The sessions of all keys, or of a range of keys, that have not expired: in the order of the keys' serialised
        bytes, of one key by their end. Kafka Streams: ``findSessions(from, to, …)``."""
        check(queries, app)
        ends = await keys_between(queries, store, from_key, to)
        times = _session_times(earliest_end, latest_start)
        query = SessionRangeQuery(*times, *ends, descending=pages.descending)
        return await answer_page(queries, store, query, pages, reading)


def _session_times(earliest_end: str | None, latest_start: str | None) -> tuple[int, int]:
    # A session may well end after the time at which it must have started, or before it: neither order is wrong.
    return ms_of("earliest_end", earliest_end, 0), ms_of("latest_start", latest_start, LARGEST_TIMESTAMP)


def _versions(app: FastAPI, queries: ReadSide) -> None:
    absent = documented({404: f"{UNKNOWN_STORE}; or there is no such version"})

    @app.get(
        STORE + "/versions/{key:path}",
        tags=["versions"],
        response_model=schemas.FoundVersionBody,
        responses={**ASK_A_STORE, **absent},
    )
    async def version(app: App, store: Store, key: Key, reading: Asking, as_of: _AsOf = None) -> Response:
        """The latest version of a key, or the one that was valid at a time."""
        check(queries, app)
        try:
            wanted = key_of(await queries.key_serde(store), store, key)
            time = None if as_of is None else ms_of("as_of", as_of, 0)
            found = await queries.find_row(store, VersionedKeyQuery(wanted, time), reading)
        except SerializationError as error:
            raise invalid_key(str(error)) from error
        detail = f"store {store!r} has no version of key {key!r}" + ("" if as_of is None else f" as of {as_of}")
        return answer_row(found, reading, "There is no such version", detail)

    @app.get(
        STORE + "/history/{key:path}",
        tags=["versions"],
        response_model=schemas.VersionsBody,
        responses=ASK_A_STORE,
    )
    async def history(
        app: App,
        store: Store,
        key: Key,
        reading: Asking,
        pages: Paging,
        time_from: _ValidFrom = None,
        time_to: _ValidTo = None,
    ) -> Response:
        """The versions of a key that were valid at any of these times, as far as history is kept, by time."""
        check(queries, app)
        wanted = key_of(await queries.key_serde(store), store, key)
        times = times_between("time_from", time_from, "time_to", time_to)
        query = MultiVersionedKeyQuery(wanted, *times, descending=pages.descending)
        return await answer_page(queries, store, query, pages, reading)
