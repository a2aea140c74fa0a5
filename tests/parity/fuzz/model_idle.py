"""Time that goes on while no records come, for the reference model: ``window.idle.advance.ms`` of docs/WINDOWS.md.

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
    """The wall clock, which begins at 0, and whose time goes on by it."""

    def __init__(self, idle_ms: int | None) -> None:
        self._idle_ms = idle_ms
        self._wall_ms = self._last_ms = 0
        self._operators: list[_Operator] = []

    def add(self, now: Callable[[], int], advance: Callable[[int], None]) -> None:
        """An operator: the time that it has observed (−1: none yet), and how it is moved."""
        self._operators.append(_Operator(now, advance))

    def record(self) -> None:
        """A record has come."""
        self._last_ms = self._wall_ms

    def restart(self) -> None:
        """The task begins again: it is idle from now on."""
        self._last_ms = self._wall_ms

    def advance(self, passed_ms: int) -> None:
        """The wall clock goes on, and with it the time of what has been idle for long enough: all that has passed since
        the last record counts, each ms once."""
        self._wall_ms += passed_ms
        if self._idle_ms is None or self._wall_ms - self._last_ms < self._idle_ms:
            return
        for operator in self._operators:
            if operator.now() >= 0:
                operator.advance(operator.now() + self._wall_ms - max(self._last_ms, operator.advanced_ms))
                operator.advanced_ms = self._wall_ms
