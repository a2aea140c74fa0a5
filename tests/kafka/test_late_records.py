"""A record that was given up and reaches the broker late: never behind what the same producer has sent since."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING, RecordProducer, UndeliveredError
from penstock.kafka.producer import ConfluentProducer, open_producer
from penstock.kafka.settings import producer_settings
from tests.faults.rig import kafka_behind_a_proxy, requests_in
from tests.waiting import eventually

PRODUCE = 0
LOG = TopicPartition("log", 0)
OVERRIDES = {"message.timeout.ms": 3000, "linger.ms": 0}


def confluent(address: str) -> RecordProducer:
    return ConfluentProducer(address, producer_settings(address, OVERRIDES))


def compiled(address: str) -> RecordProducer:
    return open_producer(address, OVERRIDES)


@pytest.mark.long
@pytest.mark.parametrize("make", [confluent, compiled])
def test_a_late_record_is_not_written_behind_later_ones(make: Callable[[str], RecordProducer], tmp_path: Path) -> None:
    with kafka_behind_a_proxy(tmp_path) as kafka:
        clients = ConfluentClients(kafka.proxy.address, "g")
        clients.admin().create_topics([NewTopic("log", 1)])
        with closing(make(kafka.proxy.address)) as producer:

            def send(value: bytes) -> None:
                producer.send("log", b"k", value, 1, None, 0)

            def is_given_up() -> bool:
                try:
                    producer.flush(0.1)
                except UndeliveredError:
                    return True
                return False

            send(b"4")
            assert producer.flush(60)
            sprung = kafka.proxy.trap(lambda piece: PRODUCE in list(requests_in(piece)), passes=False)
            send(b"5")
            eventually(is_given_up, "nobody took it")
            assert sprung.is_set(), "it is on its way"
            assert producer.give_up(5)
            for again in (b"5", b"6", b"7"):
                send(again)
            kafka.proxy.heal()  # what was held continues
            eventually(lambda: producer.flush(0.1), "what came later is written")
        with closing(clients.consumer()) as consumer:
            consumer.assign({LOG: BEGINNING})
            end, found = consumer.fetch_end_offsets([LOG])[LOG], list[bytes | None]()
            while consumer.position(LOG) < end:
                found += [value for batch in consumer.poll(100, 0.5) for value in batch.values]
    assert found in ([b"4", b"5", b"6", b"7"], [b"4", b"5", b"5", b"6", b"7"])
