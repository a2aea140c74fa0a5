"""Notices that nodes are drained: before a cloud takes them back, or when a user runs ``ray drain-node``.

Ray itself moves no actor away; it only stops starting actors there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ray._private.state import state as ray_state

from penstock.cluster.events import NodesDraining
from penstock.common.log import logger


class DrainWatch:
    """Reports nodes that are drained. ``draining`` gives the time at which each of them will be gone, in ms since 1970,
    or 0 if that is open; ``wall_ms`` is the current time by that clock."""

    def __init__(
        self, application_id: str, draining: Callable[[], Mapping[str, int]], wall_ms: Callable[[], float]
    ) -> None:
        self._draining = draining
        self._wall_ms = wall_ms
        self._known: frozenset[str] = frozenset()
        self._log = logger(__name__).bind(application=application_id)

    def check(self) -> NodesDraining | None:
        """Returns the event for the machine; None if no node is drained, nor was at the last check. Logs new nodes."""
        now_ms = self._wall_ms()
        left = {node: (at_ms - now_ms) / 1000 if at_ms else None for node, at_ms in self._draining().items()}
        for node in left.keys() - self._known:
            self._log.warning("node is drained, its actors leave", node=node, seconds_left=left[node])
        known, self._known = self._known, frozenset(left)
        return NodesDraining(left) if left or known else None


def draining_nodes() -> dict[str, int]:
    """Returns the time at which each drained node of the connected cluster will be gone, for :class:`DrainWatch`."""
    found: dict[str, int] = ray_state.get_draining_nodes()
    return found
