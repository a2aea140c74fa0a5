"""Dead letters of a real broker, as the page shows and replays them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.dead_letters.notes import notes_topic
from penstock.cluster.dead_letters.reading import all_letters
from penstock.cluster.dead_letters.requested_replay import replayed
from penstock.cluster.dead_letters.shown_letters import (
    letter_source,
    origins_of,
    read_letters,
    serdes_of_topics,
    shown_letters,
)
from penstock.cluster.letter_side import ReplayRequest
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.cluster.dead_letters.making import error_headers
from tests.kafka.stable import until_stable
from tests.waiting import PATIENCE_S

TEXT = ps.Serdes.string()


def test_letters_are_shown_and_each_is_replayed_once(
    broker: str, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MOST_S", "DECODE_S"):  # after which a read ends with what it has
        monkeypatch.setattr(f"penstock.cluster.dead_letters.shown_letters.{limit}", PATIENCE_S)
    dlq, source = topic_name("dlq"), topic_name("source")
    builder = ps.StreamsBuilder()
    builder.stream(source, ps.Consumed.with_(TEXT, TEXT)).to(topic_name("out"), ps.Produced.with_(TEXT, TEXT))
    entries = {"application.id": dlq, "bootstrap.servers": broker, "errors.dead.letter.queue.topic.name": dlq}
    spec = ApplicationSpec(builder.build(), StreamsConfig.of(entries))
    found = letter_source(spec)
    assert found.topic == dlq
    clients = ConfluentClients(broker, "test", {"isolation.level": "read_committed"})
    clients.admin().create_topics([NewTopic(dlq, 2), NewTopic(source, 4)])
    with closing(clients.producer()) as producer:
        for number in range(10):
            headers = [("number", b"%d" % number), *error_headers(source, number % 4, number)]
            producer.send(dlq, b"k", b"%d" % number, 1000 + number, headers, number % 2)
        assert producer.flush(60)

    read = read_letters(found.reading, dlq, 4)
    shown = shown_letters(dlq, read, serdes_of_topics(spec, origins_of(read.letters)))
    assert [each.value and each.value.value for each in shown.letters] == ["9", "8", "7", "6"]
    assert [each.origin.offset for each in shown.letters] == [9, 8, 7, 6]
    assert replayed(found.writing, dlq, ReplayRequest(places=("0@1", "1@0"))).written == 2
    rest = replayed(found.writing, dlq, ReplayRequest(exceptions=("ValueError",)))
    assert (rest.selected, rest.written) == (10, 8)
    until_stable(
        clients, [*(TopicPartition(source, number) for number in range(4)), TopicPartition(notes_topic(dlq), 0)]
    )
    written = sorted(letter.value or b"" for letter in all_letters(clients, source).read("", lambda _: None))
    assert written == [b"%d" % number for number in range(10)]
    (one,) = read_letters(found.reading, dlq, 1, (1, 4)).letters
    assert (one.kept.timestamp, len(one.replays)) == (1009, 1)
