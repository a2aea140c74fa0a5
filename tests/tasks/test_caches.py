"""Reading ahead by a task, and the memory that its stores use beside those of other tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.serdes import Serdes
from penstock.state.disk.memory import InMemoryStore
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.stores import Stores
from penstock.state.write_buffer.memory_budget import TRIM_EVERY_RECORDS, MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.dsl.branched import Branched
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped
from penstock.topology.processor_api.processor import Processor
from tests.tasks.bench import STRINGS, Bench, Collector

COUNTS: Materialized[Any, Any] = Materialized.as_("counts").with_value_serde(Serdes.long())


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).group_by_key().count(COUNTS)
    return builder


def test_if_keys_are_seldom_in_memory_every_batch_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found wrong: a batch that was asked for at once counted as one without misses, so every second one was not."""
    one_by_one: list[bytes] = []
    get = InMemoryStore.get

    def counted(store: InMemoryStore, key: bytes) -> bytes | None:
        one_by_one.append(key)
        return get(store, key)

    monkeypatch.setattr(InMemoryStore, "get", counted)
    bench = Bench(counting())
    for batch in range(6):
        bench.feed("in", *((f"{batch}-{number}", "", 1) for number in range(50)))
    assert one_by_one == [b"0-%d" % number for number in range(50)]


def test_an_entry_read_ahead_is_not_used_if_a_commit_has_changed_it_since() -> None:
    bench = Bench(counting())
    for batch in range(2):
        bench.feed("in", *((f"{batch}-{number}", "", 1) for number in range(50)))
    row = [("key", "", 1)] * 8
    bench.add("in", *row)
    bench.add("in", *row)
    assert bench.task.process(8, 0) == 8  # the second batch waits, its key read ahead as absent
    bench.commit()
    for _ in range(2):
        bench.state_manager.store("counts").drop_unused()
    bench.run()
    entry = bench.buffer("counts").get(b"key")
    assert entry is not None
    assert entry[0] == 16


def test_tasks_of_one_thread_share_its_memory() -> None:
    config = StreamsConfig.of({"application.id": "app"})
    program = TaskProgram.of([counting().build(config).as_one], config)
    budget = MemoryBudget(1 << 30, 200_000)
    slack = TRIM_EVERY_RECORDS * 300
    tasks = []
    for partition in range(3):
        stores = open_task_stores(None, program.stores.values())
        task = Task(StateManager(TaskId(0, partition), program, stores, collector := Collector(), budget), collector)
        task.init(0)
        tasks.append(task)
    for round_number in range(30):
        for partition, task in enumerate(tasks):
            keys: list[bytes | None] = [b"%d-%d" % (round_number, number) for number in range(100)]
            offsets = range(round_number * 100, round_number * 100 + 100)
            task.add(RecordBatch(TopicPartition("in", partition), keys, [b""] * 100, [1] * 100, offsets))
            assert task.process(1000, 0) == 100
            assert sum(each.state_manager.store("counts").resident_bytes() for each in tasks) <= 200_000 + slack
            for _ in task.prepare_commit():
                pass
            task.complete_commit({})
    tasks[0].close()
    assert not budget.needs_commit


def test_rows_are_not_read_ahead_for_records_that_a_filter_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found wrong: entries read ahead counted as needed, so reading ahead kept itself going."""
    at_once: list[int] = []
    get_many = InMemoryStore.get_many

    def counted(store: InMemoryStore, keys: list[bytes]) -> list[bytes | None]:
        at_once.append(len(keys))
        return get_many(store, keys)

    monkeypatch.setattr(InMemoryStore, "get_many", counted)
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).filter(lambda value: value == "rare").group_by_key().count(COUNTS)
    bench = Bench(builder)
    bench.feed("in", *((f"0-{number}", "rare", 1) for number in range(50)))
    for batch in range(1, 10):
        bench.feed("in", *((f"{batch}-{number}", "common", 1) for number in range(50)))
    assert sum(at_once) == 50, "only the batch after the one that needed its rows"


Build = Callable[[StreamsBuilder, KStream[Any, Any], Any], object]
"""A program made of the builder, the stream that is read, and the serde of its keys."""


def joined(builder: StreamsBuilder, stream: KStream[Any, Any], serde: Any) -> object:
    table = builder.table("table", Consumed.with_(serde, Serdes.string()), Materialized.as_("counts"))
    return stream.join(table.filter(lambda k, v: k != "x"), lambda k, v, w: v)


def branched(builder: StreamsBuilder, stream: KStream[Any, Any], serde: Any) -> object:
    counted: Branched[Any, Any] = Branched.with_consumer(lambda branch: branch.group_by_key().count(COUNTS))
    return stream.split().branch(lambda k, v: k != "x", counted).no_default_branch()


def processed(builder: StreamsBuilder, stream: KStream[Any, Any], serde: Any) -> object:
    builder.add_state_store(
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("counts"), serde, Serdes.long())
    )
    return stream.process(Counts, "counts")


READ_AHEAD: dict[str, Build] = {
    "nobody looks": lambda b, s, k: s.group_by_key().count(COUNTS),
    "a filter looks": lambda b, s, k: s.filter(lambda k, v: k != "x").group_by_key().count(COUNTS),
    "a mapper looks": lambda b, s, k: s.map_values(lambda k, v: v).group_by_key().count(COUNTS),
    "an action looks": lambda b, s, k: s.peek(lambda k, v: None).group_by_key().count(COUNTS),
    "an aggregator looks": lambda b, s, k: s.group_by_key().aggregate(int, lambda k, v, n: n + 1, COUNTS),
    "a branch looks": branched,
    "a joiner looks, and the table's filter": joined,
}
NOT_READ_AHEAD: dict[str, Build] = {
    "a processor looks up what it likes": processed,
    "the store has another key serde": lambda b, s, k: s.group_by_key(OTHERWISE).count(COUNTS),
}
OTHERWISE: Grouped[Any, Any] = Grouped.with_(Serdes.json(), Serdes.string())


class Counts(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("counts")

    def process(self, record: Any) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)


def read_ahead(monkeypatch: pytest.MonkeyPatch, build: Build, serde: Any) -> tuple[list[bytes], list[bytes]]:
    """Returns the keys of the second and third of three batches, and those that were asked for by multi-get."""
    at_once: list[bytes] = []
    get_many = InMemoryStore.get_many

    def counted(store: InMemoryStore, keys: list[bytes]) -> list[bytes | None]:
        at_once.extend(keys)
        return get_many(store, keys)

    monkeypatch.setattr(InMemoryStore, "get_many", counted)
    builder = StreamsBuilder()
    build(builder, builder.stream("in", Consumed.with_(serde, Serdes.string())), serde)
    bench = Bench(builder)
    later: list[bytes] = []
    for batch in range(3):
        numbers = range(batch * 50, batch * 50 + 50)
        keys = [str(number) if serde == Serdes.string() else number for number in numbers]
        bench.feed("in", *((key, "v", 1) for key in keys))
        later += [serde.serialize(key) for key in keys if batch]
    return later, at_once


@pytest.mark.parametrize("name", READ_AHEAD)
@pytest.mark.parametrize("serde", [Serdes.string(), Serdes.long()], ids=str)
def test_rows_are_read_ahead_wherever_the_key_is_kept_whichever_operator_reads_them(
    monkeypatch: pytest.MonkeyPatch, name: str, serde: Any
) -> None:
    later, at_once = read_ahead(monkeypatch, READ_AHEAD[name], serde)
    assert sorted(at_once) == sorted(later), "the first batch shows that rows are missing"


@pytest.mark.parametrize("name", NOT_READ_AHEAD)
def test_rows_are_not_read_ahead_if_they_may_be_stored_under_other_keys(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert read_ahead(monkeypatch, NOT_READ_AHEAD[name], Serdes.string())[1] == []


def test_batches_that_come_before_the_last_one_is_processed_are_read_ahead_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_by_one: list[bytes] = []
    get = InMemoryStore.get

    def counted(store: InMemoryStore, key: bytes) -> bytes | None:
        one_by_one.append(key)
        return get(store, key)

    monkeypatch.setattr(InMemoryStore, "get", counted)
    bench = Bench(counting())
    bench.feed("in", *((f"0-{number}", "", 1) for number in range(50)))
    for batch in range(1, 4):
        bench.add("in", *((f"{batch}-{number}", "", 1) for number in range(50)))
    bench.run()
    assert one_by_one == [b"0-%d" % number for number in range(50)]
