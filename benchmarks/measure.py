"""Runs one side of a comparison as a process of its own and measures it from outside, the same way for every side.

A side prints one JSON line per event: ``workers`` (its processes by role; left out when it is one process), ``first``,
``half`` and ``processed`` (with the wall clock in ms), ``closed``. It closes as soon as all is processed. CPU and
memory come from ``/proc``. The broker shows that the output is complete: both sides commit the input's offsets only
after every result and changelog record was acknowledged, so the run is over when the group's offsets are at the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks.data import PARTITIONS, Dataset
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import Admin

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SAMPLE_EVERY_S = 0.1
_WATCH_EVERY_S = 0.01


class BenchmarkError(Exception):
    """A side did not finish its run; says which, and the end of what it wrote to standard error."""


@dataclass(frozen=True)
class Usage:
    """The consumption of one process: CPU seconds (user and system) since the first record, and peak RSS in bytes."""

    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Run:
    """One run of one side. Times are wall clock in ms. ``usage`` is by role: ``worker`` holds the stream loop."""

    side: str
    workload: str
    records: int
    first_ms: float
    half_ms: float
    processed_ms: float
    committed_ms: float
    usage: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Records per second from the first record processed until all are processed, written and committed."""
        return self.records / (self.committed_ms - self.first_ms) * 1000

    @property
    def second_half_rate(self) -> float:
        """Records per second over the second half of the records, without the last commit: the JVM is warm by then."""
        return (self.records - self.records // 2) / (self.processed_ms - self.half_ms) * 1000

    def cpu_us(self, *roles: str) -> float:
        """Returns CPU µs per record of these roles, or of all if none is named."""
        return sum(use.cpu_s for role, use in self.usage.items() if not roles or role in roles) / self.records * 1e6

    def peak_mb(self, *roles: str) -> float:
        """Returns the peak RSS in MB of these roles, or of all if none is named, each process' own peak added up."""
        return sum(use.peak_bytes for role, use in self.usage.items() if not roles or role in roles) / 1e6


@dataclass(frozen=True)
class Side:
    """A side of a comparison: its name for people, and its command for (workload, application id, output topic)."""

    name: str
    command: Callable[[str, str, str], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)


Hook = Callable[[dict[str, Any], IO[str]], None]
"""Called with each event, and the side's standard input."""


class ProcessMeter:
    """CPU and peak memory of processes, sampled so often that one which has ended is known up to its last moments."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._base: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._peak: dict[str, int] = {}
        self._interval_s = _SAMPLE_EVERY_S
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def watch(self, role: str, pid: int) -> None:
        """Measure this process too."""
        self._processes[role] = pid
        self._sample()

    def begin(self) -> None:
        """Count CPU from here on."""
        self._sample()
        self._base = dict(self._cpu)

    def hurry(self) -> None:
        """Sample as often as is sensible: the processes will end soon."""
        self._interval_s = _WATCH_EVERY_S

    def end(self) -> dict[str, Usage]:
        """Stop. Returns what was used since ``begin``."""
        self._stopped.set()
        self._thread.join()
        self._sample()
        return {
            role: Usage(self._cpu[role] - self._base.get(role, 0.0), self._peak[role])
            for role in self._processes
            if role in self._cpu and role in self._peak
        }

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._sample()

    def _sample(self) -> None:
        for role, pid in list(self._processes.items()):
            try:
                self._cpu[role] = cpu_seconds(pid)
                self._peak[role] = peak_bytes(pid)
            except (OSError, ValueError):
                continue  # it has ended: what was read last counts


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time of all threads of a process."""
    # The name, in parentheses, may hold blanks; user and system time are fields 14 and 15.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_SECOND


def peak_bytes(pid: int) -> int:
    """Returns the largest resident set a process ever had. Raises ValueError for one that is ending."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no memory any more")


def run_side(
    side: Side, workload: str, dataset: Dataset, application_id: str, output: str, admin: Admin, *,
    hook: Hook | None = None, settled: Callable[[], bool] | None = None, timeout_s: float = 900.0,
) -> Run:  # fmt: skip
    """Run ``side`` to its end: the whole input is committed, or, if it is given, ``settled`` has returned.

    Raises BenchmarkError when the side fails or takes longer than ``timeout_s``.
    """
    process = subprocess.Popen(
        side.command(workload, application_id, output),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **side.environment}, start_new_session=True,
    )  # fmt: skip
    watchdog = threading.Timer(timeout_s, _kill, [process])
    watchdog.start()
    meter = ProcessMeter()
    errors = _Tail(process.stderr)
    try:
        wait = settled or CommitObserver(application_id, admin, dataset.streams).wait
        times, committed_ms = _follow(process, meter, Observer(wait), hook, hold=settled is not None)
        code = process.wait()
    except BaseException:
        _kill(process)
        raise
    finally:
        watchdog.cancel()
        usage = meter.end()
        process.wait()
    missing = {"first", "half", "processed", "closed"} - times.keys()
    if code or missing or committed_ms is None:
        why = (
            f"exit code {code}"
            if code
            else f"no event {', '.join(sorted(missing))}"
            if missing
            else "nothing committed"
        )
        raise BenchmarkError(f"{side.name}, {workload}: {why} after {times}\n{errors.text()}")
    return Run(
        side.name, workload, dataset.records, times["first"], times["half"], times["processed"], committed_ms, usage
    )  # fmt: skip


def _follow(
    process: subprocess.Popen[str], meter: ProcessMeter, observer: Observer, hook: Hook | None, hold: bool
) -> tuple[dict[str, float], float | None]:
    """Returns the times of the side's events, and of the observed end. ``hold``: have the side wait until then."""
    assert process.stdout is not None
    assert process.stdin is not None
    times: dict[str, float] = {}
    for line in process.stdout:
        if not line.startswith('{"event"'):
            continue
        event = json.loads(line)
        name = event["event"]
        times[name] = event.get("at_ms", 0.0)
        for role, pid in event.get("pids", {}).items():
            meter.watch(role, pid)
        if name == "first":
            if "workers" not in times:
                meter.watch("worker", process.pid)
            meter.begin()
        if hook is not None:
            hook(event, process.stdin)
        if name == "processed":
            meter.hurry()
            observer.begin()
            if hold:
                observer.result()
                process.stdin.write("close\n")
                process.stdin.flush()
    return times, observer.result() if "processed" in times else None


class Observer:
    """Notes when ``wait`` returns, in a thread of its own."""

    def __init__(self, wait: Callable[[], bool]) -> None:
        self._wait = wait
        self._at_ms: float | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Wait from now on."""
        self._thread.start()

    def result(self) -> float | None:
        """Returns the time at which ``wait`` returned (wall clock, ms), to 10 ms; None if it did not in time."""
        self._thread.join()
        return self._at_ms

    def _run(self) -> None:
        if self._wait():
            self._at_ms = time.time() * 1000


@dataclass(frozen=True)
class CommitObserver:
    """Learns from the broker when a group has committed all of the ``topics``."""

    group: str
    admin: Admin
    topics: Collection[str]
    timeout_s: float = 60.0

    def wait(self) -> bool:
        """Wait until it has. Returns False if the time is over before that."""
        deadline = time.monotonic() + self.timeout_s
        ends = self.admin.end_offsets(
            [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)]
        )
        while time.monotonic() < deadline:
            committed = self.admin.committed(self.group)
            if all(committed.get(at, (0, ""))[0] >= end for at, end in ends.items()):
                return True
            time.sleep(_WATCH_EVERY_S)
        return False


class _Tail:
    """The last lines of a stream, read so that its writer never waits."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join(timeout=5.0)
        return "".join(self._lines)

    def _run(self) -> None:
        for line in self._stream:
            self._lines.append(line)
            del self._lines[:-40]


def _kill(process: subprocess.Popen[str]) -> None:
    """End the side with everything it started (its own process group: it is a session leader)."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=15.0)
    except ProcessLookupError:
        return
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
