"""How long actors have said nothing of themselves: what to tell of it, and when one is given up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.common.ids import TaskId

TOLD_AFTER_S = 30.0
"""One that gives no status for so long is told of: no request to a broker that is away keeps it for as long."""
DEAD_S = 45.0
"""One whose process gives no heartbeat for so long is given up (``session.timeout.ms``, by Kafka's default)."""
HUNG_S = 300.0
"""One whose thread gives no status for so long is given up (Kafka Streams: ``max.poll.interval.ms``)."""

_BUSY = (
    "a function of the program does not come back from a record; the actor is replaced after "
    f"{HUNG_S:.0f} s, and the record processed again"
)
_STANDS_STILL = f"its process stands still; the actor is replaced after {DEAD_S:.0f} s"


class Silence:
    """Of all actors of an application, by ``clock_s``. The first silence of an actor begins when it is seen."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._last_status: dict[str, float] = {}
        self._last_heartbeat: dict[str, float] = {}

    def broken(self, name: str) -> None:
        """The actor has given its status."""
        self._last_status[name] = self._last_heartbeat[name] = self._clock_s()

    def goes_on(self, name: str, heartbeat: bool) -> str | None:
        """The actor has given none, but perhaps a heartbeat: its thread is busy then, else its process stands still.
        Why it is given up, None while it is not."""
        now = self._clock_s()
        if heartbeat:
            self._last_heartbeat[name] = now
        if now - self._last_status.setdefault(name, now) > HUNG_S:
            return f"it has given no status for {HUNG_S:.0f} s"
        if now - self._last_heartbeat.setdefault(name, now) > DEAD_S:
            return f"its process has not answered for {DEAD_S:.0f} s"
        return None

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Those that are gone."""
        kept = set(names)
        for last in (self._last_status, self._last_heartbeat):
            for name in last.keys() - kept:
                del last[name]

    def told(self, placement: Mapping[TaskId, str]) -> str | None:
        """What to tell of actors that have given no status for long, with the tasks of each; None when all have."""
        now = self._clock_s()
        told = []
        for name, last_s in sorted(self._last_status.items()):
            if now - last_s >= TOLD_AFTER_S:
                tasks = ", ".join(str(task) for task in sorted(placement) if placement[task] == name)
                what = _BUSY if self._last_heartbeat.get(name, last_s) > last_s else _STANDS_STILL
                told.append(f"{name} has not answered for {now - last_s:.0f} s (its tasks: {tasks or 'none'}): {what}")
        return "; ".join(told) or None
