"""An admin client whose reader of committed offsets is stuck asks by another one."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo

from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka import admin as module
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.topics import Topics

TP = TopicPartition("in", 0)


class Clock:
    """A clock that the test moves."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


class Readers:
    """Makes readers. Those in ``stuck``, by number, do not answer."""

    def __init__(self) -> None:
        self.made = 0
        self.stuck = {1}

    def make(self, *_: object) -> Reader:
        self.made += 1
        return Reader(self, self.made)


class Reader:
    def __init__(self, readers: Readers, number: int) -> None:
        self._readers = readers
        self._number = number

    def committed(self, asked: list[Tpo], timeout_s: float) -> list[Tpo]:
        if self._number in self._readers.stuck:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return [Tpo(at.topic, at.partition, 7) for at in asked]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    readers = Readers()
    monkeypatch.setattr(module, "Consumer", readers.make)
    return readers


def without_answer(admin: ConfluentAdmin) -> None:
    with pytest.raises(BrokerUnreachableError):
        admin.committed("group", [TP])


def test_a_reader_without_an_answer_for_30_s_is_replaced(clock: Clock, readers: Readers) -> None:
    admin: Any = Topics("127.0.0.1:1")
    without_answer(admin)
    clock.now_s += 20
    without_answer(admin)
    assert readers.made == 1
    clock.now_s += 30
    without_answer(admin)
    assert admin.committed("group", [TP]) == {TP: CommittedOffset(7)}
    assert readers.made == 2


def test_an_answer_ends_the_patience(clock: Clock, readers: Readers) -> None:
    admin: Any = Topics("127.0.0.1:1")
    without_answer(admin)
    readers.stuck.clear()
    clock.now_s += 60
    admin.committed("group", [TP])
    readers.stuck.add(1)
    without_answer(admin)
    assert admin._readers, "this one has answered a moment ago"


class Unheard:
    """Does not answer, and ends with its last reference; ``ended_in``: the threads in which one did."""

    def __init__(self, ended_in: list[str]) -> None:
        self._ended_in = ended_in

    def __del__(self) -> None:
        self._ended_in.append(threading.current_thread().name)

    @staticmethod
    def committed(asked: list[Tpo], timeout_s: float) -> list[Tpo]:
        # Static, as the traceback would keep ``self``, which that of librdkafka's client does not.
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


class AtOnce(threading.Thread):
    """Has ended when it has been started: no reference of its own outlasts those of the thread that starts it."""

    def start(self) -> None:
        super().start()
        self.join()


def test_a_reader_that_is_given_up_ends_in_a_thread_of_its_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_in: list[str] = []
    monkeypatch.setattr(module, "Consumer", lambda _: Unheard(ended_in))
    monkeypatch.setattr(module, "threading", SimpleNamespace(Thread=AtOnce))
    admin = Topics("127.0.0.1:1")
    without_answer(admin)
    clock.now_s += 60
    without_answer(admin)
    assert ended_in == ["close-reader"]
