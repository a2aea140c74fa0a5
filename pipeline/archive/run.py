"""``penstock archive``: Spark's stream of topics becomes files, and one manifest for each batch and topic.

Only the archive's manifests say what is archived. Spark's own checkpoint is new in each run, and is deleted with it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.common.errors import ArchiveError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.pipeline.archive.compaction import compact
from penstock.pipeline.archive.file_writer import WRITTEN, FileWriter
from penstock.pipeline.archive.manifest import ArchivedFile, Span
from penstock.pipeline.archive.opening import ArchiveTask, OpenRun, look, now_ms
from penstock.pipeline.archive.plan import check_lost, where_to_start
from penstock.pipeline.offset_ranges import OffsetRange

_LOOK_EACH_S = 1
_SESSION = {"spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20), "spark.sql.session.timeZone": "UTC"}
_READER = {
    "kafka.isolation.level": "read_committed",
    # All that is read is there already, so nothing is gained by waiting for more.
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "5000",
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "groupIdPrefix": "penstock-archive",
}
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


@dataclass(frozen=True)
class Batch:
    """One batch that is committed, as it is reported: of all topics together. ``bytes``: of its files."""

    records: int
    bytes: int
    files: int
    undecodable: int
    seconds: float


class ArchiveStream:
    """The stream of one run. ``report`` is called after each batch, in another thread."""

    def __init__(self, task: ArchiveTask, opened: OpenRun, report: Callable[[Batch], None]) -> None:
        self._task = task
        self._opened = opened
        self._report = report
        self._error: BaseException | None = None

    def run(self, spark: SparkSession) -> None:
        """Archive until the end, or until Ctrl-C. Raises StreamsError."""
        for key, value in _SESSION.items():
            spark.conf.set(key, value)
        every = self._task.every_s
        with tempfile.TemporaryDirectory(prefix="penstock-archive-") as folder:
            checkpoint = Path(folder)
            writing = (
                self._source(spark)
                .writeStream.foreachBatch(lambda rows, number: self._take(rows, _ends_of(checkpoint, number)))
                .option("checkpointLocation", checkpoint.as_uri())
            )
            timed = writing.trigger(availableNow=True) if every is None else _each(writing, every)
            query = timed.start()
            try:
                while not query.awaitTermination(_LOOK_EACH_S):  # Ctrl-C reaches Python between two calls
                    continue
            except PySparkException as error:
                raise self._cause(error) from error
            finally:
                query.stop()

    def _source(self, spark: SparkSession) -> DataFrame:
        starts: dict[str, dict[str, int]] = {}
        for partition, offset in self._opened.begins.items():
            starts.setdefault(partition.topic, {})[str(partition.partition)] = offset
        return (
            spark.readStream.format("kafka")
            .options(**_READER, **self._task.reader_options)
            .option("subscribe", ",".join(self._task.topics))
            .option("startingOffsets", json.dumps(starts))
            .option("maxOffsetsPerTrigger", str(self._task.records_per_commit))
            .load()
            .select(*_COLUMNS)
        )

    def _take(self, rows: DataFrame, ends: Mapping[TopicPartition, int]) -> None:
        """Archive one batch: Spark calls it in a thread of its own."""
        try:
            self._archive(rows, ends)
        except BaseException as error:
            self._error = error  # Spark keeps the text alone
            raise

    def _archive(self, rows: DataFrame, ends: Mapping[TopicPartition, int]) -> None:
        began, opened = time.monotonic(), self._opened
        # A partition that was added meanwhile is archived from its first offset.
        ranges = {it: OffsetRange(opened.begins.get(it, 0), end) for it, end in ends.items()}
        ranges = {it: offsets for it, offsets in ranges.items() if offsets}
        if not ranges:
            return
        writer = FileWriter(
            self._task.location,
            {topic: log.archived.folder for topic, log in opened.logs.items()},
            ranges,
            opened.taken,
            opened.run[:8],
            self._task.decoding,
            self._task.file_bytes,
        )
        files: dict[str, list[ArchivedFile]] = {topic: [] for topic in opened.logs}
        for row in rows.mapInArrow(writer, WRITTEN).collect():
            files[row["topic"]].append(msgspec.json.decode(row["file"], type=ArchivedFile))
        # Records that were read of a topic that was created again meanwhile are never committed.
        self._check_ids(self._task.clients.admin().topic_ids(self._task.topics))
        for topic, log in opened.logs.items():
            its = {it.partition: offsets for it, offsets in ranges.items() if it.topic == topic}
            if its:
                spans = [Span(number, offsets.begin, offsets.end) for number, offsets in sorted(its.items())]
                log.commit(opened.run, now_ms(), spans, sorted(files[topic], key=lambda it: (it.partition, it.begin)))
            compact(log.objects, log, now_ms)
        opened.begins |= {it: offsets.end for it, offsets in ranges.items()}
        self._report(_batch([file for its in files.values() for file in its], time.monotonic() - began))

    def _cause(self, error: PySparkException) -> BaseException:
        """Returns the reason for which the stream has ended, in penstock's words if it is known."""
        if self._error is not None and not isinstance(self._error, PySparkException):
            return self._error
        try:
            now = look(self._task.clients, self._task.topics)
            self._check_ids(now.ids)
            for topic, log in self._opened.logs.items():
                check_lost(topic, where_to_start(log.archived, now.offsets[topic]).lost, accepted=False)
        except (ArchiveError, MissingTopicError) as known:
            return known
        return self._error or error

    def _check_ids(self, ids: Mapping[str, str]) -> None:
        for topic, topic_id in self._opened.ids.items():
            if ids.get(topic) != topic_id:
                raise ArchiveError(
                    f"topic {topic} was deleted while it was archived. If it was created again, run this again: it "
                    "begins the next generation of the topic. What was archived before stays as it is"
                )


def _each(writing: DataStreamWriter, seconds: float) -> DataStreamWriter:
    return writing.trigger(processingTime=f"{round(seconds * 1000)} milliseconds")


def _ends_of(checkpoint: Path, number: int) -> dict[TopicPartition, int]:
    """Returns the offsets up to which a batch reads, as Spark has planned them: the batch may have no record there."""
    _, _, offsets = (checkpoint / "offsets" / str(number)).read_text().split("\n", 2)
    ends: dict[str, dict[str, int]] = json.loads(offsets)
    return {TopicPartition(topic, int(it)): end for topic, its in ends.items() for it, end in its.items()}


def _batch(files: Sequence[ArchivedFile], seconds: float) -> Batch:
    return Batch(
        sum(file.rows for file in files),
        sum(file.bytes for file in files),
        len(files),
        sum(file.undecodable for file in files),
        seconds,
    )
