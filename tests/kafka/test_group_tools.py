"""The members of a group, and the removal of static members, on a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka import group_tools
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import GroupMember
from penstock.kafka.group_members import Member, instance_id_of
from penstock.kafka.group_tools import GroupTools
from tests.waiting import PATIENCE_S

Eventually = Callable[[Callable[[], bool], str], None]


@pytest.fixture
def tools(broker: str) -> GroupTools:
    return GroupTools(broker)


def joined_member(broker: str, group: str, topic: str, eventually: Eventually) -> GroupMember:
    """Returns a member that has joined."""
    member = ConfluentClients(broker, group).group_member("member")
    reported: list[object] = []
    member.subscribe([topic], reported.append)

    def joined() -> bool:
        member.poll(0.05)
        return bool(reported)

    eventually(joined, "the member has joined")
    return member


def test_a_static_member_whose_process_is_gone_is_removed_at_once_and_then_offsets_can_be_committed(
    broker: str, tools: GroupTools, topic_name: Callable[[str], str], eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(group_tools, "_BACK_S", 0.0)
    topic = group = topic_name("left")
    tools.create_topics([NewTopic(topic, 1)])
    assert tools.members(group) == ()
    tools.free_static_members(group)  # there is none
    assert group not in tools.groups()
    joined_member(broker, group, topic, eventually).close()
    [member] = tools.members(group)
    assert (member.instance_id, str(member)) == ("member", "member of 127.0.0.1")
    assert group in tools.groups()
    offsets = {TopicPartition(topic, 0): CommittedOffset(0)}
    with pytest.raises(ApplicationStateError, match="has members"):
        tools.commit(group, offsets)
    tools.free_static_members(group)
    assert tools.members(group) == ()
    tools.commit(group, offsets)


def test_a_member_that_lives_comes_back_and_that_is_noticed(
    broker: str, tools: GroupTools, topic_name: Callable[[str], str], eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(group_tools, "_BACK_S", 60.0)  # it is seen as soon as it is back, however busy the machine
    topic = group = topic_name("lives")
    tools.create_topics([NewTopic(topic, 1)])
    member = joined_member(broker, group, topic, eventually)
    free, freed, ended = tools.free_static_member, threading.Event(), threading.Event()

    def free_one(group: str, instance_id: str) -> None:
        try:
            free(group, instance_id)
        finally:
            freed.set()

    monkeypatch.setattr(tools, "free_static_member", free_one)

    def live() -> None:
        nonlocal member
        while not ended.is_set():
            try:
                member.poll(0.05)
            except ApplicationStateError:  # it sent a heartbeat while the tool had its id; so its process begins again
                assert freed.wait(PATIENCE_S)
                member.close()
                member = joined_member(broker, group, topic, eventually)

    living = threading.Thread(target=live)
    living.start()
    try:
        with pytest.raises(ApplicationStateError, match=r"has joined again, so it lives: member of 127\.0\.0\.1"):
            tools.free_static_members(group)
    finally:
        ended.set()
        living.join()
        member.close()


def test_a_member_that_is_back_before_the_first_look_does_not_keep_the_removal_waiting(
    broker: str, tools: GroupTools, topic_name: Callable[[str], str], eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    topic = group = topic_name("back")
    tools.create_topics([NewTopic(topic, 1)])
    joined_member(broker, group, topic, eventually).close()
    look, back = tools.members, list[GroupMember]()

    def members(group: str) -> tuple[Member, ...]:
        if not (seen := look(group)):
            back.append(joined_member(broker, group, topic, eventually))  # before the tool looks
            return look(group)
        return seen

    monkeypatch.setattr(tools, "members", members)
    tools.free_static_member(group, "member")
    assert back, "it was removed"
    assert [each.instance_id for each in look(group)] == ["member"]
    back[0].close()


def test_a_tool_that_has_just_lost_its_place_waits_until_the_member_is_gone(
    broker: str, tools: GroupTools, topic_name: Callable[[str], str], eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    topic = group = topic_name("placeless")
    tools.create_topics([NewTopic(topic, 1)])
    joined_member(broker, group, topic, eventually).close()

    class Placeless(Consumer):
        def memberid(self) -> Any:
            return None

    monkeypatch.setattr(group_tools, "Consumer", Placeless)
    tools.free_static_member(group, "member")
    assert tools.members(group) == ()


def test_a_member_without_a_static_id_can_only_leave_by_itself(
    broker: str, tools: GroupTools, topic_name: Callable[[str], str], eventually: Eventually
) -> None:
    topic = group = topic_name("dynamic")
    tools.create_topics([NewTopic(topic, 1)])
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    eventually(joined, "the member has joined")
    with pytest.raises(
        ApplicationStateError, match=r"only their own processes can remove: rdkafka-.* of 127\.0\.0\.1\. Stop"
    ):
        tools.free_static_members(group)
    consumer.close()
    assert tools.members(group) == ()


@pytest.mark.parametrize(
    ("member_id", "client_id", "instance_id"),
    [
        ("app-1-14401d05-998b-4c02-806e-7f460ccddf56", "rdkafka", "app-1"),
        ("rdkafka-14401d05-998b-4c02-806e-7f460ccddf56", "rdkafka", None),
        ("14401d05-998b-4c02-806e-7f460ccddf56", "rdkafka", None),
        ("", "", None),
    ],
)
def test_the_id_of_a_static_member_is_the_prefix_of_its_member_id(
    member_id: str, client_id: str, instance_id: str | None
) -> None:
    assert instance_id_of(member_id, client_id) == instance_id
