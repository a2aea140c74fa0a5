"""Makes archives by hand: files of given records, and the entries that name them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common.offset_ranges import OffsetRange
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of
from penstock.pipeline.archive.manifest import ArchivedFile, Span, file_name
from penstock.pipeline.archive.records import FILE_SCHEMA, content_digest
from penstock.pipeline.archive.topic_log import TopicLog, begin_generation

TOPIC = "lines"


def begun(objects: ObjectStore, run: str = "run-1", topic: str = TOPIC, topic_id: str = "id-1") -> TopicLog:
    """Returns the log of a topic's first generation, in which a run has begun."""
    log = TopicLog(objects, begin_generation(objects, topic, topic_id, 1, 1_000))
    log.open_run(run, 1_000, "host:1", lambda _: ())
    return log


def span(begin: int, end: int, partition: int = 0) -> Span:
    return Span(partition, begin, end)


def named(begin: int, end: int, partition: int = 0, rows: int | None = None) -> ArchivedFile:
    """Returns what a manifest has of a file that is not there."""
    name = file_name(TOPIC, partition, OffsetRange(begin, end))
    return ArchivedFile(
        name=name, partition=partition, begin=begin, end=end, rows=end - begin if rows is None else rows, bytes=100,
        digest="d", content_digest="c", first_timestamp=begin, last_timestamp=end,
    )  # fmt: skip


def table(offsets: Iterable[int], partition: int = 0, topic: str = TOPIC) -> pa.Table:
    """Returns records whose key, value, timestamp and headers follow from their offsets."""
    rows = [
        {
            "key": None if offset % 5 == 4 else f"k{offset}".encode(),
            "value": None if offset % 7 == 6 else f"value {offset}".encode(),
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": 1_000_000 + offset,
            "headers": [{"key": "h", "value": b"%d" % offset}] if offset % 3 == 0 else None,
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, schema=FILE_SCHEMA)


def written(
    objects: ObjectStore, begin: int, end: int, missing: Iterable[int] = (), partition: int = 0, topic: str = TOPIC
) -> ArchivedFile:
    """Write a file of these offsets without those that are missing; returns what a manifest has of it."""
    gone = set(missing)
    records = table([offset for offset in range(begin, end) if offset not in gone], partition, topic)
    sink = pa.BufferOutputStream()
    pq.write_table(records, sink)
    content = sink.getvalue().to_pybytes()
    name = file_name(topic, partition, OffsetRange(begin, end))
    objects.put(name, content)
    return ArchivedFile(
        name=name, partition=partition, begin=begin, end=end, rows=records.num_rows, bytes=len(content),
        digest=digest_of(content), content_digest=content_digest([records]),
        first_timestamp=1_000_000 + begin, last_timestamp=1_000_000 + end - 1,
    )  # fmt: skip
