"""Archives topics of the fake broker without Spark: the rest is what runs in production, in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from penstock.common.errors import ObjectStoreError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.objects.contracts import ObjectInfo, ObjectStore
from penstock.objects.memory import MemoryObjects
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.batches import Batch, Part, Tasks
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.file_writer import FileWriter
from penstock.pipeline.archive.opening import ArchiveTask, check, open_run
from penstock.pipeline.archive.records import FILE_SCHEMA
from penstock.pipeline.archive.run import ArchiveRun
from penstock.testing.fake_clients import FakeClients

TOPICS = ("lines", "others")


class KilledError(BaseException):
    """The process is dead: nothing handles it."""


class Deadly:
    """Object storage whose caller is killed at its n-th request: before the request is done, or after it. Or, with
    ``gone``, whose requests fail from the n-th on."""

    def __init__(self, objects: ObjectStore, at: int = -1, done: bool = False, gone: bool = False) -> None:
        self._objects = objects
        self._at = at
        self._done = done
        self._gone = gone
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._objects, name)
        if not callable(found):
            return found

        def call(*given: Any) -> Any:
            self.requests += 1
            if self._gone and self.requests >= self._at:
                raise ObjectStoreError(f"cannot {name} in memory://: 503 Service Unavailable")
            if self.requests == self._at and not self._done:
                raise KilledError
            at = self.requests
            try:
                return found(*given)
            finally:
                if at == self._at:
                    raise KilledError

        return call


@dataclass(frozen=True)
class Location(ObjectLocation):
    """The location of objects in memory."""

    objects: Any = None

    @override
    def open(self) -> ObjectStore:
        found: ObjectStore = self.objects
        return found


class TasksHere(Tasks):
    """Plays tasks in this thread, one after the other."""

    at_once = 2

    @override
    def play(self, writer: FileWriter, parts: Sequence[Part]) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        for part in parts:
            work = dict(zip(("topic", "partition", "begin", "end"), part, strict=True))
            for made in writer([pa.RecordBatch.from_pylist([work])]):
                found += zip(made.column("topic").to_pylist(), made.column("file").to_pylist(), strict=True)
        return found


@dataclass
class Cluster:
    """Two topics of the fake broker, and an archive of them in memory, whose clock advances with each request."""

    clients: FakeClients = field(default_factory=lambda: FakeClients("archive", read_committed=True))
    objects: MemoryObjects = field(init=False)
    _now: int = 0
    _sent: int = 0

    def __post_init__(self) -> None:
        self.objects = MemoryObjects(self._tick)
        self.clients.admin().create_topics([NewTopic("lines", 2), NewTopic("others", 1)])

    def _tick(self) -> int:
        self._now += 1
        return self._now

    def send(self, count: int) -> None:
        """Write some records to each partition; those of the first in transactions, of which one is aborted."""
        producer = self.clients.transactional_producer("tx")
        producer.init_transactions().result()
        for end in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for _ in range(count):
                self._sent += 1
                producer.send("lines", b"k", b"%d" % self._sent, self._sent, None, 0)
            assert producer.flush(1)
            (producer.commit_transaction({}, b"") if end == "commit" else producer.abort_transaction()).result()
        plain = self.clients.producer()
        for partition in (TopicPartition("lines", 1), TopicPartition("others", 0)):
            for _ in range(count):
                self._sent += 1
                plain.send(partition.topic, None, b"%d" % self._sent, self._sent, [("h", b"1")], partition.partition)
        assert plain.flush(1)

    def archive(
        self, objects: ObjectStore, step: int = 7, wait: Callable[[float], None] = time.sleep, **more: Any
    ) -> list[Batch]:
        """Archive all that is there, ``step`` offsets of each partition in a commit; returns what was reported."""
        batches: list[Batch] = []
        location = Location("memory://", objects=objects)
        task = ArchiveTask(TOPICS, location, self.clients, file_bytes=1, records_per_commit=3 * step, **more)
        check(task, objects)
        ArchiveRun(task, open_run(task, objects), TasksHere(), batches.append, wait).run()
        return batches

    def rows(self, partition: TopicPartition) -> list[dict[str, Any]]:
        """Returns what a reader of committed records finds in a partition."""
        found: list[dict[str, Any]] = []
        with closing(self.clients.consumer()) as consumer:
            end = consumer.fetch_end_offsets([partition])[partition]
            consumer.assign({partition: 0})
            while consumer.position(partition) < end:
                for batch in consumer.poll(100, 0):
                    headers: Iterable[Any] = batch.headers or [None] * len(batch)
                    columns = zip(batch.keys, batch.values, batch.offsets, batch.timestamps, headers, strict=True)
                    found += [
                        {
                            "key": key, "value": value, "topic": partition.topic, "partition": partition.partition,
                            "offset": offset, "timestamp": timestamp,
                            "headers": each and [{"key": name, "value": data} for name, data in each],
                        }
                        for key, value, offset, timestamp, each in columns
                    ]  # fmt: skip
        return found

    def expected(self) -> dict[str, pa.Table]:
        """Returns the records of Kafka by topic, in the order of partitions and offsets."""
        partitions = {"lines": (0, 1), "others": (0,)}
        return {
            topic: pa.Table.from_pylist(
                [row for number in its for row in self.rows(TopicPartition(topic, number))], schema=FILE_SCHEMA
            )
            for topic, its in partitions.items()
        }

    def archived(self, topic: str) -> ArchivedTopic:
        found = Archive(self.objects).generation(topic)
        assert found is not None
        return found

    def tables(self) -> dict[str, pa.Table]:
        """Returns the records of the archive by topic, in the order of partitions and offsets."""
        return {
            topic: pa.concat_tables(
                [
                    pq.read_table(pa.BufferReader(self.objects.read(file.name)))
                    for file in self.archived(topic).all_files()
                ]
            )
            for topic in TOPICS
        }

    def listing(self) -> list[ObjectInfo]:
        return list(self.objects.list())
