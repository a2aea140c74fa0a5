"""The limits on the times at which calls begin: a rate, and a circuit breaker. No clock: the caller gives the time."""

from __future__ import annotations

from enum import IntEnum

from penstock.topology.options.calls import Breaker

_BURST_MS = 100.0
"""A rate may be exceeded by as many calls as it allows in this time."""


class Rate:
    """At most ``per_second`` calls in a second."""

    def __init__(self, per_second: float) -> None:
        self._each_ms = 1000.0 / per_second
        self._free_ms = 0.0

    def due_ms(self) -> float:
        """Returns the time from which the next call may begin."""
        return self._free_ms - max(0.0, _BURST_MS - self._each_ms)

    def count(self, now_ms: float) -> None:
        """Counts a call that begins now."""
        self._free_ms = max(self._free_ms, now_ms) + self._each_ms


class BreakerState(IntEnum):
    """The state of a circuit breaker, as metrics show it."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class CircuitBreaker:
    """See :class:`~penstock.topology.options.calls.Breaker`."""

    def __init__(self, settings: Breaker) -> None:
        self._settings = settings
        self._failures = 0
        self._open_until_ms = 0.0
        self._probing = False
        self.state = BreakerState.CLOSED

    def due_ms(self) -> float:
        """Returns the time from which the next call may begin; infinity while the outcome of a probe is awaited."""
        if self.state is BreakerState.CLOSED:
            return 0.0
        return float("inf") if self._probing else self._open_until_ms

    def count(self, now_ms: float) -> None:
        """Counts a call that begins now."""
        if self.state is not BreakerState.CLOSED:
            self.state, self._probing = BreakerState.HALF_OPEN, True

    def succeeded(self) -> None:
        """Count a success: all calls may begin."""
        self._failures, self._probing, self.state = 0, False, BreakerState.CLOSED

    def failed(self, now_ms: float) -> None:
        """Count a failure."""
        self._failures += 1
        if self._failures >= self._settings.failures:
            self.state, self._probing = BreakerState.OPEN, False
            self._open_until_ms = now_ms + self._settings.open_ms
