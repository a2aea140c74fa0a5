"""Time that advances while no records come, for the reference model: ``window.idle.advance.ms`` of docs/WINDOWS.md.

All cases that have it read one topic, so all operators become idle together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class _Operator:
    now: Callable[[], int]
    advance: Callable[[int], None]
    advanced_ms: int = -1


class IdleClock:
    """The wall clock, which begins at 0, and the operators whose time advances by it."""

    def __init__(self, idle_ms: int | None) -> None:
        self._idle_ms = idle_ms
        self._wall_ms = self._last_ms = 0
        self._operators: list[_Operator] = []

    def add(self, now: Callable[[], int], advance: Callable[[int], None]) -> None:
        """Adds an operator: the time that it has observed (−1: none yet), and a function that advances it."""
        self._operators.append(_Operator(now, advance))

    def record(self) -> None:
        """Notes that a record has come."""
        self._last_ms = self._wall_ms

    def restart(self) -> None:
        """Restarts the task: it is idle from now on."""
        self._last_ms = self._wall_ms

    def advance(self, passed_ms: int) -> None:
        """Advances the wall clock, and with it the time of operators that have been idle for long enough: by all that
        has passed since the last record, each ms once."""
        self._wall_ms += passed_ms
        if self._idle_ms is None or self._wall_ms - self._last_ms < self._idle_ms:
            return
        for operator in self._operators:
            if operator.now() >= 0:
                operator.advance(operator.now() + self._wall_ms - max(self._last_ms, operator.advanced_ms))
                operator.advanced_ms = self._wall_ms
