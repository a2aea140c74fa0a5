"""The serdes of an application's topics: all that a program writes can be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

import penstock as ps
from penstock.api.encoding import to_json
from penstock.cluster.topic_reading.topic_serdes import topic_serdes
from penstock.common.errors import ConfigError
from penstock.state.key_value.store import SubscriptionStoreBuilder
from penstock.testing.topology_test_driver import TopologyTestDriver

TEXT, NUMBER = ps.Serdes.string(), ps.Serdes.long()
CONSUMED = ps.Consumed.with_(TEXT, TEXT)
BYTES = ps.Serdes.bytes()


@dataclass
class Shown:
    """A record of a topic, as it is shown."""

    key: Any
    value: Any


def shown(
    builder: ps.StreamsBuilder, topic: str, *records: tuple[str, str, str | None, int], **config: str
) -> list[Shown]:
    """Plays ``records`` (topic, key, value, timestamp) and returns what ``topic`` then has."""
    app = ps.KafkaStreams(builder.build(), {"application.id": "app", **config})
    serdes = topic_serdes(app.topology, app.config, topic)
    with TopologyTestDriver(app.topology, {"application.id": "app", **config}) as driver:
        for name in dict.fromkeys(name for name, *_ in records):
            driver.create_input_topic(name, TEXT, TEXT)
        for name, key, value, timestamp in records:
            driver.pipe(name, key.encode(), None if value is None else value.encode(), timestamp)
        found = driver.create_output_topic(topic, BYTES, BYTES).read_records_to_list()
    assert found, f"nothing was written to {topic}"
    rows = [
        Shown(
            None if it.key is None else serdes.key.deserialize(it.key),
            None if it.value is None else serdes.value.deserialize(it.value),
        )
        for it in found
    ]
    for row in rows:
        to_json([row.key, row.value])
    return rows


def test_topics_of_users_and_repartition_topics() -> None:
    builder = ps.StreamsBuilder()
    counts = (
        builder.stream("in", CONSUMED)
        .group_by(lambda _, v: v, ps.Grouped.with_(TEXT, TEXT))
        .count(ps.Materialized.as_("counts"))
    )
    counts.to_stream().to("out", ps.Produced.with_(TEXT, NUMBER))
    records = ("in", "k", "a", 1), ("in", "k", "a", 2)
    assert shown(builder, "app-counts-repartition", *records)[0] == Shown("a", "a")
    assert shown(builder, "out", *records)[-1] == Shown("a", 2)
    assert shown(builder, "app-counts-changelog", *records)[-1] == Shown("a", 2)
    app = ps.KafkaStreams(builder.build(), {"application.id": "app"})
    assert topic_serdes(app.topology, app.config, "in").key.name == "string"
    with pytest.raises(ConfigError, match=r"neither reads nor writes topic 'ou' \(similar: out\): its topics are app-"):
        topic_serdes(app.topology, app.config, "ou")
    app = ps.KafkaStreams(
        builder.build(), {"application.id": "app", "errors.dead.letter.queue.topic.name": "app-letters"}
    )
    with pytest.raises(ConfigError, match="'penstock dlq show app-letters --app …' decodes them"):
        topic_serdes(app.topology, app.config, "app-letters")


def test_updates_of_a_table_on_their_way_have_both_values() -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("in", CONSUMED)
    table.group_by(lambda k, v: (v, v), ps.Grouped.with_(TEXT, TEXT)).count(ps.Materialized.as_("n"))
    found = shown(builder, "app-n-repartition", ("in", "k", "a", 1), ("in", "k", "b", 2))
    assert found == [Shown("a", ("a", None)), Shown("a", (None, "a")), Shown("b", ("b", None))]


def test_changelogs_of_windows_and_sessions_have_windowed_keys() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", CONSUMED).group_by_key(ps.Grouped.with_(TEXT, TEXT))
    grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count(ps.Materialized.as_("windows"))
    grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(5)).count(ps.Materialized.as_("sessions"))
    records = ("in", "k", "a", 12), ("in", "k", "a", 14)
    assert shown(builder, "app-windows-changelog", *records)[-1] == Shown(ps.Windowed("k", ps.Window(10, 20)), 2)
    assert shown(builder, "app-sessions-changelog", *records)[-1] == Shown(ps.Windowed("k", ps.Window(12, 14)), 2)


def test_changelogs_of_a_join_of_streams() -> None:
    builder = ps.StreamsBuilder()
    other = builder.stream("other", CONSUMED)
    window = ps.JoinWindows.of_time_difference_with_no_grace(5)
    builder.stream("in", CONSUMED).left_join(
        other, lambda a, b: f"{a}{b}", window, ps.StreamJoined.with_(TEXT, TEXT, TEXT).with_store_name("j")
    )
    app = ps.KafkaStreams(builder.build(), {"application.id": "app"})
    records = ("in", "k", "a", 12), ("in", "x", "b", 30)
    changelogs = sorted(
        topic for sub in app.topology.subtopologies for store in sub.stores for topic in [f"app-{store.name}-changelog"]
    )
    left = next(topic for topic in changelogs if "this" in topic)
    assert shown(builder, left, *records)[0].key == {"key": "k", "window": ps.Window(12, 22), "sequence": 1}
    shared = next(topic for topic in changelogs if "shared" in topic)
    assert shown(builder, shared, *records)[0] == Shown({"key": "k", "side": "left", "time": 12}, ["a"])


def test_a_suppression_buffer_has_updates_that_wait() -> None:
    builder = ps.StreamsBuilder()
    counts = builder.table("in", CONSUMED).suppress(
        ps.Suppressed.until_time_limit(100, ps.BufferConfig.unbounded()).with_name("wait")
    )
    counts.to_stream().to("out", ps.Produced.with_(TEXT, TEXT))
    (topic,) = [
        f"app-{store.name}-changelog"
        for store in builder.build().store_builders.values()
        if store.kind == "suppression buffer"
    ]
    found = shown(builder, topic, ("in", "k", "a", 1))[0]
    assert (found.key, found.value["new"], found.value["old"], found.value["time"]) == ("k", "a", None, 1)


def test_the_topics_and_the_store_of_a_join_by_foreign_key() -> None:
    builder = ps.StreamsBuilder()
    left = builder.table("in", CONSUMED)
    right = builder.table("other", CONSUMED)
    left.join(
        right, lambda value: value, lambda a, b: f"{a}{b}", ps.TableJoined.as_("fk"),
        ps.Materialized.as_("joined").with_key_serde(TEXT).with_value_serde(TEXT),
    )  # fmt: skip
    topology = builder.build()
    records = ("other", "f", "right", 1), ("in", "k", "f", 2)
    names = sorted(f"app-{name}" for name in topology.repartition_topics)
    registration = next(name for name in names if "registration" in name)
    response = next(name for name in names if "response" in name)
    subscribed = shown(builder, registration, *records)[0]
    assert (subscribed.key, subscribed.value["primary_key"]) == ("f", "k")
    assert subscribed.value["instruction"] == "answer if there"
    answered = shown(builder, response, *records)[0]
    assert (answered.key, answered.value["value"], answered.value["hash"]) == ("k", "right", subscribed.value["hash"])
    stores = topology.store_builders.values()
    store = next(f"app-{it.name}-changelog" for it in stores if isinstance(it, SubscriptionStoreBuilder))
    kept = shown(builder, store, *records)[0]
    assert kept.key == {"foreign_key": "f", "primary_key": "k"}


def test_a_store_of_deduplication_has_the_first_record_of_each_key() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", CONSUMED).deduplicate(10, deduplicated=ps.Deduplicated.as_("seen")).to(
        "out", ps.Produced.with_(TEXT, TEXT)
    )
    found = shown(builder, "app-seen-changelog", ("in", "k", "a", 12))[0]
    assert found.key.key == "k"
    assert (found.value["timestamp"], found.value["topic"]) == (12, "in")


def test_a_source_with_a_pattern_reads_topics_that_it_does_not_name() -> None:
    builder = ps.StreamsBuilder()
    builder.stream(re.compile("clicks-.*"), CONSUMED).to("out", ps.Produced.with_(TEXT, TEXT))
    app = ps.KafkaStreams(builder.build(), {"application.id": "app"})
    assert topic_serdes(app.topology, app.config, "clicks-eu").value.name == "string"
