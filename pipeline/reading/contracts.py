"""The contract of a source of history: topics of Kafka, an archive of them, or both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from penstock.common.ids import TopicPartition
from penstock.pipeline.offset_ranges import Ranges

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns of records: those of Spark's Kafka source, but ``timestamp`` is a long, in ms since 1970."""


class HistorySource(Protocol):
    """Holds records of topics by their offsets in Kafka."""

    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        """Returns the offsets of each partition that can be read now, and starts no Spark. Offsets within the range may
        be without a record: markers of transactions, aborted records, and records that compaction has removed.

        Raises MissingTopicError for a topic that the source does not have.
        """

    def records(self, spark: SparkSession, ranges: Ranges) -> DataFrame | None:
        """Returns the records of ``ranges`` in columns :data:`RECORD_COLUMNS`, in any order; None if the ranges are
        empty. Raises StreamsError, at once or when Spark reads the frame, if part of the ranges is not there."""
