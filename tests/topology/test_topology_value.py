"""A topology is a value: cut into numbered sub-topologies, and shipped as bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ray import cloudpickle

import penstock as ps
from penstock.topology.physical.task_plan import SubtopologyTasks
from penstock.topology.physical.topology import changelog_topic, serde_topic


def word_count() -> ps.Topology:
    builder = ps.StreamsBuilder()
    words = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).flat_map_values(
        str.split
    )
    grouped = words.group_by(lambda key, word: word, ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()))
    grouped.count(ps.Materialized.as_("counts")).to_stream().to("out")
    return builder.build()


def test_a_repartition_topic_cuts_the_topology_in_two() -> None:
    topology = word_count()
    assert [[source.topics for source in sub.sources] for sub in topology.subtopologies] == [
        [("lines",)],
        [("counts-repartition",)],
    ]
    assert [[store.name for store in sub.stores] for sub in topology.subtopologies] == [[], ["counts"]]
    assert changelog_topic("app", topology.store_builders["counts"]) == "app-counts-changelog"


def test_the_serdes_of_a_store_are_bound_to_its_changelog_topic_or_to_the_source_that_restores_it() -> None:
    store = word_count().store_builders["counts"]
    assert serde_topic("app", store) == "app-counts-changelog"
    assert serde_topic("app", store.with_logging_disabled()) == "app-counts-changelog"
    assert serde_topic("app", replace(store, source_topic="in", logging=False)) == "in"


def test_the_first_topic_with_most_partitions_is_the_widest() -> None:
    assert SubtopologyTasks(0, {"narrow": 1, "wide": 3, "wide too": 3}).widest_topic == "wide"


def test_streams_that_share_a_store_share_a_subtopology() -> None:
    class Use(ps.Processor[Any, Any, Any, Any]):
        def process(self, record: ps.Record[Any, Any]) -> None:
            """Do nothing."""

    builder = ps.StreamsBuilder()
    supplier = ps.Stores.in_memory_key_value_store("seen")
    builder.add_state_store(ps.Stores.key_value_store_builder(supplier, ps.Serdes.string(), ps.Serdes.string()))
    builder.stream("a").process(Use, "seen")
    builder.stream("alone").to("out")
    builder.stream("b").process(Use, "seen")
    first, second = builder.build().subtopologies
    assert [source.topics for source in first.sources] == [("a",), ("b",)]
    assert [source.topics for source in second.sources] == [("alone",)]


def test_a_store_that_no_processor_uses_is_not_built() -> None:
    builder = ps.StreamsBuilder()
    supplier = ps.Stores.persistent_key_value_store("unused")
    builder.add_state_store(ps.Stores.key_value_store_builder(supplier, ps.Serdes.string(), ps.Serdes.string()))
    builder.stream("in").to("out")
    assert builder.build().store_builders == {}


def test_a_topology_survives_the_way_to_another_process() -> None:
    topology = word_count()
    pickler: Any = cloudpickle  # Ray's has no types
    assert pickler.loads(pickler.dumps(topology)).describe() == topology.describe()


def test_a_sink_with_an_extractor_is_described_by_its_name() -> None:
    def by_key(key: str, value: str, context: ps.RecordContext) -> str:
        return key

    builder = ps.StreamsBuilder()
    builder.stream("in").to(by_key)
    assert "(extractor class: test_a_sink_with_an_extractor_is_described_by_its_name.<locals>.by_key)" in (
        builder.build().describe()
    )
