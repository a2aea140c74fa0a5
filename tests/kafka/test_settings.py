"""Settings of the clients that users may make, those that they may not, and the error of an unreachable broker."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

import penstock as ps
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, ConfigError, KafkaRefusedError, StreamsError
from penstock.kafka import settings
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.committed import committed_offsets
from penstock.kafka.consumer import ConfluentConsumer
from penstock.kafka.fetcher import Event
from penstock.kafka.settings import (
    MISSING_TOPIC,
    RETRIABLE,
    UNREACHABLE,
    as_streams_error,
    consumer_settings,
    member_settings,
    producer_settings,
    transactional_settings,
)
from penstock.kafka.transactions import ConfluentTransactionalProducer, open_transactional_producer
from tests.ports import closed_port
from tests.waiting import own_time


def clients(**entries: object) -> ConfluentClients:
    settings = {key.replace("__", "."): value for key, value in entries.items()}
    return ConfluentClients.of(StreamsConfig.of({"application.id": "app", **settings}))


@pytest.mark.parametrize(
    "key", ["consumer__group__id", "consumer__enable__auto__commit", "producer__acks", "producer__enable__idempotence"]
)
def test_keys_that_penstock_must_set_itself_cannot_be_set(key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace("__", ".")):
        clients(**{key: "x"})


def reading() -> ps.Topology:
    builder = ps.StreamsBuilder()
    builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).to("copy")
    return builder.build()


def refusal(key: str, value: object) -> str:
    with pytest.raises(ConfigError) as refused:
        KafkaStreams(reading(), {"application.id": "app", key: value})
    return str(refused.value)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("consumer.fetch.max.bytez", "consumer.fetch.max.bytes"),
        ("producer.compresion.type", "producer.compression.type"),
        ("admin.ssl.ca.locations", "admin.ssl.ca.location"),
    ],
)
def test_a_client_setting_that_librdkafka_does_not_know_is_refused_at_once_and_the_nearest_named(
    key: str, near: str
) -> None:
    assert refusal(key, 1) == f"unknown configuration key {key!r}; did you mean {near!r}?"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("consumer.fetch.max.bytes", -5, "outside allowed range"),
        ("consumer.fetch.max.bytes", "much", "Invalid value"),
        ("consumer.fetch.max.bytes", True, "Invalid value"),
        ("consumer.fetch.max.bytes", 1.5, "a whole number is expected"),
        ("consumer.fetch.max.bytes", "2000x", "a whole number is expected"),
        ("consumer.fetch.max.bytes", "1e6", "a whole number is expected"),
        ("consumer.isolation.level", "some", 'Invalid value "some"'),
        ("admin.socket.timeout.ms", "soon", "Invalid value"),
    ],
)
def test_a_value_that_librdkafka_refuses_is_refused_at_once_in_its_words(key: str, value: object, why: str) -> None:
    message = refusal(key, value)
    assert message.startswith(f"configuration key {key!r}: ")
    assert why in message
    assert message.endswith(f"(got {value!r})")


def test_a_setting_of_the_other_client_is_refused_since_it_would_do_nothing() -> None:
    assert refusal("producer.fetch.max.bytes", 1).endswith("for the other client: 'consumer.fetch.max.bytes'")


def test_the_first_offset_is_configured_topic_by_topic() -> None:
    message = refusal("consumer.auto.offset.reset", "latest")
    assert "offset_reset='latest'" in message
    assert "Consumed.with_offset_reset_policy" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.fetch.max.bytes", 1_000_000),
        ("consumer.check.crcs", True),
        ("producer.linger.ms", 0.5),
        ("producer.linger.ms", "0.5"),
        ("consumer.fetch.max.bytes", "1000000"),
        ("consumer.client.id", "2x"),
        ("producer.compression.type", "zstd"),
        ("admin.ssl.ca.location", "/only/on/the/nodes.pem"),
    ],
)
def test_a_good_setting_passes_without_a_look_at_the_files_it_names(key: str, value: object) -> None:
    assert KafkaStreams(reading(), {"application.id": "app", key: value}).config.clients[key] == value


def test_settings_that_contradict_each_other_are_refused_when_the_clients_are_tried_out() -> None:
    made = clients(consumer__session__timeout__ms=400_000, consumer__max__poll__interval__ms=300_000)
    clients(consumer__session__timeout__ms=9_000).try_out()
    with pytest.raises(ConfigError, match=r"max\.poll\.interval\.ms"):
        made.try_out()


@pytest.mark.parametrize("heartbeat_ms", [6_000, "7000"])
def test_a_session_that_would_end_before_its_first_heartbeat_is_refused(heartbeat_ms: object) -> None:
    entries = {"consumer__session__timeout__ms": 6_000, "consumer__heartbeat__interval__ms": heartbeat_ms}
    with pytest.raises(ConfigError, match=r"set the former to a third of the latter"):
        clients(**entries)
    clients(**{**entries, "consumer__heartbeat__interval__ms": 2_000})


def test_the_default_of_the_heartbeat_counts_too() -> None:
    with pytest.raises(ConfigError, match=r"heartbeat.interval.ms': 3000 ms, and a session ends after .* = 3000 ms"):
        clients(consumer__session__timeout__ms=3_000)


@pytest.mark.parametrize("heartbeat_ms", ["2000.0", "0x7d0"])
def test_a_heartbeat_that_is_no_whole_number_is_refused(heartbeat_ms: str) -> None:
    with pytest.raises(ConfigError, match=r"heartbeat.interval.ms': .* not a whole number of ms"):
        clients(consumer__heartbeat__interval__ms=heartbeat_ms)


def test_overrides_reach_the_clients_they_are_meant_for() -> None:
    overrides = {"fetch.wait.max.ms": 7, "session.timeout.ms": 9000}
    reading = consumer_settings("b:1", "g", overrides)
    settings = member_settings("b:1", "g", "member", overrides)
    assert reading["fetch.wait.max.ms"] == 7
    assert "session.timeout.ms" not in reading, "a reader has no session"
    assert settings["session.timeout.ms"] == 9000
    assert producer_settings("b:1", {"linger.ms": 0})["linger.ms"] == 0


@pytest.mark.parametrize("overrides", [{}, {"transaction.timeout.ms": 60_000}, {"delivery.timeout.ms": 5_000}])
def test_a_producer_of_transactions_can_be_made_whatever_its_time_out(overrides: dict[str, int]) -> None:
    """librdkafka makes none whose records may wait for longer than its transactions live."""
    settings = transactional_settings("127.0.0.1:1", "id", overrides)
    Producer(settings)
    assert settings["message.timeout.ms"] == settings["transaction.timeout.ms"]
    assert producer_settings("127.0.0.1:1", overrides)["message.timeout.ms"] == 120_000


def test_the_broker_keeps_no_restore_waiting_for_records_that_may_never_come() -> None:
    def wait_ms(made: ConfluentClients) -> int:
        with closing(made.restore_consumer()) as consumer:
            assert isinstance(consumer, ConfluentConsumer)
            return int(consumer._settings["fetch.wait.max.ms"])

    assert wait_ms(clients()) == 10
    assert wait_ms(clients(consumer__fetch__wait__max__ms=70)) == 70, "users know better"


@pytest.mark.parametrize("entries", [{}, {"transaction.timeout.ms": 5000}, {"delivery.timeout.ms": 3000}])
def test_a_producer_of_transactions_can_be_made(entries: dict[str, object]) -> None:
    """librdkafka refuses, before it asks a broker, one whose records may wait for longer than a transaction lives."""
    with closing(open_transactional_producer("b:1", "id", entries)):
        pass
    with closing(ConfluentTransactionalProducer("b:1", transactional_settings("b:1", "id", entries))):
        pass


def test_the_clients_travel_by_pickle() -> None:
    made = clients(consumer__fetch__wait__max__ms=5)
    assert pickle.loads(pickle.dumps(made)) == made


SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "alice",
    "sasl.password": "secret-of-alice",
    "ssl.ca.location": "/authority.pem",
}


def test_credentials_are_configured_once_for_all_clients() -> None:
    made = ConfluentClients.of(StreamsConfig.of({"application.id": "app", **SCRAM}))
    known = {key: value for key, value in SCRAM.items() if key != "sasl.mechanism"} | {
        "sasl.mechanisms": "SCRAM-SHA-256"  # librdkafka's other name of the same
    }
    assert made.consumer_overrides == made.producer_overrides == made.admin_overrides == known


def test_a_client_may_come_in_by_another_way_than_the_others() -> None:
    own = {"producer.sasl.username": "bob", "producer.sasl.mechanisms": "PLAIN"}
    made = ConfluentClients.of(StreamsConfig.of({"application.id": "app", **SCRAM, **own}))
    assert (made.producer_overrides["sasl.username"], made.producer_overrides["sasl.mechanisms"]) == ("bob", "PLAIN")
    assert made.producer_overrides["sasl.password"] == "secret-of-alice"
    assert made.consumer_overrides["sasl.username"] == "alice"
    assert made.consumer_overrides["sasl.mechanisms"] == "SCRAM-SHA-256"


def test_settings_of_all_clients_are_no_settings_of_internal_topics() -> None:
    assert StreamsConfig.of({"application.id": "app", **SCRAM}).client_entries("topic.") == {}


@pytest.mark.parametrize("shown", [repr, str, "{}".format])
def test_clients_are_shown_without_their_secrets(shown: Callable[[object], str]) -> None:
    made = ConfluentClients.of(StreamsConfig.of({"application.id": "app", **SCRAM}))
    for copy in (made, pickle.loads(pickle.dumps(made))):
        assert "secret-of-alice" not in shown(copy)
        assert "'sasl.password': ****" in shown(copy)
        assert "alice" in shown(copy)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("sasl.jaas.config", "'sasl.username' and 'sasl.password'"),
        ("ssl.truststore.location", "'ssl.ca.location'"),
        ("consumer.ssl.truststore.location", "'ssl.ca.location'"),
        ("ssl.keystore.type", "PKCS#12"),
        ("ssl.keystore.certificate.chain", "'ssl.certificate.pem'"),
    ],
)
def test_a_security_setting_of_java_is_refused_with_what_takes_its_place(key: str, instead: str) -> None:
    message = refusal(key, 'ScramLoginModule required username="alice" password="secret-of-alice";')
    assert message.startswith(f"configuration key {key!r} is for Java's clients: ")
    assert instead in message
    assert "secret-of-alice" not in message


def test_a_mistyped_security_setting_names_the_nearest_and_no_secret() -> None:
    message = refusal("sasl.pasword", "secret-of-alice")
    assert message == "unknown configuration key 'sasl.pasword'; did you mean 'sasl.password'?"
    message = refusal("security.protocol", "secret")
    assert "Invalid value" in message


def test_librdkafkas_refusal_of_a_secret_does_not_show_the_secret() -> None:
    message = refusal("sasl.oauthbearer.assertion.algorithm", "secret-of-alice")
    assert message.endswith("(got ****)")
    assert "secret-of-alice" not in message


@pytest.mark.parametrize("question", ["topics", "reach"])
@pytest.mark.long
def test_an_unreachable_broker_is_named_within_ten_seconds(question: str) -> None:
    with closed_port() as port, own_time() as elapsed_s:
        address = f"127.0.0.1:{port}"
        with pytest.raises(BrokerUnreachableError, match=address):
            getattr(clients(bootstrap__servers=address).admin(), question)()
        assert elapsed_s() < 10


def test_a_cluster_is_reached_although_its_controller_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def controller_away(**_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    admin = ConfluentAdmin("b:1", {})
    monkeypatch.setattr(
        admin, "_client", SimpleNamespace(describe_cluster=controller_away, list_topics=lambda timeout: None)
    )
    admin.reach()


def test_a_client_that_never_answers_whether_a_broker_does_holds_nobody_up_for_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    def never(client: object, asked: object, timeout_s: float) -> None:
        waited.append(timeout_s)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def away(timeout: float) -> None:
        waited.append(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    admin = ConfluentAdmin("b:1", {})
    monkeypatch.setattr(admin._connections, "answer", never)
    client = SimpleNamespace(describe_cluster=lambda **_: Future(), list_topics=away, poll=lambda _: None)
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(BrokerUnreachableError):
        admin.reach()
    assert len(waited) == 2
    assert sum(waited) < 10


@pytest.mark.parametrize("code", sorted(RETRIABLE | MISSING_TOPIC | UNREACHABLE))
def test_temporary_errors_may_be_retried(code: int) -> None:
    error = as_streams_error(KafkaException(KafkaError(code)), "do this", "b:1")
    assert isinstance(error, BrokerUnreachableError)
    assert str(error).startswith("cannot do this: ")


def test_errors_of_a_leader_change_may_be_retried() -> None:
    assert {
        KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._DESTROY_BROKER,
    } <= RETRIABLE  # fmt: skip


def test_a_refusal_for_good_is_not() -> None:
    error = as_streams_error(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), "do this", "b:1")
    assert not isinstance(error, BrokerUnreachableError)
    assert isinstance(error, KafkaRefusedError)


def test_a_topic_that_may_be_described_and_not_read_is_refused_for_good() -> None:
    refused = Event("sink", 0, -1, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    consumer = clients(bootstrap__servers="127.0.0.1:1").consumer()
    with closing(consumer), pytest.raises(KafkaRefusedError, match=r"partition 0 of topic 'sink'.* the operation Read"):
        consumer._failed(refused)  # type: ignore[attr-defined]  # what a poll may bring


@pytest.mark.parametrize("code", sorted(RETRIABLE | UNREACHABLE))
def test_a_static_member_survives_temporary_errors(code: int) -> None:
    member = clients(bootstrap__servers="127.0.0.1:1").group_member("member")
    member._refused(KafkaError(code), "lines")  # type: ignore[attr-defined]  # what a poll of librdkafka's may bring
    member.close()


def test_an_error_of_one_partition_is_not_taken_for_no_offset() -> None:
    class Answer:
        topic, partition, offset, metadata = "t", 0, -1001, None
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(StreamsError, match="partition 0 of topic 't'"):
        committed_offsets([cast("TopicPartition", Answer())], "b:1")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_exactly_once_a_transactional_id_is_tried_out_too(guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, what the cluster does not allow is found only when the actors start."""
    tried: list[str] = []

    class Refused:
        answers_within_s = 10.0

        def init_transactions(self) -> Future[None]:
            refused: Future[None] = Future()
            refused.set_exception(KafkaRefusedError("not allowed"))
            return refused

        def close(self) -> None:
            tried.append("closed")

    def make(_: ConfluentClients, name: str) -> Refused:
        tried.append(name)
        return Refused()

    monkeypatch.setattr(ConfluentClients, "transactional_producer", make)
    made = clients(processing__guarantee=guarantee)
    if guarantee == "at_least_once":
        made.try_out()
        assert tried == []
    else:
        with pytest.raises(KafkaRefusedError):
            made.try_out()
        assert tried == ["app-try-out", "closed"]


def test_every_client_looks_for_a_broker_once_a_second_unless_users_choose_another_interval() -> None:
    made = (
        settings.admin_settings("a:1", {}),
        settings.consumer_settings("a:1", "g", {}),
        settings.member_settings("a:1", "g", "i", {}),
        settings.producer_settings("a:1", {}),
        settings.transactional_settings("a:1", "t", {}),
    )
    assert {each["reconnect.backoff.max.ms"] for each in made} == {1_000}
    chosen = settings.producer_settings("a:1", {"reconnect.backoff.max.ms": 5_000})
    assert chosen["reconnect.backoff.max.ms"] == 5_000
