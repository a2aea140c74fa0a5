"""Decides when the loop tries again to open a standby: after a failure, not before the brokers answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from penstock.actors.clock import Clock
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TaskId

_AGAIN_S = 3.0
"""Time between two attempts: with the answer of a broker that has just returned, less than 5 s."""
_AT_ONCE = 4
"""Each request of a probe takes up to 8 s while a partition has no leader."""


@dataclass
class _Waiting:
    """``probe``: asks the brokers for all that the next attempt will ask them for; None if that needs no broker."""

    probe: Callable[[], object] | None
    again_s: float
    asked: Future[object] | None = None
    may_try: bool = False


class StandbyRetries:
    """Attempts that have failed and wait to be repeated. Each opens the standby of a task; None stands for the standbys
    that must begin again.

    A request to a broker stops the loop for up to 10 s, and with it all active tasks. So a probe asks first, in another
    thread, and the loop tries again when it has succeeded.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[TaskId | None, _Waiting] = {}
        self._asker: ThreadPoolExecutor | None = None

    def later(self, what: TaskId | None, probe: Callable[[], object] | None) -> bool:
        """It has failed because no broker answered, or, without a ``probe``, because another process has its stores.
        Returns True for the first failure since :meth:`done`."""
        is_first = what not in self._waiting
        self._waiting[what] = _Waiting(probe, self._clock.monotonic_s() + _AGAIN_S)
        return is_first

    def probe_first(self, what: TaskId, probe: Callable[[], object]) -> bool:
        """Returns True if another attempt waits for a broker, so that this one must wait for its own probe, too."""
        if what in self._waiting or all(it.probe is None or it.may_try for it in self._waiting.values()):
            return False
        self._waiting[what] = _Waiting(probe, self._clock.monotonic_s())
        return True

    def done(self, what: TaskId | None) -> None:
        """It has succeeded."""
        self._waiting.pop(what, None)

    def keep_only(self, wanted: Collection[TaskId]) -> None:
        """Forget the other tasks."""
        self._waiting = {what: it for what, it in self._waiting.items() if what is None or what in wanted}

    def may_try(self, what: TaskId | None) -> bool:
        """Returns False until the next attempt of what has failed is due. Begins its probe when that is due."""
        it = self._waiting.get(what)
        if it is None or it.may_try:
            return True
        if it.asked is None and self._clock.monotonic_s() >= it.again_s:
            if it.probe is None:
                it.may_try = True
                return True
            self._asker = self._asker or ThreadPoolExecutor(_AT_ONCE, "penstock-standby-probes")
            it.asked = self._asker.submit(it.probe)
        if it.asked is not None and it.asked.done():
            # Any other error than this one is the attempt's own, which raises it.
            it.may_try = not isinstance(it.asked.exception(), BrokerUnreachableError)
            it.asked, it.again_s = None, self._clock.monotonic_s() + _AGAIN_S
        return it.may_try

    def close(self) -> None:
        """Ask no more."""
        if self._asker is not None:
            self._asker.shutdown(wait=False, cancel_futures=True)
