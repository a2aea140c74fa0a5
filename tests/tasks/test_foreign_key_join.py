"""Joins by foreign key: over several tasks whose records arrive in any order, and operator by operator."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers, RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskPrograms
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topic_plan import plan_topics
from tests.tasks.bench import APPLICATION, Bench, Resume, Row

STRINGS = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())
OUT = ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string())
REGISTRATION = f"{APPLICATION}-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic"
RESPONSE = f"{APPLICATION}-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic"
SUBSCRIPTIONS = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010"


def before_slash(value: str) -> str | None:
    """Returns the foreign key of ``<foreign key>/<anything>``; there may be none."""
    return value.split("/")[0] or None


def pair(left: str, right: str | None) -> str:
    return f"{left}+{right}"


def program(*, left: bool = False, how: ps.TableJoined[str, str] | None = None) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    entries, others = builder.table("left", STRINGS), builder.table("right", STRINGS)
    joined = (entries.left_join if left else entries.join)(others, before_slash, pair, how)
    joined.to_stream().to("out", OUT)
    return builder


class Cluster:
    """All tasks of an application, and the partitions between them; the next partition is chosen at random."""

    def __init__(self, builder: ps.StreamsBuilder, partitions: dict[str, int], chance: random.Random) -> None:
        config = StreamsConfig.of({"application.id": APPLICATION})
        topology = builder.build(config)
        plan = plan_topics(topology, config, {**partitions, "out": 1})
        self.counts = {topic: count for sub in plan.tasks.subtopologies for topic, count in sub.topics.items()}
        self.counts |= {topic.name: topic.partitions for topic in plan.internal}
        self.queues: dict[TopicPartition, deque[RecordBatch]] = defaultdict(deque)
        self.offsets: dict[TopicPartition, int] = defaultdict(int)
        self.out: dict[bytes, bytes | None] = {}
        self.tasks: dict[TaskId, Task] = {}
        self._chance = chance
        programs = TaskPrograms(topology, config)
        for task_id, partitions_read in plan.tasks.partitions.items():
            of_task = programs.of(task_id.subtopology)
            manager = StateManager(task_id, of_task, open_task_stores(None, of_task.stores.values()), self)
            self.tasks[task_id] = Task(manager, self)
            self.tasks[task_id].init(0)
            for partition in partitions_read:
                self.tasks[task_id].set_caught_up(partition, True)
        self.readers = {p: id for id, partitions in plan.tasks.partitions.items() for p in partitions}

    def partitions(self, topic: str) -> int:
        return self.counts[topic]

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        if topic == "out":
            assert key is not None
            self.out[key] = value
            return
        if partition < 0:
            partition = 0 if key is None else partition_for(key, self.counts[topic])
        to = TopicPartition(topic, partition)
        self.queues[to].append(RecordBatch(to, [key], [value], [timestamp], [self.offsets[to]], None))
        self.offsets[to] += 1

    def step(self) -> bool:
        """Processes one record of one partition, sometimes with a commit behind it. Returns False if nothing waits."""
        waiting = [to for to, queue in self.queues.items() if queue and to in self.readers]
        if not waiting:
            return False
        to = self._chance.choice(waiting)
        task = self.tasks[self.readers[to]]
        task.add(self.queues[to].popleft())
        task.process(1, 0)
        if self._chance.random() < 0.3:
            self.commit(task)
        return True

    def commit(self, task: Task) -> None:
        for _ in task.prepare_commit():
            pass
        task.complete_commit({})

    def finish(self) -> dict[str, str]:
        """Returns the result when everything has arrived."""
        while True:
            while self.step():
                pass
            for task in self.tasks.values():
                self.commit(task)
            if not any(queue for to, queue in self.queues.items() if to in self.readers):
                return {key.decode(): value.decode() for key, value in self.out.items() if value is not None}


def by_last_letter(topic: str, key: str, value: None, partitions: int) -> int:
    assert value is None
    return ord(key[-1]) % partitions


def by_first_letter(topic: str, key: str, value: None, partitions: int) -> int:
    assert value is None
    return ord(key[0]) % partitions


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("partitioned", ["default", "left", "other", "both"])
def test_the_result_is_the_join_for_any_order_of_records(seed: int, left: bool, partitioned: str) -> None:
    chance = random.Random(seed)
    mine = by_last_letter if partitioned in ("left", "both") else None
    others = by_first_letter if partitioned in ("other", "both") else None
    # A response leads back by the partition that it carries as well as by a partitioner.
    how = ps.TableJoined.with_(mine if seed % 2 else None, others)
    cluster = Cluster(program(left=left, how=how), {"left": 3, "right": 2}, chance)
    tables: dict[str, dict[str, str | None]] = {"left": {}, "right": {}}
    for _ in range(120):
        topic = chance.choice(["left", "right"])
        partitioner = mine if topic == "left" else others
        key = chance.choice("abcdefgh") * chance.randint(1, 2)
        made = f"{chance.choice('abcd ').strip()}/{chance.choice('xyz')}" if topic == "left" else chance.choice("uvw")
        value = chance.choice([made, made, made, None])
        tables[topic][key] = value
        partition = -1 if partitioner is None else partitioner(topic, key, None, cluster.counts[topic])
        # As in Kafka Streams, an inner join may keep a result that should go, if an entry is updated under the same
        # foreign key while the answer that deletes it is under way: that is dropped, and the update asks for none.
        careful = not left and (topic == "left" or value is None)
        if careful:
            cluster.finish()
        cluster.send(topic, key.encode(), None if value is None else value.encode(), 0, partition=partition)
        if careful and topic == "right":
            cluster.finish()
        for _ in range(chance.randint(0, 6)):
            cluster.step()
    expected: dict[str, str] = {}
    for key, value in tables["left"].items():
        if value is not None:
            other = tables["right"].get(before_slash(value) or "")
            if left or other is not None:
                expected[key] = pair(value, other)
    assert cluster.finish() == expected


def bench(*, left: bool = False, **kwargs: Any) -> Bench:
    return Bench(program(left=left), **kwargs)


def subscription(bench: Bench, *rows: Row | tuple[Any, ...]) -> list[tuple[bytes | None, str]]:
    """Returns what an update of the left table sends, as (foreign key, hex up to the hash and behind it)."""
    sent = [each for each in bench.feed("left", *rows) + bench.commit() if each.topic == REGISTRATION]
    shown: list[tuple[bytes | None, str]] = []
    for each in sent:
        assert each.value is not None
        hashed = 0 if each.value[0] & 0x80 else 16
        shown.append((each.key, f"{each.value[:2].hex()} {each.value[2 + hashed :].hex()}"))
    return shown


KEY = b"k".hex() + "00000000"


def test_an_inner_join_is_answered_only_where_a_result_may_have_to_go() -> None:
    it = bench()
    assert subscription(it, ("k", "f/1")) == [(b"f", f"0103 {KEY}")]
    assert subscription(it, ("k", "f/2")) == [(b"f", f"0103 {KEY}")]
    assert subscription(it, ("k", "g/2")) == [(b"f", f"0100 {KEY}"), (b"g", f"0102 {KEY}")]
    assert subscription(it, ("k", "/2")) == [(b"g", f"0101 {KEY}")]
    assert it.dropped == 1
    assert subscription(it, ("k", "g/3")) == [(b"g", f"0103 {KEY}")]
    assert subscription(it, ("k", None)) == [(b"g", f"8101 {KEY}")]
    assert subscription(it, ("k", None)) == []


def test_a_left_join_is_always_answered() -> None:
    it = bench(left=True)
    assert subscription(it, ("k", "f/1")) == [(b"f", f"0102 {KEY}")]
    assert subscription(it, ("k", "g/2")) == [(b"f", f"0100 {KEY}"), (b"g", f"0102 {KEY}")]
    assert subscription(it, ("k", "/2")) == [(b"g", f"0100 {KEY}"), (None, f"0102 {KEY}")]
    assert subscription(it, ("k", "g/3")) == [(b"g", f"0102 {KEY}")]
    assert subscription(it, ("k", None)) == [(b"g", f"8100 {KEY}"), (None, f"8102 {KEY}")]
    assert it.dropped == 0


def test_the_bytes_are_kafka_streams() -> None:
    it = Bench(program(left=True), partitions=3)
    subscription = bytes.fromhex("0103e001ba9f5f750d0518bc9338ae3e72f34100000002")
    (logged,) = it.feed(REGISTRATION, ("F", subscription, 7))
    it.commit()
    assert (logged.key, logged.value, logged.timestamp) == (bytes.fromhex("000000014641"), subscription, 7)
    assert it.look_up(SUBSCRIPTIONS, bytes.fromhex("000000014641"), committed=True) is not None
    answer = (it.feed("right", ("F", "F", 5)) + it.commit())[-1]
    assert (answer.topic, answer.key, answer.partition, answer.timestamp) == (RESPONSE, b"A", 2, 5)
    assert answer.value == bytes.fromhex("00e001ba9f5f750d0518bc9338ae3e72f346")


def test_subscriptions_of_kafka_streams_before_3_4_are_answered_by_the_default_partitioner() -> None:
    it = Bench(program())
    it.feed(REGISTRATION, ("F", bytes.fromhex("0003e001ba9f5f750d0518bc9338ae3e72f341")))
    it.feed("right", ("F", "F"))
    answer = it.commit()[-1]
    assert (answer.topic, answer.key, answer.partition) == (RESPONSE, b"A", -1)


def test_a_foreign_key_is_distinguished_from_one_that_begins_with_it() -> None:
    it = Bench(program())
    for foreign_key in ("a", "ab", "\x7f", "b"):
        it.feed(REGISTRATION, (foreign_key, b"\x01\x03" + bytes(16) + foreign_key.upper().encode() + bytes(4)))
    it.commit()
    it.feed("right", ("a", "v"))
    assert [each.key for each in it.commit() if each.topic == RESPONSE] == [b"A"]


def test_the_store_is_scanned_with_what_is_not_committed() -> None:
    it = Bench(program())
    subscribe = b"\x01\x03" + bytes(16)
    it.feed(REGISTRATION, ("f", subscribe + b"b" + bytes(4)), ("f", subscribe + b"d" + bytes(4)))
    it.commit()
    it.feed(REGISTRATION, ("f", subscribe + b"c" + bytes(4)), ("f", b"\x01\x00" + bytes(16) + b"d" + bytes(4)))
    it.feed("right", ("f", "1"))
    assert [each.key for each in it.commit() if each.topic == RESPONSE] == [b"b", b"c"]


def test_an_unknown_version_is_an_error() -> None:
    resume = Resume()
    it = Bench(program(), {"processing.exception.handler": resume})
    it.feed(REGISTRATION, ("f", b"\x02\x03" + bytes(21)))
    it.feed(RESPONSE, ("k", b"\x01" + bytes(17)))
    assert [str(caught.error).split(",")[0] for caught in resume.caught] == [
        "a subscription has version 2",
        "a response has version 1",
    ]
    assert it.dropped == 2


def test_a_foreign_key_that_the_serde_refuses_is_an_error_that_names_it() -> None:
    builder = ps.StreamsBuilder()
    entries, others = builder.table("left", STRINGS), builder.table("right", STRINGS)
    numbers: Callable[[str], Any] = len
    entries.join(others, numbers, pair).to_stream().to("out", OUT)
    it = Bench(builder)
    it.feed("left", ("k", "f/1"))
    with pytest.raises(ps.ProductionError, match=r"key: the serde string cannot write 3 .*Consumed"):
        it.commit()


def test_an_extractor_that_raises_is_named() -> None:
    builder = ps.StreamsBuilder()
    entries, others = builder.table("left", STRINGS), builder.table("right", STRINGS)
    entries.join(others, lambda key, value: value[7], pair).to_stream().to("out", OUT)
    it = Bench(builder)
    it.feed("left", ("k", "f/1"))
    with pytest.raises(ps.ProcessingError, match=r"IndexError.*KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000007"):
        it.commit()
