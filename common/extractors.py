"""Extractors of a record's event time (mirrors ``TimestampExtractor`` and its built-in forms)."""

from __future__ import annotations

from abc import abstractmethod
from time import time_ns
from typing import Any, Protocol

from penstock.common.errors import InvalidTimestampError
from penstock.common.records import Record, RecordMetadata


class TimestampExtractor(Protocol):
    """Called once per record, in offset order, before it is queued; must be a pure function of its arguments.

    A negative result drops the record and counts it in ``dropped-records-total``. A result that is not a whole
    number, such as a float, a bool or a string, or that has more than 63 bits, raises InvalidTimestampError, which
    names the source.
    """

    @abstractmethod
    def __call__(
        self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata, /
    ) -> int:
        """Returns the event time in ms. ``record`` is decoded; its ``timestamp`` is the broker's, or 0 if that is
        negative.

        ``partition_time`` is the largest timestamp seen in the partition so far, −1 if none.
        """


class FailOnInvalidTimestamp:
    """The record's own timestamp; a negative one stops the application: the default."""

    def __call__(
        self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata
    ) -> int:
        """The broker's timestamp. Raises InvalidTimestampError when it is negative."""
        if broker_timestamp < 0:
            raise InvalidTimestampError(
                f"the record has no valid timestamp ({broker_timestamp} ms): set default.timestamp.extractor to "
                "LogAndSkipOnInvalidTimestamp() or to an extractor of your own",
                topic=metadata.topic,
                partition=metadata.partition,
                offset=metadata.offset,
                key=record.key,
            )
        return broker_timestamp


class LogAndSkipOnInvalidTimestamp:
    """The record's own timestamp; a record with a negative one is dropped."""

    def __call__(
        self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata
    ) -> int:
        """The broker's timestamp, negative or not."""
        if broker_timestamp < 0:
            from penstock.common.log import logger

            logger(__name__).warning("record without valid timestamp dropped", at=str(metadata))
        return broker_timestamp


class UsePartitionTimeOnInvalidTimestamp:
    """The record's own timestamp, or the partition's time if it is negative."""

    def __call__(
        self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata
    ) -> int:
        """The broker's timestamp, or ``partition_time``. Raises InvalidTimestampError when neither is known."""
        if broker_timestamp < 0 and partition_time < 0:
            raise InvalidTimestampError(
                f"the record has no valid timestamp ({broker_timestamp} ms), and none of its partition came before "
                "it: set default.timestamp.extractor to LogAndSkipOnInvalidTimestamp() or to an extractor of your own",
                topic=metadata.topic,
                partition=metadata.partition,
                offset=metadata.offset,
                key=record.key,
            )
        return broker_timestamp if broker_timestamp >= 0 else partition_time


class WallclockTimestampExtractor:
    """The time at which the record is read, whatever its own timestamp. Mirrors ``WallclockTimestampExtractor``.

    A record that is processed again, after a failure or in a backfill, has another time then.
    """

    def __call__(
        self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata
    ) -> int:
        """The clock of the machine (ms)."""
        return time_ns() // 1_000_000
