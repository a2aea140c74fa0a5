"""Stores and restore alone: a standby, and what becomes of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import StateStoreError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Record, RecordBatch
from penstock.common.serdes import Serdes
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import KeyQuery, RangeQuery
from penstock.state.stores import Stores
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Produced
from penstock.topology.processor_api.processor import Processor, ProcessorContext
from tests.tasks.bench import APPLICATION, STRINGS, Bench, Collector, Sent, changelog

IN = TopicPartition("in", 0)
COUNTS: Materialized[Any, Any] = Materialized.as_("counts").with_value_serde(Serdes.long())
OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.long())


class Remembering(Processor[str, str, str, str]):
    """Keeps the last value of each key; an empty one deletes."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("last")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value or None)


def topology() -> StreamsBuilder:
    """A cached table of the DSL, and a store of the Processor API, in memory."""
    builder = StreamsBuilder()
    supplier = Stores.in_memory_key_value_store("last")
    builder.add_state_store(Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string()))
    stream = builder.stream("in", STRINGS)
    stream.group_by_key().count(COUNTS).to_stream().to("out", OUT)
    stream.process(Remembering, "last")
    return builder


class Standby:
    """The state manager of a task alone, with its position in each changelog."""

    def __init__(self) -> None:
        config = StreamsConfig.of({"application.id": APPLICATION})
        self.program = TaskProgram.of([topology().build(config).as_one], config)
        self.collector = Collector()
        self.stores = open_task_stores(None, self.program.stores.values())
        self.state_manager = StateManager(TaskId(0, 0), self.program, self.stores, self.collector)

    def follow(self, sent: Sequence[Sent]) -> None:
        """Restores the changelog records among those that an active task has sent."""
        for store, log in self.program.changelogs.items():
            records = [each for each in sent if each.topic == log.topic]
            keys, values, times = ([each[place] for each in records] for place in (1, 2, 3))
            begin = self.state_manager.changelog_offset(store) or 0
            self.state_manager.restore(store, keys, values, times, begin + len(records))  # type: ignore[arg-type]

    def rows(self, store: str) -> list[tuple[bytes, Any, int | None]]:
        return rows(self.state_manager, store)

    def count(self, key: str) -> int | None:
        found = list(self.state_manager.store("counts").answer(KeyQuery(key.encode()), None, 1, False))
        return found[0].value if found else None

    def promoted(self) -> Task:
        """Returns a task over the standby's stores."""
        task = Task(self.state_manager, self.collector)
        task.set_caught_up(IN, True)
        return task


def rows(state_manager: StateManager, store: str) -> list[tuple[bytes, Any, int | None]]:
    return [tuple(row) for row in state_manager.store(store).answer(RangeQuery(), None, 1000, True)]


def commit(task: Task) -> None:
    for _ in task.prepare_commit():
        pass
    task.complete_commit({})


def test_a_standby_follows_the_changelogs_and_answers_queries_without_anything_that_processes() -> None:
    active, standby = Bench(topology()), Standby()
    standby.follow([*active.feed("in", ("a", "x", 1), ("a", "y", 2)), *active.commit()])
    assert standby.count("a") == 2
    assert standby.count("b") is None
    standby.follow([*active.feed("in", ("a", "", 3), ("b", "z", 4)), *active.commit()])
    assert (standby.count("a"), standby.count("b")) == (3, 1), "and forgets what it has answered from"
    assert standby.rows("last") == [(b"b", "z", None)]
    assert standby.state_manager.changelog_offset("counts") == 3
    assert standby.collector.sent == [], "it writes nothing"


def test_a_promoted_standby_continues_where_the_active_task_was_and_restores_nothing() -> None:
    active, standby = Bench(topology()), Standby()
    standby.follow([*active.feed("in", ("a", "x", 1), ("a", "y", 2), ("b", "x", 3)), *active.commit()])
    committed = active.task.offsets()
    active.task.close()

    restored: list[str] = []
    task = standby.promoted()
    standby.state_manager.restore = lambda store, *rows: restored.append(store)  # type: ignore[method-assign]
    task.resume(committed)
    task.init(0)
    task.add(RecordBatch(IN, [b"a", b"c"], [b"", b"w"], [10, 11], [3, 4], None))
    assert task.process(10, 0) == 2
    commit(task)
    assert restored == []
    assert [(each.topic, each.key, each.value) for each in standby.collector.take()] == [
        (changelog("last"), b"a", None),
        (changelog("last"), b"c", b"w"),
        (changelog("counts"), b"a", (3).to_bytes(8, "big")),
        ("out", b"a", (3).to_bytes(8, "big")),
        (changelog("counts"), b"c", (1).to_bytes(8, "big")),
        ("out", b"c", (1).to_bytes(8, "big")),
    ]
    assert standby.rows("counts") == [(b"a", 3, 10), (b"b", 1, 3), (b"c", 1, 11)]
    assert task.offsets()[IN].offset == 5
    assert task.metrics().stream_time_ms == 11


def test_a_standby_holds_after_each_commit_what_the_active_task_holds_and_so_does_the_next_active_one() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    active, standby = Bench(topology()), Standby()
    for commit_number in range(40):
        records = [
            (f"k{rng.randrange(8)}", rng.choice(["", "x", "y"]), commit_number * 10 + at)
            for at in range(rng.randrange(9))
        ]
        sent = [*active.feed("in", *records), *active.commit()] if records else active.commit()
        standby.follow(sent)
        for store in ("counts", "last"):
            assert standby.rows(store) == rows(active.state_manager, store)
    task = standby.promoted()
    task.resume(active.task.offsets())
    task.init(0)
    next_offset = active.task.offsets()[IN].offset
    keys: list[bytes | None] = [b"k%d" % rng.randrange(8) for _ in range(20)]
    task.add(RecordBatch(IN, keys, [b"z"] * 20, list(range(1000, 1020)), range(next_offset, next_offset + 20)))
    assert task.process(100, 0) == 20
    commit(task)
    active.feed("in", *((key.decode(), "z", 1000 + at) for at, key in enumerate(keys) if key))
    active.commit()
    for store in ("counts", "last"):
        assert standby.rows(store) == rows(active.state_manager, store)


def test_a_wiped_store_is_empty_and_begins_with_the_first_record_of_its_changelog() -> None:
    active, standby = Bench(topology()), Standby()
    written = [*active.feed("in", ("a", "x", 1)), *active.commit()]
    standby.follow(written)
    view = standby.state_manager.store("last").view()
    assert view.get("a") == "x", "and is in memory now"
    standby.state_manager.wipe("last")
    assert view.get("a") is None
    assert standby.state_manager.changelog_offset("last") is None
    assert standby.state_manager.changelog_offset("counts") == 1, "the others stay"
    assert standby.count("a") == 1


def test_closing_gives_the_stores_and_their_share_of_the_memory_back() -> None:
    config = StreamsConfig.of({"application.id": APPLICATION})
    program = TaskProgram.of([topology().build(config).as_one], config)
    budget = MemoryBudget(1, 1)
    stores = open_task_stores(None, program.stores.values())
    state_manager = StateManager(TaskId(0, 0), program, stores, Collector(), budget)
    state_manager.store("last").view().put("k", "v" * 1000)
    assert budget.needs_commit
    state_manager.close()
    assert not budget.needs_commit
    with pytest.raises(StateStoreError):
        stores.store("last").get(b"k")
