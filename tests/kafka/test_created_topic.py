"""The program that is started after a user has created a topic finds the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from penstock.common.errors import StreamsError
from penstock.common.topics import NewTopic
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.topics import Topics
from tests.waiting import eventually


def test_the_creation_of_a_topic_ends_when_the_brokers_list_it(
    broker: str, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, led, looks = topic_name("created"), ConfluentAdmin._led, list[bool]()

    def late(self: ConfluentAdmin, names: Iterable[str]) -> bool:  # the broker hears of it from the controller later
        looks.append(led(self, names) and len(looks) >= 2)
        return looks[-1]

    monkeypatch.setattr(ConfluentAdmin, "_led", late)
    topics = Topics(broker)
    topics.create(NewTopic(topic, 2))
    assert looks[:2] == [False, False]
    assert looks[-1]
    assert topics.topics()[topic] == 2


def test_a_user_who_may_not_look_at_the_topic_does_not_wait_for_it(
    broker: str, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, listed = topic_name("unseen"), AdminClient.list_topics

    def refused(self: AdminClient, name: str | None = None, **more: Any) -> Any:
        """As of a broker that permits this user to create topics, and not to describe them."""
        if name is None:
            found = listed(self, **more)
            found.topics.pop(topic, None)
            return found
        return SimpleNamespace(
            topics={name: SimpleNamespace(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), partitions={})}
        )

    monkeypatch.setattr(AdminClient, "list_topics", refused)
    monkeypatch.setattr("penstock.kafka.admin._VISIBLE_TIMEOUT_S", 1e9)
    Topics(broker).create(NewTopic(topic, 1))
    monkeypatch.undo()
    eventually(lambda: Topics(broker).topics().get(topic) == 1, "the topic is there all the same")


def test_a_topic_that_no_broker_lists_is_an_error_that_says_that_it_exists(
    broker: str, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_name("late")
    monkeypatch.setattr(ConfluentAdmin, "_led", lambda *_: False)
    monkeypatch.setattr("penstock.kafka.admin._VISIBLE_TIMEOUT_S", 0.0)
    with pytest.raises(StreamsError, match=f"topics {topic} are created but not visible"):
        Topics(broker).create(NewTopic(topic, 1))
