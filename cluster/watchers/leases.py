"""The coordinator's side of the leases of stream actors (``actors/loop/lease.py``)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.actors.loop.lease import LONGEST_S, QuestionId
from penstock.cluster.environment import NodeAnswer
from penstock.cluster.events import FenceActor

MARGIN_S = 2.0
"""Added to each wait. Covers what is on its way to a broker when a lease ends, and clocks that differ in speed."""
ORPHANED_S = 2.0
"""An actor whose raylet has ended sees that within milliseconds, except while it works on a record."""
_LOOK_EACH_S = 1.0


class Leases:
    """The leases of the actors of one coordinator; its ``incarnation`` is above those of all coordinators before it."""

    def __init__(self, clock_s: Callable[[], float], incarnation: int) -> None:
        self._clock_s = clock_s
        self._incarnation = incarnation
        self._begun_s = clock_s()
        self._asked: Counter[str] = Counter()
        self._answered: dict[str, int] = {}
        self._heard_s: dict[str, float] = {}
        self._given_up: set[str] = set()

    def question_id(self, name: str) -> QuestionId:
        """Returns the id of the next question to the actor."""
        self._asked[name] += 1
        return QuestionId(self._incarnation, self._asked[name], self._answered.get(name, 0))

    def go_above(self, incarnation: int) -> None:
        """Choose an incarnation above ``incarnation``, an earlier one, even if the wall clock was set back since."""
        self._incarnation = max(self._incarnation, incarnation + 1)

    def answered(self, name: str, question_id: QuestionId) -> None:
        """Note that the answer to the question with ``question_id`` has arrived."""
        if name not in self._given_up:
            self._answered[name] = max(self._answered.get(name, 0), question_id.number)
            self._heard_s[name] = self._clock_s()

    def started(self, name: str) -> None:
        """Begin the lease of an actor that has started."""
        self._heard_s[name] = self._clock_s()

    def give_up(self, name: str) -> float:
        """Stop extending the actor's lease; returns the seconds after which it has certainly ended. An actor that has
        never answered this coordinator may have a lease from the one before."""
        self._given_up.add(name)  # a question that is under way must not acknowledge a late answer
        return self._left_s(self._heard_s.pop(name, self._begun_s))

    @property
    def unknown_s(self) -> float:
        """Seconds after which no actor of the coordinator before has a lease, except those that answer."""
        return self._left_s(self._begun_s)

    def _left_s(self, heard_s: float) -> float:
        return max(0.0, heard_s + LONGEST_S + MARGIN_S - self._clock_s())


async def wait_until_lease_ends(lost: FenceActor, node: Callable[[str], Coroutine[Any, Any, NodeAnswer]]) -> float:
    """Waits until the lost actor surely has no lease: ``may_write_s``, or ORPHANED_S after its raylet has ended, if
    ``node`` reports that. Returns the seconds waited."""
    clock_s = asyncio.get_running_loop().time
    begun_s = clock_s()
    ends_s = begun_s + lost.may_write_s
    while (left_s := ends_s - clock_s()) > ORPHANED_S and lost.node:
        if await node(lost.node) in (NodeAnswer.REFUSES, NodeAnswer.ENDED):
            left_s = min(ends_s - clock_s(), ORPHANED_S)
            break
        await asyncio.sleep(_LOOK_EACH_S)
    await asyncio.sleep(max(0.0, left_s))
    return clock_s() - begun_s
