"""Measures a process and all that it starts: CPU time, and the peak of the memory that they have together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

_SAMPLE_EVERY_S = 0.2


@dataclass(frozen=True)
class TreeUsage:
    """CPU seconds and the peak of resident memory (bytes): of all processes together, and by command. Shared pages
    count in each process."""

    cpu_s: float
    cpu_of: dict[str, float]
    peak_bytes: int
    peak_of: dict[str, int]


class TreeMeter:
    """Samples the descendants of ``root`` (this process without one) while its ``with`` block runs, except ``without``.

    A process that lives for less than 0.2 s may be missed.
    """

    def __init__(self, root: int | None = None, without: Callable[[psutil.Process], bool] = lambda _: False) -> None:
        self._root = psutil.Process(root)
        self._without = without
        self._cpu: dict[tuple[int, float], float] = {}
        self._before: dict[tuple[int, float], float] = {}
        self._names: dict[tuple[int, float], str] = {}
        self._peak = 0
        self._peak_of: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._before = dict(self._cpu)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._sample()

    def usage(self) -> TreeUsage:
        """Returns what was used since the block began, up to the last sample."""
        of: dict[str, float] = {}
        for process, seconds in self._cpu.items():
            name = self._names[process]
            of[name] = of.get(name, 0.0) + seconds - self._before.get(process, 0.0)
        return TreeUsage(sum(of.values()), of, self._peak, dict(self._peak_of))

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        together = 0
        of: dict[str, int] = {}
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                if self._without(process):
                    continue
                times, resident, name = process.cpu_times(), process.memory_info().rss, process.name()
                key = process.pid, process.create_time()
                self._cpu[key], self._names[key] = times.user + times.system, name
            except psutil.Error:
                continue  # it has ended: what was read last counts
            together += resident
            of[name] = of.get(name, 0) + resident
        self._peak = max(self._peak, together)
        for name, resident in of.items():
            self._peak_of[name] = max(self._peak_of.get(name, 0), resident)
