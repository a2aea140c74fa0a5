"""What users may set on the clients, what they may not, and what an unreachable broker says."""

from __future__ import annotations

import pickle
import socket
import time
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, ConfigError, StreamsError
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.committed import committed_offsets
from penstock.kafka.settings import (
    MISSING_TOPIC,
    RETRIABLE,
    UNREACHABLE,
    as_streams_error,
    consumer_settings,
    member_settings,
    producer_settings,
)


def clients(**entries: object) -> ConfluentClients:
    settings = {key.replace("__", "."): value for key, value in entries.items()}
    return ConfluentClients.of(StreamsConfig.of({"application.id": "app", **settings}))


@pytest.mark.parametrize(
    "key", ["consumer__group__id", "consumer__enable__auto__commit", "producer__acks", "producer__enable__idempotence"]
)
def test_what_penstock_must_set_itself_cannot_be_set(key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace("__", ".")):
        clients(**{key: "x"})


def test_an_unknown_client_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'consumer\.'.*no\.such\.thing"):
        clients(consumer__no__such__thing=1).consumer()


def test_overrides_reach_the_clients_they_are_meant_for() -> None:
    overrides = {"fetch.wait.max.ms": 7, "session.timeout.ms": 9000}
    reading = consumer_settings("b:1", "g", overrides)
    seated = member_settings("b:1", "g", "seat", overrides)
    assert reading["fetch.wait.max.ms"] == 7
    assert "session.timeout.ms" not in reading, "a reader has no session"
    assert seated["session.timeout.ms"] == 9000
    assert producer_settings("b:1", {"linger.ms": 0})["linger.ms"] == 0


def test_the_clients_travel_by_pickle() -> None:
    made = clients(consumer__fetch__wait__max__ms=5)
    assert pickle.loads(pickle.dumps(made)) == made


def test_an_unreachable_broker_is_named_within_ten_seconds() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(BrokerUnreachableError, match=address):
            clients(bootstrap__servers=address).admin().topics()
        assert time.monotonic() - begun < 10


@pytest.mark.parametrize("code", sorted(RETRIABLE | MISSING_TOPIC | UNREACHABLE))
def test_what_passes_by_itself_may_be_tried_again(code: int) -> None:
    error = as_streams_error(KafkaException(KafkaError(code)), "do this", "b:1")
    assert isinstance(error, BrokerUnreachableError)
    assert str(error).startswith("cannot do this: ")


def test_what_a_leader_change_brings_is_among_it() -> None:
    assert {
        KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR, KafkaError.NOT_LEADER_FOR_PARTITION,
    } <= RETRIABLE  # fmt: skip


def test_a_refusal_for_good_is_not() -> None:
    error = as_streams_error(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), "do this", "b:1")
    assert not isinstance(error, BrokerUnreachableError)


@pytest.mark.parametrize("code", sorted(RETRIABLE | UNREACHABLE))
def test_a_seat_in_the_group_outlives_what_passes_by_itself(code: int) -> None:
    member = clients(bootstrap__servers="127.0.0.1:1").group_member("seat")
    member._refused(KafkaError(code))  # type: ignore[attr-defined]  # what a poll of librdkafka's may bring
    member.close()


def test_an_error_of_one_partition_is_not_taken_for_no_offset() -> None:
    class Answer:
        topic, partition, offset, metadata = "t", 0, -1001, None
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(StreamsError, match="partition 0 of topic 't'"):
        committed_offsets([cast("TopicPartition", Answer())], "b:1")
