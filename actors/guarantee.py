"""``processing.guarantee``: what an actor writes by, and how Kafka takes the offsets of a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import ClassVar, Protocol, TypeVar

from typing_extensions import override

from penstock.actors.messages import CommitAnswer
from penstock.actors.steps import Steps
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import RecordProducer, TransactionAbortedError

T = TypeVar("T")
Ask = Callable[[Mapping[TopicPartition, CommittedOffset]], "Future[CommitAnswer]"]
"""Asks the coordinator. At least once it lets Kafka have the offsets; exactly once there are none, and it says as which
member of the group the actor may commit."""

ANSWER_SLICE_S = 0.005


class Guarantee(Protocol):
    """One form of the guarantee for one actor."""

    beside_records: ClassVar[bool]
    """Whether records may be processed while a commit is under way."""
    commits_all: ClassVar[bool]
    """Whether a commit must take every task that has done something, since what they have sent stands together."""
    producer: RecordProducer

    def opening(self) -> list[Steps[None]]:
        """What must be done before any task is opened."""

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[CommitAnswer]:
        """Have Kafka take the offsets of what was sent. Raises TransactionAbortedError."""

    def go_back(self, error: TransactionAbortedError) -> Steps[None]:
        """Nothing of what was sent since the last commit counts."""

    def find_seat(self) -> Steps[CommitAnswer]:
        """Before it is read where tasks go on from: whether the actor may commit for them."""

    def close(self) -> None:
        """Give up what is sent and not committed."""


class AtLeastOnce(Guarantee):
    """The coordinator commits for its actors; what was sent counts in any case."""

    beside_records = True
    commits_all = False

    def __init__(self, producer: RecordProducer, ask: Ask) -> None:
        self.producer = producer
        self._ask = ask

    @override
    def opening(self) -> list[Steps[None]]:
        return []

    @override
    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[CommitAnswer]:
        return (yield from answer_to(self._ask(offsets)))

    @override
    def go_back(self, error: TransactionAbortedError) -> Steps[None]:
        raise error

    @override
    def find_seat(self) -> Steps[CommitAnswer]:
        # Asked at each commit.
        yield from ()
        return CommitAnswer(True)

    @override
    def close(self) -> None:
        self.producer.close()


def answer_to(asked: Future[T]) -> Steps[T]:
    """What ``asked`` comes to."""
    while not asked.done():
        yield ANSWER_SLICE_S
    try:
        return asked.result()
    finally:
        del asked  # else its error would hold on to itself by this frame
