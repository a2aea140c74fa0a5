"""Handlers of exceptions that do not fit: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

from typing import Any

import penstock as ps


class NoResponse(ps.ProcessingExceptionHandler):
    def handle_error(self, context: ps.ErrorHandlerContext, record: Any, error: Exception) -> ps.Result:  # error
        return ps.Result.RESUME


class OneArgument(ps.DeserializationExceptionHandler):
    def handle_error(self, error: Exception) -> ps.Response:  # error
        return ps.Response.resume()


def letters(context: ps.ErrorHandlerContext) -> ps.Response:
    text = ps.ProducerRecord("letters", "key", b"value")
    return ps.Response.resume([text])  # error


def retried() -> ps.Response:
    return ps.Response.retry([])  # error
