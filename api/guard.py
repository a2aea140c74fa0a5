"""Refuses requests because of their senders, before any route: no body is read, and nothing is parsed."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from penstock.api.limits import Places
from penstock.api.operations_log import OperationsLog
from penstock.api.origins import refusal_of_strangers
from penstock.api.problems import ProblemError, documented, response
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token, token_of

HEALTH = frozenset({"/healthz", "/readyz"})
"""Asked by orchestrators, which have no token."""
_PAGES = re.compile(r"/|/page/.*|/docs(/oauth2-redirect)?|/openapi\.json|/static-offline-docs/.*")
"""The page and the description of the API, the same for every application; they ask for a token."""
_LOOKING_POSTS = re.compile(r"/v1/applications/[^/]+/stores/[^/]+/keys:batch")
"""Queries that are too long for a URL. All other requests except GET and HEAD change something."""
_OPEN = HEALTH | {"/"}
_GRANTED = "penstock.granted"
_CHALLENGES = {"no-token": "", "scope-too-small": ', error="insufficient_scope", scope="operate"'}


class Guard:
    """Refuses a request without a token with 401, one whose token does not allow it with 403, and every request with
    503 while too many wait for answers already. Without tokens, when only this machine can reach the server, it
    refuses with 403 a request of a page of another site (:mod:`penstock.api.origins`)."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, places: Places) -> None:
        self._app = app
        self._tokens = settings.tokens
        self._host = settings.host
        self._places = places
        self._operations_log = OperationsLog()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """ASGI."""
        token, problem = self._identify(scope)
        path: str = scope["path"]
        if path in HEALTH or _PAGES.fullmatch(path):
            await self._app(scope, receive, send)
            return
        who = None if token is None else token.name
        wanted = _wanted(scope["method"], path)
        problem = problem or self._refusal(scope[_GRANTED], wanted)
        if problem is not None:
            self._operations_log.refused(scope, who, problem.status, problem.kind)
        problem = problem or self._places.refusal()
        if problem is not None:
            answer = response(Request(scope), problem)
            if problem.kind in _CHALLENGES:
                answer.headers["WWW-Authenticate"] = f'Bearer realm="penstock"{_CHALLENGES[problem.kind]}'
            await answer(scope, receive, send)
        elif wanted is Scope.OPERATE:
            await self._operate(who, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _operate(self, who: str | None, scope: AsgiScope, receive: Receive, send: Send) -> None:
        status = 500  # sent by uvicorn if nothing else is

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            self._operations_log.operated(scope, who, status)

    def _identify(self, scope: AsgiScope) -> tuple[Token | None, ProblemError | None]:
        """Notes in ``scope`` what the request may do. Its token, and the problem with one that may do nothing."""
        token = problem = None
        if self._tokens:
            token = self._token(scope)
            granted = None if token is None else token.scope
            if token is None:
                detail = "this needs the header 'Authorization: Bearer TOKEN', with a token that the application knows"
                problem = ProblemError(401, "no-token", "A token is needed", detail)
        else:
            problem = refusal_of_strangers(scope["headers"], scope.get("scheme", "http"), self._host)
            granted = Scope.OPERATE if problem is None else None
        scope[_GRANTED] = granted
        return token, problem

    def _token(self, scope: AsgiScope) -> Token | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return None
        kind, _, token = given[0].partition(b" ")
        return token_of(self._tokens, token.strip()) if kind.lower() == b"bearer" else None

    @staticmethod
    def _refusal(granted: Scope, wanted: Scope) -> ProblemError | None:
        if granted.allows(wanted):
            return None
        detail = f"this needs a token with the scope {wanted}; yours has {granted}"
        return ProblemError(403, "scope-too-small", "The token does not allow that", detail, scope=wanted.value)


def _wanted(method: str, path: str) -> Scope:
    looks = method in ("GET", "HEAD") or (method == "POST" and _LOOKING_POSTS.fullmatch(path))
    return Scope.READ if looks else Scope.OPERATE


def may_read(request: Request) -> bool:
    """True if the answer to a request that needs no token may have details of the application."""
    return request.scope.get(_GRANTED) is not None


def may_operate(request: Request) -> bool:
    """True if the sender of the request may also change the application."""
    granted: Scope | None = request.scope.get(_GRANTED)
    return granted is not None and granted.allows(Scope.OPERATE)


def describe(app: FastAPI, tokens: bool) -> None:
    """Describe in the OpenAPI document which requests need a token, or must not come from another site, and how others
    are refused."""
    described = app.openapi
    refusals = documented({403: "The request names another host, or a page of another site makes it"})
    if tokens:
        refusals = documented({401: "There is no token, or it is not known", 403: "The token does not allow that"})

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = described()
            if tokens:
                schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in schema["paths"].items():
                for operation in operations.values() if path not in _OPEN else ():
                    operation["responses"] |= {str(status): body for status, body in refusals.items()}
                    if tokens:
                        operation["security"] = [{"token": []}]
        return described()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the document
