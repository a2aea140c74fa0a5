"""One run from its seed: feed, strike, come to rest, check."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from penstock.common.serdes import Serdes
from tests.chaos import checks, program
from tests.chaos.feeder import expected, feed
from tests.chaos.prober import Prober
from tests.chaos.program import Stamped
from tests.chaos.rest import SOURCES, come_to_rest
from tests.chaos.rig import APPLICATION, Guarantee, Rig, Role, rig
from tests.chaos.schedule import OUTAGES, Kind, draw
from tests.chaos.strike import Striker

REST_S = 180.0
_PAGE = 10_000
_HTTP_S = 30.0
_PROCESSES_END_S = 30.0
_LOOK_EACH_S = 0.2


@dataclass
class Report:
    """What a run was and what came of it. ``violations`` is empty when all that was promised held."""

    seed: int
    seconds: float
    kinds: Collection[Kind]
    guarantee: Guarantee
    nodes: int
    folder: Path
    faults: int = 0
    records: int = 0
    repeated: int = 0
    rest_s: float = 0.0
    look_ups: Mapping[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def run(
    seed: int,
    seconds: float,
    kinds: Collection[Kind],
    records: int,
    guarantee: Guarantee,
    nodes: int,
    tell: Callable[[str], None],
) -> Report:
    """A whole run. The folder with the broker's files, the state and the logs stays only if something is violated."""
    # Transactions that end while a partition has no leader, Kafka ends without telling the partition
    # (docs/RELIABILITY.md): what is to be exact wants replicas.
    replicas = 3 if guarantee is Guarantee.EXACTLY and not OUTAGES.isdisjoint(kinds) else 1
    with rig(guarantee, replicas, nodes) as it:
        report = Report(seed, seconds, kinds, guarantee, nodes, it.folder)
        began = time.monotonic()

        def stamped(what: str) -> None:
            tell(f"{time.monotonic() - began:7.1f} s  {what}")

        try:
            _run(it, report, records, stamped)
        finally:
            if report.violations:
                shutil.copytree(it.ray_logs, it.folder / "ray-logs", ignore_dangling_symlinks=True)
    if not report.violations:
        shutil.rmtree(it.folder)
    return report


def _run(it: Rig, report: Report, records: int, tell: Callable[[str], None]) -> None:
    stopped = threading.Event()
    prober = Prober(f"http://127.0.0.1:{it.http_port}", APPLICATION)
    with ThreadPoolExecutor(2, "chaos") as beside:
        try:
            fed = beside.submit(feed, it.clients, records, report.seconds, stopped)
            it.start()
            probed = beside.submit(prober.ask_until, stopped, report.seed)
            tell("the application runs; faults begin")
            striker = Striker(it, tell)
            striker.strike(draw(report.seed, report.seconds, report.kinds), lambda: prober.ended is not None)
            report.faults = striker.struck
            tell("faults are over")
            report.violations += _settled(it, report, fed, prober)
        finally:
            stopped.set()
        probed.result()
    report.look_ups = prober.answers
    report.violations += prober.violations
    if report.rest_s:
        tell(f"at rest after {report.rest_s:.1f} s; checking")
        report.violations += _checked(it, report, expected(records))
    report.violations += _closed(it)


def _settled(it: Rig, report: Report, fed: Future[None], prober: Prober) -> list[str]:
    """Wait for rest, unless the application has ended. Says what keeps it from that."""
    if prober.ended is not None:
        return [f"the application ended in state {prober.ended}"]
    began = time.monotonic()
    fed.result()
    unrest = come_to_rest(it, REST_S)
    if unrest is not None:
        return [unrest]
    report.rest_s = time.monotonic() - began
    return []


def _checked(it: Rig, report: Report, truth: Mapping[str, int]) -> list[str]:
    """All that must hold at rest."""
    long, json = Serdes.long().deserialize, Serdes.json().deserialize
    moved = [(key.decode(), Stamped.of(value.decode())) for key, value in it.read(SOURCES[1]) if value]
    report.records, report.repeated = sum(truth.values()), len(moved) - sum(truth.values())
    counts, tallies = dict(_rows(it, program.COUNTS)), dict(_rows(it, program.TALLIES))
    exactly = checks.each_once(moved, counts, tallies, truth) if report.guarantee is Guarantee.EXACTLY else []
    return [
        *exactly,
        *(checks.no_transaction_is_open(*it.ends()) if report.guarantee is Guarantee.EXACTLY else []),
        *checks.numbered(((key.decode(), long(value)) for key, value in it.read(program.INPUT) if value), truth),
        *checks.complete(moved, truth),
        *checks.in_order(moved),
        *checks.followed(tallies, truth),
        *checks.counted(counts, truth),
        *checks.equal("the changelog of counts is not the store", _folded(it, program.COUNTS, long), counts),
        *checks.equal("the changelog of tallies is not the store", _folded(it, program.TALLIES, json), tallies),
        *checks.equal("the output is not the store", _last(it.read(program.OUTPUT), long), counts),
    ]


def _folded(it: Rig, store: str, deserialize: Callable[[bytes], Any]) -> dict[str, Any]:
    return _last(it.read(program.changelog_topic(APPLICATION, store)), deserialize)


def _last(records: Iterable[tuple[bytes, bytes | None]], deserialize: Callable[[bytes], Any]) -> dict[str, Any]:
    last = dict(records)
    return {key.decode(): deserialize(value) for key, value in last.items() if value is not None}


def _rows(it: Rig, store: str) -> Iterator[tuple[str, Any]]:
    """A store's committed rows, over HTTP."""
    query: dict[str, str | int] = {"limit": _PAGE, "isolation": "committed"}
    path = f"http://127.0.0.1:{it.http_port}/v1/applications/{APPLICATION}/stores/{store}/range"
    while True:
        answer = httpx.get(path, params=query, timeout=_HTTP_S).raise_for_status().json()
        yield from ((entry["key"], entry["value"]) for entry in answer["entries"])
        if answer["cursor"] is None:
            return
        query["cursor"] = answer["cursor"]


def _closed(it: Rig) -> list[str]:
    """The application ends when it is told to, and leaves no process."""
    wrong = [] if it.close() else ["the application did not end in good order when it was told to"]
    deadline = time.monotonic() + _PROCESSES_END_S
    while left := [process for role in Role for process in it.processes(role)]:
        if time.monotonic() > deadline:
            return [*wrong, f"processes left over: {', '.join(str(process.pid) for process in left)}"]
        time.sleep(_LOOK_EACH_S)
    return wrong
