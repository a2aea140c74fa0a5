"""Decides when the loop tries again to open a standby: after a failure, only when the brokers answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from penstock.actors.clock import Clock
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TaskId

_AGAIN_S = 3.0
"""Seconds between two attempts: less than 5 s with the answer of a broker that has just returned."""
_AT_ONCE = 4
"""Number of probes at a time. Each request of a probe takes up to 8 s while a partition has no leader. So each of n
failed standbys without a leader is probed about every 2 n s (n > 4)."""


@dataclass
class _Waiting:
    """``probe`` asks the brokers on which the next attempt depends; None if it needs no broker. ``failed``: True if an
    attempt or a probe has failed."""

    probe: Callable[[], object] | None
    again_s: float
    failed: bool
    asked: Future[object] | None = None
    may_try: bool = False


class StandbyRetries:
    """Attempts that have failed and wait to be repeated. Each opens the standby of a task, or has it begin again.

    A request to a broker stops the loop for up to 10 s, and with it all active tasks. So a probe asks first, in another
    thread, and the loop tries again when the probe has succeeded. The attempt may still fail: it also asks with the
    consumer's client, which only the loop may use, and a leader may change in between. First probes do not wait for
    repeated ones.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[TaskId, _Waiting] = {}
        self._askers: dict[bool, ThreadPoolExecutor] = {}  # by whether the attempt has failed before

    def later(self, what: TaskId, probe: Callable[[], object] | None) -> bool:
        """``what`` failed because no broker answered, or, without a ``probe``, because another process has its stores.
        Returns True for the first failure since :meth:`done`."""
        is_first = what not in self._waiting
        self._waiting[what] = _Waiting(probe, self._clock.monotonic_s() + _AGAIN_S, failed=True)
        return is_first

    def probe_first(self, what: TaskId, probe: Callable[[], object]) -> bool:
        """Returns True if another attempt waits for a broker, so that this one must wait for its own probe, too."""
        if what in self._waiting or all(it.probe is None or it.may_try for it in self._waiting.values()):
            return False
        self._waiting[what] = _Waiting(probe, self._clock.monotonic_s(), failed=False)
        return True

    def done(self, what: TaskId) -> None:
        """Forget ``what``, which has succeeded, or is no longer wanted."""
        self._waiting.pop(what, None)

    def keep_only(self, wanted: Collection[TaskId]) -> None:
        """Forget the other tasks."""
        self._waiting = {what: it for what, it in self._waiting.items() if what in wanted}

    def may_try(self, what: TaskId) -> bool:
        """Returns False until the next attempt of ``what`` is due, if one has failed. Begins its probe when that is
        due."""
        it = self._waiting.get(what)
        if it is None or it.may_try:
            return True
        if it.asked is None and self._clock.monotonic_s() >= it.again_s:
            if it.probe is None:
                it.may_try = True
                return True
            if it.failed not in self._askers:
                self._askers[it.failed] = ThreadPoolExecutor(_AT_ONCE, "penstock-standby-probes")
            it.asked = self._askers[it.failed].submit(it.probe)
        if it.asked is not None and it.asked.done():
            # Other errors are left to the attempt, which raises them.
            it.may_try = not isinstance(it.asked.exception(), BrokerUnreachableError)
            it.asked, it.again_s, it.failed = None, self._clock.monotonic_s() + _AGAIN_S, True
        return it.may_try

    def close(self) -> None:
        """End all probes."""
        for asker in self._askers.values():
            asker.shutdown(wait=False, cancel_futures=True)
