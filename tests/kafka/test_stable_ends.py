"""The age that an answer about a last stable offset may have. The test sets the clock and answers for the broker."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.common.ids import TopicPartition
from penstock.kafka.stable_ends import StableEnds

TP = TopicPartition("t", 0)


@dataclass
class Broker:
    """Stands in for an admin client; ``asked`` are the questions, in their order."""

    asked: list[Future[Any]] = field(default_factory=list)

    def list_offsets(self, partitions: Mapping[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        self.asked += [Future() for _ in partitions]
        return dict(zip(partitions, self.asked[-len(partitions) :], strict=True))

    def answer(self, offset: int) -> None:
        self.asked[-1].set_result(Answer(offset))


@dataclass
class Answer:
    offset: int


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("penstock.kafka.stable_ends.time", clock)
    return clock


def opened() -> tuple[StableEnds, Broker]:
    ends, broker = StableEnds("127.0.0.1:1", {}), Broker()
    ends._client = broker  # type: ignore[assignment]  # all of it that is used here
    return ends, broker


def test_while_others_write_an_answer_counts_for_a_moment(clock: Clock) -> None:
    ends, broker = opened()
    written = itertools.count(10)
    assert ends.end(TP, next(written)) is None
    broker.answer(7)
    clock.now += 0.04
    assert ends.end(TP, next(written)) == 7
    assert len(broker.asked) == 1
    clock.now += 0.04
    assert ends.end(TP, next(written)) == 7
    assert len(broker.asked) == 2, "asked again before it is too old"
    clock.now += 0.04
    assert ends.end(TP, next(written)) is None
    assert len(broker.asked) == 2, "never two questions at a time"
    broker.answer(9)
    assert ends.end(TP, next(written)) == 9


def test_while_nothing_is_written_an_answer_counts(clock: Clock) -> None:
    """It also counts for a caller that asks once a second, and if the broker needs longer than 100 ms to answer."""
    ends, broker = opened()
    assert ends.end(TP, 10) is None
    clock.now += 1
    broker.answer(7)
    for _ in range(5):
        clock.now += 1
        assert ends.end(TP, 10) == 7
    assert len(broker.asked) == 1
    assert ends.end(TP, 11) is None, "this may have ended the transaction"
    broker.answer(11)
    clock.now += 1
    assert ends.end(TP, 11) == 11


def test_a_slow_answer_counts_from_when_it_came(clock: Clock) -> None:
    ends, broker = opened()
    assert ends.end(TP, 10) is None
    clock.now += 0.5
    broker.answer(7)
    clock.now += 0.05
    assert ends.end(TP, 11) == 7


def test_an_old_answer_does_not_count_however_late_it_is_looked_at(clock: Clock) -> None:
    ends, broker = opened()
    assert ends.end(TP, 10) is None
    broker.answer(7)
    clock.now += 5
    assert ends.end(TP, 13) is None, "what has come since is not known"
    assert len(broker.asked) == 2
    broker.answer(12)
    clock.now += 0.01
    assert ends.end(TP, 14) == 12


def test_a_question_without_an_answer_is_asked_again_by_a_new_client(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, broker = opened()
    other = TopicPartition("t", 1)
    assert ends.end(TP, 9) is ends.end(other, 9) is None
    broker.asked[0].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    clock.now += 10
    another = Broker()
    monkeypatch.setattr("penstock.kafka.stable_ends.AdminClient", lambda _: another)
    assert ends.end(TP, 9) is ends.end(other, 9) is None
    assert (len(broker.asked), len(another.asked)) == (2, 2), "the other question was with the same client"
    another.answer(3)
    clock.now += 0.01
    assert ends.end(other, 9) == 3


def test_after_an_answer_that_refuses_the_same_client_asks_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, broker = opened()
    assert ends.end(TP, 9) is None
    broker.asked[0].set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    clock.now += 1
    monkeypatch.setattr("penstock.kafka.stable_ends.AdminClient", lambda _: pytest.fail("another client each time"))
    assert ends.end(TP, 9) is None
    assert len(broker.asked) == 2
