"""Calls out in one stream loop over a Kafka in memory: records per second, latency, and CPU time of a call.

``python -m benchmarks.calls``. The loop, the event loop and the feeder share one process, so the figures
are lower limits. CPU time of a record is that of the whole process, less that of the same program with ``map_values``.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import penstock as ps
from benchmarks.report import Spread, to_markdown
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients

HEADINGS = ("calls", "records/s", "p50 ms", "p99 ms", "CPU µs per call")
_TICK_S = 0.005
_FEW = 0.1
"""Share of the first latencies that are left out: the loop and the threads begin."""


@dataclass(frozen=True)
class Case:
    """``rate``: records per second; None: as many as it takes."""

    name: str
    call_ms: float
    in_flight: int
    rate: int | None
    order: str = "key"


CASES = (
    Case("50 ms, 200 in flight, 3,600 records/s sent", 50, 200, 3_600),
    Case("50 ms, 200 in flight", 50, 200, None),
    Case("5 ms, 200 in flight", 5, 200, None),
    Case("5 ms, 200 in flight, order partition", 5, 200, None, "partition"),
    Case("0 ms, 200 in flight", 0, 200, None),
)


class Latencies:
    """Ages of the records when their results go on, in ms."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def note(self, sent_ns: int) -> None:
        """Count a result."""
        self.ms.append((time.monotonic_ns() - sent_ns) / 1e6)

    def percentile(self, share: float) -> float:
        """Returns a percentile of those after the beginning."""
        known = sorted(self.ms[int(len(self.ms) * _FEW) :])
        return known[min(len(known) - 1, int(len(known) * share))] if known else 0.0


def _topology(case: Case, latencies: Latencies, called: bool) -> ps.Topology:
    async def call(value: int) -> int:
        if case.call_ms:
            await asyncio.sleep(case.call_ms / 1000)
        return value

    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
    calls = ps.Calls(max_in_flight=case.in_flight, order=case.order, timeout_ms=60_000)
    results = stream.map_values_async(call, calls) if called else stream.map_values(lambda value: value)
    results.for_each(latencies.note)
    return builder.build()


def _commit(_: CommitRequest) -> Future[CommitAnswer]:
    done: Future[CommitAnswer] = Future()
    done.set_result(CommitAnswer(True))
    return done


def _feed(broker: FakeBroker, case: Case, ahead: Callable[[], int], until_s: float) -> None:
    begun_s, sent = time.monotonic(), 0
    while (now_s := time.monotonic()) < until_s:
        due = int((now_s - begun_s) * case.rate) - sent if case.rate else 20 * case.in_flight - ahead()
        for _ in range(max(0, due)):
            value = time.monotonic_ns().to_bytes(8, "big")
            broker.append("in", FakeRecord(f"k{sent}".encode(), value, 0, None))
            sent += 1
        time.sleep(_TICK_S)


def measure(case: Case, seconds: float, called: bool = True) -> tuple[float, Latencies, float]:
    """Returns records per second, latencies, and µs of CPU per record."""
    latencies = Latencies()
    with tempfile.TemporaryDirectory() as folder:
        config = StreamsConfig.of({"application.id": "calls", "state.dir": Path(folder), "commit.interval.ms": 1000})
        broker = FakeBroker()
        broker.create_topic(NewTopic("in", 1))
        clients = FakeClients("calls", broker)
        spec = ApplicationSpec(_topology(case, latencies, called), config)
        loop = StreamLoop(spec, "stream/1", clients, _commit, lease=Lease.unlimited(time.monotonic))
        thread = threading.Thread(target=loop.run)
        thread.start()
        loop.assign(1, {TaskId(0, 0): frozenset({TopicPartition("in", 0)})}).result(30)
        begun_s, cpu_s = time.monotonic(), time.process_time()
        source = broker.log(TopicPartition("in", 0))
        _feed(broker, case, lambda: source.end - len(latencies.ms), begun_s + seconds)
        records, spent_s = len(latencies.ms), time.monotonic() - begun_s
        cpu_us = (time.process_time() - cpu_s) / max(1, records) * 1e6
        loop.stop().result(60)
        thread.join()
    return records / spent_s, latencies, cpu_us


def main(
    seconds: Annotated[float, typer.Option(min=1, help="Seconds of each run.")] = 10.0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each case; the cases take turns.")] = 5,
) -> None:
    """Print the figures of all cases as a table of Markdown: medians of the runs, with their range."""
    begun = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.2f}"
    runs: dict[Case, list[tuple[float, float, float, float]]] = {case: [] for case in CASES}
    for _ in range(repeat):
        _, _, base_us = measure(CASES[-1], seconds, called=False)
        for case, of_case in runs.items():
            rate, latencies, cpu_us = measure(case, seconds)
            of_case.append((rate, latencies.percentile(0.5), latencies.percentile(0.99), cpu_us - base_us))
    typer.echo(f"{begun}, {repeat} runs of {seconds:g} s")
    typer.echo(to_markdown((HEADINGS, [_row(case, of_case) for case, of_case in runs.items()])))


def _row(case: Case, runs: Sequence[tuple[float, ...]]) -> list[str]:
    columns = zip(zip(*runs, strict=True), (",.0f", ".1f", ".1f", ".1f"), strict=True)
    return [case.name, *(Spread.of(values).text(form) for values, form in columns)]


if __name__ == "__main__":
    typer.run(main)
