"""The clients of :class:`~penstock.testing.fake_broker.FakeBroker`: they pass the tests that the real ones pass."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from penstock.common.errors import ApplicationStateError, MissingTopicError, ProductionError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import SENT_NOW, Headers, RecordBatch
from penstock.common.topics import NewTopic
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import (
    BEGINNING,
    DEFAULT_DELETE_RETENTION_MS,
    END,
    Admin,
    GroupMember,
    Mark,
    OnAssigned,
    RecordConsumer,
    RecordProducer,
)
from penstock.testing.fake_broker import MAX_RECORD_BYTES, FakeBroker, FakeLog, FakeRecord


class FakeConsumer(RecordConsumer):
    """:class:`~penstock.kafka.contracts.RecordConsumer` on a fake broker. Partitions take turns."""

    def __init__(self, broker: FakeBroker, group: str) -> None:
        self._broker = broker
        self._group = group
        self._positions: dict[TopicPartition, int] = {}
        self._fetched: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._lost: dict[TopicPartition, int] = {}
        self._stuck: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}

    @override
    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._positions = {tp: self._positions.get(tp, offset) for tp, offset in positions.items()}
        self._fetched &= positions.keys()
        self._paused &= positions.keys()
        self._stuck &= positions.keys()
        self._lost = {tp: at for tp, at in self._lost.items() if tp in positions}

    @override
    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._stuck.discard(partition)
        self._lost.pop(partition, None)

    @override
    def lost_positions(self) -> dict[TopicPartition, int]:
        lost, self._lost = self._lost, {}
        return lost

    @override
    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        deadline = time.monotonic() + timeout_s
        with self._broker.changed:
            while True:
                batches = self._take(max_records)
                left = deadline - time.monotonic()
                if batches or left <= 0:
                    return batches
                self._broker.changed.wait(left)

    def _take(self, max_records: int) -> list[RecordBatch]:
        batches: list[RecordBatch] = []
        if not self._broker.answers:
            return batches
        for tp in list(self._positions):
            if tp in self._paused or tp in self._stuck or max_records <= 0:
                continue
            batch = self._read(tp, self._broker.log(tp), max_records)
            if batch is not None:
                batches.append(batch)
                max_records -= len(batch)
                # The one that was read goes to the end of the line.
                self._positions[tp] = self._positions.pop(tp)
        return batches

    def _read(self, tp: TopicPartition, log: FakeLog, max_records: int) -> RecordBatch | None:
        self._fetched.add(tp)
        start = self._resolved(tp, log)
        if not log.beginning <= start <= log.end:
            self._lost[tp] = start
            self._stuck.add(tp)
            return None
        records = log.records[start - log.beginning : start - log.beginning + max_records]
        self._positions[tp] = start + len(records)
        if not records:
            return None
        headers: list[Headers | None] | None = [r.headers or None for r in records]
        if not any(headers or ()):
            headers = None
        return RecordBatch(
            tp,
            [r.key for r in records],
            [r.value for r in records],
            [r.timestamp for r in records],
            list(range(start, start + len(records))),
            headers,
        )

    def _resolved(self, tp: TopicPartition, log: FakeLog) -> int:
        position = self._positions[tp]
        if position == BEGINNING:
            return log.beginning
        return log.end if position == END else position

    @override
    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    @override
    def end_offset(self, partition: TopicPartition) -> int | None:
        with self._broker.changed:
            if partition not in self._fetched:
                return None
            if self._broker.answers:
                self._ends[partition] = self._broker.log(partition).end
            return self._ends.get(partition)

    @override
    def fetch_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._broker.log(tp).end for tp in partitions}

    @override
    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._broker.log(tp).beginning for tp in partitions}

    @override
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        found = self._broker.committed(self._group)
        return {tp: found[tp] for tp in partitions if tp in found}

    @override
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update(partitions)

    @override
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    @override
    def close(self) -> None:
        self._positions.clear()


class _FakeMark(Mark):
    """:class:`~penstock.kafka.contracts.Mark`: delivered is what ``poll`` and ``flush`` have written."""

    def __init__(self, before: _FakeMark | None) -> None:
        self.waiting = 0
        self._before = before
        self._ends: dict[TopicPartition, int] = {}

    def acknowledge(self, partition: TopicPartition, offset: int) -> None:
        """One of its records was written."""
        self.waiting -= 1
        if partition.partition >= 0 and offset >= 0:
            self._ends[partition] = max(offset + 1, self._ends.get(partition, 0))

    @override
    def delivered(self) -> bool:
        if self._before is not None and self._before.delivered():
            self._before = None
        return self._before is None and self.waiting == 0

    @override
    def ends(self) -> dict[TopicPartition, int]:
        return dict(self._ends)


class FakeProducer(RecordProducer):
    """:class:`~penstock.kafka.contracts.RecordProducer` on a fake broker; what is queued arrives by poll or flush.

    ``most_at_once``: so many records arrive by one poll, or flush; None is all. ``offsets_unknown``: what arrives is
    acknowledged as a batch that the broker had already, whose records librdkafka numbers from −1.
    """

    def __init__(self, broker: FakeBroker) -> None:
        self.most_at_once: int | None = None
        self.offsets_unknown = False
        self._broker = broker
        self._queue: deque[tuple[str, FakeRecord, int, _FakeMark]] = deque()
        self._failure: ProductionError | None = None
        self._open = _FakeMark(None)

    @override
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        # Time 0 becomes 1 ms, as the real client must do it.
        timestamp = int(time.time() * 1000) if timestamp == SENT_NOW else timestamp or 1
        if len(key or b"") + len(value or b"") > MAX_RECORD_BYTES:
            raise ProductionError("the record is too large", topic=topic, partition=partition, key=key)
        self._queue.append((topic, FakeRecord(key, value, timestamp, headers), partition, self._open))
        self._open.waiting += 1

    @override
    def poll(self) -> None:
        if not self._broker.answers:
            return
        numbers: Counter[TopicPartition] = Counter()
        for _ in range(min(len(self._queue), self.most_at_once or len(self._queue))):
            topic, record, partition, mark = self._queue.popleft()
            tp = TopicPartition(topic, partition)
            try:
                offset = self._broker.append(topic, record, partition)
                mark.acknowledge(tp, numbers[tp] - 1 if self.offsets_unknown else offset)
                numbers[tp] += 1
            except ProductionError as error:
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure

    @override
    def flush(self, timeout_s: float) -> bool:
        self.poll()
        return not self._queue

    @override
    def mark(self) -> Mark:
        closed, self._open = self._open, _FakeMark(self._open)
        return closed

    @override
    def partitions(self, topic: str) -> int:
        count = self._broker.topics().get(topic)
        if count is None:
            raise MissingTopicError(f"topic {topic!r} does not exist: create it before it is written")
        return count

    @override
    def close(self) -> None:
        self._queue.clear()


class FakeAdmin(Admin):
    """:class:`~penstock.kafka.contracts.Admin` on a fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    @override
    def reach(self) -> None:
        """It always does."""

    @override
    def topics(self) -> dict[str, int]:
        return self._broker.topics()

    @override
    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        for topic in topics:
            self._broker.create_topic(topic)

    @override
    def delete_topics(self, names: Iterable[str]) -> None:
        for name in names:
            self._broker.delete_topic(name)

    @override
    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        for tp, offset in before.items():
            self._broker.delete_records(tp, offset)

    @override
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._broker.log(tp).end for tp in partitions}

    @override
    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {name: {"cleanup.policy": "delete", **self._broker.topic_config(name)} for name in topics}

    @override
    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        configs = {name: self._broker.topic_config(name) for name in topics}
        compacted = {name: config for name, config in configs.items() if "compact" in config.get("cleanup.policy", "")}
        return {
            name: int(config.get("delete.retention.ms", DEFAULT_DELETE_RETENTION_MS))
            for name, config in compacted.items()
        }

    @override
    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return self._broker.committed(group)

    @override
    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._broker.commit_from_outside(group, offsets)

    @override
    def group_members(self, group: str) -> int:
        with self._broker.changed:
            return len(self._broker.group(group).subscriptions)


class FakeGroupMember(GroupMember):
    """:class:`~penstock.kafka.contracts.GroupMember` on a fake broker."""

    def __init__(self, broker: FakeBroker, group: str, instance: str) -> None:
        self._broker = broker
        self._group = group
        self._instance = instance
        self._incarnation = 0
        self._generation = -1
        self._reported: frozenset[TopicPartition] | None = None
        self._on_assigned: OnAssigned | None = None

    @override
    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned) -> None:
        self._on_assigned = on_assigned
        self._incarnation = self._broker.join(self._group, self._instance, topics)

    @override
    def poll(self, timeout_s: float) -> None:
        # Raises ApplicationStateError when another has taken the seat.
        assigned = self._join_round(timeout_s)
        if assigned is not None and self._on_assigned is not None:
            self._reported = assigned
            self._on_assigned(assigned)

    def _join_round(self, timeout_s: float) -> frozenset[TopicPartition] | None:
        deadline = time.monotonic() + timeout_s
        with self._broker.changed:
            while True:
                group = self._broker.group(self._group)
                if group.incarnations.get(self._instance) != self._incarnation:
                    raise ApplicationStateError(
                        f"another process has taken the seat {self._instance!r} in group {self._group!r}: "
                        "the application runs elsewhere under the same application.id"
                    )
                seated = self._instance in group.subscriptions
                self._generation = group.generation if seated else -1
                assigned = self._broker.range_assignment(self._group, self._instance)
                if assigned != self._reported:
                    return assigned
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._broker.changed.wait(left)

    @override
    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        with self._broker.changed:
            group = self._broker.group(self._group)
            if group.incarnations.get(self._instance) != self._incarnation or group.generation != self._generation:
                raise StreamsError(f"group {self._group!r} refuses the commit: the generation has passed")
            group.offsets.update(offsets)

    @override
    def group_metadata(self) -> bytes:
        return f"{self._group}/{self._instance}/{self._incarnation}/{self._generation}".encode()

    @override
    def close(self) -> None:
        self._on_assigned = None


@dataclass(frozen=True)
class FakeClients(KafkaClients):
    """:class:`~penstock.kafka.clients.KafkaClients` of one application on a fake broker, within one process."""

    group: str
    broker: FakeBroker = field(default_factory=FakeBroker)

    @override
    def consumer(self) -> RecordConsumer:
        return FakeConsumer(self.broker, self.group)

    @override
    def producer(self) -> RecordProducer:
        return FakeProducer(self.broker)

    @override
    def admin(self) -> Admin:
        return FakeAdmin(self.broker)

    @override
    def group_member(self, instance: str) -> GroupMember:
        return FakeGroupMember(self.broker, self.group, instance)
