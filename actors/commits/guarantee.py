"""``processing.guarantee``: the producer of an actor, and the way in which Kafka takes the offsets of a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import ClassVar, Protocol, TypeVar

from typing_extensions import override

from penstock.actors.commit_messages import CommitAnswer
from penstock.actors.steps import Steps
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import RecordProducer, UndeliveredError

T = TypeVar("T")


class Ask(Protocol):
    """Asks the coordinator."""

    def __call__(
        self, offsets: Mapping[TopicPartition, CommittedOffset], presence: bool = False
    ) -> Future[CommitAnswer]:
        """At least once, Kafka has the offsets when the answer comes. Exactly once there are no offsets: the
        coordinator answers, when the actor has confirmed its last assignment, as which member of the group it may
        commit. With ``presence`` it answers at once whether the actor is still part of the application."""


ANSWER_SLICE_S = 0.005
_AGAIN_S = 0.2
_LONGEST_PAUSE_S = 5.0
_GIVE_UP_SLICE_S, _GIVE_UP_SLICES = 0.005, 200


class RefusedError(StreamsError):
    """The coordinator does not know this actor any more, or takes it for another one."""


class Guarantee(Protocol):
    """One form of the guarantee for one actor."""

    beside_records: ClassVar[bool]
    """True if records may be processed while a commit is under way."""
    exactly_once: ClassVar[bool]
    """True if all records of the tasks are in one transaction. Then a commit must take every task that has done
    anything, and changelogs may end with a transaction that is still open."""
    producer: RecordProducer
    in_doubt: bool
    """True if the last commit is in doubt (see the glossary)."""

    def opening(self) -> list[Steps[None]]:
        """Returns the steps that must be taken before any task is opened."""

    def reopening(self) -> Steps[None]:
        """Take the steps of :meth:`opening` again, if :meth:`go_back` has raised RefusedError."""

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[CommitAnswer]:
        """Have Kafka take ``offsets``. Raises TransactionAbortedError."""

    def go_back(self, error: UndeliveredError) -> Steps[None]:
        """Make sending possible again, with the same producer or another, and wait no longer for records that were sent
        since the last commit. Raises RefusedError if this actor must do nothing more: then there is no producer."""

    def find_group_metadata(self) -> Steps[CommitAnswer]:
        """Find out if the actor may commit for its tasks. Must be done before their positions are read."""

    def withhold(self) -> None:
        """Prevent all writes: drop undelivered records, and refuse new ones. Any thread may call it, repeatedly, also
        while a record waits for room in the producer's queue."""

    def resume(self) -> None:
        """Allow writes again."""

    def check(self) -> None:
        """Raises UndeliveredError after :meth:`resume`, until :meth:`go_back`, if a record was dropped or refused."""

    def close(self) -> None:
        """Drop all records that are not committed, and close the producer."""


class AtLeastOnce(Guarantee):
    """The coordinator commits for its actors; records that were sent count in any case."""

    beside_records = True
    exactly_once = False
    in_doubt = False  # the coordinator knows

    def __init__(self, make: Callable[[], RecordProducer], ask: Ask) -> None:
        self.producer = make()
        self._make = make
        self._ask = ask
        self._pauses = Pauses()
        self._was_withheld = False
        self._asked: Future[CommitAnswer] | None = None

    @override
    def opening(self) -> list[Steps[None]]:
        return []

    @override
    def reopening(self) -> Steps[None]:
        yield from ()

    @override
    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[CommitAnswer]:
        # A program may have caught the refusal of a record that the flush of this commit sent. No mark counts it.
        self.check()
        self._asked = self._ask(offsets)
        answer = yield from answer_to(self._asked)
        if answer.accepted:
            self._pauses.reset()
        return answer

    @override
    def go_back(self, error: UndeliveredError) -> Steps[None]:
        yield self._pauses.next_s()
        self._was_withheld = False
        if self._asked is not None:
            # Kafka may still take a commit that was abandoned. Tasks that continued from an earlier position would
            # write old values after newer ones, and a later start would not read those again. A refusal needs no
            # reaction here: the next commit of the same tasks is refused, too.
            yield from answer_to(self._asked)
        if not error.producer_is_spent and self._pauses.failures == 1:
            # This keeps records that are on their way to the broker from being written after later ones.
            for _ in range(_GIVE_UP_SLICES):
                if self.producer.give_up(_GIVE_UP_SLICE_S):
                    return
                yield 0.0
        # The client may be stuck (see ``kafka/fetch_watch.py``). By now the system has dropped its connections.
        close_aside(self.producer)
        self.producer = self._make()

    @override
    def find_group_metadata(self) -> Steps[CommitAnswer]:
        # Asked at each commit.
        yield from ()
        return CommitAnswer(True)

    @override
    def withhold(self) -> None:
        self.producer.withhold()

    @override
    def resume(self) -> None:
        self.producer.resume()
        self._was_withheld = True

    @override
    def check(self) -> None:
        if not self._was_withheld:
            return
        if not self.producer.flush(0.0):  # the rest is dropped, and the client has not reported it yet
            raise UndeliveredError("the records were withdrawn because the lease had expired")
        self._was_withheld = False

    @override
    def close(self) -> None:
        self.producer.close()


class Pauses:
    """Pauses before the next attempt, in seconds: longer each time, until an attempt has succeeded."""

    def __init__(self) -> None:
        self.failures = 0

    def next_s(self) -> float:
        """Counts a failure. Returns 0 after the first one: the second attempt need not wait."""
        self.failures += 1
        return 0.0 if self.failures == 1 else min(_AGAIN_S * 2 ** min(self.failures - 2, 8), _LONGEST_PAUSE_S)

    def reset(self) -> None:
        """Note that an attempt has succeeded."""
        self.failures = 0


def close_aside(producer: RecordProducer) -> None:
    """Close ``producer`` in a thread: one that has failed may take long to close."""
    threading.Thread(target=producer.close, name="close-producer", daemon=True).start()


def answer_to(asked: Future[T]) -> Steps[T]:
    """Waits for ``asked`` and returns its result."""
    while not asked.done():
        yield ANSWER_SLICE_S
    try:
        return asked.result()
    finally:
        del asked  # else its error's traceback, with this frame, would be a reference cycle
