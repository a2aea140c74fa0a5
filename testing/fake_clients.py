"""The clients of :class:`~penstock.testing.fake_broker.FakeBroker`: they pass the tests that the real ones pass."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.common.topics import NewTopic
from penstock.kafka.brokers import Brokers, Replicas
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import (
    BEGINNING,
    DEFAULT_DELETE_RETENTION_MS,
    END,
    Admin,
    GroupMember,
    OnAssigned,
    OnRevoked,
    RecordConsumer,
    RecordProducer,
    TransactionalProducer,
)
from penstock.testing.fake_broker import FakeBroker, FakeLog
from penstock.testing.fake_producers import FakeProducer, FakeTransactionalProducer


class FakeConsumer(RecordConsumer):
    """:class:`~penstock.kafka.contracts.RecordConsumer` on a fake broker. Partitions take turns."""

    def __init__(self, broker: FakeBroker, group: str, read_committed: bool = False) -> None:
        self._broker = broker
        self._group = group
        self._read_committed = read_committed
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
        self._fetched.discard(partition)
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
        found = []
        for offset in range(start, self._end_of(log)):
            record = log.records[offset - log.beginning]
            self._positions[tp] = offset + 1
            if record.is_committed or not (self._read_committed or record.is_marker):
                found.append((offset, record))
                if len(found) == max_records:
                    break
        else:
            self._positions[tp] = max(start, self._end_of(log))
        if not found:
            return None
        offsets, records = zip(*found, strict=True)
        headers: list[Headers | None] | None = [r.headers or None for r in records]
        if not any(headers or ()):
            headers = None
        return RecordBatch(
            tp,
            [r.key for r in records],
            [r.value for r in records],
            [r.timestamp for r in records],
            list(offsets),
            headers,
        )

    def _end_of(self, log: FakeLog) -> int:
        return log.stable_end if self._read_committed else log.end

    def _resolved(self, tp: TopicPartition, log: FakeLog) -> int:
        position = self._positions[tp]
        if position == BEGINNING:
            return log.beginning
        return self._end_of(log) if position == END else position

    @override
    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    @override
    def end_offset(self, partition: TopicPartition) -> int | None:
        with self._broker.changed:
            if partition not in self._fetched:
                return None
            if self._broker.answers:
                self._ends[partition] = self._end_of(self._broker.log(partition))
            return self._ends.get(partition)

    @override
    def fetch_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._end_of(self._broker.log(tp)) for tp in partitions}

    @override
    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._broker.log(tp).beginning for tp in partitions}

    @override
    def fetch_offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            logs = {tp: self._broker.log(tp) for tp in times}
            found = {
                tp: next((n for n, each in enumerate(log.records, log.beginning) if each.timestamp >= times[tp]), None)
                for tp, log in logs.items()
            }
            return {tp: offset for tp, offset in found.items() if offset is not None}

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


class FakeAdmin(Admin):
    """:class:`~penstock.kafka.contracts.Admin` on a fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    @override
    def reach(self) -> None:
        self._broker.topics()

    @override
    def topics(self) -> dict[str, int]:
        return self._broker.topics()

    @override
    def brokers(self) -> Brokers:
        only = Replicas(0, (0,), (0,))
        partitions = {
            TopicPartition(name, number): only
            for name, count in self._broker.topics().items()
            for number in range(count)
        }
        return Brokers({0: FakeBroker.address}, partitions)

    @override
    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        for topic in topics:
            self._broker.create_topic(topic)

    @override
    def try_topics(self, topics: Iterable[NewTopic]) -> None:
        self._broker.topics()  # it takes any settings

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
            return {tp: self._broker.log(tp).stable_end for tp in partitions}

    @override
    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._broker.changed:
            return {tp: self._broker.log(tp).end for tp in partitions}

    @override
    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {name: {"cleanup.policy": "delete", **self._broker.topic_config(name)} for name in topics}

    @override
    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return self._broker.topic_ids(topics)

    @override
    def broker_configs(self) -> dict[str, str]:
        self._broker.topics()
        return {}

    @override
    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        configs = {name: self._broker.topic_config(name) for name in topics}
        compacted = {name: config for name, config in configs.items() if "compact" in config.get("cleanup.policy", "")}
        return {
            name: int(config.get("delete.retention.ms", DEFAULT_DELETE_RETENTION_MS))
            for name, config in compacted.items()
        }

    @override
    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        found = self._broker.committed(group)
        return {tp: offset for tp, offset in found.items() if partitions is None or tp in partitions}

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
        self._reported: tuple[int, frozenset[TopicPartition]] | None = None
        self._on_assigned: OnAssigned | None = None
        self._on_revoked: OnRevoked | None = None

    @override
    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned, on_revoked: OnRevoked = lambda: None) -> None:
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._incarnation = self._broker.join(self._group, self._instance, topics)

    @override
    def poll(self, timeout_s: float) -> None:
        # Raises ApplicationStateError when another process is the static member.
        assigned = self._join_round(timeout_s)
        if assigned is not None and self._on_assigned is not None and self._on_revoked is not None:
            if self._reported is not None:
                self._on_revoked()
            self._reported = self._generation, assigned
            self._on_assigned(assigned)

    def _join_round(self, timeout_s: float) -> frozenset[TopicPartition] | None:
        deadline = time.monotonic() + timeout_s
        with self._broker.changed:
            while True:
                group = self._broker.group(self._group)
                if group.incarnations.get(self._instance) != self._incarnation:
                    raise ApplicationStateError(
                        f"another process has become the static member {self._instance!r} of group {self._group!r}: "
                        "the application runs elsewhere under the same application.id"
                    )
                has_joined = self._instance in group.subscriptions
                self._generation = group.generation if has_joined else -1
                assigned = self._broker.range_assignment(self._group, self._instance)
                if (self._generation, assigned) != self._reported:
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
        return self._broker.metadata(self._group, self._instance, self._incarnation)

    @override
    def close(self) -> None:
        self._on_assigned = None


@dataclass(frozen=True)
class FakeClients(KafkaClients):
    """:class:`~penstock.kafka.clients.KafkaClients` of one application on a fake broker, within one process."""

    group: str
    broker: FakeBroker = field(default_factory=FakeBroker)
    read_committed: bool = False

    @override
    def restore_consumer(self) -> RecordConsumer:
        return self.consumer()

    @override
    def consumer(self) -> RecordConsumer:
        return FakeConsumer(self.broker, self.group, self.read_committed)

    @override
    def producer(self) -> RecordProducer:
        return FakeProducer(self.broker)

    @override
    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        return FakeTransactionalProducer(self.broker, self.group, transactional_id)

    @override
    def admin(self) -> Admin:
        return FakeAdmin(self.broker)

    @override
    def group_member(self, instance: str) -> GroupMember:
        return FakeGroupMember(self.broker, self.group, instance)
