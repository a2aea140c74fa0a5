"""Errors as problem documents (RFC 9457), the form of all errors of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.encoding import shown_json
from penstock.cluster.record_side import ReadsBusyError, UnknownAppTopicError
from penstock.common.errors import (
    ApplicationStateError,
    BrokerUnreachableError,
    ConfigError,
    KafkaRefusedError,
    MissingTopicError,
    NotUpToBoundError,
    PositionError,
    RetriableError,
    SerializationError,
    StateStoreError,
    StreamsError,
    TaskNotReadyError,
    UnknownQueryError,
    UnknownStateStoreError,
)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:penstock:problem:"

ROUTES_OF: Mapping[str, str] = {
    "KeyQuery": "GET …/keys/{key}",
    "KeysQuery": "POST …/keys:batch",
    "RangeQuery": "GET …/range",
    "PrefixQuery": "GET …/range?prefix=",
    "CountQuery": "GET …/approximate-count",
    "WindowKeyQuery": "GET …/windows/{key}",
    "WindowRangeQuery": "GET …/windows",
    "SessionQuery": "GET …/sessions/{key}",
    "SessionRangeQuery": "GET …/sessions",
    "VersionedKeyQuery": "GET …/versions/{key}",
    "MultiVersionedKeyQuery": "GET …/history/{key}",
}
"""The route that answers each kind of query, relative to ``…/stores/{store}``."""

# Only a user starts a stopped application again, so there is no use in asking every second.
_RETRY_NOT_READY_S = 1
_RETRY_STOPPED_S = 5


class ProblemError(Exception):
    """Raised by a route, sent as a problem document. ``kind`` ends the ``type``; ``members`` are extra members."""

    def __init__(
        self, status: int, kind: str, title: str, detail: str, *, retry_after_s: int | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.members = members


def response(request: Request, problem: ProblemError) -> Response:
    """Returns the document of ``problem``; ``instance`` is the path that was asked for."""
    body = {
        "type": f"{TYPE_PREFIX}{problem.kind}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.url.path,
        **problem.members,
    }
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    if problem.status == HTTPStatus.REQUEST_TIMEOUT:
        headers["Connection"] = "close"  # the rest of the request would be taken for the next one
    return Response(shown_json(body), problem.status, headers=headers, media_type=MEDIA_TYPE)


def of_error(error: StreamsError) -> ProblemError | None:
    """Returns the problem that reports an error of the read side; None if it should not come from there."""
    match error:
        case NotUpToBoundError():
            return ProblemError(
                503,
                "not-up-to-bound",
                "The store has not reached that position yet",
                str(error),
                retry_after_s=_RETRY_NOT_READY_S,
                position=error.position.offsets,
            )
        case PositionError():
            return ProblemError(400, "unknown-position", "The store is not kept from these topics", str(error))
        case TaskNotReadyError():
            return ProblemError(
                503, "task-not-ready", "The task is not ready", str(error), retry_after_s=_RETRY_NOT_READY_S
            )
        case RetriableError():
            return ProblemError(
                503, "serde-not-ready", "A serde cannot answer now", str(error), retry_after_s=_RETRY_NOT_READY_S
            )
        case ApplicationStateError():
            return ProblemError(
                503,
                "application-not-running",
                "The application does not run",
                str(error),
                retry_after_s=_RETRY_STOPPED_S,
            )
        case UnknownAppTopicError():
            title = "The application has no such topic"
            return ProblemError(404, "unknown-topic", title, str(error), known_topics=error.known)
        case MissingTopicError():
            return ProblemError(404, "missing-topic", "There is no such topic", str(error))
        case ReadsBusyError():
            title = "Another topic is being read"
            return ProblemError(503, "reads-busy", title, str(error), retry_after_s=_RETRY_NOT_READY_S)
        case BrokerUnreachableError():
            return ProblemError(503, "no-broker", "No broker answers", str(error), retry_after_s=_RETRY_STOPPED_S)
        case KafkaRefusedError():
            return ProblemError(500, "kafka-refuses", "Kafka refuses this", str(error))
        case UnknownStateStoreError():
            return ProblemError(404, "unknown-store", "There is no such store", str(error))
        case UnknownQueryError():
            routes = [ROUTES_OF[query] for query in error.answered if query in ROUTES_OF]
            title = "This kind of store does not answer this query"
            return ProblemError(400, "unknown-query-type", title, str(error), queries=error.answered, routes=routes)
        case SerializationError():
            return ProblemError(500, "unreadable-entry", "The entry cannot be shown", str(error))
        case StateStoreError():
            return ProblemError(500, "store-failed", "The store cannot be read", str(error))
        case ConfigError():
            return ProblemError(500, "misconfigured", "The application's configuration does not allow it", str(error))
    return None


def invalid_request(found: Iterable[tuple[str, str]]) -> ProblemError:
    """Returns the problem of an invalid request: the location of each mistake, such as ``query/limit``, and its
    description."""
    errors = [{"where": where, "what": what} for where, what in found]
    detail = "; ".join(f"{each['where']}: {each['what']}" for each in errors)
    return ProblemError(422, "invalid-request", "The request is not valid", detail, errors=errors)


def unexpected() -> ProblemError:
    """Returns the problem of an error in penstock itself. Does not name its cause, which is in the log."""
    return ProblemError(
        500, "unexpected", "Unexpected error", "the request failed for a reason that the server's log explains"
    )


def install(app: FastAPI) -> None:
    """Make every error that leaves a route of ``app``, and every request no route takes, a problem document."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(StreamsError, streams_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return response(request, error)


async def streams_error(request: Request, error: Exception) -> Response:
    """Answers with the problem of :func:`of_error`. Raises an error that should not come from the read side."""
    assert isinstance(error, StreamsError)
    problem = of_error(error)
    if problem is None:
        raise error  # like all unexpected errors it gets into the log, with its traceback
    return response(request, problem)


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [("/".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
    return response(request, invalid_request(found))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    kind = title.lower().replace(" ", "-")
    detail = f"{request.method} {request.url.path}: {str(error.detail).lower()}"
    answer = response(request, ProblemError(error.status_code, kind, title, detail))
    answer.headers.update(error.headers or {})
    return answer


async def _unexpected(request: Request, error: Exception) -> Response:
    # Starlette raises the error again once this is sent, so that the server logs it with its traceback.
    return response(request, unexpected())


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
    "additionalProperties": True,
}


def documented(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Returns OpenAPI ``responses`` with the description of each status."""
    return {
        status: {"description": description, "content": {MEDIA_TYPE: {"schema": _SCHEMA}}}
        for status, description in descriptions.items()
    }
