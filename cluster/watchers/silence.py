"""Judges from an actor's silence if it is busy, if its process is frozen, or if it is lost with its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.cluster.environment import NodeAnswer
from penstock.common.ids import TaskId

SHOWN_AFTER_S = 3.0
"""Time without a heartbeat after which an actor is shown as silent; nothing else follows yet."""
BUSY_AFTER_S = 30.0
"""Time after which the status names an actor that gives heartbeats and no status: no request takes as long."""
HUNG_S = 300.0
"""Time without a status after which an actor is replaced (Kafka Streams: ``max.poll.interval.ms``)."""
REFUSED_FENCED_S = 0.4
"""Time of refused connections after which a node is lost, if Kafka fences its actors. If a firewall refused them,
a restart of the actor is all that the mistake costs."""
REFUSED_S = 1.5
"""Time of refused connections after which a node is lost, if nothing fences its actors: then their processes must give
no sign of life for SHOWN_AFTER_S, too."""
UNREACHABLE_AFTER_S = 3.0
"""Time without a connection after which a node is lost, if Kafka fences its actors and another node answers."""
STALLED_S = 5.0
"""The coordinator judges silence about once a second. If more time has passed, the coordinator itself has paused, and
no actor counts as silent."""

_BUSY = (
    "a function of the program has been processing one record for long; the actor is replaced after "
    f"{HUNG_S:.0f} s, and the record is processed again"
)
_UNRESPONSIVE = f"its process is unresponsive; the actor is replaced after {PROCESS_LOST_S:.0f} s"


@dataclass
class _Heard:
    """The last signs of life of one actor, and the times since which its node gives none."""

    status_s: float
    heartbeat_s: float
    refused_since_s: float | None = None
    unreachable_since_s: float | None = None

    def excuse(self, seconds: float) -> None:
        self.status_s += seconds
        self.heartbeat_s += seconds
        self.refused_since_s = self.unreachable_since_s = None


class Silence:
    """Judges the silence of all actors of an application by ``clock_s``; the first silence begins when it is seen.

    ``fenced``: Kafka takes nothing of an actor that was replaced (exactly once). Only then may an actor be replaced
    although its process may live on a node that the coordinator cannot reach.
    """

    def __init__(self, clock_s: Callable[[], float], fenced: bool) -> None:
        self._clock_s = clock_s
        self._fenced = fenced
        self._heard: dict[str, _Heard] = {}
        self._looked_s = clock_s()

    def status_received(self, name: str) -> None:
        """The actor has given its status."""
        now = self._now()
        self._heard[name] = _Heard(now, now)

    def continues(
        self, name: str, heartbeat: bool, node: NodeAnswer = NodeAnswer.ANSWERS, elsewhere: Iterable[str] = ()
    ) -> str | None:
        """Returns why the actor, which has given no status, is lost; None if it is not.

        A ``heartbeat`` shows that only its thread is busy. ``node`` is the answer of its node; ``elsewhere`` names the
        actors of other nodes.
        """
        now = self._now()
        heard = self._of(name, now)
        if heartbeat:
            heard.heartbeat_s, heard.refused_since_s, heard.unreachable_since_s = now, None, None
        elif reason := self._lost_with_node(heard, now, node, elsewhere):
            return reason
        if now - heard.status_s > HUNG_S:
            return f"it has given no status for {HUNG_S:.0f} s"
        if now - heard.heartbeat_s > PROCESS_LOST_S:
            return f"its process has not answered for {PROCESS_LOST_S:.0f} s"
        return None

    def _lost_with_node(self, heard: _Heard, now: float, node: NodeAnswer, elsewhere: Iterable[str]) -> str | None:
        refused = node is NodeAnswer.REFUSES
        heard.refused_since_s = _since(heard.refused_since_s, now) if refused else None
        unreachable = node is NodeAnswer.UNREACHABLE
        heard.unreachable_since_s = since = _since(heard.unreachable_since_s, now) if unreachable else None
        if node in (NodeAnswer.GONE, NodeAnswer.ENDED):
            return "it does not answer, and Ray calls its node dead"
        if heard.refused_since_s is not None and self._is_believed(heard, now - heard.refused_since_s, now):
            return "it does not answer, and its node is gone: nothing listens at the address of its raylet"
        if not self._fenced or since is None or now - since < UNREACHABLE_AFTER_S:
            return None
        # With no answer from any other node, the coordinator itself may be cut off.
        if any(other in self._heard and self._heard[other].heartbeat_s > since for other in elsewhere):
            return f"no connection reaches it or its node for {UNREACHABLE_AFTER_S:.0f} s, and other nodes answer"
        return None

    def _is_believed(self, heard: _Heard, refused_for_s: float, now: float) -> bool:
        """True if refused connections show that the node is lost: a firewall may refuse them, too."""
        if self._fenced:
            return refused_for_s >= REFUSED_FENCED_S
        return refused_for_s >= REFUSED_S and now - heard.heartbeat_s >= SHOWN_AFTER_S

    def is_silent(self, name: str) -> bool:
        """True if its process has given no sign of life for SHOWN_AFTER_S: what it last reported may not hold now."""
        now = self._now()
        return name in self._heard and now - self._heard[name].heartbeat_s >= SHOWN_AFTER_S

    def report_ages_s(self) -> dict[str, float]:
        """Seconds since each actor gave its status."""
        now = self._now()
        return {name: now - heard.status_s for name, heard in self._heard.items()}

    def look_at(self, name: str) -> None:
        """A question is under way to the actor: its silence begins now, unless it has begun."""
        self._of(name, self._now())

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Drop those that are gone."""
        for name in self._heard.keys() - set(names):
            del self._heard[name]

    def notice(self, placement: Mapping[TaskId, str]) -> str | None:
        """Describes the silent and the busy actors, with the tasks of each; None if there are none."""
        now = self._now()
        notices = []
        for name, heard in sorted(self._heard.items()):
            silent = now - heard.heartbeat_s >= SHOWN_AFTER_S
            if silent or now - heard.status_s >= BUSY_AFTER_S:
                tasks = ", ".join(str(task) for task in sorted(placement) if placement[task] == name)
                for_s = now - (heard.heartbeat_s if silent else heard.status_s)
                what = _UNRESPONSIVE if silent else _BUSY
                notices.append(f"{name} has not answered for {for_s:.0f} s (its tasks: {tasks or 'none'}): {what}")
        return "; ".join(notices) or None

    def _of(self, name: str, now: float) -> _Heard:
        return self._heard.setdefault(name, _Heard(now, now))

    def _now(self) -> float:
        now = self._clock_s()
        stalled_s, self._looked_s = now - self._looked_s, now
        if stalled_s > STALLED_S:
            for heard in self._heard.values():
                heard.excuse(stalled_s)
        return now


def _since(began_s: float | None, now: float) -> float:
    return now if began_s is None else began_s
