"""The parts that routes share: parameters, documented errors, and functions that read parameters and keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import Depends, Path, Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.encoding import members, page_json, shown_json, to_json
from penstock.api.guard import HEALTH
from penstock.api.limits import RANGES, Bodies, Body, Places, Rate, one_more_range
from penstock.api.problems import ProblemError, documented, invalid_request
from penstock.cluster.read_side import (
    DEFAULT_WAIT_S,
    LONGEST_WAIT_S,
    Reading,
    ReadSide,
    RowsQuery,
    StoreEntry,
    ends_before_it_begins,
    swapped_range_hint,
)
from penstock.common.errors import SerializationError
from penstock.common.may_wait import in_event_loop
from penstock.common.position import Position, PositionBound
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.common.written_times import ms_of_text

APPLICATION = "/v1/applications/{app}"
STORE = APPLICATION + "/stores/{store}"
LIMIT_DEFAULT = 100
LIMIT_MAX = 10_000
_LONGEST_POSITION = 100_000
_DEFAULT_WAIT_MS, _LONGEST_WAIT_MS = int(DEFAULT_WAIT_S * 1000), int(LONGEST_WAIT_S * 1000)

UNKNOWN_APPLICATION = "No such application; ``known_applications`` lists the existing ones"
UNKNOWN_STORE = "No such application or store; ``known_stores`` lists the existing ones"
INVALID = "Invalid request, or an unknown query parameter"
NOT_READY = (
    "The application or the task restores, moves or does not run, or the store has not reached ``not_older_than``: see "
    "Retry-After"
)
_BAD = (
    "Bad key, range, cursor or position, or a query that this kind of store does not answer: ``routes`` lists those "
    "that it answers"
)
READS_BUSY = "The application does not run, no broker answers, or another topic is being read: see Retry-After"
KAFKA_REFUSES = "Kafka does not allow the application to read the topic, or the application is not configured for it"
_BODY = {408: "The body does not arrive in time", 413: "The body is too large"}
WITH_BODY = documented({400: "The client breaks off the body", **_BODY})
"""The errors of each route that has a body."""
ASK_A_STORE = documented({400: _BAD, 404: UNKNOWN_STORE, 422: INVALID, 503: NOT_READY})
_LIMITED = 429
SCANS = {"responses": ASK_A_STORE | documented({_LIMITED: RANGES})}
"""Options of a route that looks at many rows, or asks every task: :class:`Route` limits their rate."""
BATCHES = {
    "responses": ASK_A_STORE
    | documented(
        {
            400: f"{_BAD}; or the client breaks off the body",
            **_BODY,
            _LIMITED: RANGES,
        }
    )
}
"""Options of such a route that has a body as well."""


class Isolation(StrEnum):
    """The writes that a query sees: all that the task has processed, or only what is committed."""

    LATEST = "latest"
    COMMITTED = "committed"


class Order(StrEnum):
    """The order in which rows are given."""

    ASCENDING = "asc"
    DESCENDING = "desc"


App = Annotated[str, Path(description="application.id")]
Store = Annotated[str, Path(description="The store's name")]
Actor = Annotated[str, Path(description="The id of a stream actor, such as stream/2")]
Topic = Annotated[str, Path(description="The topic's name in Kafka")]
Key = Annotated[str, Path(description="The key as text, read by the store's key serde; may contain encoded slashes")]
_ORDER = "Keys are in the order of their serialised bytes: negative integers sort after positive ones"
From = Annotated[str | None, Query(alias="from", description=f"The first key, included; none: the beginning. {_ORDER}")]
To = Annotated[str | None, Query(description=f"The last key, included; none: the end. {_ORDER}")]
ISOLATION = Query(description="latest: all that is processed; committed: only what is committed")
BOUND = Query(
    max_length=_LONGEST_POSITION,
    description="A position as in an answer, in JSON. The store that answers must have reached it",
    examples=['{"lines":{"0":17}}'],
)
STALE = Query(
    description="Accept an answer from a standby, which may be older, if the task restores, moves or does not respond"
)
WAIT = Query(ge=0, le=_LONGEST_WAIT_MS, description="Milliseconds to wait for the store to reach not_older_than")


def reading(
    isolation: Annotated[Isolation, ISOLATION] = Isolation.LATEST,
    not_older_than: Annotated[str | None, BOUND] = None,
    wait_ms: Annotated[int, WAIT] = _DEFAULT_WAIT_MS,
    stale: Annotated[bool, STALE] = False,
) -> Reading:
    """Returns the conditions on the answer to a question, from its parameters."""
    bound = None if not_older_than is None else PositionBound.at(_position(not_older_than))
    return Reading(isolation is Isolation.COMMITTED, bound, wait_ms / 1000, stale)


_A_BOOL = TypeAdapter(bool)
Asking = Annotated[Reading, Depends(reading)]


def reading_of(request: Request) -> Reading:
    """Returns the conditions on the answer to a request whose parameters FastAPI does not read."""
    given = request.query_params
    if not given:
        return Reading()
    try:
        isolation = Isolation(given.get("isolation", Isolation.LATEST))
    except ValueError:
        allowed = " or ".join(repr(each.value) for each in Isolation)
        raise invalid_request([("query/isolation", f"Input should be {allowed}")]) from None
    wait, bound = given.get("wait_ms", str(_DEFAULT_WAIT_MS)), given.get("not_older_than")
    if not (wait.isascii() and wait.isdigit() and len(wait) < 10 and int(wait) <= _LONGEST_WAIT_MS):
        raise invalid_request([("query/wait_ms", f"Input should be a whole number from 0 to {_LONGEST_WAIT_MS}")])
    if bound is not None and len(bound) > _LONGEST_POSITION:
        raise invalid_request([("query/not_older_than", f"Input should have at most {_LONGEST_POSITION} characters")])
    try:
        stale = _A_BOOL.validate_python(given.get("stale", False))
    except ValidationError as error:
        raise invalid_request([("query/stale", error.errors()[0]["msg"])]) from None
    return reading(isolation, bound, int(wait), stale)


class Pages(NamedTuple):
    """The page of rows that is wanted, and their order."""

    descending: bool
    limit: int
    cursor: str | None


def pages(
    order: Annotated[
        Order, Query(description="desc: backwards. All pages of one answer need the same order")
    ] = Order.ASCENDING,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Rows per page")] = LIMIT_DEFAULT,
    cursor: Annotated[str | None, Query(description="The cursor of the previous page")] = None,
) -> Pages:
    """Returns the page that a request wants, from its parameters."""
    return Pages(order is Order.DESCENDING, limit, cursor)


Paging = Annotated[Pages, Depends(pages)]

READING_PARAMETERS = ("isolation", "not_older_than", "wait_ms", "stale")


_A_POSITION = '{"orders":{"0":17}}, topic, partition and offset, percent-encoded'


def _position(text: str) -> Position:
    try:
        return Position.from_json(orjson.loads(text))
    except ValueError as error:
        raise invalid_request([("query/not_older_than", f"Not a position, such as {_A_POSITION}: {error}")]) from error


@dataclass(frozen=True)
class Limits:
    """The limits that all requests to one server share."""

    places: Places
    bodies: Bodies
    ranges: Rate


class Route(APIRoute):
    """Checks a request by cheap checks first, so that a refusal costs little: the names of its parameters (a mistyped
    one would otherwise be ignored silently), the rate of ranges, its body, a free place in the queue. Only then is it
    parsed and answered. A body is read as JSON, whatever its ``Content-Type``.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns the handler, with these limits applied before it."""
        answer = super().get_route_handler()
        known = list(_parameters(self.dependant))
        scans, has_body = _LIMITED in self.responses, self.body_field is not None
        waits = self.path not in HEALTH

        async def run(request: Request) -> Response:
            refuse_unknown(request, known)
            limits: Limits = request.app.state.limits
            if scans:
                one_more_range(limits.ranges)
            if has_body:
                with closing(await limits.bodies.read(request)) as body, limits.places:
                    return await answer(_of_json(request, body))
            if waits:
                with limits.places:
                    return await answer(request)
            return await answer(request)

        return run


def _of_json(request: Request, body: Body) -> Request:
    headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
    scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
    return Request(scope, body.receive)


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _parameters(other)


def refuse_unknown(request: Request, known: Sequence[str]) -> None:
    """Raise ProblemError for a parameter that is not ``known``, or given twice."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = f"Unknown parameter; known are: {', '.join(known)}" if known else "This takes no parameters"
    wrong = [(f"query/{name}", unknown) for name in given if name not in known]
    wrong += [(f"query/{name}", "Given more than once") for name, times in given.items() if name in known and times > 1]
    if wrong:
        raise invalid_request(wrong)


def json_response(body: Any) -> Response:
    """Returns ``body`` as JSON."""
    return Response(to_json(body), media_type="application/json")


def shown_response(body: Any) -> Response:
    """Like :func:`json_response`, for what people look at: see :func:`~penstock.api.encoding.shown_json`."""
    return Response(shown_json(body), media_type="application/json")


def check(queries: ReadSide, app: str) -> None:
    """Raise ProblemError unless ``app`` is the application that is served here."""
    if app != queries.application_id:
        detail = f"no application {app!r} is served here; known: {queries.application_id}"
        known = [queries.application_id]
        raise ProblemError(404, "unknown-application", "There is no such application", detail, known_applications=known)


# ---- keys and times ----


def key_of(serde: Serde[Any], store: str, text: str) -> Any:
    """Returns the key that is given as ``text``."""
    if serde.from_text is None:
        detail = f"the keys of store {store!r} cannot be given as text: their serde {serde.name!r} has no from_text"
        raise invalid_key(detail)
    try:
        return serde.from_text(text)
    except Exception as error:  # a serde may raise anything: see Serde
        raise invalid_key(f"{text!r} is no key of store {store!r} (serde {serde.name!r}): {error}") from error


def invalid_key(detail: str) -> ProblemError:
    """Returns the problem of a key that cannot be read."""
    return ProblemError(400, "invalid-key", "The key cannot be read", detail)


async def keys_between(queries: ReadSide, store: str, first: str | None, last: str | None) -> tuple[Any, Any]:
    """Returns the ends of a range of keys. Raises ProblemError if they are swapped, or cannot be read."""
    serde = await queries.key_serde(store)
    from_key = None if first is None else key_of(serde, store, first)
    to_key = None if last is None else key_of(serde, store, last)
    try:
        swapped = await in_event_loop(lambda: ends_before_it_begins(serde, from_key, to_key))
    except SerializationError as error:
        raise invalid_key(str(error)) from error
    if swapped:
        raise _swapped(swapped_range_hint(serde, f"from={from_key!r}", f"to={to_key!r}"))
    return from_key, to_key


def _swapped(detail: str) -> ProblemError:
    return ProblemError(400, "invalid-range", "The range ends before it begins", detail)


def ms_of(parameter: str, text: str | None, default: int) -> int:
    """Returns the time that a parameter gives, in ms since 1970; ``default`` without one."""
    try:
        return default if text is None else ms_of_text(text)
    except ValueError as error:
        raise invalid_request([(f"query/{parameter}", f"{error} (+ is written as %2B)")]) from error


def times_between(first: str, from_text: str | None, last: str, to_text: str | None) -> tuple[int, int]:
    """Returns the times that the parameters called ``first`` and ``last`` give; without them from 1970 on, without an
    end. Raises ProblemError if they are swapped."""
    begin, end = ms_of(first, from_text, 0), ms_of(last, to_text, LARGEST_TIMESTAMP)
    if begin > end:
        raise _swapped(f"{first}={from_text} is later than {last}={to_text}: swap them")
    return begin, end


def answer_row(found: StoreEntry | None, asked: Reading, title: str, detail: str) -> Response:
    """Returns the one row that was asked for. Raises ProblemError 404 with ``title`` and ``detail`` if there is
    none."""
    if found is None:
        raise ProblemError(404, "absent-key", title, detail, **asked.json_fields)
    return json_response({**members(found), **asked.json_fields})


async def answer_page(queries: ReadSide, store: str, query: RowsQuery, pages: Pages, asked: Reading) -> Response:
    """Returns a page of rows."""
    try:
        page = await queries.page(store, query, pages.limit, pages.cursor, asked)
    except SerializationError as error:
        raise invalid_key(str(error)) from error
    except ValueError as error:
        if pages.cursor is None:
            raise
        raise ProblemError(400, "invalid-cursor", "The cursor cannot be read", str(error)) from error
    return Response(page_json(page, asked), media_type="application/json")
