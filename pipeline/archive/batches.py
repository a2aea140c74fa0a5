"""One batch of a run: its offsets, the writer of its files, and its commit. Knows no Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import msgspec

from penstock.common.errors import ArchiveError
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.archive.compaction import compact
from penstock.pipeline.archive.file_writer import FileWriter
from penstock.pipeline.archive.manifest import ArchivedFile, Span
from penstock.pipeline.archive.opening import ArchiveTask, OpenRun, now_ms, publish
from penstock.pipeline.archive.topic_log import ArchiveTakenOverError, TopicLog

PART_OFFSETS = 100_000
"""Number of offsets of a partition up to which it is not worthwhile to divide them among tasks."""


@dataclass(frozen=True)
class Batch:
    """One batch that is committed, as it is reported: of all topics together. ``bytes``: of its files."""

    records: int
    bytes: int
    files: int
    undecodable: int
    seconds: float


Part = tuple[str, int, int, int]
"""Offsets that one task of Spark archives: topic, partition, begin, end."""


class Tasks(Protocol):
    """Runs the tasks that read and write."""

    @property
    def at_once(self) -> int:
        """Number of tasks that can run at the same time."""

    def play(self, writer: FileWriter, parts: Sequence[Part]) -> list[tuple[str, bytes]]:
        """Have ``writer`` read and write each part, in a task of its own; returns its rows. Raises StreamsError."""


def next_ranges(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int) -> Ranges:
    """Returns the offsets of the next batch on the way to ``ends``: about ``most`` at most, and from each partition the
    same share of the offsets that it has. Partitions that have nothing new are left out."""
    waiting = {at: end - begins[at] for at, end in ends.items() if end > begins[at]}
    share = min(1.0, most / max(1, sum(waiting.values())))
    return {at: OffsetRange(begins[at], begins[at] + math.ceil(count * share)) for at, count in waiting.items()}


def parts_of(ranges: Ranges, tasks: int, least: int = PART_OFFSETS) -> list[Part]:
    """Returns the offsets of each task of a batch. None has more than the share of one of ``tasks``, or ``least``, so
    that one partition with all offsets keeps them all busy, too. Each part begins a file."""
    most = max(least, math.ceil(sum(it.end - it.begin for it in ranges.values()) / max(1, tasks)))
    parts: list[Part] = []
    for at, offsets in sorted(ranges.items()):
        count = math.ceil((offsets.end - offsets.begin) / most)
        edges = [offsets.begin + (offsets.end - offsets.begin) * index // count for index in range(count + 1)]
        parts += [(at.topic, at.partition, begin, end) for begin, end in pairwise(edges)]
    return parts


def writer_of(task: ArchiveTask, opened: OpenRun) -> FileWriter:
    """Returns the function that writes the files of a batch in the executors."""
    return FileWriter(
        task.location,
        task.clients,
        {topic: log.archived.folder for topic, log in opened.logs.items()},
        opened.taken,
        opened.run[:8],
        task.decoding,
        task.file_bytes,
    )


def commit(
    task: ArchiveTask, opened: OpenRun, ranges: Ranges, written: Iterable[tuple[str, bytes]], seconds: float
) -> Batch:
    """Commit a batch: for each topic one manifest, which names its files. ``written``: the rows that the writer has
    returned. Raises StreamsError, and then has committed all of a topic or nothing of it."""
    files: dict[str, list[ArchivedFile]] = {topic: [] for topic in opened.logs}
    for topic, file in written:
        files[topic].append(msgspec.json.decode(file, type=ArchivedFile))
    # Records that were read of a topic that was created again meanwhile are never committed.
    check_ids(opened, task.clients.admin().topic_ids(task.topics))
    for topic, log in opened.logs.items():
        spans = [Span(it.partition, offsets.begin, offsets.end) for it, offsets in ranges.items() if it.topic == topic]
        if spans:
            in_order = sorted(files[topic], key=lambda file: (file.partition, file.begin))
            log.commit(opened.run, now_ms(), sorted(spans, key=lambda span: span.partition), in_order)
            publish(task, log.archived)
        for span in spans:
            opened.begins[TopicPartition(topic, span.partition)] = span.end
        if _compacted(log):
            publish(task, log.archived)
    return _batch([file for its in files.values() for file in its], seconds)


def _compacted(log: TopicLog) -> bool:
    """Merge small files; returns True if there were some. A file that is damaged must not keep a run from archiving
    what Kafka will delete."""
    try:
        return bool(compact(log.objects, log, now_ms).before)
    except ArchiveTakenOverError:
        raise
    except ArchiveError as error:
        logger(__name__).warning("small files not merged, archiving continues", error=str(error))
        return False


def check_ids(opened: OpenRun, ids: Mapping[str, str]) -> None:
    """Raise ArchiveError if a topic has not the id any more with which the run has begun."""
    for topic, topic_id in opened.ids.items():
        if ids.get(topic) != topic_id:
            raise ArchiveError(
                f"topic {topic} was deleted while it was archived. If it was created again, run this again: it begins "
                "the next generation of the topic. What was archived before stays as it is"
            )


def _batch(files: list[ArchivedFile], seconds: float) -> Batch:
    return Batch(
        sum(file.rows for file in files),
        sum(file.bytes for file in files),
        len(files),
        sum(file.undecodable for file in files),
        seconds,
    )
