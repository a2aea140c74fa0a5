"""Handlers of exceptions."""

from __future__ import annotations

from typing import Any

import penstock as ps


class OfBytes(ps.DeserializationExceptionHandler):
    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.Record[bytes | None, bytes | None], error: Exception
    ) -> ps.Response:
        letter = ps.ProducerRecord("letters", record.key, context.source_raw_value, record.timestamp)
        return ps.Response.resume([letter])


class OfRecords(ps.ProcessingExceptionHandler):
    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.Record[Any, Any] | None, error: Exception
    ) -> ps.Response:
        return ps.Response.fail(context.dead_letter_queue_records(error))


class OfResults(ps.ProductionExceptionHandler):
    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.ProducerRecord[bytes | None, bytes | None], error: Exception
    ) -> ps.Response:
        return ps.Response.retry() if isinstance(error, ps.RetriableError) else ps.Response.resume()

    def handle_serialization_error(
        self,
        context: ps.ErrorHandlerContext,
        record: ps.ProducerRecord[Any, Any],
        error: Exception,
        origin: ps.SerializationExceptionOrigin,
    ) -> ps.Response:
        topic: str | None = context.topic
        offset: int = context.offset
        return ps.Response.resume() if topic and offset and origin.name == "KEY" else ps.Response.fail()


def decided(response: ps.Response) -> ps.Result:
    return response.result
