"""The stores that may be flushed while records are processed: their updates meet nothing that records meet."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import TypeIs

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.tasks.wiring import Store
from tests.tasks.bench import Collector

TASKS = Path(__file__).parents[2] / "tasks"

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
IN = ps.Consumed.with_(STRING, STRING)
OUT, OUT_LONG = ps.Produced.with_(STRING, STRING), ps.Produced.with_(STRING, LONG)


def beside_records(build: Callable[[ps.StreamsBuilder], object], **config: object) -> set[str]:
    builder = ps.StreamsBuilder()
    build(builder)
    settings = {"application.id": "app", **{key.replace("_", "."): value for key, value in config.items()}}
    program = TaskProgram.of([builder.build().as_one], StreamsConfig.of(settings))
    collector = Collector()
    stores = open_task_stores(None, program.stores.values())
    task = Task(StateManager(TaskId(0, 0), program, stores, collector), collector)
    return set(task._flushed_during_processing)


def counted(builder: ps.StreamsBuilder, store: str = "counts", topic: str = "in") -> ps.KTable[str, int]:
    return builder.stream(topic, IN).group_by_key().count(ps.Materialized.as_(store))


def test_a_count_whose_updates_go_to_a_topic_of_their_own() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        counted(builder).to_stream().map_values(str).filter(lambda _, v: v != "1").to("out", OUT)

    assert beside_records(build) == {"counts"}


def test_a_count_that_nobody_hears_of() -> None:
    assert beside_records(counted) == {"counts"}


def test_a_table_that_a_stream_looks_up() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        table = builder.table("table", IN, ps.Materialized.as_("table"))
        builder.stream("in", IN).join(table, lambda left, right: left + right).to("out", OUT)

    assert beside_records(build) == {"table"}


def test_not_a_table_whose_updates_reach_another_store_nor_that_store() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        table = builder.table("table", IN, ps.Materialized.as_("first"))
        table.map_values(str.upper, ps.Materialized.as_("second").with_value_serde(STRING)).to_stream().to("out", OUT)
        counted(builder).to_stream().to("counts-out", OUT_LONG)

    assert beside_records(build) == {"counts"}


def test_not_one_whose_updates_meet_records_at_an_operator() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        other = builder.stream("other", IN)
        counted(builder).to_stream().map_values(str).merge(other).to("out", OUT)

    assert beside_records(build) == set()


def test_not_one_whose_updates_meet_records_in_a_topic() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        counted(builder).to_stream().map_values(str).to("out", OUT)
        builder.stream("other", IN).to("out", OUT)
        counted(builder, "others", "third").to_stream().to("another", OUT_LONG)

    assert beside_records(build) == {"others"}


def test_not_one_beside_a_sink_that_may_choose_its_topic() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        counted(builder).to_stream().to("out", OUT_LONG)
        builder.stream("other", IN).to(lambda key, value, context: "out", OUT)

    assert beside_records(build) == set()


def test_not_one_whose_updates_reach_a_users_processor() -> None:
    class Forwarding(ps.Processor[str, int, str, int]):
        def process(self, record: ps.Record[str, int]) -> None:
            """Does nothing here; a user's processor could do anything."""

    def build(builder: ps.StreamsBuilder) -> None:
        counted(builder).to_stream().process(Forwarding).to("out", OUT_LONG)

    assert beside_records(build) == set()


def test_not_one_whose_updates_trigger_a_join_nor_what_they_are_joined_with() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        table = builder.table("table", IN, ps.Materialized.as_("table"))
        counts = counted(builder).to_stream().map_values(str)
        counts.join(table, lambda left, right: left + right).to("out", OUT)

    assert beside_records(build) == set()


@pytest.mark.parametrize("caching", [True, False])
def test_without_a_cache_every_store_for_its_updates_have_been_forwarded_already(caching: bool) -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        other = builder.stream("other", IN)
        counted(builder).to_stream().map_values(str).merge(other).to("out", OUT)

    expected = set() if caching else {"counts"}
    assert beside_records(build, statestore_cache_max_bytes=1_000_000 if caching else 0) == expected


def test_an_operator_that_listens_to_a_flush_names_the_node_that_forwards_it() -> None:
    """It calls ``Store.listen``, which takes the node first; with a buffer's own ``listen`` the node is not known."""
    trees = {file: ast.parse(file.read_text()) for file in sorted(TASKS.rglob("*.py")) if file.name != "wiring.py"}
    every = [(file, node) for file, tree in trees.items() for node in ast.walk(tree)]
    mentioned = [(file.name, node.lineno) for file, node in every if _is_listen(node)]
    named = [
        (file.name, node.func.lineno)
        for file, node in every
        if isinstance(node, ast.Call)
        and _is_listen(node.func)
        and len(node.args) == 3
        and ast.unparse(node.args[0]) == "wiring.name"
    ]
    assert mentioned
    assert sorted(mentioned) == sorted(named)


def _is_listen(node: ast.AST) -> TypeIs[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "listen"


def test_a_store_that_is_listened_to_knows_which_node_forwards_its_updates() -> None:
    builder = ps.StreamsBuilder()
    counted(builder)
    program = TaskProgram.of([builder.build().as_one], StreamsConfig.of({"application.id": "app"}))
    manager = StateManager(TaskId(0, 0), program, open_task_stores(None, program.stores.values()), Collector())
    store = Store(program.stores["counts"], manager.store("counts"))
    heard: list[bytes] = []
    store.listen("counting", lambda key, *_: heard.append(key), old_values=False)
    store.buffer.put(b"k", 1, 0, None)
    deque(manager.take_snapshot(()), maxlen=0)
    assert heard == [b"k"]
    assert store.forwarded_by == ["counting"]
