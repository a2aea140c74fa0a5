"""A client that is refused learns at once why, and what to do."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError
from penstock.kafka.clients import ConfluentClients
from tests.security.broker import PASSWORD, SecuredBroker
from tests.waiting import eventually

LOGIN = "check sasl.mechanism, sasl.username and sasl.password"
OWN = "set ssl.certificate.location and ssl.key.location"
QUICKLY_S = 15.0  # on a busy machine too; 1.4 s on an idle one


def clients(config: dict[str, Any]) -> ConfluentClients:
    return ConfluentClients.of(StreamsConfig.of(config))


REFUSED = [
    pytest.param("scram", {"sasl__password": "wrong-secret"}, LOGIN, id="password"),
    pytest.param("scram", {"sasl__mechanism": "PLAIN"}, "mechanisms: SCRAM-SHA-256", id="mechanism"),
    pytest.param("tls", {"sasl__password": "wrong-secret"}, LOGIN, id="password behind TLS"),
    pytest.param("tls", {"ssl__ca__location": None}, "set ssl.ca.location to a PEM file", id="unknown authority"),
    pytest.param("mutual", {"ssl__certificate__location": None, "ssl__key__location": None}, OWN, id="no certificate"),
]


@pytest.mark.parametrize(("place", "wrong", "advice"), REFUSED)
def test_wrong_credentials_are_an_error_within_seconds_that_names_the_remedy(
    place: str, wrong: dict[str, Any], advice: str, secured: SecuredBroker
) -> None:
    demands = getattr(secured, place)
    begun = time.monotonic()
    with pytest.raises(KafkaRefusedError) as refused:
        clients(demands.config(**wrong)).admin().topics()
    assert time.monotonic() - begun < QUICKLY_S
    message = str(refused.value)
    assert f"the broker at {demands.address} refuses this client: " in message
    assert advice in message
    assert PASSWORD not in message
    assert "wrong-secret" not in message


def test_a_certificate_of_another_authority_is_refused_in_the_same_way(secured: SecuredBroker) -> None:
    stranger = secured.stranger
    config = secured.mutual.config(
        ssl__certificate__location=str(stranger.certificate), ssl__key__location=str(stranger.key)
    )
    with pytest.raises(KafkaRefusedError, match=OWN):
        clients(config).admin().topics()


def test_a_client_without_security_learns_that_the_port_is_open_and_may_expect_another_protocol(
    secured: SecuredBroker,
) -> None:
    config = {"application.id": "app", "bootstrap.servers": secured.scram.address}
    with pytest.raises(BrokerUnreachableError) as refused:
        clients(config).admin().reach()
    message = str(refused.value)
    assert f"A process listens at {secured.scram.address}" in message
    assert "another security.protocol than PLAINTEXT" in message


@pytest.mark.parametrize("client", ["consumer", "producer"])
def test_a_client_with_its_own_wrong_credentials_is_found_before_the_application_starts(
    client: str, secured: SecuredBroker
) -> None:
    config = secured.scram.config(**{f"{client}__sasl__password": "wrong-secret"})
    begun = time.monotonic()
    with pytest.raises(KafkaRefusedError, match=LOGIN):
        clients(config).try_out()
    assert time.monotonic() - begun < QUICKLY_S


def test_an_application_with_wrong_credentials_does_not_start(secured: SecuredBroker) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).to("copy")
    app = ps.KafkaStreams(builder.build(), secured.scram.config(sasl__password="wrong-secret"))
    with pytest.raises(KafkaRefusedError, match=LOGIN) as refused:
        app.start()
    assert "wrong-secret" not in str(refused.value)
    assert app.state() is ps.ApplicationState.CREATED


def test_a_repeated_question_is_answered_again(secured: SecuredBroker) -> None:
    admin = clients(secured.scram.config(sasl__password="wrong-secret")).admin()
    for ask in (admin.topics, admin.reach):
        with pytest.raises(KafkaRefusedError, match=LOGIN):
            ask()


def test_a_users_own_error_callback_hears_of_it_too(secured: SecuredBroker) -> None:
    heard: list[KafkaError] = []
    config = secured.scram.config(sasl__password="wrong-secret", admin__error_cb=heard.append)
    with pytest.raises(KafkaRefusedError):
        clients(config).admin().topics()
    # Another thread calls it, which may come later.
    eventually(lambda: KafkaError._AUTHENTICATION in [error.code() for error in heard], "the callback has heard of it")
