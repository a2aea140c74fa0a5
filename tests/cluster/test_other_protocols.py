"""A group that a Kafka Streams in Java has just left, or is to enter next: members of another protocol keep each other
out. A consumer with another assignor stands for Java."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError

from penstock.cluster.client import control
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.group_tools import GroupTools
from tests.cluster.conftest import WordCount
from tests.cluster.static_members import static_member_for
from tests.waiting import PATIENCE_S, eventually


class OtherMember:
    """It shares out partitions by another protocol."""

    def __init__(self, broker: str, group: str, topic: str) -> None:
        self.joined = False
        self.refused = False
        self.client = Consumer(
            {
                "bootstrap.servers": broker,
                "group.id": group,
                "partition.assignment.strategy": "roundrobin",
                "session.timeout.ms": 45_000,  # it outlives a stop of this process
            }
        )
        self.client.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, client: Consumer, partitions: object) -> None:
        self.joined = True

    def poll(self) -> None:
        message = self.client.poll(0.1)
        error = None if message is None else message.error()
        self.refused = self.refused or (error is not None and error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL)

    def has_joined(self) -> bool:
        self.poll()
        return self.joined

    def is_refused(self) -> bool:
        self.poll()
        return self.refused


def test_a_start_waits_until_members_of_another_protocol_have_left(
    broker: str, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("lines")
    clients = ConfluentClients(broker, topic)
    clients.admin().create_topics([NewTopic(topic, 1)])
    other = OtherMember(broker, topic, topic)
    eventually(other.has_joined, "the other member")
    with static_member_for(clients, topic) as instance_id:
        eventually(lambda: instance_id.membership.waits_for is not None, "refused")
        reported = str(instance_id.membership.waits_for)
        assert reported.startswith(f"group {topic!r} has members of another protocol, most likely those of Kafka")
        assert f": rdkafka-{other.client.memberid().removeprefix('rdkafka-')} (client id rdkafka, host 127." in reported
        assert re.search(r"Waiting until they have left, which takes until \d\d:\d\d:\d\d UTC at the latest", reported)
        assert instance_id.failed.empty()
        other.client.close()
        assert instance_id.assigned.get(timeout=PATIENCE_S) == frozenset({TopicPartition(topic, 0)})
        assert instance_id.membership.waits_for is None
        assert instance_id.failed.empty()


@pytest.mark.long
def test_after_a_stop_another_protocol_is_kept_out_unless_the_application_has_left_the_group(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    tools = GroupTools(it.broker)
    with it.app() as app:
        app.wait_until_running(PATIENCE_S)
    (left_behind,) = tools.members(it.application_id)
    assert left_behind.instance_id is not None
    refused = OtherMember(it.broker, it.application_id, it.lines)
    eventually(refused.is_refused, "refused")
    refused.client.close()
    again = it.app()
    again.start()
    again.wait_until_running(PATIENCE_S)
    assert control.stop_application(it.application_id, 60, leave=True) is not None
    assert tools.members(it.application_id) == ()
    other = OtherMember(it.broker, it.application_id, it.lines)
    eventually(other.has_joined, "the other member")
    other.client.close()
    assert again.close()
