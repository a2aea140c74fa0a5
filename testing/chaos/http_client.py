"""Asks the application's HTTP server, with nothing but Python's own library."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

OK, NOT_FOUND, UNAVAILABLE = 200, 404, 503


class NotAnsweredError(Exception):
    """The connection was refused, cut, or gave nothing in time."""


class Answer(NamedTuple):
    """The answer to a request. ``body`` is its JSON."""

    status: int
    body: Any


class HttpClient:
    """One connection, kept open and made again when it is lost."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def get(self, *path: str, **query: str | int) -> Answer:
        """``GET`` of a path whose parts are ``path``. Raises NotAnsweredError."""
        where = "/" + "/".join(quote(part, safe="") for part in path)
        try:
            self._connection.request("GET", f"{where}?{urlencode(query)}" if query else where)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request makes another
            raise NotAnsweredError(str(error)) from error
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text.decode(errors="replace"))


def problem(answer: Answer) -> str | None:
    """The type of the problem that was answered (RFC 9457)."""
    body = answer.body
    return str(body["type"]) if isinstance(body, Mapping) and "type" in body else None
