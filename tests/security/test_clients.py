"""Security settings reach every client: all that an application asks of Kafka, at a broker that demands them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.binding import binding
from penstock.kafka.broker_ends import BrokerEnds
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from tests.security.broker import SecuredBroker
from tests.security.certificates import KEY_PASSWORD
from tests.waiting import eventually

T = TypeVar("T")


def all_is_done(clients: ConfluentClients, topic: str) -> None:
    """Lets each kind of client do its work: topics, records, offsets, a membership in the group."""
    here = TopicPartition(topic, 0)
    clients.try_out()
    admin = clients.admin()
    admin.reach()
    admin.create_topics([NewTopic(topic, 1)])
    with closing(clients.producer()) as producer:
        producer.send(topic, b"k", b"v", 1)
        assert producer.flush(60)
    with closing(clients.consumer()) as consumer:
        consumer.assign({here: BEGINNING})
        assert take(lambda: [value for batch in consumer.poll(10, 0.2) for value in batch.values]) == [b"v"]
    ends = BrokerEnds(clients.bootstrap_servers, clients.consumer_overrides)
    ends.ask([here])
    assert take(ends.take) == {here: 1}, "the watch of partitions that give nothing asks by a client of its own"
    with closing(clients.group_member("member")) as member:
        assignments: list[object] = []
        member.subscribe([topic], assignments.append)

        def has_assignment() -> list[object]:
            member.poll(0.2)
            return assignments

        take(has_assignment)
        assert assignments == [frozenset({here})]
        member.commit({here: CommittedOffset(1)})
    assert admin.committed(clients.group)[here].offset == 1


def take(ask: Callable[[], T]) -> T:
    """Returns the first answer that is not empty."""
    found: list[T] = []

    def answered() -> bool:
        found[:] = [ask()]
        return bool(found[0])

    eventually(answered, "an answer that is not empty", look_each_s=0.0)
    return found[0]


@pytest.mark.parametrize(
    ("place", "form"),
    [
        ("scram", "compiled"),
        ("password", "compiled"),
        ("tls", "compiled"),
        ("tls", "confluent"),
        ("mutual", "compiled"),
        ("oauth", "compiled"),
    ],
)
def test_every_client_comes_in_by_settings_that_are_written_once(
    place: str, form: str, secured: SecuredBroker, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "confluent":
        for module in ("fetcher", "producer"):
            monkeypatch.setattr(f"penstock.kafka.{module}.binding", lambda: None)
    elif binding() is None:
        pytest.skip("penstock's binding to librdkafka was not built here")
    name = topic_name(place)
    config = getattr(secured, place).config(name)
    all_is_done(ConfluentClients.of(StreamsConfig.of(config)), name)


def test_a_key_may_be_encrypted_and_keys_and_certificates_may_be_given_as_text(secured: SecuredBroker) -> None:
    text = {
        "ssl__ca__location": None, "ssl__certificate__location": None, "ssl__key__location": None,
        "ssl__ca__pem": secured.authority.certificate.read_text(),
        "ssl__certificate__pem": secured.client.certificate.read_text(),
        "ssl__key__pem": secured.client.encrypted_key.read_text(),
        "ssl__key__password": KEY_PASSWORD,
    }  # fmt: skip
    for entries in (
        text,
        {"ssl__key__location": str(secured.client.encrypted_key), "ssl__key__password": KEY_PASSWORD},
    ):
        clients = ConfluentClients.of(StreamsConfig.of(secured.mutual.config(**entries)))
        clients.try_out()
        clients.admin().reach()
