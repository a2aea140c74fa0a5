"""The topics whose records meet by their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.tasks.program import TaskPrograms

STRING = ps.Serdes.string()
STRINGS = ps.Consumed.with_(STRING, STRING)


def met(build: Callable[[ps.StreamsBuilder], object]) -> list[set[frozenset[str]]]:
    """Returns the sets of topics that meet, for each sub-topology."""
    builder = ps.StreamsBuilder()
    build(builder)
    config = StreamsConfig.of({"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING})
    topology = builder.build()
    programs = TaskPrograms(topology, config)
    return [set(programs.of(sub.id).meetings) for sub in topology.subtopologies]


def sets(*topics: str) -> set[frozenset[str]]:
    return {frozenset(each.split()) for each in topics}


def pick(left: Any, right: Any) -> Any:
    return left


def test_a_topic_without_a_store_meets_none() -> None:
    assert met(lambda it: it.stream("in", STRINGS).map_values(str.upper).to("out")) == [set()]


def test_streams_and_tables_that_are_joined_meet() -> None:
    windows = ps.JoinWindows.of_time_difference_with_no_grace(10)
    assert met(lambda it: it.stream("a").join(it.stream("b"), pick, windows)) == [sets("a b")]
    assert met(lambda it: it.stream("a").join(it.table("b"), pick)) == [sets("a b")]
    assert sets("a b") in met(lambda it: it.table("a").join(it.table("b"), pick))


def test_merged_topics_meet_in_an_aggregate() -> None:
    (found,) = met(lambda it: it.stream("a").merge(it.stream("b")).group_by_key().count())
    assert found == sets("a b")


def test_a_key_that_was_changed_meets_behind_its_repartition_topic() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        stream = builder.stream("in", STRINGS).select_key(lambda key, value: value)
        stream.repartition(ps.Repartitioned.as_("r")).join(builder.table("b"), pick)

    assert sets("app-r-repartition b") in met(build)


def test_topics_do_not_meet_in_the_store_of_a_processor() -> None:
    class Store(ps.Processor[Any, Any, Any, Any]):
        def process(self, record: ps.Record[Any, Any]) -> None:
            pass

    def build(builder: ps.StreamsBuilder) -> None:
        made = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("own"), STRING, STRING)
        builder.add_state_store(made)
        builder.stream("in", STRINGS).process(Store, "own")

    assert met(build) == [set()]


def test_topics_with_keys_of_windows_are_left_out() -> None:
    windowed: Any = ps.WindowedSerdes.time_windowed_serde_from(STRING, 10)
    assert met(lambda it: it.table("in", ps.Consumed.with_(windowed, STRING))) == [set()]


def test_a_partitioner_of_the_programs_own_is_known() -> None:
    builder = ps.StreamsBuilder()
    mine = ps.Repartitioned.as_("r").with_stream_partitioner(lambda topic, key, value, partitions: 0)
    builder.stream("in", STRINGS).repartition(mine).group_by_key().count()
    config = StreamsConfig.of({"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING})
    assert TaskPrograms(builder.build(), config).topics_by_chosen_partitioners == {"app-r-repartition"}
