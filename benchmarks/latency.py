"""End-to-end latency, side by side with Kafka Streams, and through a ``kill -9``: ``python -m benchmarks.latency``.

The application of ``deployment.py``, with little state. Of each side its capacity is found first: how fast results come
while records wait. Then records are sent at an even pace: the one that was asked for, and half of the lowest capacity
found so far. The latency of a record is the time from its due time until a reader has its result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.baseline import find_jdk
from benchmarks.deployed import clients_of, create_topics, deployed
from benchmarks.deployment import Deployment, Setting, source_of
from benchmarks.java_deployment import session_config
from benchmarks.measure import BenchmarkError
from benchmarks.pulse import Pulse, quantile
from benchmarks.report import Grid, Spread, surroundings, to_markdown, to_terminal
from benchmarks.rig import broker

_TASKS = 4
_BURST_PER_S = 10_000_000
_WARM_S = 5.0
_APART_S = 2.0
_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1.0}
_STRIP_S = range(-2, 8)


@dataclass(frozen=True)
class Measured:
    """One side at one pace. ``strip``: of each second around the kill p99 and longest (ms); empty without a kill."""

    side: str
    per_second: int
    latencies_ms: Sequence[float]
    silent_s: float = 0.0
    strip: Sequence[tuple[float, float]] = ()


class Bench:
    """Both sides on one broker."""

    def __init__(self, address: str, guarantee: str) -> None:
        self.clients = clients_of(address, guarantee)

    def capacity(self, deployment: Deployment, records: int) -> float:
        """Returns results per second when ``records`` records are sent at once: from the first record to the last
        result."""
        with closing(self._pulse(deployment, _BURST_PER_S, records)) as pulse:
            sent = pulse.wait_for_sender(300.0)
            while pulse.results < sent:
                time.sleep(0.01)
            heard = [it for of in pulse.heard.values() for it in of]
            return sent / (max(it.at_s for it in heard) - min(it.sent_s for it in heard))

    def steady(self, deployment: Deployment, per_second: int, seconds: float, kill: bool) -> Measured:
        """Latencies over ``seconds``, then those through a kill of the busiest process."""
        with closing(self._pulse(deployment, per_second, 0)) as pulse:
            begin_s = time.time() + _WARM_S
            time.sleep(_WARM_S + seconds + _APART_S)  # what is sent just before the kill may wait for its end
            if not kill:
                return Measured(deployment.name, per_second, pulse.latencies_ms(begin_s, begin_s + seconds))
            victim = deployment.busiest()
            killed_s = time.time()
            deployment.kill(victim)
            silent: list[float] = []
            while len(silent) < len(victim.partitions):
                time.sleep(0.05)
                found = [pulse.silence_s(partition, killed_s) for partition in victim.partitions]
                silent = [seconds for seconds in found if seconds is not None]
            time.sleep(max(0.0, killed_s + _STRIP_S.stop + 1 - time.time()))
            strip = [pulse.latencies_ms(killed_s + second, killed_s + second + 1) for second in _STRIP_S]
            shown = [(quantile(it, 0.99), quantile(it, 1.0)) for it in strip]
            before = pulse.latencies_ms(begin_s, begin_s + seconds)
            return Measured(deployment.name, per_second, before, max(silent), shown)

    def _pulse(self, deployment: Deployment, per_second: int, records: int) -> Pulse:
        return Pulse(self.clients, source_of(deployment.output), deployment.output, _TASKS, per_second, records=records)


def quantiles(measured: Sequence[Measured]) -> Grid:
    """One row per side and pace: median and range of each quantile over the runs, in ms."""
    rows = []
    for side, pace in dict.fromkeys((it.side, it.per_second) for it in measured):
        runs = [it for it in measured if (it.side, it.per_second) == (side, pace)]
        spreads = [Spread.of([quantile(it.latencies_ms, at) for it in runs]).text(".0f") for at in _QUANTILES.values()]
        rows.append([side, f"{pace:,}", str(len(runs)), *spreads])
    return ("side", "records/s", "runs", *(f"{name}, ms" for name in _QUANTILES)), rows


def strips(measured: Sequence[Measured]) -> Grid:
    """One row per kill: p99 and longest latency (ms) of the records of each second around it."""
    killed = [it for it in measured if it.strip]
    headings = ("side", "records/s", "silent, s", *(f"{second:+d} s" for second in _STRIP_S))
    rows = [
        [it.side, f"{it.per_second:,}", f"{it.silent_s:.2f}", *(f"{p99:.0f}/{most:.0f}" for p99, most in it.strip)]
        for it in killed
    ]
    return headings, rows


def main(
    rate: Annotated[int, typer.Option(min=10, help="Records per second.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds for which latencies are taken.")] = 20.0,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "at_least_once",
    burst: Annotated[int, typer.Option(min=0, help="Records to find the capacity with; 0: RATE alone.")] = 1_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, alternated.")] = 1,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="Kill the busiest process at RATE.")] = True,
    java: Annotated[bool, typer.Option("--java/--without-java", help="Run Kafka Streams too.")] = True,
    session_ms: Annotated[int, typer.Option(help="Kafka Streams' session.timeout.ms")] = 45_000,
) -> None:
    """Measure end-to-end latency of both sides, one after the other on one broker."""
    console = Console()
    session = session_config(session_ms)
    measured: list[Measured] = []
    capacities: dict[str, list[float]] = {}
    try:
        setting = Setting(_TASKS, 2, 1, guarantee)
        jdk = find_jdk() if java else None
        with broker(console) as (work, address):
            bench = Bench(address, guarantee)
            for run in range(repeat):
                for side in [jdk, None] if jdk else [None]:
                    output = f"run-{run}-{'java' if side else 'penstock'}"
                    create_topics(bench.clients, output, _TASKS)
                    with deployed(work, address, setting, output, side, session) as deployment:
                        deployment.until_at_rest()
                        paces = [rate]
                        if burst:
                            capacities.setdefault(deployment.name, []).append(bench.capacity(deployment, burst))
                            lowest = min(capacity for of in capacities.values() for capacity in of[:1])
                            paces.insert(0, round(lowest / 2000) * 1000)
                        for pace in paces:
                            killing = kill and pace == rate
                            measured.append(bench.steady(deployment, pace, seconds, killing))
                            _, (row,) = quantiles(measured[-1:])
                            console.print(*row, highlight=False)
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    for name, found in capacities.items():
        console.print(f"capacity of {name}: {Spread.of(found).text()} records/s", highlight=False)
    for title, grid in (("Latency", quantiles(measured)), ("Through a kill: p99/longest", strips(measured))):
        to_terminal(console, f"{title}, {guarantee}", grid)
        console.print(to_markdown(grid), markup=False, highlight=False, soft_wrap=True)
    for name, value in surroundings(jdk.version if jdk else None).items():
        console.print(f"{name}: {value}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
