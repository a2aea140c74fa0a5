"""Routes to key-value stores: entries, many at once, ranges, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from penstock.api import schemas
from penstock.api.asking import (
    ASK_A_STORE,
    BATCHES,
    READING_PARAMETERS,
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
    json_response,
    key_of,
    keys_between,
    reading_of,
    refuse_unknown,
)
from penstock.api.encoding import found_json
from penstock.api.problems import documented, invalid_request
from penstock.cluster.read_side import KeyQuery, PrefixQuery, RangeQuery, ReadSide, RowsQuery
from penstock.common.errors import SerializationError

_Prefix = Annotated[
    str | None,
    Query(description="Keys whose serialised bytes begin with this text in UTF-8; without from and to"),
]


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add these routes to ``app``."""
    _entry(app, queries)
    _entries(app, queries)
    _range(app, queries)
    _approximate_count(app, queries)


class _EntryRoute(APIRoute):
    """A route that FastAPI documents and Starlette runs: FastAPI's reading of parameters would double the cost of a
    look-up."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def run(request: Request) -> Response:
            refuse_unknown(request, READING_PARAMETERS)
            with request.app.state.limits.places:
                answer: Response = await endpoint(**request.path_params, reading=reading_of(request))
                return answer

        self.app = request_response(run)


def _entry(app: FastAPI, queries: ReadSide) -> None:
    async def entry(app: App, store: Store, key: Key, reading: Asking) -> Response:
        """One entry."""
        check(queries, app)
        try:
            wanted = key_of(await queries.key_serde(store), store, key)
            found = await queries.find_row(store, KeyQuery(wanted), reading)
        except SerializationError as error:
            raise invalid_key(str(error)) from error
        return answer_row(found, reading, "The key is absent", f"store {store!r} has no entry for key {key!r}")

    app.router.add_api_route(
        STORE + "/keys/{key:path}",
        entry,
        tags=["stores"],
        response_model=schemas.FoundEntryBody,
        responses={**ASK_A_STORE, **documented({404: f"{UNKNOWN_STORE}; or the store has no such key"})},
        route_class_override=_EntryRoute,
    )


def _entries(app: FastAPI, queries: ReadSide) -> None:
    options = {"tags": ["stores"], "response_model": schemas.FoundBody, **BATCHES}

    @app.post(STORE + "/keys:batch", **options)  # type: ignore[arg-type]  # options of any type
    async def look_up_all(app: App, store: Store, body: schemas.KeysBody, reading: Asking) -> Response:
        """The entries of up to 10,000 keys, in the order of the keys, by one call to each stream actor."""
        check(queries, app)
        serde = await queries.key_serde(store)
        try:
            wanted = [key_of(serde, store, text) for text in body.keys]
            found = await queries.get_many(store, wanted, reading)
        except SerializationError as error:
            raise invalid_key(str(error)) from error
        return Response(found_json(found, reading), media_type="application/json")


def _range(app: FastAPI, queries: ReadSide) -> None:
    options = {"tags": ["stores"], "response_model": schemas.EntriesBody, **SCANS}

    @app.get(STORE + "/range", **options)  # type: ignore[arg-type]  # options of any type
    async def entries(
        app: App,
        store: Store,
        reading: Asking,
        pages: Paging,
        from_key: From = None,
        to: To = None,
        prefix: _Prefix = None,
    ) -> Response:
        """Entries of all partitions, in the order of their serialised keys' bytes as in Kafka Streams: text by code
        point, integers with the negative ones last. Page by page with ``cursor``; pages are not from one moment.
        """
        check(queries, app)
        if prefix is None:
            ends = await keys_between(queries, store, from_key, to)
            query: RowsQuery = RangeQuery(*ends, descending=pages.descending)
        elif from_key is None and to is None:
            query = PrefixQuery(prefix.encode(), descending=pages.descending)
        else:
            raise invalid_request([("query/prefix", "Give either prefix, or from and to")])
        return await answer_page(queries, store, query, pages, reading)


def _approximate_count(app: FastAPI, queries: ReadSide) -> None:
    @app.get(STORE + "/approximate-count", tags=["stores"], response_model=schemas.CountBody, responses=ASK_A_STORE)
    async def approximate_count(app: App, store: Store, reading: Asking) -> Response:
        """About how many entries the store has (RocksDB's estimate)."""
        check(queries, app)
        count = await queries.approximate_num_entries(store, reading)
        return json_response({"approximate_count": count, **reading.json_fields})
