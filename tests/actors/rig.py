"""A stream loop on the fake broker, stepped by the test: no threads, no sleeping, a clock that the test moves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.actors.calls.call_host import CallHost, LiveCalls
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import TaskState
from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_resets import OffsetReset
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.topics import NewTopic
from penstock.state.queries import KeyQuery
from penstock.tasks.program import TaskPrograms
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.testing.fake_producers import FakeProducer
from tests.actors.rig_coordinator import FakeCoordinator
from tests.waiting import PATIENCE_S

APPLICATION = "app"
CHANGELOG = f"{APPLICATION}-counts-changelog"
STRING = ps.Serdes.string()
LONG = ps.Serdes.long()


def count_topology() -> ps.Topology:
    """Counts the records of ``in`` per key in store ``counts``, written to ``out``."""
    builder = ps.StreamsBuilder()
    (
        builder.stream("in", ps.Consumed.with_(STRING, STRING))
        .group_by_key()
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("out", ps.Produced.with_(STRING, LONG))
    )
    return builder.build()


@dataclass
class ManualClock:
    """A clock that moves only when the test moves it."""

    now_ms: int = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def thread_cpu_s(self) -> float:
        return self.monotonic_s()


class HeardRestores(StateRestoreListener):
    """Keeps every call with its figures, and the store that it was for; raises in the call named ``raises``."""

    def __init__(self, raises: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.stores: list[tuple[TopicPartition, str]] = []
        self._raises = raises

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._hear("start", partition, store_name, starting_offset, ending_offset)

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        self._hear("batch", partition, store_name, batch_end_offset, num_restored)

    def on_restore_end(self, partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._hear("end", partition, store_name, total_restored)

    def on_restore_suspended(self, partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._hear("suspended", partition, store_name, total_restored)

    def _hear(self, call: str, partition: TopicPartition, store: str, *figures: int) -> None:
        if call == self._raises:
            raise KeyError("no such board")
        self.stores.append((partition, store))
        self.calls.append((call, *figures))


class Rig:
    """One application whose topics ``in``, ``out`` and the changelog of ``counts`` have ``partitions`` partitions."""

    def __init__(
        self, state_dir: Path, topology: ps.Topology | None = None, partitions: int = 1, **config: Any
    ) -> None:
        self.broker = FakeBroker()
        exactly_once = config.get("processing_guarantee") == "exactly_once_v2"
        self.clients = FakeClients(APPLICATION, self.broker, read_committed=exactly_once)
        self.coordinator = FakeCoordinator(self.broker, exactly_once)
        self.clock = ManualClock()
        self.lease = Lease.unlimited(self.clock.monotonic_s)
        self.calls: Callable[[Callable[[], None]], CallHost] = LiveCalls
        names = ("in", "out", f"{APPLICATION}-counts-changelog")
        self.clients.admin().create_topics([NewTopic(name, partitions) for name in names])
        if exactly_once:
            self.coordinator.join()
        settings = {"application.id": APPLICATION, "state.dir": state_dir, "commit.interval.ms": 1000}
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        self.spec = ApplicationSpec(topology or count_topology(), StreamsConfig.of(settings))
        self.partitions = partitions

    def write(self, topic: str, *rows: tuple[str | None, str | None, int], partition: int = -1) -> None:
        for key, value, timestamp in rows:
            self.broker.append(topic, FakeRecord(_bytes(key), _bytes(value), timestamp, None), partition)

    def counts(self, topic: str = "out") -> list[tuple[str, int]]:
        """Returns the records of ``topic``, counts decoded."""
        return [((r.key or b"").decode(), int.from_bytes(r.value or b"", "big")) for r in self.broker.records(topic)]

    def committed(self, partition: int = 0, topic: str = "in") -> int | None:
        found = self.broker.committed(APPLICATION).get(TopicPartition(topic, partition))
        return found and found.offset

    def loop(self, slot: int = 1) -> StreamLoop:
        actor, coordinator, clock = f"stream/{slot}", self.coordinator, self.clock
        loop = StreamLoop(
            self.spec, actor, self.clients, coordinator.commit, clock, "node", slot, lease=self.lease, calls=self.calls
        )
        coordinator.watch(loop, actor)
        return loop

    def on_another_node(self, state_dir: Path) -> Rig:
        """Returns a rig of this application with this state directory."""
        other = copy.copy(self)
        config = self.spec.config.model_copy(update={"state_dir": state_dir})
        other.spec = ApplicationSpec(self.spec.topology, config)
        return other

    def assign(self, loop: StreamLoop, epoch: int, *tasks: TaskId) -> Future[None]:
        """Give the loop these tasks, each with its partition of every topic of its sub-topology that has one."""
        programs = TaskPrograms(self.spec.topology, self.spec.config)
        # A topic or broker that is not there now was there when the coordinator planned.
        counts = self.broker.topics() if self.broker.answers else {}
        sources = {}
        for task in tasks:
            topics = programs.of(task.subtopology).sources
            here = [topic for topic in topics if task.partition < counts.get(topic, self.partitions)]
            sources[task] = frozenset(TopicPartition(topic, task.partition) for topic in here)
        return loop.assign(epoch, sources)

    def running(self, *tasks: TaskId, epoch: int = 1, slot: int = 1) -> StreamLoop:
        """Returns a loop with these tasks (default: all of sub-topology 0) that has done all there was to do."""
        loop = self.loop(slot)
        assigned = self.assign(loop, epoch, *(tasks or [TaskId(0, p) for p in range(self.partitions)]))
        settle(loop)
        assert assigned.done()
        assert assigned.exception() is None
        return loop

    def commit(self, loop: StreamLoop) -> None:
        """Let the commit interval pass."""
        self.clock.now_ms += 1001
        settle(loop)

    def stop(self, loop: StreamLoop) -> None:
        stopped = loop.stop()
        settle(loop)
        assert stopped.done()
        assert stopped.exception() is None


def nothing_done() -> Future[None]:
    """Returns the answer to a member before a rebalance when there is nothing to commit."""
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def settle(loop: StreamLoop, at_most: int = 2000) -> None:
    """Step until the loop would rather wait, or has ended."""
    for _ in range(at_most):
        if loop.finished.done() or (loop.step() > 0 and loop.step() > 0):
            return
    raise AssertionError(f"the loop is still busy after {at_most} steps")


def follow(rig: Rig, loop: StreamLoop) -> None:
    """Let the standbys of ``loop`` learn of the last commit, for which they ask once a second, and apply it."""
    settle(loop)
    rig.clock.now_ms += 1001
    loop.step()
    if (asked := loop._standbys._asking) is not None:  # exactly once they need not ask
        asked.exception(timeout=PATIENCE_S)
    settle(loop)


def query(loop: StreamLoop, *queries: StoreQuery) -> list[StoreAnswer]:
    """Ask, and let the loop make one step, in which it must answer."""
    asked = loop.query(queries)
    loop.step()
    assert asked.done()
    return asked.result()


def key_query(key: str, committed: bool = False, store: str = "counts", partition: int = 0) -> StoreQuery:
    return StoreQuery(TaskId(0, partition), store, KeyQuery(key.encode()), committed=committed)


def count_of(loop: StreamLoop, key: str, committed: bool = False) -> int | None:
    """Returns the count of ``key`` by a query, None if there is none."""
    (found,) = query(loop, key_query(key, committed))
    assert found.failure is None, found
    value: int | None = found.rows[0][1] if found.rows else None
    return value


def producer_of(loop: StreamLoop) -> FakeProducer:
    """Returns the producer by which the loop sends now."""
    producer = loop._guarantee.producer
    assert isinstance(producer, FakeProducer)
    return producer


def states(loop: StreamLoop) -> dict[TaskId, TaskState]:
    asked = loop.status()
    if not asked.done():
        loop.step()
    return {task.task_id: task.state for task in asked.result().tasks}


def keys(answers: Iterable[StoreAnswer]) -> list[bytes]:
    return [row[0] for answer in answers for row in answer.rows]


def pass_through(offset_reset: OffsetReset = "earliest") -> ps.Topology:
    builder = ps.StreamsBuilder()
    consumed = ps.Consumed.with_(STRING, STRING).with_offset_reset_policy(offset_reset)
    builder.stream("in", consumed).map_values(str.upper).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def uncached() -> ps.Topology:
    """A count whose store has no cache: each update is logged as it comes."""
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    counts.count(ps.Materialized.as_("counts").with_caching_disabled()).to_stream().to(
        "out", ps.Produced.with_(STRING, LONG)
    )
    return builder.build()
