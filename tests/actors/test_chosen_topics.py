"""Sinks whose topics a function chooses, under both guarantees: topics that there are not, and outages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId
from penstock.common.topics import NewTopic
from penstock.kafka.topic_lookup import CREATED_WITHIN_S
from penstock.testing.fake_producers import FakeProducer
from tests.actors.rig import STRING, Rig, settle, states

TASK = TaskId(0, 0)
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


def by_value(key: str, value: str, context: ps.RecordContext) -> str:
    return value


def last(topic: str, key: str, value: str, partitions: int) -> int:
    return partitions - 1


def routed(partitioner: Any = None, choose: Any = by_value) -> ps.Topology:
    builder = ps.StreamsBuilder()
    produced = ps.Produced.with_(STRING, STRING).with_name("route")
    if partitioner is not None:
        produced = produced.with_stream_partitioner(partitioner)
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).to(choose, produced)
    return builder.build()


@GUARANTEES
def test_a_chosen_topic_that_does_not_exist_is_reported_at_once_with_operator_record_and_remedy(
    tmp_path: Path, guarantee: str
) -> None:
    rig = Rig(tmp_path, routed(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "out", 1), ("b", "nowhere", 2))
    commits = len(rig.coordinator.requests)
    settle(loop)
    reported = loop.finished.result(timeout=0)
    assert reported is not None
    for part in (
        "'nowhere', which does not exist: create the topic",
        "operator route",
        "topic in, partition 0, offset 1",
    ):
        assert part in reported
    assert "key 'b'" in reported
    if guarantee == "exactly_once_v2":
        assert len(rig.coordinator.requests) == commits, "no transaction is tried again and again"


@GUARANTEES
def test_a_topic_is_looked_up_once_and_not_per_record(
    tmp_path: Path, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, routed(), processing_guarantee=guarantee)
    loop = rig.running()
    asked: list[str] = []
    producer: Any = loop._guarantee.producer
    look_up = producer.partitions

    def noted(topic: str) -> int:
        asked.append(topic)
        count: int = look_up(topic)
        return count

    monkeypatch.setattr(producer, "partitions", noted)
    rig.write("in", *(("a", "out", timestamp) for timestamp in range(50)))
    settle(loop)
    rig.commit(loop)
    assert len([record for record in rig.broker.records("out") if record.key]) == 50
    assert asked == ["out"]


@GUARANTEES
@pytest.mark.parametrize("partitioner", [None, last])
def test_a_topic_that_is_chosen_first_while_no_broker_answers_ends_nobody(
    tmp_path: Path, guarantee: str, partitioner: Any
) -> None:
    rigs: list[Rig] = []

    def choose(key: str, value: str, context: ps.RecordContext) -> str:
        if rigs:
            rigs.pop().broker.down = True  # it is away from the first record on
        return value

    rig = Rig(tmp_path, routed(partitioner, choose), processing_guarantee=guarantee)
    rig.clients.admin().create_topics([NewTopic("late", 1)])
    loop = rig.running()
    rigs.append(rig)
    rig.write("in", ("a", "late", 1))
    for _ in range(10):
        loop.step()
    assert rig.broker.down
    assert not loop.finished.done(), loop.finished.result()
    rig.broker.down = False
    for _ in range(3):
        rig.clock.now_ms += 10_000
        settle(loop)
    assert not loop.finished.done(), loop.finished.result()
    assert [record.key for record in rig.broker.records("late") if record.key] == [b"a"]


@GUARANTEES
@pytest.mark.parametrize("created", [True, False])
def test_sinks_to_unknown_topics_hold_the_loop_up_by_no_wait_of_their_own(
    tmp_path: Path, guarantee: str, created: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    produced = ps.Produced.with_(STRING, STRING).with_stream_partitioner(last)
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    topics = ["late-1", "late-2", "late-3"]
    for topic in topics:
        stream.to(topic, produced)
    rig = Rig(tmp_path, builder.build(), processing_guarantee=guarantee)

    def waits(producer: FakeProducer, topic: str) -> int:
        raise AssertionError(f"it waits for topic {topic}")

    with monkeypatch.context() as patch:
        patch.setattr(FakeProducer, "partitions", waits)
        loop = rig.loop()
        rig.assign(loop, 1, TASK)
        settle(loop)
        assert states(loop) == {TASK: TaskState.CREATED}, "the broker has time to create them"
        if created:
            rig.clients.admin().create_topics([NewTopic(topic, 2) for topic in topics])
        else:
            rig.clock.now_ms += round(CREATED_WITHIN_S * 1000)
        settle(loop)
        assert states(loop) == {TASK: TaskState.RUNNING}
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert loop.finished.done() == (not created), "the record reports a topic that is missing"
