"""Random cases in backfills, one behind the other, held against tasks that take one record after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import NO_HEADERS
from penstock.common.topics import NewTopic
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder, VersionedStateStore
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topology import Topology, internal_topic
from penstock.pipeline.order import in_order as stages_in_order
from tests.live.bunches import PARTITIONS, Bunch, Case
from tests.live.comparable import changelogs_made_comparable, made_comparable
from tests.live.comparison import Topics, differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.play import _expiring, forgets, halves
from tests.live.rig import configuration
from tests.pipeline.without_spark import backfill_without_spark

APPLICATION = "app"


class _Broker(FakeBroker):
    """Puts records without a key where the driver does."""

    @override
    def _choose(self, key: bytes | None, partitions: int) -> int:
        return 0 if key is None else partition_for(key, partitions)


class Driver(PartitionedDriver):
    """Takes what stands in topics when it is told to: what tasks write to topics that are no repartition topics, none
    of them reads by itself."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], by_stages: bool = False) -> None:
        super().__init__(topology, config, PARTITIONS)
        self._stages = [
            (
                {t for sub in stage.subtopologies for source in sub.sources for t in source.topics}
                | {
                    internal_topic(APPLICATION, t)
                    for sub in stage.subtopologies
                    for source in sub.sources
                    for t in source.topics
                },
                {internal_topic(APPLICATION, t) for t in stage.inner},
            )
            for stage in stages_in_order(topology)
        ]
        self._by_stages = by_stages
        self._inner: set[str] = set()
        self._waiting: list[tuple[str, int, Written]] = []
        self._shuffles = {internal_topic(APPLICATION, name) for name in topology.repartition_topics}
        self.read = {topic for topic, _ in self._tasks} - self._shuffles
        self.global_topics = set(self._globals.topics)
        self.written: dict[str, list[list[Written]]] = defaultdict(lambda: [[] for _ in range(PARTITIONS)])

    @override
    def append(self, topic: str, partition: int, record: Written) -> None:
        if partition < 0 and record.key is None and topic in self._shuffles:
            assert record.task is not None
            partition = record.task.partition  # as a backfill
        if topic in self._shuffles:
            if self._by_stages and topic not in self._inner:
                if partition < 0:
                    assert record.key is not None
                    partition = partition_for(record.key, PARTITIONS)
                self._waiting.append((topic, partition, record))
                return
            super().append(topic, partition, record)
            return
        if partition < 0:
            partition = 0 if record.key is None else partition_for(record.key, PARTITIONS)
        self.written[topic][partition].append(record)
        if topic not in self.read:
            self.topics[topic][partition].append(record)

    def take_all(self, todo: list[tuple[Any, TopicPartition, FakeRecord]]) -> None:
        if not self._by_stages:
            for _, tp, record in sorted(todo, key=lambda entry: entry[0]):
                self.take(*tp, record)
            return
        for _, tp, record in sorted(todo, key=lambda entry: entry[0]):
            if tp.topic in self.global_topics:
                self.take(*tp, record)
        self._waiting = []
        for read, inner in self._stages:
            self._inner = inner
            latest: dict[Any, int] = {}
            mine = [
                ((time, topic, number, 0, 0, offset), tp, record)
                for (_, time, topic, number, offset), tp, record in todo
                if topic in read and topic not in self.global_topics
            ]
            for place, (topic, number, record) in enumerate(self._waiting):
                if topic in read:
                    assert record.task is not None
                    of = topic, number, record.task
                    latest[of] = max(latest.get(of, -1), record.timestamp)
                    task = record.task
                    to = (latest[of], topic, number, task.subtopology, task.partition, place)
                    headers = list(record.headers) or None
                    mine.append((to, TopicPartition(topic, number), FakeRecord(record.key, record.value, record.timestamp, headers)))
            self._waiting = [each for each in self._waiting if each[0] not in read]
            for _, tp, record in sorted(mine, key=lambda entry: entry[0]):
                self.take(*tp, record)

    def take(self, topic: str, partition: int, record: FakeRecord) -> None:
        written = Written(record.key, record.value, record.timestamp, record.headers or NO_HEADERS)
        if topic in self.global_topics:
            self._globals.pipe(topic, record.key, record.value, record.timestamp, written.headers, 0)
            return
        log = self.topics[topic][partition]
        log.append(written)
        self._tasks[topic, partition].work(topic, partition, log)
        self._work()


def play(case: Case, in_order: bool, at_once: int, by_stages: bool = False) -> tuple[list[str], Counter[str]]:
    """What differs, and how much there was."""
    bunch = Bunch("one", case["config"], (case,), False)
    settings, topology = configuration(bunch, APPLICATION), bunch.built.topology
    config, driver = StreamsConfig.of(settings), Driver(topology, settings, by_stages)
    clients = FakeClients(APPLICATION, _Broker())
    broker = clients.broker
    clients.admin().create_topics(NewTopic(topic, PARTITIONS) for topic in bunch.topics)
    parts = list(halves(bunch, case, in_order=in_order))
    counts: Counter[str] = Counter()
    taken: Counter[TopicPartition] = Counter()
    own = {topic for topic, _, _ in bunch.built.sinks}
    error = None
    while True:
        if parts:
            half = parts.pop(0)
            for it in (*half.filled, *half.records):
                broker.append(it.topic, FakeRecord(it.key, it.value, it.timestamp, list(it.headers) or None), it.partition)
                driver.written[it.topic][it.partition].append(Written(it.key, it.value, it.timestamp, tuple(it.headers)))
        todo = []
        for topic in driver.read | driver.global_topics:
            for number in range(PARTITIONS):
                tp, latest = TopicPartition(topic, number), -1
                for offset, record in enumerate(broker.log(tp).records[taken[tp] :]):
                    latest = max(latest, record.timestamp)
                    todo.append(((topic not in driver.global_topics, latest, topic, number, offset), tp, record))
                    taken[tp] += 1
        if not todo:
            if parts:
                continue
            break
        counts["rounds"] += 1
        counts["records"] += len(todo)
        try:
            driver.take_all(todo)
            if forgets(case):
                driver.restart()
        except Exception as raised:  # whatever it is, the backfill must raise it, too
            error = raised
        try:
            backfill_without_spark(topology, config, clients, at_once)
        except Exception as raised:
            if error is None:
                raise
            counts["refused"] += 1
            return ([] if type(error) is type(raised) else [f"driver raises {error!r}, backfill {raised!r}"]), counts
        if error is not None:
            return [f"driver raises {error!r}, backfill does not"], counts
    driven: Topics = {**driver.topics, **driver.written}
    changelogs = {
        internal_topic(APPLICATION, f"{name}-changelog") for name in topology.store_builders
    } & broker.topics().keys()
    came: Topics = {
        topic: [
            [
                Written(it.key, it.value, it.timestamp, tuple(it.headers or ()) or NO_HEADERS)
                for it in broker.log(TopicPartition(topic, number)).records
            ]
            for number in range(PARTITIONS)
        ]
        for topic in own | changelogs
    }
    counts["results"] = sum(len(rows) for topic in own for rows in came[topic])
    counts["changelog rows"] = sum(len(rows) for topic in changelogs for rows in came[topic])
    comparable = changelogs_made_comparable(bunch, APPLICATION, True)
    for name, store in topology.store_builders.items():
        if isinstance(store, VersionedKeyValueStoreBuilder):
            comparable[internal_topic(APPLICATION, f"{name}-changelog")] = lambda rows: []
    there, found = (made_comparable(side, comparable) for side in (driven, came))
    differ = [
        *differences(there, found, own),
        *last_differences(there, found, changelogs, _expiring(bunch, APPLICATION)),
    ]
    committed = broker.committed(APPLICATION)
    for hosted in driver.hosted:
        for tp, offset in hosted._task.offsets().items():
            if tp.topic in driver.read and committed[tp] != offset:
                differ.append(f"offset of {tp}: expected {offset}, live {committed[tp]}")
    differ += _stores(bunch, driver, Driver(topology, settings), came, broker)
    return differ, counts


def _stores(bunch: Bunch, driver: Driver, restored: Driver, came: Topics, broker: FakeBroker) -> list[str]:
    """What differs in what stores hold from what their changelogs restore."""
    topology = bunch.built.topology
    skipped = changelogs_made_comparable(bunch, APPLICATION, True)
    for topic in broker.topics():
        restored.topics[topic] = [
            [
                Written(it.key, it.value, it.timestamp, tuple(it.headers or ()) or NO_HEADERS)
                for it in broker.log(TopicPartition(topic, number)).records
            ]
            for number in range(PARTITIONS)
        ]
    differ = []
    committed = broker.committed(APPLICATION)
    for hosted, other in zip(driver.hosted, restored.hosted, strict=True):
        for topic in other._read:
            other._read[topic] = len(restored.topics[topic][other.id.partition])
        other._task.close()
        other._begin({tp: offset for tp, offset in committed.items() if tp.topic in other._read and tp.partition == other.id.partition})
        for name, log in hosted._program.changelogs.items():
            if log.topic in skipped:
                continue
            one, two = (it.state_manager.store(name) for it in (hosted, other))
            rows = [*driver.topics[log.topic][hosted.id.partition], *restored.topics[log.topic][hosted.id.partition]]
            for key in sorted({row.key for row in rows if row.key is not None}):
                for ask in ("changelog_record", "changelog_history"):
                    a, b = (getattr(it, ask)(key) for it in (one, two))
                    if isinstance(one, VersionedStateStore):
                        a, b = ([it.versions.peek(key, time, True) for time in range(max(one.versions.kept_from, one.versions.stream_time - 200), one.versions.stream_time + 1)] for it in (one, two))
                        a, b = (sorted({(x.value, x.valid_from, x.valid_to) for x in y if x is not None}) for y in (a, b))
                    if a != b:
                        differ.append(f"store {name}[{hosted.id.partition}] {ask} {key!r}: expected {a}, restored {b}")
    return differ
