"""Which errors of the consumer group are final; no broker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import ApplicationStateError, BrokerUnreachableError, KafkaRefusedError, StreamsError
from penstock.kafka.group_member import ConfluentGroupMember


@pytest.fixture
def member() -> Iterator[ConfluentGroupMember]:
    it = ConfluentGroupMember("127.0.0.1:1", "group", "seat", {})
    yield it
    it.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaRefusedError),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaRefusedError),
        (KafkaError.FENCED_INSTANCE_ID, ApplicationStateError),
        (KafkaError._TRANSPORT, BrokerUnreachableError),
        (KafkaError.ILLEGAL_GENERATION, StreamsError),
        (KafkaError.UNKNOWN_MEMBER_ID, StreamsError),
        (KafkaError.REBALANCE_IN_PROGRESS, StreamsError),
    ],
)
def test_what_no_waiting_mends_is_final_and_says_so_in_kafkas_words(
    member: ConfluentGroupMember, code: int, expected: type[StreamsError]
) -> None:
    detail = KafkaError(code)
    error = member._as_error(KafkaException(detail))
    assert type(error) is expected
    assert expected is not KafkaRefusedError or detail.str() in str(error)
