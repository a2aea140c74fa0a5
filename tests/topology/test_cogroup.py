"""Cogroups, beyond the parity cases: names, old values, look-ups, mistakes."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from tests.tasks.bench import Collector

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
IN, IN_LONG = ps.Consumed.with_(STRING, STRING), ps.Consumed.with_(STRING, LONG)
Kept = ps.Materialized[str, str]


def add(key: str, value: str, aggregate: str) -> str | None:
    return None if value == "delete" else f"{aggregate}{value}"


def add_upper(key: str, value: str, aggregate: str) -> str | None:
    return aggregate + value.upper()


def together(builder: ps.StreamsBuilder) -> ps.CogroupedKStream[str, str]:
    left, right = builder.stream("left", IN).group_by_key(), builder.stream("right", IN).group_by_key()
    return left.cogroup(add).cogroup(right, add_upper)


def kept(store: str = "all", **how: Any) -> Kept:
    return ps.Materialized(store, STRING, STRING, **how)


class Play:
    """A program that is driven by hand; ``out`` is where its table goes."""

    def __init__(self, builder: ps.StreamsBuilder, table: ps.KTable[str, Any]) -> None:
        table.to_stream().to("out", ps.Produced.with_(STRING, STRING))
        self.driver = ps.TopologyTestDriver(builder.build())
        self.out = self.driver.create_output_topic("out", STRING, STRING)

    def pipe(self, topic: str, key: str | None, value: str | None, timestamp: int) -> Any:
        self.driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value, timestamp)
        return [(record.key, record.value, record.timestamp) for record in self.out.read_records_to_list()]


@pytest.mark.parametrize("caching", [True, False])
def test_all_streams_write_one_aggregate_and_an_update_is_forwarded_once(caching: bool) -> None:
    builder = ps.StreamsBuilder()
    play = Play(builder, together(builder).aggregate(str, kept(caching=caching)))
    assert play.pipe("left", "k", "a", 5) == [("k", "a", 5)]
    assert play.pipe("right", "k", "b", 3) == [("k", "aB", 5)]
    assert play.pipe("left", "k", "c", 7) == [("k", "aBc", 7)]
    assert play.pipe("left", "k", "delete", 9) == [("k", None, 9)]
    assert play.pipe("right", "k", "d", 1) == [("k", "D", 1)]
    play.driver.close()


def test_a_null_key_and_a_null_value_of_any_stream_are_dropped_and_counted() -> None:
    builder = ps.StreamsBuilder()
    play = Play(builder, together(builder).aggregate(str, kept()))
    assert play.pipe("left", None, "a", 1) == []
    assert play.pipe("right", "k", None, 1) == []
    assert play.driver.metrics().dropped_records_total == 2
    play.driver.close()


def test_names_that_begin_with_the_one_given() -> None:
    builder = ps.StreamsBuilder()
    together(builder).aggregate(str, kept(), named="both")
    together_again = builder.stream("third", IN).group_by_key().cogroup(add)
    together_again.aggregate(str)
    described = builder.build().describe()
    for name in ("both-cogroup-agg-0", "both-cogroup-agg-1", "both-cogroup-merge"):
        assert f"Processor: {name} " in described
    # The numbers of the three are used up.
    assert "(stores: [COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000006])" in described


def test_a_stream_that_is_aggregated_twice_is_repartitioned_once() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", IN).group_by(lambda value: value, ps.Grouped.with_(STRING, STRING))
    cogrouped = grouped.cogroup(add)
    cogrouped.aggregate(str, kept("one"))
    cogrouped.aggregate(str, kept("two"))
    assert list(builder.build().repartition_topics) == ["one-repartition"]


def test_a_stream_given_again_gets_the_later_aggregator() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", IN).group_by_key()
    play = Play(builder, grouped.cogroup(add).cogroup(grouped, add_upper).aggregate(str, kept()))
    assert play.pipe("in", "k", "a", 1) == [("k", "A", 1)]
    play.driver.close()


def test_all_inputs_have_equally_many_partitions() -> None:
    builder = ps.StreamsBuilder()
    selected = builder.stream("left", IN).group_by(lambda value: value, ps.Grouped.with_(STRING, STRING))
    selected.cogroup(add).cogroup(builder.stream("right", IN).group_by_key(), add).aggregate(str, kept())
    topology = builder.build()
    assert topology.copartition_groups == (frozenset({"all-repartition", "right"}),)


@pytest.mark.parametrize("caching", [True, False])
def test_a_filter_behind_it_gets_old_values(caching: bool) -> None:
    builder = ps.StreamsBuilder()
    table = together(builder).aggregate(str, kept(caching=caching)).filter(lambda value: len(value) < 3)
    play = Play(builder, table)
    assert play.pipe("left", "k", "abc", 1) == ([] if caching else [("k", None, 1)])
    assert play.pipe("left", "j", "a", 2) == [("j", "a", 2)]
    assert play.pipe("right", "j", "bc", 3) == [("j", None, 3)]
    play.driver.close()


def test_another_stream_can_look_up_the_aggregates() -> None:
    builder = ps.StreamsBuilder()
    table = together(builder).aggregate(str, kept())
    builder.stream("ask", IN).join(table, lambda value, found: f"{value}={found}").to(
        "answers", ps.Produced.with_(STRING, STRING)
    )
    play = Play(builder, table)
    play.pipe("left", "k", "a", 1)
    play.pipe("right", "k", "b", 2)
    play.pipe("ask", "k", "it", 3)
    assert play.driver.create_output_topic("answers", STRING, STRING).read_value() == "it=aB"
    play.driver.close()


def test_its_flush_may_continue_while_records_are_processed() -> None:
    builder = ps.StreamsBuilder()
    together(builder).aggregate(str, kept()).to_stream().to("out", ps.Produced.with_(STRING, STRING))
    program = TaskProgram.of([builder.build().as_one], StreamsConfig.of({"application.id": "app"}))
    collector = Collector()
    stores = open_task_stores(None, program.stores.values())
    task = Task(StateManager(TaskId(0, 0), program, stores, collector), collector)
    assert task._flushed_during_processing == {"all"}


def test_keys_have_the_serde_that_all_streams_share() -> None:
    builder = ps.StreamsBuilder()
    together(builder).aggregate(str, ps.Materialized.as_("shared"))
    long_keys = builder.stream("other", ps.Consumed.with_(LONG, STRING)).group_by_key()
    cogrouped: Any = builder.stream("left", IN).group_by_key().cogroup(add)
    cogrouped.cogroup(long_keys, add).aggregate(str, ps.Materialized.as_("mixed"))
    stores = builder.build().store_builders
    assert stores["shared"].key_serde is STRING
    assert stores["mixed"].key_serde is None


def test_mistakes_are_reported_in_one_sentence() -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", IN)
    cogrouped: Any = stream.group_by_key().cogroup(add)
    with pytest.raises(ps.TopologyError, match=r"cogroup needs a KGroupedStream, as group_by_key\(\)"):
        cogrouped.cogroup(stream, add)
    with pytest.raises(ps.TopologyError, match="cogroup: both sides must come from the same StreamsBuilder"):
        cogrouped.cogroup(ps.StreamsBuilder().stream("in", IN).group_by_key(), add)
    with pytest.raises(ps.TopologyError, match=r"cogroup takes f\(key, value, aggregate\) as its aggregator"):
        cogrouped.cogroup(builder.stream("other", IN).group_by_key(), lambda value, aggregate: aggregate)
    with pytest.raises(ps.TopologyError, match="aggregate: initializer must be callable"):
        cogrouped.aggregate("")
    with pytest.raises(ps.TopologyError, match="aggregate needs a Materialized, not 'all'"):
        cogrouped.aggregate(str, "all")


def test_a_function_that_raises_is_named_by_cogroup_and_node() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", IN).group_by_key()
    fails: ps.CogroupedKStream[str, str] = grouped.cogroup(lambda key, value, aggregate: aggregate[9])
    play = Play(builder, fails.aggregate(str, kept()))
    with pytest.raises(ps.ProcessingError, match="COGROUPKSTREAM-AGGREGATE-0000000001"):
        play.pipe("in", "k", "a", 1)


def from_tables(builder: ps.StreamsBuilder, *versioned: bool) -> ps.KTable[ps.Windowed[str], str]:
    """A cogroup in windows of the updates of tables."""
    grouped = []
    for number, of_versions in enumerate(versioned):
        supplier = ps.Stores.persistent_versioned_key_value_store(f"versions{number}", 100)
        store = kept(f"table{number}") if not of_versions else ps.Materialized.as_(supplier)
        table = builder.table(f"in{number}", IN, store.with_key_serde(STRING).with_value_serde(STRING))
        grouped.append(table.to_stream().peek(lambda value: None).group_by_key())
    together = grouped[0].cogroup(add)
    for other in grouped[1:]:
        together = together.cogroup(other, add)
    windows = ps.SlidingWindows.of_time_difference_and_grace(10, 5)
    return together.windowed_by(windows).aggregate(str, kept())


def test_in_windows_it_counts_as_versioned_where_all_its_streams_come_from_versioned_tables() -> None:
    held_back = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())
    for versioned in ((True,), (True, True)):
        with pytest.raises(ps.TopologyError, match=r"come from versioned tables\. .* through a topic"):
            from_tables(ps.StreamsBuilder(), *versioned).suppress(held_back)
        with pytest.raises(ps.TopologyError, match="come from versioned tables"):
            from_tables(ps.StreamsBuilder(), *versioned).filter(lambda value: True).suppress(held_back)
    for versioned in ((False,), (True, False), (False, True)):
        from_tables(ps.StreamsBuilder(), *versioned).suppress(held_back)


@pytest.mark.parametrize(("versioned", "reported"), [(True, [None]), (False, [])])
def test_a_filter_behind_it_forwards_no_change_from_nothing_to_nothing(versioned: bool, reported: list[None]) -> None:
    builder = ps.StreamsBuilder()
    table = from_tables(builder, versioned).filter(lambda value: False)
    table.to_stream(lambda windowed, value: windowed.key).to("out", ps.Produced.with_(STRING, STRING))
    with ps.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in0", STRING, STRING).pipe_input("k", "v", 0)
        assert driver.create_output_topic("out", STRING, STRING).read_values_to_list() == reported


def test_through_a_topic_it_counts_as_versioned_no_more() -> None:
    builder = ps.StreamsBuilder()
    supplier = ps.Stores.persistent_versioned_key_value_store("versions", 100)
    builder.table("in", IN, ps.Materialized.as_(supplier)).to_stream().to("between", ps.Produced.with_(STRING, STRING))
    grouped = builder.stream("between", IN).group_by_key().cogroup(add)
    windows = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(10, 5)).aggregate(str, kept())
    windows.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
