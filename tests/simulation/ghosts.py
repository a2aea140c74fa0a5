"""Processes of actors that were replaced, and work on: Ray's errors about them, and the writes that they may make."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ray.exceptions import ActorDiedError

from penstock.common.ids import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.actor_process import ActorProcess


def actor_died(process: ActorProcess) -> ActorDiedError:
    """Returns the error of a call to it. Only its own node can report the end of the process."""
    error = ActorDiedError()
    what = "its node has died" if process.taken_for_dead else "its worker process has died"
    error.error_msg = f"The actor is dead because {what}."
    return error


_WAKES_S = 1.0
"""Seconds for which a process that wakes may send what was queued when it was frozen (decision 29)."""


class Writers:
    """The last writer of each partition of a changelog, with the time. At least once, a process that Ray has taken for
    dead must write nothing after a record that another process has written since then."""

    def __init__(self, now: Callable[[], float], violation: Callable[[str], None]) -> None:
        self._now = now
        self._violation = violation
        self._last: dict[TopicPartition, tuple[Any, float]] = {}

    def wrote(self, partition: TopicPartition, process: Any) -> None:
        """Checks a record of the process that has arrived outside of a transaction."""
        if not partition.topic.endswith("-changelog"):
            return
        last, at_s = self._last.get(partition, (process, 0.0))
        wakes = self._now() - getattr(process, "frozen_until", -math.inf) < _WAKES_S
        if last is not process and at_s > getattr(process, "dead_since_s", math.inf) and not wakes:
            self._violation(f"{process.name}, which was replaced, writes to {partition} behind {last.name}")
        self._last[partition] = process, self._now()
