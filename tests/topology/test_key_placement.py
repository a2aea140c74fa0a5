"""Stores of which the topology proves in which task a key lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as ps
from penstock.topology.physical.key_placement import topics_by_placed_store

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
STRINGS = ps.Consumed.with_(STRING, STRING)
WINDOWS = ps.TimeWindows.of_size_with_no_grace(1000)


def kept(name: str) -> ps.Materialized[Any, Any]:
    return ps.Materialized.as_(name)


def placed(build: Callable[[ps.StreamsBuilder], object], partitions: dict[str, int] | None = None) -> dict[str, str]:
    builder = ps.StreamsBuilder()
    build(builder)
    counts = partitions or {}
    return topics_by_placed_store(builder.build(), STRING, lambda topic: counts.get(topic, 4), "app-")


def test_stores_behind_a_repartition_by_the_program_are_placed_by_their_key() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        by_value = builder.stream("in", STRINGS).group_by(lambda _, value: value, ps.Grouped.as_("g"))
        by_value.count(kept("counts"))
        by_value.windowed_by(WINDOWS).count(kept("windows"))
        by_value.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(1000)).count(kept("sessions"))
        table = builder.table("users", STRINGS, kept("users"))
        table.group_by(lambda key, value: (value, key), ps.Grouped.as_("t")).count(kept("groups"))

    assert placed(build) == {
        "counts": "app-g-repartition",
        "windows": "app-g-repartition",
        "sessions": "app-g-repartition",
        "groups": "app-t-repartition",
    }, "but not the table, whose topic others write"


def test_keys_of_topics_that_others_write_may_be_in_any_partition() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        stream = builder.stream("in", STRINGS)
        stream.group_by_key().count(kept("counts"))
        stream.repartition(ps.Repartitioned.as_("r")).merge(builder.stream("other", STRINGS)).group_by_key().count(
            kept("merged")
        )

    assert placed(build) == {}


def test_a_custom_partitioner_leaves_the_placement_unknown() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        own = ps.Repartitioned.as_("own").with_stream_partitioner(lambda topic, key, value, partitions: 0)
        builder.stream("in", STRINGS).repartition(own).group_by_key().count(kept("counts"))

    assert placed(build) == {}


def test_a_key_that_changes_on_its_way_leaves_the_placement_unknown() -> None:
    class Store(ps.Processor[Any, Any, Any, Any]):
        def process(self, record: ps.Record[Any, Any]) -> None:
            pass

    def build(builder: ps.StreamsBuilder) -> None:
        repartitioned = builder.stream("in", STRINGS).repartition(ps.Repartitioned.as_("r"))
        again = repartitioned.process(Store).repartition(ps.Repartitioned.as_("processed"))
        again.to_table(kept("processed"))
        counts = repartitioned.group_by_key().windowed_by(WINDOWS).count(kept("windows"))
        counts.filter(lambda key, value: True, kept("filtered"))
        made = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("own"), STRING, STRING)
        builder.add_state_store(made)
        repartitioned.process(Store, "own")

    assert placed(build) == {"windows": "app-r-repartition", "processed": "app-processed-repartition"}


def test_a_join_of_two_repartition_topics_is_placed_unless_their_partitions_differ() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        tables = [
            builder.stream(name, STRINGS).repartition(ps.Repartitioned.as_(name)).to_table(kept(f"{name}-table"))
            for name in ("a", "b")
        ]
        tables[0].join(tables[1], lambda left, right: left, kept("joined"))

    assert placed(build) == {
        "a-table": "app-a-repartition",
        "b-table": "app-b-repartition",
        "joined": "app-a-repartition",
    }
    assert placed(build, {"app-b-repartition": 2}) == {"a-table": "app-a-repartition"}


def test_a_store_with_another_form_of_the_key_leaves_the_placement_unknown() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        as_json = ps.Repartitioned.with_(ps.Serdes.json(), STRING).with_name("r")
        stream = builder.stream("in", STRINGS).repartition(as_json)
        stream.group_by_key().count(ps.Materialized.as_("counts").with_key_serde(STRING))

    assert placed(build) == {}
