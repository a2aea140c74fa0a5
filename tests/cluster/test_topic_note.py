"""The note of internal topics while an application runs: it is beside the source topics of the present."""

from __future__ import annotations

import asyncio
import re

from structlog.testing import capture_logs

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.known_topics import topics_group
from penstock.kafka.internal_topics.topic_note import TopicNote, write_note
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics

HOUR_S = 3600.0
TEXT = ps.Serdes.string()


class Play:
    """An application that counts the records of the topics ``a1``, ``a2`` and so on."""

    def __init__(self) -> None:
        builder = ps.StreamsBuilder()
        builder.stream(re.compile("a[0-9]"), ps.Consumed.with_(TEXT, TEXT)).group_by_key().count(
            ps.Materialized.as_("counts")
        )
        self._topology = builder.build()
        self.broker = FakeBroker()
        for topic in ("a1", "a2"):
            self.broker.create_topic(NewTopic(topic, 1))
        self.clients = FakeClients("app", self.broker)
        self.now_s = 0.0
        first = self.plan()
        self.tasks = first.tasks
        write_note("app", first.internal, first.tasks, self.clients)
        self.note = TopicNote("app", first.internal, lambda: self.tasks, self.clients, self.clock)

    def clock(self) -> float:
        return self.now_s

    def plan(self) -> TopicPlan:
        return plan_topics(self._topology, StreamsConfig.of({"application.id": "app"}), self.clients.admin().topics())

    def look(self) -> None:
        asyncio.run(self.note.look())

    @property
    def noted(self) -> dict[str, int]:
        """For each source topic: the number of internal topics that are noted beside it."""
        offsets = self.clients.admin().committed(topics_group("app"))
        return {at.topic: len(offset.metadata.split()) for at, offset in offsets.items()}

    def delete(self, topic: str) -> None:
        """Deletes ``topic`` as Kafka does: with its offsets in all groups."""
        self.broker.delete_topic(topic)
        self.forget(topic)
        self.tasks = self.tasks.without({topic})

    def forget(self, topic: str) -> None:
        """Lets the note beside ``topic`` expire."""
        with self.broker.changed:
            del self.broker.group(topics_group("app")).offsets[TopicPartition(topic, 0)]


def test_a_topic_that_comes_and_one_that_goes_change_the_note_at_once() -> None:
    play = Play()
    assert play.noted == {"a1": 1, "a2": 1}
    play.broker.create_topic(NewTopic("a3", 1))
    play.tasks = play.plan().tasks
    play.look()
    assert play.noted == {"a1": 1, "a2": 1, "a3": 1}
    play.delete("a1")
    with capture_logs() as lines:
        play.look()
        play.now_s += HOUR_S
        play.look()
    assert play.noted == {"a2": 1, "a3": 1}
    assert lines == []


def test_the_note_is_written_again_each_hour() -> None:
    play = Play()
    play.forget("a1")
    play.now_s += HOUR_S - 1
    play.look()
    assert play.noted == {"a2": 1}
    play.now_s += 1
    play.look()
    assert play.noted == {"a1": 1, "a2": 1}


def test_a_note_that_no_broker_takes_is_written_after_its_return_and_reported_once() -> None:
    play = Play()
    play.forget("a1")
    play.now_s += HOUR_S
    play.broker.down = True
    with capture_logs() as lines:
        play.look()
        play.look()
    assert [line["event"] for line in lines] == ["note of internal topics not written to Kafka, retrying"]
    play.broker.down = False
    play.look()
    assert play.noted == {"a1": 1, "a2": 1}
