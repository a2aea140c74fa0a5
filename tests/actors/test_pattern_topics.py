"""A stream by pattern in the stream loop: a task takes up a topic that the coordinator adds, on its old state."""

from __future__ import annotations

import re
from pathlib import Path

import penstock as ps
from penstock.cluster.coordinator_shell.membership import FINAL
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients
from tests.actors.rig import LONG, STRING, Rig, settle
from tests.cluster.static_members import static_member_for

TASK = TaskId(0, 0)
FIRST, LATER = TopicPartition("orders-a", 0), TopicPartition("orders-b", 0)


def counting_orders(state_dir: Path) -> Rig:
    builder = ps.StreamsBuilder()
    (
        builder.stream(re.compile("orders-.*"), ps.Consumed.with_(STRING, STRING))
        .group_by_key()
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("out", ps.Produced.with_(STRING, LONG))
    )
    rig = Rig(state_dir, builder.build())
    rig.clients.admin().create_topics([NewTopic("orders-a", 1)])
    return rig


def test_a_topic_that_appears_later_is_read_from_its_beginning_into_the_state_there_is(tmp_path: Path) -> None:
    rig = counting_orders(tmp_path)
    loop = rig.loop()
    rig.write("orders-a", ("k", "1", 1), ("k", "2", 2))
    loop.assign(1, {TASK: frozenset({FIRST})})
    settle(loop)
    rig.clients.admin().create_topics([NewTopic("orders-b", 1)])
    rig.write("orders-b", ("k", "3", 3))
    again = loop.assign(2, {TASK: frozenset({FIRST, LATER})})
    settle(loop)
    assert again.done()
    assert again.exception() is None
    rig.clock.now_ms += 2_000
    settle(loop)
    assert rig.counts()[-1] == ("k", 3)
    assert (rig.committed(topic="orders-a"), rig.committed(topic="orders-b")) == (2, 1)


def test_the_group_assigns_the_new_topic_to_the_same_static_member() -> None:
    clients = FakeClients("app", FakeBroker())
    clients.admin().create_topics([NewTopic("orders-a", 1), NewTopic("orders-b", 1)])
    with static_member_for(clients, "orders-a") as static_member:
        assert static_member.assigned.get(timeout=60) == frozenset({FIRST})
        static_member.membership.subscribe(["orders-a", "orders-b"])
        assert static_member.assigned.get(timeout=60) == frozenset({FIRST, LATER})
        assert static_member.failed.empty()


def test_a_topic_that_is_gone_is_not_read_any_more_and_the_state_there_is_stays(tmp_path: Path) -> None:
    rig = counting_orders(tmp_path)
    rig.clients.admin().create_topics([NewTopic("orders-b", 1)])
    loop = rig.loop()
    rig.write("orders-a", ("k", "1", 1))
    rig.write("orders-b", ("k", "2", 2))
    loop.assign(1, {TASK: frozenset({FIRST, LATER})})
    settle(loop)
    rig.clock.now_ms += 2_000
    settle(loop)
    rig.clients.admin().delete_topics(["orders-b"])
    again = loop.assign(2, {TASK: frozenset({FIRST})})
    rig.write("orders-a", ("k", "3", 3))
    settle(loop)
    assert again.done()
    rig.clock.now_ms += 2_000
    settle(loop)
    assert rig.counts()[-1] == ("k", 3)
    assert rig.committed(topic="orders-a") == 2


def test_a_static_member_without_topics_waits_for_one() -> None:
    clients = FakeClients("app", FakeBroker())
    clients.admin().create_topics([NewTopic("orders-a", 1)])
    with static_member_for(clients, "orders-a") as static_member:
        assert static_member.assigned.get(timeout=60) == frozenset({FIRST})
        static_member.membership.subscribe([])
        assert static_member.assigned.get(timeout=60) == frozenset()
        refused = static_member.membership.commit({FIRST: CommittedOffset(1)}).exception(60)
        assert isinstance(refused, StreamsError)
        assert not isinstance(refused, FINAL), "it may be asked for again"
        static_member.membership.subscribe(["orders-a"])
        assert static_member.assigned.get(timeout=60) == frozenset({FIRST})
        static_member.membership.commit({FIRST: CommittedOffset(1)}).result(60)
        assert static_member.failed.empty()
