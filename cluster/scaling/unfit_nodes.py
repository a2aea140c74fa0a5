"""Decides which Ray nodes get no actors for a while, because the disk below their ``state.dir`` fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from penstock.cluster.events import SetTimer, Timer

FIRST_UNFIT_MS = 60_000
LONGEST_UNFIT_MS = 1_800_000


class UnfitNodes:
    """The part of the coordinator's state machine that knows which disks have failed.

    A node is unfit from the failure of one of its actors until a timer fires: then actors may start there again. If
    the disk still fails, the next time is twice as long.
    """

    def __init__(self) -> None:
        self._cpus: Mapping[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._failures: Counter[str] = Counter()

    @property
    def nodes(self) -> frozenset[str]:
        """The ids of the nodes that get no actors now."""
        return frozenset(self._reasons)

    @property
    def cpus(self) -> int:
        """The CPUs of these nodes together."""
        return sum(self._cpus.get(node, 0) for node in self._reasons)

    @property
    def notice(self) -> str | None:
        """The notice to users of these nodes; None if there is none."""
        if not self._reasons:
            return None
        each = "; ".join(f"node {node[:12]}: {reason}" for node, reason in sorted(self._reasons.items()))
        return f"the disks of these nodes fail; other nodes have their tasks until they are tried again: {each}"

    def resized(self, cpus: Mapping[str, int]) -> None:
        """Take the CPUs of each node that lives. A node that is gone is forgotten. While no fit node has CPUs, the
        others are tried at once: nothing else could run the tasks."""
        self._cpus = cpus
        self._reasons = {node: reason for node, reason in self._reasons.items() if node in cpus}
        if not any(count for node, count in cpus.items() if node not in self._reasons):
            self._reasons.clear()

    def failed(self, node: str, error: str) -> list[SetTimer]:
        """Take a failure of an actor by the disk of ``node``. Returns what follows: nothing if no other node can take
        its tasks, since none has CPUs and a disk that has not failed."""
        if not any(cpus for other, cpus in self._cpus.items() if other != node and other not in self._reasons):
            return []
        if node not in self._reasons:  # the other actors of an unfit node fail a moment later
            self._failures[node] += 1
        self._reasons[node] = error.partition("\n")[0]
        doubled = min(self._failures[node] - 1, 16)
        return [SetTimer(Timer.TRY_DISKS, min(FIRST_UNFIT_MS << doubled, LONGEST_UNFIT_MS))]

    def try_again(self) -> None:
        """Let actors start on each of these nodes again."""
        self._reasons.clear()
