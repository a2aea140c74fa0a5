"""Look-ups over HTTP: how many an idle application answers, one by one and in batches, and what a few a second cost a
busy one."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

from benchmarks.http_load import asks_in
from benchmarks.measure import Run
from benchmarks.penstock_side import PenstockSide
from benchmarks.report import Grid, Spread
from benchmarks.rig import Rig
from benchmarks.workloads import COUNT_STORE

WORKLOAD = "count"
CONNECTIONS = 16
BATCH, BATCH_CONNECTIONS = 10_000, 2
OPEN_RATE = 50
PERIOD_S = 0.5
_FOR_GOOD_S = 3600.0
_WARM_S = 1.0  # the load generator starts, and the server meets the application for the first time
_OPEN_LOOP = (
    "--rate", str(OPEN_RATE), "--seconds", str(_FOR_GOOD_S), "--period", str(PERIOD_S), "--warm", str(_WARM_S),
)  # fmt: skip


@dataclass(frozen=True)
class Lookups:
    """Look-ups as the client saw them. Latencies in ms, of a batch those of the whole; ``statuses`` counts answers by
    HTTP status."""

    lookups: int
    per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    statuses: dict[str, int]


@dataclass(frozen=True)
class HttpResult:
    """Look-ups on the idle application, singly and in batches, and on the busy one, run by run; ``costs`` is, run by
    run, the share of its throughput that the application lost while it was asked."""

    idle: Lookups
    batches: Lookups
    busy: list[Lookups]
    costs: list[float]


def measure(rig: Rig, repeat: int, idle_s: float) -> tuple[HttpResult, list[Run], list[str]]:
    """Run ``count`` with the HTTP server: once asked when it is done, then some times asked while it is busy.

    Two runs differ by more than look-ups cost, so the throughput compared is that within a run: it is asked in every
    other half second.
    """
    state = rig.work / "http-state"
    side = PenstockSide(rig.records, rig.bootstrap_servers, state, http=True, hold=True).side()
    idle = _AskWhenIdle(rig.keys, idle_s)
    run, wrong = rig.run(side, WORKLOAD, idle)
    runs = [run]
    busy: list[Lookups] = []
    costs: list[float] = []
    for _ in range(repeat):
        asking = _AskWhileBusy(rig.keys)
        try:
            run, differing = rig.run(side, WORKLOAD, asking)
        finally:
            asking.end()
        wrong += differing
        runs.append(run)
        if asking.lookups is not None:
            busy.append(asking.lookups)
            costs += cost(asking.progress)
    assert idle.lookups is not None
    assert idle.batches is not None
    # In a small run some keys have no record.
    complete = len(rig.expected(WORKLOAD).final) == rig.keys
    if not idle.lookups.statuses.keys() <= ({"200"} if complete else {"200", "404"}):
        wrong.append(f"the idle application answered with {idle.lookups.statuses}")
    if idle.batches.statuses.keys() != {"200"}:
        wrong.append(f"the idle application answered batches with {idle.batches.statuses}")
    return HttpResult(idle.lookups, idle.batches, busy, costs), runs, wrong


def cost(progress: Sequence[tuple[float, float]], period_s: float = PERIOD_S) -> list[float]:
    """Returns the share of the throughput lost in the periods with look-ups, against the periods on both sides of each.

    ``progress`` has moments (wall clock, ms) and how many records were done. Empty for a run that is too short.
    """
    if not progress:
        return []
    width = period_s * 1000
    begin, end = int(progress[0][0] / width) + 1, int(progress[-1][0] / width)
    edges = [_records_at(progress, edge * width) for edge in range(begin, end + 1)]
    done = [after - before for before, after in pairwise(edges)]
    asked = [index for index in range(1, len(done) - 1) if asks_in((begin + index + 0.5) * width, period_s)]
    with_lookups = sum(done[index] for index in asked)
    without = sum((done[index - 1] + done[index + 1]) / 2 for index in asked)
    return [1 - with_lookups / without] if without else []


def _records_at(progress: Sequence[tuple[float, float]], moment_ms: float) -> float:
    """Returns the records done at that moment, as if those between two looks came evenly."""
    after = next(index for index, (at, _) in enumerate(progress) if at >= moment_ms)
    if after == 0:
        return progress[0][1]
    (t0, r0), (t1, r1) = progress[after - 1], progress[after]
    return r0 + (r1 - r0) * (moment_ms - t0) / (t1 - t0)


def table(result: HttpResult) -> Grid:
    """Returns rows for the idle application, asked for single keys and for batches, and one for the busy one."""
    rows = [_row("idle, closed loop", f"{CONNECTIONS} connections", [result.idle], "–")]
    batches = f"{BATCH_CONNECTIONS} connections, {BATCH:,} keys at once"
    rows.append(_row("idle, closed loop", batches, [result.batches], "–"))
    if result.busy:
        lost = "–"
        if result.costs:
            lost = f"{statistics.median(result.costs):.1%} ({min(result.costs):.1%} to {max(result.costs):.1%})"
        rows.append(_row("at full speed, open loop", f"{OPEN_RATE}/s", result.busy, lost))
    return ("application", "asked by", "look-ups/s", "p50 ms", "p99 ms", "max ms", "throughput lost"), rows


def _row(name: str, asked_by: str, seen: list[Lookups], cost: str) -> list[str]:
    figures = [
        Spread.of([each.per_second for each in seen]).text(),
        Spread.of([each.p50_ms for each in seen]).text(".1f"),
        Spread.of([each.p99_ms for each in seen]).text(".1f"),
        Spread.of([each.max_ms for each in seen]).text(".1f"),
    ]
    return [name, asked_by, *figures, cost]


class _Client:
    """The load generator as a process, on the address that the side reports."""

    def __init__(self, event: dict[str, Any], keys: int, *options: str, keys_path: str = "keys/{key}") -> None:
        address = event["address"].removeprefix("http://")
        path = f"/v1/applications/{event['application']}/stores/{COUNT_STORE}/{keys_path}"
        command = [sys.executable, "-m", "benchmarks.http_load", address, path, "--keys", str(keys), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def result(self) -> Lookups:
        """End the load if it does not end by itself, and return what it saw."""
        printed, _ = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"the load generator failed with exit code {self._process.returncode}")
        return Lookups(**json.loads(printed))

    def kill(self) -> None:
        """End it without a result."""
        self._process.kill()
        self._process.communicate()


class _AskWhenIdle:
    """A hook: when everything is processed and the server is up, ask for a while, then let the side close."""

    def __init__(self, keys: int, seconds: float) -> None:
        self.lookups: Lookups | None = None
        self.batches: Lookups | None = None
        self._keys = keys
        self._seconds = seconds
        self._server: dict[str, Any] | None = None
        self._processed = False

    def __call__(self, event: dict[str, Any], side: IO[str]) -> None:
        if event["event"] == "http":
            self._server = event
        self._processed = self._processed or event["event"] == "processed"
        if self._server is not None and self._processed and self.lookups is None:
            seconds = ("--seconds", str(self._seconds))
            single = ("--connections", str(CONNECTIONS), *seconds)
            self.lookups = _Client(self._server, self._keys, *single).result()
            batches = ("--batch", str(BATCH), "--connections", str(BATCH_CONNECTIONS), *seconds)
            self.batches = _Client(self._server, self._keys, *batches, keys_path="keys:batch").result()
            side.write("\n")
            side.flush()


class _AskWhileBusy:
    """A hook: from the moment the server is up until everything is processed, ask at a fixed rate.

    ``progress`` is how far the application was, from the moment on at which the look-ups had begun.
    """

    def __init__(self, keys: int) -> None:
        self.lookups: Lookups | None = None
        self.progress: list[tuple[float, float]] = []
        self._keys = keys
        self._client: _Client | None = None
        self._begin_ms = math.inf
        self._processed = False

    def __call__(self, event: dict[str, Any], side: IO[str]) -> None:
        if event["event"] == "http" and not self._processed:
            self._client = _Client(event, self._keys, *_OPEN_LOOP)
            self._begin_ms = event["at_ms"] + _WARM_S * 1000
        elif event["event"] == "progress" and event["at_ms"] >= self._begin_ms:
            self.progress.append((event["at_ms"], event["records"]))
        elif event["event"] == "processed":
            self._processed = True
            if self._client is not None:
                client, self._client = self._client, None
                self.lookups = client.result()
            side.write("\n")
            side.flush()

    def end(self) -> None:
        """Kill the client that is left if the run has failed."""
        if self._client is not None:
            self._client.kill()
