"""Measures Python's garbage collector: it stops all threads of the process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.common.measures import Meter

_OLDEST = 2


class GarbageMeter:
    """One per process. ``clock_s``: seconds that never run backwards."""

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._begun_s: float | None = None
        self.collections = Meter()
        """Seconds of each collection."""
        self.full = 0
        """Number of collections of the oldest generation, which look at all objects."""

    def install(self) -> None:
        """Measure from now on."""
        gc.callbacks.append(self.note)

    def note(self, phase: str, info: Mapping[str, Any]) -> None:
        """Called by the collector at the start and the stop of a collection."""
        if phase == "start":
            self._begun_s = self._clock_s()
        elif self._begun_s is not None:
            self.collections.add(self._clock_s() - self._begun_s)
            self._begun_s = None
            self.full += info["generation"] == _OLDEST
