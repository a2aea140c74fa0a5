"""The ASGI application, and the routes about the application itself. A route asks the read side once and answers with
bytes, without validating them. The routes that ask stores: ``key_value_routes.py``, ``time_routes.py``."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.requests import Request
from starlette.responses import Response

from penstock.api import guard, key_value_routes, metrics, operate_routes, problems, schemas, time_routes
from penstock.api.asking import (
    APPLICATION,
    INVALID,
    NOT_READY,
    UNKNOWN_APPLICATION,
    App,
    Limits,
    Route,
    check,
    json_response,
    shown_response,
)
from penstock.api.limits import Bodies, Places, Rate
from penstock.api.page import (
    dead_letter_routes,
    flame_routes,
    history_routes,
    life_routes,
    live_routes,
    page_routes,
    peek_routes,
    rollout_routes,
    topology_routes,
)
from penstock.api.page.live_feed import LiveFeed
from penstock.api.problems import ProblemError, documented
from penstock.api.status import application_body
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.read_side import ApplicationState, ApplicationStatus, ReadSide
from penstock.common.errors import StreamsError, UnknownStateStoreError
from penstock.common.version import version


def create_app(queries: ReadSide, settings: ServerSettings | None = None) -> FastAPI:
    """Returns the ASGI application over ``queries``. ``/docs`` needs no internet: its assets come from a package."""
    settings = settings or ServerSettings()
    app: FastAPI = FastAPIOffline(
        title="penstock",
        summary="Kafka Streams for Python, on Ray",
        description="Interactive queries, status, health and metrics of one application.",
        version=version(),
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.router.route_class = Route
    places = Places(settings.max_waiting_queries)
    app.state.limits = Limits(places, Bodies(), Rate(settings.max_ranges_per_second))
    app.add_middleware(guard.Guard, settings=settings, places=places)
    problems.install(app)
    _list_stores_in_errors(app, queries)
    for add_to in (_root, _health, _application, operate_routes.add_to, key_value_routes.add_to, time_routes.add_to):
        add_to(app, queries)
    page_routes.add_to(app)
    feed = app.state.live = LiveFeed(queries)
    live_routes.add_to(app, queries, feed)
    for programs in (topology_routes, rollout_routes, history_routes, flame_routes):
        programs.add_to(app, queries)
    for records in (peek_routes, life_routes, dead_letter_routes):
        records.add_to(app, queries)
    guard.describe(app, bool(settings.tokens))
    return app


def _list_stores_in_errors(app: FastAPI, queries: ReadSide) -> None:
    """Answer a request for a store that does not exist with the names of the existing stores."""

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


_STUCK_AGAIN_S = 5


class _SharedStatus:
    """The status for requests without a token. Requests that arrive together cause one question to the coordinator."""

    def __init__(self, queries: ReadSide) -> None:
        self._queries = queries
        self._asked: asyncio.Task[ApplicationStatus] | None = None

    async def get(self) -> ApplicationStatus:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._queries.status())
        return await asyncio.shield(self._asked)


def _root(app: FastAPI, queries: ReadSide) -> None:
    page: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}

    @app.get(
        "/", tags=["application"], response_model=schemas.RootBody, responses={**page, **documented({422: INVALID})}
    )
    async def root(request: Request) -> Response:
        """Links into this API; for browsers, the page that shows the application. Needs no token. If there are tokens,
        only a request with one learns which application runs here."""
        if page_routes.wants_page(request):
            return page_routes.index(request)
        described = {"name": "penstock", "version": version(), "docs": "/docs", "openapi": "/openapi.json"}
        health = {"health": "/healthz", "readiness": "/readyz", "metrics": "/metrics"}
        application = APPLICATION.format(app=quote(queries.application_id, safe=""))
        known = {"application": application, "stores": f"{application}/stores"}
        answer = json_response(described | health | (known if guard.may_read(request) else {}))
        answer.headers["Vary"] = "Accept"
        return answer


def _health(app: FastAPI, queries: ReadSide) -> None:
    shared = _SharedStatus(queries)

    @app.get("/healthz", tags=["health"], response_model=schemas.HealthBody, responses=documented({422: INVALID}))
    async def healthz() -> Response:
        """The server answers. Reports nothing about the application, unlike ``/readyz``."""
        return json_response({"status": "ok"})

    @app.get(
        "/readyz",
        tags=["health"],
        response_model=schemas.HealthBody,
        responses=documented({422: INVALID, 503: NOT_READY}),
    )
    async def readyz(request: Request) -> Response:
        """Succeeds if the application is RUNNING, lacks no topic, all its tasks are restored and process, and no task
        is stuck. A stuck task has records to read and has processed none of them for minutes. Needs no token, but if
        there are tokens, only a request with one learns why it fails."""
        status = await shared.get()
        if status.state is not ApplicationState.RUNNING:
            why = (status.error or status.waiting) if guard.may_read(request) else None
            detail = f"application {status.application_id!r} is {status.state.value}"
            raise ProblemError(
                503,
                "not-ready",
                "The application is not ready",
                f"{detail}: {why}" if why else detail,
                retry_after_s=1,
                state=status.state.value,
            )
        if status.missing_topic is not None:
            why = status.missing_topic if guard.may_read(request) else None
            detail = f"application {status.application_id!r} lacks a topic"
            raise ProblemError(
                503,
                "missing-topic",
                "A topic is gone",
                f"{detail}: {why}" if why else detail,
                retry_after_s=_STUCK_AGAIN_S,
                state=status.state.value,
            )
        if status.stuck:
            named = "; ".join(map(str, status.stuck)) if guard.may_read(request) else None
            detail = f"application {status.application_id!r} has stuck tasks"
            raise ProblemError(
                503,
                "stuck-task",
                "A task is stuck",
                f"{detail}: {named}" if named else detail,
                retry_after_s=_STUCK_AGAIN_S,
                state=status.state.value,
            )
        return json_response({"status": "ready"})

    @app.get("/metrics", tags=["health"], responses=documented({422: INVALID, 503: NOT_READY}), response_class=_Text)
    async def prometheus() -> Response:
        """Metrics in Prometheus' text format, under Kafka Streams' names."""
        return Response(metrics.exposition(await queries.status()), media_type=metrics.MEDIA_TYPE)


class _Text(Response):
    media_type = "text/plain"


def _application(app: FastAPI, queries: ReadSide) -> None:
    responses = documented({404: UNKNOWN_APPLICATION, 503: NOT_READY, 422: INVALID})

    @app.get(APPLICATION, tags=["application"], response_model=schemas.ApplicationBody, responses=responses)
    async def application(app: App) -> Response:
        """State, tasks, placement and lag."""
        check(queries, app)
        return shown_response(application_body(await queries.status()))

    @app.get(APPLICATION + "/stores", tags=["stores"], response_model=schemas.StoresBody, responses=responses)
    async def stores(app: App) -> Response:
        """The stores that can be queried."""
        check(queries, app)
        known = await queries.stores()
        fields = ("name", "kind", "subtopology", "partitions", "partitioner", "certain")
        return json_response(
            {"stores": [{field: getattr(known[name], field) for field in fields} for name in sorted(known)]}
        )
