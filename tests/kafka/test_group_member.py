"""Which errors of the consumer group are final; no broker runs."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import ApplicationStateError, BrokerUnreachableError, KafkaRefusedError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import SessionLostError
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


@pytest.mark.parametrize(
    ("after", "expected"), [("", SessionLostError), ("seat-1", ApplicationStateError)], ids=["lost", "taken"]
)
def test_a_fenced_commit_means_another_process_only_if_the_session_still_stands(
    member: ConfluentGroupMember, monkeypatch: pytest.MonkeyPatch, after: str, expected: type[StreamsError]
) -> None:
    ids = ["seat-1", after]

    def commit(**_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))

    client = SimpleNamespace(memberid=lambda: ids.pop(0), commit=commit, close=lambda: None)
    monkeypatch.setattr(member, "_client", client)
    with pytest.raises(StreamsError) as refused:
        member.commit({TopicPartition("lines", 0): CommittedOffset(1)})
    assert type(refused.value) is expected


def test_without_a_session_nothing_is_sent(member: ConfluentGroupMember) -> None:
    with pytest.raises(StreamsError, match="'seat' has no session in group 'group'") as refused:
        member.commit({TopicPartition("lines", 0): CommittedOffset(1)})
    assert type(refused.value) is StreamsError
