"""Why a stream actor does not start: every CPU is taken, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.cluster.names import application_of_stream_actor


def waiting_for_cpus(application_id: str, waiting: int, cpus: int, free: float, names: Iterable[str]) -> str | None:
    """What to tell a user whose application has ``waiting`` actors that have not started; None when a CPU is free.

    ``names`` are the named actors of the Ray cluster that live or wait for a CPU.
    """
    if not waiting or free >= 1:
        return None
    owners = Counter(owner for name in names if (owner := application_of_stream_actor(name)) is not None)
    del owners[application_id]
    count = f"{waiting} stream actor waits" if waiting == 1 else f"{waiting} stream actors wait"
    what = f"{count} for a free CPU: the Ray cluster has {cpus}, all taken"
    if not owners:
        return f"{what}. Add nodes, end other Ray jobs that hold CPUs, or set tasks.per.actor so that fewer are needed"
    others = ", ".join(f"{owner!r} ({number})" for owner, number in sorted(owners.items()))
    return (
        f"{what}; stream actors of other applications: {others}. Add nodes, stop one of these applications, or set "
        "tasks.per.actor (tasks that share an actor, and so a CPU) so that each takes fewer"
    )
