"""Final errors of the consumer group; no broker runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata
from structlog.testing import capture_logs

from penstock.common.errors import (
    ApplicationStateError,
    BrokerUnreachableError,
    KafkaRefusedError,
    MissingTopicError,
    StreamsError,
)
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import OtherProtocolError, SessionLostError
from penstock.kafka.group_member import ConfluentGroupMember
from penstock.kafka.settings import MISSING_TOPIC
from tests.waiting import eventually


@pytest.fixture
def member() -> Iterator[ConfluentGroupMember]:
    it = ConfluentGroupMember("127.0.0.1:1", "group", "member", {})
    yield it
    it.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaRefusedError),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, OtherProtocolError),
        (KafkaError.FENCED_INSTANCE_ID, ApplicationStateError),
        (KafkaError._TRANSPORT, BrokerUnreachableError),
        (KafkaError.ILLEGAL_GENERATION, StreamsError),
        (KafkaError.UNKNOWN_MEMBER_ID, StreamsError),
        (KafkaError.REBALANCE_IN_PROGRESS, StreamsError),
    ],
)
def test_a_permanent_error_is_final_and_reported_in_kafkas_words(
    member: ConfluentGroupMember, code: int, expected: type[StreamsError]
) -> None:
    detail = KafkaError(code)
    error = member._as_error(KafkaException(detail))
    assert type(error) is expected
    assert expected is not KafkaRefusedError or detail.str() in str(error)


@pytest.mark.parametrize(
    ("after", "expected"), [("", SessionLostError), ("member-1", ApplicationStateError)], ids=["lost", "taken"]
)
def test_a_fenced_commit_means_another_process_only_if_the_session_has_not_ended(
    member: ConfluentGroupMember, monkeypatch: pytest.MonkeyPatch, after: str, expected: type[StreamsError]
) -> None:
    ids = ["member-1", after]

    def commit(**_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))

    client = SimpleNamespace(memberid=lambda: ids.pop(0), commit=commit, close=lambda: None)
    monkeypatch.setattr(member, "_client", client)
    with pytest.raises(StreamsError) as refused:
        member.commit({TopicPartition("lines", 0): CommittedOffset(1)})
    assert type(refused.value) is expected


def test_without_a_session_nothing_is_sent(member: ConfluentGroupMember) -> None:
    with pytest.raises(StreamsError, match="'member' has no session in group 'group'") as refused:
        member.commit({TopicPartition("lines", 0): CommittedOffset(1)})
    assert type(refused.value) is StreamsError


class Client:
    """Reports once that the topic is unknown, like librdkafka."""

    def __init__(self, code: int, topic: str | None) -> None:
        self.message: list[Message] = [Message(topic=topic, partition=-1, offset=-1, error=KafkaError(code))]
        self.exists = True
        self.asked: list[str] = []

    def subscribe(self, topics: list[str], **_: object) -> None:
        pass

    def poll(self, timeout_s: float) -> Message | None:
        return self.message.pop() if self.message else None

    def list_topics(self, topic: str, timeout_s: float) -> ClusterMetadata:
        self.asked.append(topic)
        found, listed = ClusterMetadata(), TopicMetadata()
        listed.error = None if self.exists else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        found.topics = {topic: listed}
        return found


def joined_member(member: ConfluentGroupMember, code: int, topic: str | None) -> Client:
    member.close()
    client = Client(code, topic)
    member._client = client  # type: ignore[assignment]  # all of it that is used here
    member.subscribe(["lines"], lambda partitions: None)
    return client


@pytest.mark.parametrize("code", sorted(MISSING_TOPIC))
def test_a_topic_that_is_unknown_is_not_asked_for_before_its_broker_had_time(
    member: ConfluentGroupMember, code: int
) -> None:
    client = joined_member(member, code, "lines")
    client.exists = False
    member.poll(0)
    member.poll(0)
    assert client.asked == []


@pytest.mark.parametrize("topic", ["lines", None])
@pytest.mark.parametrize("code", sorted(MISSING_TOPIC))
def test_a_topic_unknown_for_a_moment_keeps_the_member_and_a_deleted_one_ends_it(
    member: ConfluentGroupMember, code: int, topic: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.missing_topics._PATIENCE_S", 0.0)
    client = joined_member(member, code, topic)
    member.poll(0)
    assert client.asked == ["lines"]
    client.exists = False
    client.message = [Message(topic=topic, partition=-1, offset=-1, error=KafkaError(code))]
    with pytest.raises(MissingTopicError, match="topic 'lines' does not exist any more"):
        member.poll(0)


def test_a_topic_that_is_no_longer_subscribed_may_be_missing(
    member: ConfluentGroupMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = joined_member(member, KafkaError.UNKNOWN_TOPIC_OR_PART, "lines")
    client.exists = False
    member.poll(0)
    member.subscribe(["others"], lambda partitions: None)
    monkeypatch.setattr("penstock.kafka.missing_topics.time", SimpleNamespace(monotonic=lambda: 1e12))
    member.poll(0)
    assert client.asked == []


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Group:
    """Makes the member join and lose its session when the test calls for it."""

    def subscribe(self, topics: list[str], **on: Callable[[Group, list[object]], None]) -> None:
        self.on = on

    def poll(self, timeout_s: float) -> None:
        pass

    def assign(self, partitions: list[object]) -> None:
        pass

    def unassign(self) -> None:
        pass

    def memberid(self) -> str:
        return ""


@pytest.mark.parametrize("before", [[], ["on_assign", "on_revoke"], ["on_assign", "on_lost"]], ids=str)
def test_a_client_that_cannot_join_for_a_minute_is_replaced(
    member: ConfluentGroupMember, monkeypatch: pytest.MonkeyPatch, before: list[str]
) -> None:
    clock, group = Clock(), Group()
    monkeypatch.setattr("penstock.kafka.group_member.time", clock)
    member.close()
    member._client = group  # type: ignore[assignment]  # all of it that is used here
    member.subscribe(["lines"], lambda partitions: None)
    for what in before:
        clock.now += 1000  # a session may last for ever
        member.poll(0) if what != "on_assign" else None
        group.on[what](group, [])
    clock.now += 60
    member.poll(0)
    clock.now += 0.1
    with pytest.raises(SessionLostError, match="'member' has no session in group 'group' for 60 s: join again"):
        member.poll(0)
    group.on["on_assign"](group, [])
    clock.now += 1000
    member.poll(0)


class Stuck:
    """Acts like librdkafka without a broker: a commit waits for one, and the end of the client for the commit."""

    def __init__(self) -> None:
        self.returned = threading.Event()
        self.waiting: list[str] = []

    def memberid(self) -> str:
        return "member-1"

    def commit(self, **_: object) -> None:
        self._wait("commit")

    def close(self) -> None:
        self._wait("close")

    def _wait(self, what: str) -> None:
        self.waiting.append(what)
        self.returned.wait()
        self.waiting.remove(what)


def test_a_commit_that_is_never_answered_makes_room_for_another_client_and_so_does_a_client_that_does_not_end(
    member: ConfluentGroupMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.group_member._COMMIT_PATIENCE_S", 0.05)
    monkeypatch.setattr("penstock.kafka.group_member._CLOSE_PATIENCE_S", 0.05)
    member._client.close()
    stuck = Stuck()
    member._client = stuck  # type: ignore[assignment]  # all of it that is used here
    try:
        with pytest.raises(SessionLostError, match="a commit of member 'member' in group 'group' has no answer after"):
            member.commit({TopicPartition("lines", 0): CommittedOffset(5)})
        member.close()
        eventually(lambda: {*stuck.waiting} == {"commit", "close"}, "both calls are still under way")
    finally:
        stuck.returned.set()


def test_a_client_that_does_not_close_cleanly_is_reported(member: ConfluentGroupMember) -> None:
    member._client.close()

    def close() -> None:
        raise RuntimeError("no good")

    member._client = SimpleNamespace(close=close)  # type: ignore[assignment]  # all of it that is used here
    with capture_logs() as lines:
        member.close()
    assert [(line["event"], line["error"]) for line in lines] == [("group member not closed cleanly", "no good")]
