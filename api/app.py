"""The routes. Each asks the read side once and answers with bytes: nothing is validated on the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from penstock.api import metrics, problems, schemas
from penstock.api.encoding import found_json, page_json, to_json
from penstock.api.problems import ProblemError, documented, invalid_request
from penstock.api.status import application_body
from penstock.cluster.read_side import ApplicationState, ReadSide, ends_before_it_begins, instead_of_swapped
from penstock.common.errors import SerializationError, StreamsError, UnknownStateStoreError
from penstock.common.serdes import Serde
from penstock.common.version import version

APPLICATION = "/v1/applications/{app}"
STORE = APPLICATION + "/stores/{store}"
LIMIT_DEFAULT = 100
LIMIT_MAX = 10_000


class Isolation(StrEnum):
    """Which writes a query sees: all that the task has processed, or only what is committed."""

    LATEST = "latest"
    COMMITTED = "committed"


_App = Annotated[str, Path(description="application.id")]
_Store = Annotated[str, Path(description="The store's name")]
_Key = Annotated[str, Path(description="The key as text, read by the store's key serde; may hold encoded slashes")]
_Isolation = Annotated[Isolation, Query(description="latest: all that is processed; committed: only what is committed")]
_ORDER = "Keys are in the order of their serialised bytes: negative integers come behind positive ones"
_From = Annotated[
    str | None, Query(alias="from", description=f"The first key, included; none: the beginning. {_ORDER}")
]
_To = Annotated[str | None, Query(description=f"The last key, included; none: the end. {_ORDER}")]
_Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Rows per page")]
_Cursor = Annotated[str | None, Query(description="The cursor of the page before")]

_UNKNOWN_APPLICATION = "No such application; ``known_applications`` names those there are"
_UNKNOWN_STORE = "No such application or store; ``known_stores`` names those there are"
_INVALID = "Invalid request; also a query parameter that is not known"
_NOT_READY = "The application or the task restores, moves or does not run: see Retry-After"


def create_app(queries: ReadSide) -> FastAPI:
    """The ASGI application over ``queries``. ``/docs`` needs no internet: its assets come from a package."""
    app: FastAPI = FastAPIOffline(
        title="penstock",
        summary="Kafka Streams for Python, on Ray",
        description="Interactive queries, status, health and metrics of one application.",
        version=version(),
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.router.route_class = _Route
    problems.install(app)
    _say_which_stores_there_are(app, queries)
    for add_to in (_health, _application, _entry, _entries, _range, _approximate_count):
        add_to(app, queries)
    return app


def _json(body: Any, status: int = 200) -> Response:
    return Response(to_json(body), status, media_type="application/json")


def _check(queries: ReadSide, app: str) -> None:
    if app != queries.application_id:
        detail = f"no application {app!r} is served here; known: {queries.application_id}"
        known = [queries.application_id]
        raise ProblemError(404, "unknown-application", "There is no such application", detail, known_applications=known)


def _say_which_stores_there_are(app: FastAPI, queries: ReadSide) -> None:
    """To whom asks a route for a store that there is not."""

    async def unknown_store(request: Request, error: Exception) -> Response:
        try:
            known = sorted(await queries.stores())
        except StreamsError as why_not:
            return await problems.streams_error(request, why_not)
        store = request.path_params["store"]
        detail = f"application {queries.application_id!r} has no store {store!r}; known: {', '.join(known) or 'none'}"
        problem = ProblemError(404, "unknown-store", "There is no such store", detail, known_stores=known)
        return problems.response(request, problem)

    app.add_exception_handler(UnknownStateStoreError, unknown_store)


async def _read_key(queries: ReadSide, store: str, text: str) -> Any:
    return _key_of(await queries.key_serde(store), store, text)


def _key_of(serde: Serde[Any], store: str, text: str) -> Any:
    if serde.from_text is None:
        detail = f"the keys of store {store!r} cannot be given as text: their serde {serde.name!r} has no from_text"
        raise _invalid_key(detail)
    try:
        return serde.from_text(text)
    except Exception as error:  # a serde may raise anything: see Serde
        raise _invalid_key(f"{text!r} is no key of store {store!r} (serde {serde.name!r}): {error}") from error


def _invalid_key(detail: str) -> ProblemError:
    return ProblemError(400, "invalid-key", "The key cannot be read", detail)


def _health(app: FastAPI, queries: ReadSide) -> None:
    @app.get("/healthz", tags=["health"], response_model=schemas.HealthBody, responses=documented({422: _INVALID}))
    async def healthz() -> Response:
        """The server answers. Says nothing of the application: see ``/readyz``."""
        return _json({"status": "ok"})

    @app.get(
        "/readyz",
        tags=["health"],
        response_model=schemas.HealthBody,
        responses=documented({422: _INVALID, 503: _NOT_READY}),
    )
    async def readyz() -> Response:
        """Whether the application is RUNNING: all its tasks are restored and process."""
        status = await queries.status()
        if status.state is not ApplicationState.RUNNING:
            detail = f"application {status.application_id!r} is {status.state.value}"
            raise ProblemError(
                503,
                "not-ready",
                "The application is not ready",
                f"{detail}: {status.error}" if status.error else detail,
                retry_after_s=1,
                state=status.state.value,
            )
        return _json({"status": "ready"})

    @app.get("/metrics", tags=["health"], responses=documented({422: _INVALID, 503: _NOT_READY}), response_class=_Text)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text format, under Kafka Streams' names."""
        return Response(metrics.exposition(await queries.status()), media_type=metrics.MEDIA_TYPE)


class _Text(Response):
    media_type = "text/plain"


def _application(app: FastAPI, queries: ReadSide) -> None:
    responses = documented({404: _UNKNOWN_APPLICATION, 503: _NOT_READY, 422: _INVALID})

    @app.get(APPLICATION, tags=["application"], response_model=schemas.ApplicationBody, responses=responses)
    async def application(app: _App) -> Response:
        """State, tasks, placement and lag."""
        _check(queries, app)
        return _json(application_body(await queries.status()))

    @app.get(APPLICATION + "/stores", tags=["stores"], response_model=schemas.StoresBody, responses=responses)
    async def stores(app: _App) -> Response:
        """The stores that can be queried."""
        _check(queries, app)
        known = await queries.stores()
        fields = ("name", "kind", "subtopology", "partitions")
        return _json({"stores": [{field: getattr(known[name], field) for field in fields} for name in sorted(known)]})


class _Route(APIRoute):
    """Refuses what it would otherwise ignore: a mistyped parameter would look like one that has no effect."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers, behind a look at the names of the query's parameters."""
        answer = super().get_route_handler()
        known = [parameter.alias for parameter in self.dependant.query_params]

        async def run(request: Request) -> Response:
            _refuse_unknown(request, known)
            return await answer(request)

        return run


def _refuse_unknown(request: Request, known: Sequence[str]) -> None:
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = f"Unknown parameter; known are: {', '.join(known)}" if known else "This takes no parameters"
    wrong = [(f"query/{name}", unknown) for name in given if name not in known]
    wrong += [(f"query/{name}", "Given more than once") for name, times in given.items() if name in known and times > 1]
    if wrong:
        raise invalid_request(wrong)


class _EntryRoute(APIRoute):
    """Documented by FastAPI, run by Starlette: solving and validating parameters would double the cost of a look-up."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def run(request: Request) -> Response:
            _refuse_unknown(request, ("isolation",))
            answer: Response = await endpoint(**request.path_params, isolation=_isolation(request))
            return answer

        self.app = request_response(run)


def _isolation(request: Request) -> Isolation:
    given = request.query_params.get("isolation", Isolation.LATEST)
    try:
        return Isolation(given)
    except ValueError:
        allowed = " or ".join(repr(each.value) for each in Isolation)
        raise invalid_request([("query/isolation", f"Input should be {allowed}")]) from None


_ASK_A_STORE = documented({400: "Bad key, range or cursor", 404: _UNKNOWN_STORE, 422: _INVALID, 503: _NOT_READY})


def _entry(app: FastAPI, queries: ReadSide) -> None:
    async def entry(app: _App, store: _Store, key: _Key, isolation: _Isolation = Isolation.LATEST) -> Response:
        """One entry."""
        _check(queries, app)
        try:
            wanted = await _read_key(queries, store, key)
            found = await queries.get(store, wanted, isolation is Isolation.COMMITTED)
        except SerializationError as error:
            raise _invalid_key(str(error)) from error
        if found is None:
            raise ProblemError(404, "absent-key", "The key is absent", f"store {store!r} has no entry for key {key!r}")
        return _json({"key": found.key, "value": found.value, "timestamp": found.timestamp})

    app.router.add_api_route(
        STORE + "/keys/{key:path}",
        entry,
        tags=["stores"],
        response_model=schemas.EntryBody,
        responses={**_ASK_A_STORE, **documented({404: f"{_UNKNOWN_STORE}; or the store has no such key"})},
        route_class_override=_EntryRoute,
    )


def _entries(app: FastAPI, queries: ReadSide) -> None:
    @app.post(STORE + "/keys:batch", tags=["stores"], response_model=schemas.FoundBody, responses=_ASK_A_STORE)
    async def look_up_all(
        app: _App, store: _Store, body: schemas.KeysBody, isolation: _Isolation = Isolation.LATEST
    ) -> Response:
        """The entries of up to 10,000 keys, in the order of the keys, by one call to each stream actor."""
        _check(queries, app)
        serde = await queries.key_serde(store)
        try:
            wanted = [_key_of(serde, store, text) for text in body.keys]
            found = await queries.get_many(store, wanted, isolation is Isolation.COMMITTED)
        except SerializationError as error:
            raise _invalid_key(str(error)) from error
        return Response(found_json(found), media_type="application/json")


def _range(app: FastAPI, queries: ReadSide) -> None:
    @app.get(STORE + "/range", tags=["stores"], response_model=schemas.EntriesBody, responses=_ASK_A_STORE)
    async def entries(
        app: _App,
        store: _Store,
        from_key: _From = None,
        to: _To = None,
        limit: _Limit = LIMIT_DEFAULT,
        cursor: _Cursor = None,
        isolation: _Isolation = Isolation.LATEST,
    ) -> Response:
        """Entries of all partitions, in the order of their serialised keys' bytes as in Kafka Streams: text by code
        point, integers with the negative ones last. Page by page with ``cursor``; pages are no snapshot.
        """
        _check(queries, app)
        try:
            first = None if from_key is None else await _read_key(queries, store, from_key)
            last = None if to is None else await _read_key(queries, store, to)
            serde = await queries.key_serde(store)
            if ends_before_it_begins(serde, first, last):
                detail = instead_of_swapped(serde, f"from={first!r}", f"to={last!r}")
                raise ProblemError(400, "invalid-range", "The range ends before it begins", detail)
            page = await queries.range(store, first, last, limit, cursor, isolation is Isolation.COMMITTED)
        except SerializationError as error:
            raise _invalid_key(str(error)) from error
        except ValueError as error:
            if cursor is None:
                raise
            raise ProblemError(400, "invalid-cursor", "The cursor cannot be read", str(error)) from error
        return Response(page_json(page), media_type="application/json")


def _approximate_count(app: FastAPI, queries: ReadSide) -> None:
    @app.get(STORE + "/approximate-count", tags=["stores"], response_model=schemas.CountBody, responses=_ASK_A_STORE)
    async def approximate_count(app: _App, store: _Store, isolation: _Isolation = Isolation.LATEST) -> Response:
        """About how many entries the store has (RocksDB's estimate)."""
        _check(queries, app)
        count = await queries.approximate_num_entries(store, isolation is Isolation.COMMITTED)
        return _json({"approximate_count": count})
