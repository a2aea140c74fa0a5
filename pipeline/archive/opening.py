"""The beginning of a run of ``penstock archive``: all that can be checked before any work, then the first entries."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from penstock.common.errors import ArchiveError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.shown import similar_to
from penstock.kafka.clients import KafkaClients
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation, require_conditional_writes
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.cleaning import clean
from penstock.pipeline.archive.decoding import Decoding
from penstock.pipeline.archive.file_writer import FILE_BYTES
from penstock.pipeline.archive.manifest import Span, folder_of
from penstock.pipeline.archive.plan import Offsets, check_lost, where_to_start, which_generation
from penstock.pipeline.archive.publication import Publisher
from penstock.pipeline.archive.topic_log import TopicLog, begin_generation

RECORDS_PER_COMMIT = 5_000_000
"""The most records that one batch takes: a run that is killed repeats about as many at most."""


@dataclass(frozen=True)
class ArchiveTask:
    """The topics that a run archives, their Kafka, and the archive.

    ``clients`` must read committed records only. ``every_s``: the time after which the run looks for new records; None
    ends it when it has all records that were there when it began. ``accept_loss``: continue behind records that Kafka
    has deleted. ``publisher``: what publishes each commit elsewhere.
    """

    topics: Sequence[str]
    location: ObjectLocation
    clients: KafkaClients
    every_s: float | None = None
    accept_loss: bool = False
    decoding: Mapping[str, Decoding] = field(default_factory=dict)
    records_per_commit: int = RECORDS_PER_COMMIT
    file_bytes: int = FILE_BYTES
    publisher: Publisher | None = None


@dataclass(frozen=True)
class TopicsNow:
    """Kafka's topics as of one moment: their ids, and their offsets for a reader of committed records."""

    ids: Mapping[str, str]
    offsets: Mapping[str, Offsets]


@dataclass
class OpenRun:
    """A run that has begun in the archive. ``taken``: names of files that an earlier run may still delete.

    ``begins``: the offset from which each partition is archived; it moves with each commit.
    """

    run: str
    ids: Mapping[str, str]
    logs: Mapping[str, TopicLog]
    begins: dict[TopicPartition, int]
    taken: frozenset[str]


def now_ms() -> int:
    """Returns the time, for manifests."""
    return int(time.time() * 1000)


def look(clients: KafkaClients, topics: Sequence[str]) -> TopicsNow:
    """Returns the topics as they are now. Raises MissingTopicError."""
    admin = clients.admin()
    there = admin.topics()
    for topic in topics:
        if topic not in there:
            raise MissingTopicError(
                f"topic {topic!r} does not exist{similar_to(topic, there)}: create it, or leave it out"
            )
    ids = admin.topic_ids(topics)
    for topic in topics:
        if topic not in ids:
            raise ArchiveError(
                f"the id of topic {topic!r} is not known: Kafka is older than 2.8, or the principal may not describe "
                "the topic. Without the id, penstock cannot see that a topic was created again"
            )
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(there[topic])]
    with closing(clients.consumer()) as consumer:
        begins, ends = consumer.fetch_beginning_offsets(partitions), consumer.fetch_end_offsets(partitions)
    offsets: dict[str, dict[int, OffsetRange]] = {topic: {} for topic in topics}
    for partition in partitions:
        offsets[partition.topic][partition.partition] = OffsetRange(begins[partition], ends[partition])
    return TopicsNow(ids, offsets)


def check(task: ArchiveTask, objects: ObjectStore) -> None:
    """Raise StreamsError for all that would stop a run and can be known before it. Changes nothing."""
    require_conditional_writes(objects)
    archive, now = Archive(objects), look(task.clients, task.topics)
    for topic in task.topics:
        known = archive.generations(topic)
        continued = which_generation(topic, now.ids[topic], known, objects.url)
        check_published(task, objects, folder_of(topic, continued.number), now.ids[topic])
        if not continued.begins:
            check_lost(topic, where_to_start(archive.load(known[-1]), now.offsets[topic]).lost, task.accept_loss)


def check_published(task: ArchiveTask, objects: ObjectStore, folder: str, topic_id: str) -> None:
    """Raise StreamsError if a generation cannot be published, or is and this run would not do it."""
    if task.publisher is not None:
        task.publisher.check(folder, topic_id)
        return
    place = Archive(objects).published_to(folder)
    if place is not None:
        raise ArchiveError(
            f"{folder} in {objects.url} is also Iceberg table {place.table} of catalog {place.catalog}: give --format "
            "iceberg, as before, so that the table has what the archive has"
        )


def publish(task: ArchiveTask, archived: ArchivedTopic) -> bool:
    """Publish what is archived, if the run does that. Returns True as :meth:`Publisher.publish` does."""
    return task.publisher is not None and task.publisher.publish(archived)


def open_run(task: ArchiveTask, objects: ObjectStore) -> OpenRun:
    """Begin a run: take over from an earlier one, and delete what that has not committed. Raises StreamsError."""
    run, logs, taken = uuid.uuid4().hex, {}, set()
    archive, now = Archive(objects), look(task.clients, task.topics)
    begins: dict[TopicPartition, int] = {}
    for topic in task.topics:
        known, topic_id, there = archive.generations(topic), now.ids[topic], now.offsets[topic]
        continued = which_generation(topic, topic_id, known, objects.url)
        generation = (
            begin_generation(objects, topic, topic_id, continued.number, now_ms()) if continued.begins else known[-1]
        )
        log = TopicLog(objects, generation)

        def lost(archived: ArchivedTopic, there: Offsets = there) -> tuple[Span, ...]:
            spans = where_to_start(archived, there).lost
            check_lost(archived.topic, spans, task.accept_loss)
            return spans

        entry = log.open_run(run, now_ms(), f"{socket.gethostname()}:{os.getpid()}", lost)
        # Readers of a table from which files were removed at this moment may still read them.
        outdated = not publish(task, log.archived)
        taken |= set(clean(objects, log.archived, entry, outdated).orphans)
        starts = where_to_start(log.archived, there).begins
        begins |= {TopicPartition(topic, number): offset for number, offset in starts.items()}
        logs[topic] = log
    return OpenRun(run, now.ids, logs, begins, frozenset(taken))
