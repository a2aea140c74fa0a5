"""The program that is started after a user has created a topic finds the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from penstock.common.topics import NewTopic
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.topics import Topics


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
