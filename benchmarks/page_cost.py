"""The cost of open pages to a busy application: its throughput while pages are open, beside that without."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from benchmarks.http_lookups import cost
from benchmarks.penstock_side import PenstockSide
from benchmarks.report import Grid, Spread
from benchmarks.rig import Rig

WORKLOAD = "count"
PERIOD_S = 1.0
"""Pages are open in every other period of this length: two runs differ by more than pages cost."""
PAGES: Mapping[int, str] = {1: "< 2 %", 10: "< 5 %"}
"""Numbers of pages, with the goals."""
_WARM_S = 2.0  # the client starts, and the server meets the application for the first time


@dataclass(frozen=True)
class Costs:
    """The share of the throughput that the application lost to this number of pages, run by run; the events and the
    bytes that the pages have received in all runs."""

    pages: int
    shares: list[float] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)


def measure(rig: Rig, repeat: int) -> tuple[list[Costs], list[str]]:
    """Runs ``count`` with each number of pages in turn. Returns the costs, and the outputs and answers that were
    wrong."""
    state = rig.work / "page-state"
    side = PenstockSide(rig.records, rig.bootstrap_servers, state, http=True, hold=True).side()
    found, wrong = [Costs(pages) for pages in PAGES], []
    for _ in range(repeat):
        for costs in found:
            hook = _OpenPages(costs.pages)
            try:
                _, differing = rig.run(side, WORKLOAD, hook)
            finally:
                hook.end()
            wrong += differing + [f"the live stream answered {status}" for status in hook.seen.get("refused", ())]
            if hook.seen:
                costs.shares.extend(cost(hook.progress, PERIOD_S))
                costs.events.append(hook.seen["events"])
                costs.received.append(hook.seen["bytes"])
    return found, wrong


def table(found: list[Costs]) -> Grid:
    """Returns a row for each number of pages."""
    rows = []
    for each in found:
        lost = Spread.of([100 * share for share in each.shares]).text(".1f") if each.shares else "too short a run"
        kilobytes = Spread.of([number / 1000 for number in each.received]).text(",.0f") if each.received else "–"
        events = Spread.of(each.events).text(",.0f") if each.events else "–"
        rows.append([str(each.pages), PAGES[each.pages], lost, events, kilobytes])
    return ("pages", "goal", "throughput lost, %", "events received", "kB received"), rows


class _OpenPages:
    """A hook: from the moment the server is up until everything is processed, pages are open in every other period."""

    def __init__(self, pages: int) -> None:
        self.progress: list[tuple[float, float]] = []
        self.seen: dict[str, Any] = {}
        self._pages = pages
        self._client: subprocess.Popen[str] | None = None
        self._begin_ms = math.inf
        self._processed = False

    def __call__(self, event: dict[str, Any], side: IO[str]) -> None:
        if event["event"] == "http" and not self._processed:
            address = event["address"].removeprefix("http://")
            path = f"/v1/applications/{event['application']}/live"
            command = [sys.executable, "-m", "benchmarks.page_clients", address, path, "--period", str(PERIOD_S)]
            command += ["--number", str(self._pages)]
            self._client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._begin_ms = event["at_ms"] + _WARM_S * 1000
        elif event["event"] == "progress" and event["at_ms"] >= self._begin_ms:
            self.progress.append((event["at_ms"], event["records"]))
        elif event["event"] == "processed":
            self._processed = True
            if self._client is not None:
                client, self._client = self._client, None
                printed, _ = client.communicate()
                if client.returncode:
                    raise RuntimeError(f"the clients failed with exit code {client.returncode}")
                self.seen = json.loads(printed)
            side.write("\n")
            side.flush()

    def end(self) -> None:
        """Kill the clients that are left if the run has failed."""
        if self._client is not None:
            self._client.kill()
            self._client.communicate()
