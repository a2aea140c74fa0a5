"""The program that the tasks of a sub-topology share, worked out once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.tasks.program import Changelog, TaskProgram, TaskPrograms
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced
from penstock.topology.physical.topology import SinkNode
from penstock.topology.processor_api.processor import Processor
from tests.tasks.bench import STRINGS

CONFIG: dict[str, Any] = {
    "application.id": "app",
    "default.key.serde": Serdes.string(),
    "default.value.serde": Serdes.json(),
    "default.timestamp.extractor": LogAndSkipOnInvalidTimestamp(),
}


class Nothing(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None: ...


def programs(builder: StreamsBuilder, **config: Any) -> list[TaskProgram]:
    checked = StreamsConfig.of({**CONFIG, **config})
    topology = builder.build(checked)
    made = TaskPrograms(topology, checked)
    return [made.of(sub.id) for sub in topology.subtopologies]


def sinks(program: TaskProgram) -> list[SinkNode]:
    return [node for node in program.nodes if isinstance(node, SinkNode)]


def word_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    words = builder.stream("lines", Consumed.with_(value_serde=Serdes.string()))
    words.group_by(lambda k, v: v, Grouped.as_("words")).count(Materialized.as_("counts")).to_stream().to("out")
    return builder


def test_settings_that_the_program_omits_come_from_the_configuration() -> None:
    source = programs(word_count())[0].sources["lines"]
    assert source.key_serde is Serdes.string()
    assert source.value_serde is Serdes.string(), "the program's own goes first"
    assert source.extractor == CONFIG["default.timestamp.extractor"]
    assert source.offset_reset == "earliest"


def test_topics_and_stores_have_their_names_in_kafka() -> None:
    upper, lower = programs(word_count())
    assert list(upper.sources) == ["lines"]
    assert [node.topic for node in sinks(upper)] == ["app-words-repartition"]
    assert list(lower.sources) == ["app-words-repartition"]
    assert [node.topic for node in sinks(lower)] == ["out"]
    assert upper.changelogs == {}
    assert lower.changelogs == {"counts": Changelog("app-counts-changelog", is_source_topic=False)}


def test_the_timestamps_of_a_repartition_topic_are_its_records_own_and_it_is_read_from_the_beginning() -> None:
    source = programs(word_count())[1].sources["app-words-repartition"]
    assert isinstance(source.extractor, FailOnInvalidTimestamp)
    assert source.offset_reset == "earliest"


def test_each_topic_of_a_source_keeps_its_settings() -> None:
    builder = StreamsBuilder()
    extractor = UsePartitionTimeOnInvalidTimestamp()
    consumed = Consumed.with_(Serdes.long(), Serdes.long(), timestamp_extractor=extractor, offset_reset="latest")
    builder.stream(["a", "b"], consumed).to("out", Produced.with_(Serdes.long(), Serdes.long()))
    (program,) = programs(builder)
    for topic in ("a", "b"):
        source = program.sources[topic]
        assert (source.topic, source.extractor, source.offset_reset) == (topic, extractor, "latest")
        assert (source.key_serde, source.value_serde) == (Serdes.long(), Serdes.long())


def test_a_table_restored_from_its_source_describes_that_and_one_without_logging_has_no_changelog() -> None:
    builder = StreamsBuilder()
    builder.table("in", STRINGS, Materialized.as_("rows"))
    supplier = Stores.persistent_key_value_store("unlogged")
    store = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string()).with_logging_disabled()
    builder.add_state_store(store)
    builder.stream("other", STRINGS).process(Nothing, "unlogged")
    checked = StreamsConfig.of({**CONFIG, "topology.optimization": "all"})
    program = TaskProgram.of([builder.build(checked).as_one], checked)
    assert set(program.stores) == {"rows", "unlogged"}
    assert program.changelogs == {"rows": Changelog("in", is_source_topic=True)}


def test_a_program_is_made_once_and_cannot_be_changed() -> None:
    checked = StreamsConfig.of(CONFIG)
    made = TaskPrograms(word_count().build(checked), checked)
    assert made.of(1) is made.of(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.of(1).stores = {}  # type: ignore[misc]  # that is what is tested


def test_every_store_has_its_serdes_in_the_order_of_a_commit() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", STRINGS).group_by_key()
    grouped.count(Materialized.as_("first"))
    grouped.reduce(max, Materialized.as_("second"))
    (program,) = programs(builder)
    assert list(program.stores) == ["first", "second"]
    assert all(store.key_serde is Serdes.string() for store in program.stores.values())
    assert [store.value_serde for store in program.stores.values()] == [Serdes.long(), Serdes.string()]
