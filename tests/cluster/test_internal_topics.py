"""Internal topics: counts, configurations, and messages about topics that are missing or do not fit."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, InternalTopicError, MissingTopicError, TopologyError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.state.builders import StoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.windowed.window_store import WindowStoreBuilder
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import RepartitionTopic, SinkNode, SourceNode, Subtopology, Topology

COUNTS: StoreBuilder[str, int] = TimestampedKeyValueStoreBuilder("counts", topic_config={"segment.ms": "7"})


def config(**entries: object) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "app", **entries})


def source(*topics: str, internal: bool = False) -> SourceNode:
    return SourceNode(f"from-{topics[0]}", topics, internal=internal)


def sink(topic: str, parent: SourceNode, internal: bool = False) -> SinkNode:
    return SinkNode(f"to-{topic}", (parent.name,), topic, internal=internal)


def chain(*hops: str, repartition: Mapping[str, int | None], groups: Iterable[Iterable[str]] = ()) -> Topology:
    """Returns sub-topologies that each read one topic and write the next; the last one counts."""
    subs = []
    for number, (read, write) in enumerate(itertools.pairwise(hops)):
        node = source(*read.split("+"), internal=read in repartition)
        last = number == len(hops) - 2
        subs.append(Subtopology(number, (node, sink(write, node, write in repartition)), (COUNTS,) if last else ()))
    return Topology(
        tuple(subs),
        {name: RepartitionTopic(name, count) for name, count in repartition.items()},
        tuple(frozenset(group) for group in groups),
    )


WORD_COUNT = chain("lines", "words-repartition", "out", repartition={"words-repartition": None})


def test_an_absent_topic_for_dead_letters_is_an_error_that_names_it_and_the_command() -> None:
    letters = {"errors.dead.letter.queue.topic.name": "letters"}
    create = "penstock topic create letters"
    with pytest.raises(MissingTopicError, match=rf"'letters' \(for dead letters\)[\s\S]*{create}"):
        plan_topics(WORD_COUNT, config(**letters), {"lines": 3, "out": 1})
    assert plan_topics(WORD_COUNT, config(**letters), {"lines": 3, "out": 1, "letters": 1}).tasks


def test_word_count_has_a_repartition_topic_and_a_changelog_with_as_many_partitions_as_the_source() -> None:
    plan = plan_topics(WORD_COUNT, config(), {"lines": 3, "out": 1})
    assert {topic.name: topic.partitions for topic in plan.internal} == {
        "app-words-repartition": 3,
        "app-counts-changelog": 3,
    }
    assert plan.tasks.topics == ("app-words-repartition", "lines")
    assert plan.tasks.repartition_topics == {"app-words-repartition"}
    assert plan.tasks.stateful == {1}
    assert plan.tasks.partitions[TaskId(1, 2)] == {TopicPartition("app-words-repartition", 2)}


def test_internal_topics_are_configured_as_kafka_streams_does_it() -> None:
    plan = plan_topics(WORD_COUNT, config(), {"lines": 3, "out": 1})
    repartition, changelog = plan.internal
    assert repartition.config == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
        "message.timestamp.type": "CreateTime",
    }
    assert changelog.config == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime", "segment.ms": "7"}
    assert repartition.replication_factor == changelog.replication_factor == -1


def test_topic_entries_go_to_every_internal_topic_and_a_stores_own_go_last() -> None:
    entries = {"topic.segment.ms": 5, "topic.retention.ms": 9, "replication.factor": 3}
    repartition, changelog = plan_topics(WORD_COUNT, config(**entries), {"lines": 3, "out": 1}).internal
    assert (repartition.config["segment.ms"], repartition.config["retention.ms"]) == ("5", "9")
    assert changelog.config["segment.ms"] == "7"
    assert repartition.replication_factor == 3


WINDOWS: WindowStoreBuilder[str, int] = WindowStoreBuilder("windows", retention_ms=3_600_000, window_size_ms=10)


def windowed(store: StoreBuilder[str, int]) -> Topology:
    return Topology((Subtopology(0, (source("lines"),), (store,)),), {}, ())


def test_the_changelog_of_a_window_store_keeps_what_the_store_keeps_and_a_day_more() -> None:
    (changelog,) = plan_topics(windowed(WINDOWS), config(), {"lines": 3}).internal
    assert changelog.config == {
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": str(3_600_000 + 86_400_000),
    }
    entries = {"windowstore.changelog.additional.retention.ms": 5, "topic.retention.ms": 9}
    (changelog,) = plan_topics(windowed(WINDOWS), config(**entries), {"lines": 3}).internal
    assert changelog.config["retention.ms"] == "3600005"
    own = WINDOWS.with_logging_enabled({"retention.ms": "7"})
    (changelog,) = plan_topics(windowed(own), config(**entries), {"lines": 3}).internal
    assert changelog.config["retention.ms"] == "7"


def test_a_changelog_that_is_not_compacted_is_not_taken_for_a_repartition_topic() -> None:
    duplicates = replace(WINDOWS, retain_duplicates=True)
    (changelog,) = plan_topics(windowed(duplicates), config(), {"lines": 3}).internal
    assert changelog.config["cleanup.policy"] == "delete"
    with pytest.raises(InternalTopicError, match="has 2 partitions, but the topology needs 3") as error:
        plan_topics(windowed(duplicates), config(), {"lines": 3, "app-windows-changelog": 2})
    assert "repartition(" not in str(error.value)


def test_counts_travel_along_a_chain_and_stop_at_a_number_of_the_user() -> None:
    topology = chain("in", "a", "b", "c", "out", repartition={"c": None, "b": 5, "a": None})
    plan = plan_topics(topology, config(), {"in": 2, "out": 1})
    assert {topic.name: topic.partitions for topic in plan.internal} == {
        "app-a": 2,
        "app-b": 5,
        "app-c": 5,
        "app-counts-changelog": 5,
    }


def test_a_repartition_topic_takes_the_largest_count_of_its_sources() -> None:
    topology = chain("x+y", "r", "out", repartition={"r": None})
    assert plan_topics(topology, config(), {"x": 2, "y": 7, "out": 1}).internal[0].partitions == 7


def test_joined_external_topics_must_have_equally_many_partitions() -> None:
    topology = chain("x+y", "out", repartition={}, groups=[("x", "y")])
    with pytest.raises(TopologyError, match="equally many partitions: 'x' has 2, 'y' has 3"):
        plan_topics(topology, config(), {"x": 2, "y": 3, "out": 1})


def test_a_repartition_topic_adopts_the_count_of_the_external_topic_it_is_joined_with() -> None:
    first = source("in")
    joined = (source("r", internal=True), source("table"))
    topology = Topology(
        (Subtopology(0, (first, sink("r", first, internal=True))), Subtopology(1, (*joined,))),
        {"r": RepartitionTopic("r")},
        (frozenset({"r", "table"}),),
    )
    assert plan_topics(topology, config(), {"in": 8, "table": 3}).internal[0].partitions == 3
    fixed = Topology(topology.subtopologies, {"r": RepartitionTopic("r", 4)}, topology.copartition_groups)
    with pytest.raises(TopologyError, match="do not agree: 'table' has 3, 'r' has 4"):
        plan_topics(fixed, config(), {"in": 8, "table": 3})


def test_a_missing_topic_is_named_with_its_use_and_how_to_create_it() -> None:
    with pytest.raises(MissingTopicError) as caught:
        plan_topics(WORD_COUNT, config(), {"out": 1})
    assert "'lines' (read)" in str(caught.value)
    assert "penstock topic create lines --partitions 4 --bootstrap-servers 127.0.0.1:9092" in str(caught.value)
    with pytest.raises(MissingTopicError, match=r"'lines' \(read\), 'out' \(written\)"):
        plan_topics(WORD_COUNT, config(), {})


class Topics:
    """The part of an Admin that creates topics."""

    def __init__(self, existing: Mapping[str, int], **configs: dict[str, str]) -> None:
        self.existing = dict(existing)
        self.configs = {name.replace("_", "-"): config for name, config in configs.items()}
        self.created: list[str] = []

    def topics(self) -> dict[str, int]:
        return dict(self.existing)

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        for topic in topics:
            self.created.append(topic.name)
            self.existing[topic.name] = topic.partitions

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {name: self.configs[name] for name in topics if name in self.configs}

    def delete_topics(self, names: Iterable[str]) -> None:
        raise AssertionError("nothing is deleted")

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        raise AssertionError("nothing is deleted")

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        return {}

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        raise AssertionError("nothing is committed")

    def group_members(self, group: str) -> int:
        return 0


@pytest.mark.parametrize("topic", ["lines", "out", "app-words-repartition", "app-counts-changelog"])
def test_a_topic_without_partitions_is_one_to_ask_for_again(topic: str) -> None:
    existing = {"lines": 2, "out": 1, "app-words-repartition": 2, "app-counts-changelog": 2, "foreign": 0}
    plan_topics(WORD_COUNT, config(), existing)
    with pytest.raises(BrokerUnreachableError, match=f"which partitions topic '{topic}' has; try again"):
        plan_topics(WORD_COUNT, config(), {**existing, topic: 0})


def test_only_what_is_missing_is_created() -> None:
    admin = Topics({"lines": 3, "out": 1, "app-counts-changelog": 3})
    ensure_topics(admin, partial(plan_topics, WORD_COUNT, config()))
    ensure_topics(admin, partial(plan_topics, WORD_COUNT, config()))
    assert admin.created == ["app-words-repartition"]


def test_an_internal_topic_of_the_wrong_size_is_refused() -> None:
    admin = Topics({"lines": 3, "out": 1, "app-counts-changelog": 4})
    with pytest.raises(InternalTopicError) as caught:
        ensure_topics(admin, partial(plan_topics, WORD_COUNT, config()))
    assert "'app-counts-changelog' has 4 partitions, but the topology needs 3" in str(caught.value)
    assert "with_number_of_partitions" not in str(caught.value)
    assert admin.created == []


def test_a_repartition_topic_that_would_have_to_grow_may_also_be_kept_as_it_is_by_a_number() -> None:
    existing = {"lines": 5, "out": 1, "app-words-repartition": 3, "app-counts-changelog": 3}
    with pytest.raises(InternalTopicError) as caught:
        plan_topics(WORD_COUNT, config(), existing)
    assert "'app-words-repartition' has 3 partitions, but the topology needs 5" in str(caught.value)
    assert "Repartitioned.with_number_of_partitions(3)" in str(caught.value)
    fixed = chain("lines", "words-repartition", "out", repartition={"words-repartition": 3})
    assert len(plan_topics(fixed, config(), existing).tasks.partitions) == 5 + 3


def warnings(
    topology: Topology, existing: Mapping[str, int], **configs: dict[str, str]
) -> Sequence[Mapping[str, object]]:
    """Returns the lines that are logged at the start about topics that exist already."""
    with capture_logs() as lines:
        ensure_topics(Topics({"lines": 3, "out": 1, **existing}, **configs), partial(plan_topics, topology, config()))
    return lines


def test_a_changelog_that_keeps_less_than_its_store_needs_now_is_warned_of_with_the_command_that_mends_it() -> None:
    there = {"app-windows-changelog": 3}
    had = {"cleanup.policy": "compact", "retention.ms": "3600000"}
    (line,) = warnings(windowed(WINDOWS), there, app_windows_changelog=had)
    needs = {"cleanup.policy": "compact,delete", "retention.ms": "90000000"}
    assert (line["log_level"], line["topic"], line["found"], line["needed"]) == (
        "warning", "app-windows-changelog", had, needs,
    )  # fmt: skip
    assert line["what_to_do"] == (
        "kafka-configs.sh --bootstrap-server <bootstrap.servers> --alter --entity-type topics --entity-name "
        "app-windows-changelog --add-config 'cleanup.policy=[compact,delete],retention.ms=90000000'"
    )


def test_an_internal_topic_that_keeps_too_little_is_warned_of_by_that_alone() -> None:
    (line,) = warnings(
        WORD_COUNT,
        {"app-words-repartition": 3, "app-counts-changelog": 3},
        app_words_repartition={"cleanup.policy": "delete", "retention.ms": "604800000"},
        app_counts_changelog={"cleanup.policy": "compact", "retention.ms": "604800000"},
    )
    assert (line["topic"], line["needed"]) == ("app-words-repartition", {"retention.ms": "-1"})


@pytest.mark.parametrize("retention", ["90000000", "90000001", "-1"])
def test_a_changelog_that_keeps_enough_is_not_warned_of(retention: str) -> None:
    enough = {"cleanup.policy": "delete,compact", "retention.ms": retention}
    assert warnings(windowed(WINDOWS), {"app-windows-changelog": 3}, app_windows_changelog=enough) == []


def test_of_a_topic_whose_settings_may_not_be_seen_nothing_is_reported() -> None:
    assert warnings(windowed(WINDOWS), {"app-windows-changelog": 3}) == []
