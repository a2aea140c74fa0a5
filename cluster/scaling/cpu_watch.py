"""Explains why a stream actor does not start: every CPU is taken, and by which applications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.cluster.names import application_of_stream_actor
from penstock.common.log import logger

START_S = 10.0
"""Seconds: an actor that has a CPU is usually up long before."""


@dataclass(frozen=True)
class CpuUsage:
    """The CPUs of the Ray cluster, and the names of the actors that live there or wait for one."""

    total: int
    free: float
    actor_names: Iterable[str]


class CpuWatch:
    """Notices that stream actors do not start because no CPU is free. ``clock`` gives seconds. One thread at a time."""

    def __init__(self, application_id: str, usage: Callable[[], CpuUsage], clock: Callable[[], float]) -> None:
        self._application_id = application_id
        self._usage = usage
        self._clock = clock
        self._starting_since: dict[str, float] = {}
        self._reason: str | None = None
        self.waiting = 0
        """The actors that do not start because no CPU is free, as of the last check."""
        self._log = logger(__name__).bind(application=application_id)

    def check(self, starting: Iterable[str]) -> str | None:
        """Returns the notice to a user whose actors ``starting`` are not up after START_S; None while a CPU is free, or
        they are only just starting. A new notice is logged."""
        now = self._clock()
        self._starting_since = {name: self._starting_since.get(name, now) for name in starting}
        late = sum(now - since >= START_S for since in self._starting_since.values())
        reason = waiting_for_cpus(self._application_id, late, self._usage()) if late else None
        if reason is not None and reason != self._reason:
            self._log.warning("waiting for CPUs", why=reason)
        self._reason, self.waiting = reason, late if reason is not None else 0
        return reason


def waiting_for_cpus(application_id: str, waiting: int, usage: CpuUsage) -> str | None:
    """Returns the notice to a user whose application has ``waiting`` actors that have not started; None when a CPU is
    free."""
    if usage.free >= 1:
        return None
    owners = Counter(owner for name in usage.actor_names if (owner := application_of_stream_actor(name)) is not None)
    del owners[application_id]
    count = f"{waiting} stream actor waits" if waiting == 1 else f"{waiting} stream actors wait"
    what = f"{count} for a free CPU: the Ray cluster has {usage.total}, all taken"
    if not owners:
        return f"{what}. Add nodes, end other Ray jobs that hold CPUs, or have fewer (penstock scale)"
    others = ", ".join(f"{owner!r} ({number})" for owner, number in sorted(owners.items()))
    largest, has = max(sorted(owners.items()), key=lambda owner: owner[1])
    gives = min(waiting, has - 1)
    now = f"; now, 'penstock scale {largest} {has - gives}' frees {gives} of them" if gives else ""
    return (
        f"{what}; stream actors of other applications: {others}. Without a limit each application takes a CPU for each "
        f"of its tasks, until none is left: give each its share by max.stream.actors or tasks.per.actor{now}. "
        "Or add nodes, or stop one of these applications"
    )
