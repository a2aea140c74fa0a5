"""The time for which a stream actor may write without hearing from its coordinator (at least once).

Kafka fences a transactional producer, so exactly once needs no lease. At least once, nothing in Kafka keeps an actor
from writing that its coordinator has replaced. So an actor writes only while it has a lease, and the coordinator waits
for the end of the lease before it gives away the tasks of an actor that may live (``cluster/watchers/leases.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.kafka.settings import session_timeout_ms

LONGEST_S = 30.0
"""Longest lease, in seconds. The coordinator always assumes this length, even if an actor's lease is shorter."""
_SHARE = 2 / 3


def lease_s(config: StreamsConfig) -> float:
    """Returns the length of an actor's lease in seconds; infinite exactly once.

    It ends before the session in the group does, after which the group may give the tasks to another cluster.
    """
    if config.processing_guarantee == "exactly_once_v2":
        return math.inf
    return min(LONGEST_S, session_timeout_ms(config.client_entries("consumer.")) / 1000 * _SHARE)


@dataclass(frozen=True)
class QuestionId:
    """Identifies a question of a coordinator to a stream actor. ``incarnation`` is larger for each coordinator that is
    started. ``number`` counts its questions to this actor from 1. ``answered`` is the highest number whose answer had
    arrived when this question was sent, 0 for none."""

    incarnation: int
    number: int
    answered: int


class Lease:
    """The lease of one actor, by ``clock_s``. It has no end before :meth:`begin`: until then the actor has no tasks.

    A question alone does not extend the lease, because its answer may be lost. When a later question says that the
    answer arrived, the lease is extended to ``lasts_s`` after the arrival of the question that was answered. The
    coordinator received that answer later than that, so it knows a time by which the lease has ended.
    :meth:`question_arrived` may be called from another thread.

    ``is_orphaned`` returns True if the process that started the actor, its raylet, has ended: then the lease is over.
    """

    def __init__(self, clock_s: Callable[[], float], is_orphaned: Callable[[], bool] = lambda: False) -> None:
        self._clock_s = clock_s
        self._is_orphaned = is_orphaned
        self._lasts_s = self._ends_s = math.inf
        self._incarnation = 0
        self._arrived_s: dict[int, float] = {}

    def begin(self, lasts_s: float) -> None:
        """Begin the lease: the actor has started, and reports that to the coordinator."""
        self._lasts_s = lasts_s
        self._ends_s = self._clock_s() + lasts_s

    def question_arrived(self, question_id: QuestionId) -> None:
        """Note the arrival of a question. A question of an earlier coordinator than the last changes nothing."""
        if question_id.incarnation < self._incarnation:
            return
        if question_id.incarnation > self._incarnation:
            self._incarnation, self._arrived_s = question_id.incarnation, {}
        self._arrived_s.setdefault(question_id.number, self._clock_s())
        answered_s = self._arrived_s.get(question_id.answered)
        self._arrived_s = {number: at_s for number, at_s in self._arrived_s.items() if number >= question_id.answered}
        if answered_s is not None:
            self._ends_s = max(self._ends_s, answered_s + self._lasts_s)

    @classmethod
    def unlimited(cls, clock_s: Callable[[], float]) -> Lease:
        """Returns a lease without an end, for an actor without a coordinator that could replace it."""
        return cls(clock_s)

    @property
    def incarnation(self) -> int:
        """The highest incarnation of a coordinator whose question has arrived; 0 for none."""
        return self._incarnation

    @property
    def is_over(self) -> bool:
        """True if another actor may have the tasks by now."""
        return self._clock_s() >= self._ends_s or self._is_orphaned()
