"""A leader dies while it is asked for offsets: librdkafka returns -1001 and no error, which is no end of a partition.

A store that was compared with such an end was wiped, and restored up to it: its counts began again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo

from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.broker_ends import BrokerEnds
from penstock.kafka.consumer import ConfluentConsumer
from penstock.kafka.stable_ends import StableEnds
from penstock.kafka.topics import Topics
from tests.waiting import PATIENCE_S

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ADDRESS = "127.0.0.1:1"


class HalfDead:
    """Stands in for a client of librdkafka that knows nothing of ``t-1``. ``looked_up``: how often it looked up the
    leaders of partitions."""

    def __init__(self) -> None:
        self.looked_up = 0

    def list_topics(self, **_: object) -> None:
        self.looked_up += 1

    def list_offsets(self, asked: dict[Tpo, Any], **_: object) -> dict[Tpo, Future[Any]]:
        answers: dict[Tpo, Future[Any]] = {each: Future() for each in asked}
        for each, answer in answers.items():
            answer.set_result(SimpleNamespace(offset=OFFSET_INVALID if each.partition else 7))
        return answers

    def offsets_for_times(self, asked: list[Tpo], timeout_s: float) -> list[Tpo]:
        return [Tpo(each.topic, each.partition, OFFSET_INVALID if each.partition else 7) for each in asked]

    def _no_controller(self, asked: list[Any], **_: object) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {getattr(each, "topic", each): Future() for each in asked}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for controller")))
        return answers

    describe_configs = create_topics = delete_topics = _no_controller

    def close(self) -> None:
        pass


class Moved(HalfDead):
    """Answers about ``t-1``, too, as soon as it has looked up the leaders again."""

    def list_offsets(self, asked: dict[Tpo, Any], **_: object) -> dict[Tpo, Future[Any]]:
        answers = super().list_offsets(asked)
        if self.looked_up:
            for answer in answers.values():
                answer.result().offset = 7
        return answers

    def offsets_for_times(self, asked: list[Tpo], timeout_s: float) -> list[Any]:
        outdated = None if self.looked_up else KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
        return [SimpleNamespace(topic=each.topic, partition=each.partition, offset=7, error=outdated) for each in asked]


ADMIN_ASKS: list[Callable[[Topics], Any]] = [
    lambda admin: admin.end_offsets([A, B]),
    lambda admin: admin.high_watermarks([A, B]),
    lambda admin: admin.beginning_offsets([A, B]),
]


@pytest.mark.parametrize("ask", ADMIN_ASKS, ids=["end", "high watermark", "beginning"])
def test_an_admin_calls_the_leader_unknown_and_looks_it_up(
    ask: Callable[[Topics], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, client = Topics(ADDRESS), HalfDead()
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(BrokerUnreachableError, match="LEADER_NOT_AVAILABLE"):
        ask(admin)
    assert client.looked_up == 1
    assert admin.end_offsets([A]) == {A: 7}


def test_a_consumer_calls_the_leader_unknown_and_looks_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    client = HalfDead()
    with closing(ConfluentConsumer(ADDRESS, "group", {})) as consumer:
        monkeypatch.setattr(consumer, "_client", client)
        with pytest.raises(BrokerUnreachableError, match="LEADER_NOT_AVAILABLE"):
            consumer.fetch_end_offsets([A, B])
        assert client.looked_up == 1
        assert consumer.fetch_beginning_offsets([A]) == {A: 7}


@pytest.mark.parametrize("ask", ADMIN_ASKS, ids=["end", "high watermark", "beginning"])
def test_an_admin_asks_the_new_leader(ask: Callable[[Topics], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    admin, client = Topics(ADDRESS), Moved()
    monkeypatch.setattr(admin, "_client", client)
    assert ask(admin) == {A: 7, B: 7}
    assert client.looked_up == 1


def test_a_consumer_asks_the_new_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Moved()
    with closing(ConfluentConsumer(ADDRESS, "group", {})) as consumer:
        monkeypatch.setattr(consumer, "_client", client)
        assert consumer.fetch_end_offsets([A, B]) == {A: 7, B: 7}
    assert client.looked_up == 1


def test_the_last_stable_offset_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = StableEnds(ADDRESS, {})
    monkeypatch.setattr(ends, "_client", HalfDead())
    assert [ends.end(B, 9), ends.end(B, 9)] == [None, None]
    assert [ends.end(A, 9), ends.end(A, 9)] == [None, 7]


def test_a_watch_over_fetches_hears_of_no_end() -> None:
    ends = BrokerEnds(ADDRESS, {})
    ends._client = HalfDead()  # type: ignore[assignment]  # all of it that is used here
    ends.ask([A, B])
    assert ends._asking is not None
    ends._asking.join(PATIENCE_S)
    assert ends.take() == {A: 7}


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.topic_configs(["t"]),
        lambda admin: admin.create_topics([NewTopic("t", 1)]),
        lambda admin: admin.delete_topics(["t"]),
    ],
    ids=["topic_configs", "create_topics", "delete_topics"],
)
def test_an_admin_whose_controller_does_not_answer_looks_for_another(
    ask: Callable[[Topics], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, client = Topics(ADDRESS), HalfDead()
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(BrokerUnreachableError, match="waiting for controller"):
        ask(admin)
    assert client.looked_up == 1
