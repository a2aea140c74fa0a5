"""``transform_values`` of a table: a user's transformer, with its stores and its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

import pytest
from typing_extensions import override

from penstock.common.errors import ProcessingError, StreamsError, TopologyError
from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.processor_api.processor import ProcessorContext
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKey
from tests.tasks.bench import STRINGS, Bench

CONFIG = {"application.id": "app", "default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}
KEPT: Materialized[str, str] = Materialized.as_("kept")
Table = KTable[str, str]


class Numbered(ValueTransformerWithKey[str, str, str]):
    """The value with the number of its call."""

    made: list[Numbered]

    def __init__(self) -> None:
        self.calls = 0
        self.state = "made"

    @override
    def init(self, context: ProcessorContext[Never, Never]) -> None:
        self.state = "open"
        self.context = context

    @override
    def transform(self, read_only_key: str, value: str | None) -> str | None:
        self.calls += 1
        return None if value == "none" else f"{read_only_key}{value}#{self.calls}"

    @override
    def close(self) -> None:
        self.state = "closed"


ONE = Numbered()


class Counted(ValueTransformerWithKey[str, str, str]):
    """The value with the number of updates of its key, counted in a store."""

    @override
    def init(self, context: ProcessorContext[Never, Never]) -> None:
        self.seen = context.get_state_store("seen")

    @override
    def transform(self, read_only_key: str, value: str | None) -> str | None:
        times = int(self.seen.get(read_only_key) or "0") + 1
        self.seen.put(read_only_key, str(times))
        return f"{value} {times}"


def builder_with(program: Callable[[Table], Table]) -> StreamsBuilder:
    builder = StreamsBuilder()
    supplier = Stores.in_memory_key_value_store("seen")
    builder.add_state_store(Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string()))
    program(builder.table("in", STRINGS)).to_stream().to("out")
    return builder


def played(program: Callable[[Table], Table], *values: str | None) -> list[str | None]:
    with TopologyTestDriver(builder_with(program).build(), CONFIG) as driver:
        for value in values:
            driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", value, 7)
        return driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_values_to_list()


def test_it_is_called_for_deletions_too_and_none_deletes() -> None:
    assert played(lambda table: table.transform_values(Numbered), "a", None, "none") == ["ka#1", "kNone#2", None]


@pytest.mark.parametrize("how", [KEPT, KEPT.with_caching_disabled()])
def test_kept_in_a_store_it_is_called_once_for_each_update(how: Materialized[str, str]) -> None:
    def counted(table: Table) -> Table:
        return (
            table.transform_values(Numbered, materialized=how)
            .group_by(lambda key, value: ("all", value))
            .reduce(lambda all, value: f"{all}+{value}", lambda all, value: f"{all}-{value}")
        )

    assert played(counted, "a", "b") == ["ka#1", "ka#1-ka#1+kb#2"]


def test_without_a_store_old_values_are_transformed_once_more() -> None:
    def counted(table: Table) -> Table:
        return (
            table.transform_values(Numbered)
            .group_by(lambda key, value: ("all", value))
            .reduce(lambda all, value: f"{all}+{value}", lambda all, value: f"{all}-{value}")
        )

    # The second call is for the null that was there before the first update.
    assert played(counted, "a", "b") == ["ka#1", "ka#1-ka#4+kb#3"]


def test_it_uses_the_stores_that_are_named() -> None:
    assert played(lambda table: table.transform_values(Counted, "seen"), "a", "b") == ["a 1", "b 2"]
    assert played(lambda table: table.transform_values(Counted, "seen", materialized=KEPT), "a", "b") == ["a 1", "b 2"]


def test_a_store_that_is_not_named_is_not_there() -> None:
    bench = Bench(builder_with(lambda table: table.transform_values(Counted)), CONFIG, start=False)
    with pytest.raises(ProcessingError, match=r"not connected to a store named 'seen'.*in transform_values\(\.\.\.\)"):
        bench.task.init(0)


def test_a_table_that_is_looked_into_is_transformed_by_a_transformer_of_its_own() -> None:
    made: list[Numbered] = []

    def supplier() -> Numbered:
        made.append(Numbered())
        return made[-1]

    def looked_into(table: Table) -> Table:
        transformed = table.transform_values(supplier)
        return table.join(transformed, lambda value, other: f"{value}/{other}")

    builder = builder_with(looked_into)
    made.clear()
    bench = Bench(builder, CONFIG)
    assert len(made) == 2
    assert [each.state for each in made] == ["open", "open"]
    bench.feed("in", ("k", "a", 7))
    assert [each.value for each in bench.commit() if each.topic == "out"] == [b"a/ka#1", b"a/ka#1"]
    assert [each.calls for each in made] == [1, 1]
    bench.task.close()
    assert [each.state for each in made] == ["closed", "closed"]


def test_one_with_stores_must_be_kept_to_be_looked_into() -> None:
    with pytest.raises(TopologyError, match=r"transform_values with stores \(seen\) is joined.*Materialized\.as_"):
        builder_with(lambda table: table.join(table.transform_values(Counted, "seen"), lambda a, b: a + b))
    kept = builder_with(lambda t: t.join(t.transform_values(Counted, "seen", materialized=KEPT), lambda a, b: a + b))
    bench = Bench(kept, CONFIG)
    bench.feed("in", ("k", "a", 7))
    assert [each.value for each in bench.commit() if each.topic == "out"] == [b"aa 1", b"aa 1"]


def test_nothing_can_be_forwarded() -> None:
    class Forwarding(Numbered):
        @override
        def transform(self, read_only_key: str, value: str | None) -> str | None:
            context: Any = self.context
            context.forward(Record(read_only_key, value, 0))
            return value

    with pytest.raises(ProcessingError, match="a transformer cannot forward"):
        played(lambda table: table.transform_values(Forwarding), "a")


def test_it_sees_the_time_of_the_value() -> None:
    class Stamped(Numbered):
        @override
        def transform(self, read_only_key: str, value: str | None) -> str | None:
            at = self.context.record_metadata()
            return f"{value}@{None if at is None else at.topic}"

    assert played(lambda table: table.transform_values(Stamped), "a") == ["a@in"]


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (Numbered(), "give a supplier that makes transformers, such as the class Numbered"),
        (lambda: "x", "the supplier must make a ValueTransformerWithKey, not 'x'"),
        (lambda: ONE, "returned the same transformer twice"),
        (None, "supplier must be callable"),
        (lambda key: Numbered(), "transform_values takes"),
    ],
)
def test_a_supplier_that_makes_no_transformers_is_refused_at_the_call(supplier: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        builder_with(lambda table: table.transform_values(supplier))


def test_names_are_those_of_kafka_streams() -> None:
    builder = StreamsBuilder()
    table = builder.table("in")
    table.transform_values(Numbered)
    table.transform_values(Numbered, materialized=Materialized.with_(Serdes.string()))
    assert table.transform_values(Numbered, materialized=KEPT, named="mine").queryable_store_name == "kept"
    names = [node.name for sub in builder.build().subtopologies for node in sub.nodes]
    assert names[2:] == ["KTABLE-TRANSFORMVALUES-0000000003", "KTABLE-TRANSFORMVALUES-0000000005", "mine"]


def test_an_error_of_the_transformer_is_named() -> None:
    class Failing(Numbered):
        @override
        def transform(self, read_only_key: str, value: str | None) -> str | None:
            raise ValueError("no")

    with pytest.raises(StreamsError, match=r"ValueError: no \[operator KTABLE-TRANSFORMVALUES-0000000003"):
        played(lambda table: table.transform_values(Failing), "a")
