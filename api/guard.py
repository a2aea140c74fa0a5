"""Who may ask, and how many at once: looked at before any route."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from penstock.api.problems import ProblemError, documented, response
from penstock.cluster.server_settings import Scope, ServerSettings, scope_of

HEALTH = frozenset({"/healthz", "/readyz"})
"""What an orchestrator asks, which has no token."""
_PAGES = re.compile(r"/docs(/oauth2-redirect)?|/openapi\.json|/static-offline-docs/.*")
"""The description of the API, the same for every application; to try it out, the page asks for a token."""
_LOOKING_POSTS = re.compile(r"/v1/applications/[^/]+/stores/[^/]+/keys:batch")
"""Questions that are too long for a URL. All other requests but GET and HEAD change something."""
_GRANTED = "penstock.granted"
_CHALLENGES = {401: "", 403: ', error="insufficient_scope", scope="operate"'}


class Guard:
    """Refuses with 401 who has no token, with 403 whose token allows less than is asked for, and with 503 when too many
    wait for answers already. Without tokens (then nobody comes from elsewhere) everybody may do everything."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._tokens = settings.tokens
        self._most = settings.max_waiting_queries
        self._waiting = 0

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """ASGI."""
        granted = Scope.OPERATE if not self._tokens else self._granted(scope)
        scope[_GRANTED] = granted
        path: str = scope["path"]
        if path in HEALTH or _PAGES.fullmatch(path):
            await self._app(scope, receive, send)
            return
        problem = self._refusal(scope, granted)
        if problem is not None:
            answer = response(Request(scope), problem)
            if problem.status in _CHALLENGES:
                answer.headers["WWW-Authenticate"] = f'Bearer realm="penstock"{_CHALLENGES[problem.status]}'
            await answer(scope, receive, send)
            return
        self._waiting += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._waiting -= 1

    def _granted(self, scope: AsgiScope) -> Scope | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return None
        kind, _, token = given[0].partition(b" ")
        return scope_of(self._tokens, token.strip()) if kind.lower() == b"bearer" else None

    def _refusal(self, scope: AsgiScope, granted: Scope | None) -> ProblemError | None:
        if granted is None:
            detail = "this needs the header 'Authorization: Bearer TOKEN', with a token that the application knows"
            return ProblemError(401, "no-token", "A token is needed", detail)
        wanted = _wanted(scope["method"], scope["path"])
        if not granted.allows(wanted):
            detail = f"this needs a token with the scope {wanted}; yours has {granted}"
            return ProblemError(403, "scope-too-small", "The token does not allow that", detail, scope=wanted.value)
        if self._waiting >= self._most:
            detail = f"{self._most} requests wait for their answers already (application.server.max.waiting.queries)"
            return ProblemError(503, "too-many-waiting", "Too many requests wait", detail, retry_after_s=1)
        return None


def _wanted(method: str, path: str) -> Scope:
    looks = method in ("GET", "HEAD") or (method == "POST" and _LOOKING_POSTS.fullmatch(path))
    return Scope.READ if looks else Scope.OPERATE


def may_read(request: Request) -> bool:
    """Whether who asks may hear of the application: said of requests that need no token."""
    return request.scope.get(_GRANTED, Scope.OPERATE) is not None


def describe(app: FastAPI) -> None:
    """Say in the OpenAPI document which requests need a token, and what becomes of those without."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = described()
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            refusals = documented({401: "There is no token, or it is not known", 403: "The token does not allow that"})
            for path, operations in schema["paths"].items():
                for operation in operations.values() if path not in HEALTH else ():
                    operation["security"] = [{"token": []}]
                    operation["responses"] |= {str(status): body for status, body in refusals.items()}
        return described()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the document
