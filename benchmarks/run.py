"""Kafka Streams on Java and penstock, side by side in one run, then look-ups over HTTP: ``python -m benchmarks``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import commit_stops, driver_speed, http_lookups
from benchmarks.baseline import Jdk, build, find_jdk
from benchmarks.data import (
    DENSE_RECORDS,
    KEYS,
    LARGE_RECORDS,
    ORDERED_RECORDS,
    PAIRED_RECORDS,
    PARTITIONS,
    SESSION_RECORDS,
    WIDE_RECORDS,
    Dataset,
    clicks_and_views,
    dense_payments,
    fewer_payments,
    hot_payments,
    late_payments,
    orders_of_users,
    payments_of_many,
    payments_of_users,
    wide_payments,
)
from benchmarks.driver_speed import DriverRun
from benchmarks.http_lookups import HttpResult
from benchmarks.measure import BenchmarkError, Run, Side
from benchmarks.penstock_side import NAME, PenstockSide
from benchmarks.report import PIPELINE_SECTION, comparison, exit_if_wrong, surroundings, to_markdown, to_terminal
from benchmarks.rig import Rig, rig
from benchmarks.workloads import LARGE, WORKLOADS
from penstock.actors.commit_stops import CommitStops

PAGE = Path("docs/BENCHMARKS.md")
_HEAD = """\
# Benchmarks

Written by `make bench`, which runs Kafka Streams on Java and penstock in turn, several times, on the same broker and
topic. The programs are `benchmarks/workloads.py` and `benchmarks/java/Bench.java`.
"""
_LEGEND = """\
Times run from the first record that is processed until every result and changelog record is acknowledged and the
input's offsets are committed up to the end, as seen on the broker: start-up is left out, the last flush and commit are
in. "Second half" runs from half of the records to all of them, without the last commit: the JVM is warm by then. CPU is
user and system time over the whole span; memory is the largest resident set of a process. "Worker" is the JVM, and
penstock's stream actor; "others" are penstock's coordinator and Ray's raylet and GCS. Figures are the median of the
runs, with their range; "times as fast" compares each penstock run with the Java run before it. One stream thread, one
stream actor; caches and commit intervals at their defaults on both sides, Ray's workers at nice 0 as the JVM. Each
run's output was compared with what plain Python makes of the same records: `json`, `join` and `stream-join` row by row
(key, value, timestamp), the others by the last value of every key. `count-large` is the program of `count` on an input
of its own, whose keys fit into no cache. `session-dense` has sessions of several records, `window-1s` windows of a
second, `window-late` also 5 % late records, `count-hot` keys by Zipf's law (1.1), `json-wide` values of 2 kB.
`foreign-key-join` has no caches, so that its results come without a commit: its times run until the last one is in
the output, and its second half means little: its own topics count, too.
"""
_KNOWN = """\
In `table-join` Kafka Streams joined some last updates with a row that was old by then, and never wrote the right
result; most likely because a look-up while a full cache is flushed puts the old row back into it. These runs are in the
table all the same:

"""
_STOPS_LEGEND = f"""\
How long commits keep records waiting, while `count` runs at full speed and commits every {commit_stops.INTERVAL_MS} ms,
so that a commit has nearly all keys, a quarter of them in each task. A stop is the time from when a commit takes the
stream thread until records may be processed again. Figures are medians of the runs, with their range; the commit at the
end, when no record is left, is not among them.
"""
_DRIVER_LEGEND = f"""\
Word count on `TopologyTestDriver` in this process, as fast as one test can pipe lines of {driver_speed.KEYS:,}
different words: a line is read, each word goes through the repartition topic and is counted, and everything is
committed, record by record. Figures are medians of the runs, with their range.
"""
_HTTP_LEGEND = """\
Look-ups of random single keys in the store of `count`, by a client in a process of its own on the same machine. Closed
loop: each connection asks again as soon as it is answered. Open loop: latencies count from when a look-up was due.
The busy application is asked in every other half second; "throughput lost" compares those with the half seconds before
and after each of them, run by run. The first second is not counted: the server meets the application in it. Answers of
404 and 503 (a key that has not come yet, a task that starts) count too.
"""


@dataclass
class Results:
    """Everything that was measured, and every output that was wrong; ``known`` are Kafka Streams' own errors."""

    where: dict[str, str]
    runs: list[Run] = field(default_factory=list)
    stops: list[CommitStops] = field(default_factory=list)
    driver: list[DriverRun] = field(default_factory=list)
    http: HttpResult | None = None
    http_runs: list[Run] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


def main(
    records: Annotated[int, typer.Option(min=1000, help="Number of payments.")] = 4_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Number of users who pay.")] = KEYS,
    share: Annotated[float, typer.Option(min=0.001, max=1, help="Share of the records of all other datasets.")] = 1.0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, alternated.")] = 3,
    workloads: Annotated[str, typer.Option(help="Workloads of workloads.py, separated by commas.")] = ",".join(
        WORKLOADS
    ),
    large_repeat: Annotated[int, typer.Option(min=1, help="Runs of each side of count-large.")] = 1,
    java: Annotated[bool, typer.Option("--java/--without-java", help="Run Kafka Streams too.")] = True,
    stops: Annotated[bool, typer.Option("--stops/--without-stops", help="Measure the stops of commits.")] = True,
    driver: Annotated[bool, typer.Option("--driver/--without-driver", help="Measure the test driver.")] = True,
    http: Annotated[bool, typer.Option("--http/--without-http", help="Measure look-ups.")] = True,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee of both sides.")] = "at_least_once",
    idle_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of look-ups in the idle application.")] = 10.0,
    results: Annotated[Path | None, typer.Option(help="Write every single run to this file, as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = PAGE,
) -> None:
    """Compare penstock with Kafka Streams. Exit code 1 when a side fails or writes something wrong."""
    console = Console()
    chosen = [name.strip() for name in workloads.split(",") if name.strip()]
    if unknown := set(chosen) - WORKLOADS.keys():
        raise typer.BadParameter(f"unknown workloads {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    try:
        jdk = _jdk() if java else None
        measured = Results({**surroundings(jdk.version if jdk else None), "processing.guarantee": guarantee})
        if driver:
            measured.driver, measured.wrong = driver_speed.measure(repeat)
        payments = payments_of_users(records, keys)
        for dataset in (payments, *_other_datasets(share)):
            of_it = [workload for workload in chosen if WORKLOADS[workload].dataset == dataset.name]
            asked = dataset is payments and (stops or http)
            if not of_it and not asked:
                continue
            with rig(dataset, console) as made:
                measured.where[f"records, {dataset.name}"] = _described(made)
                _measure(made, jdk, of_it, large_repeat if of_it == [LARGE] else repeat, guarantee, measured)
                if asked and stops:
                    _measure_stops(made, repeat, measured)
                if asked and http:
                    _measure_lookups(made, repeat, idle_seconds, measured)
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    if results is not None:
        results.write_text(json.dumps(asdict(measured), indent=1))
    exit_if_wrong(console, measured.wrong)
    _show(console, measured)
    if markdown is not None:
        _, heading, pipeline = markdown.read_text().partition(PIPELINE_SECTION) if markdown.exists() else ("", "", "")
        markdown.write_text("\n".join(filter(None, [page(measured), heading + pipeline])))
        console.print(f"written to {markdown}")


def _other_datasets(share: float) -> list[Dataset]:
    """All but the payments that are looked up, with this share of their records."""
    sizes: list[tuple[Callable[[int], Dataset], int]] = [
        (fewer_payments, SESSION_RECORDS),
        (dense_payments, DENSE_RECORDS),
        (late_payments, DENSE_RECORDS),
        (hot_payments, DENSE_RECORDS),
        (wide_payments, WIDE_RECORDS),
        (clicks_and_views, PAIRED_RECORDS),
        (orders_of_users, ORDERED_RECORDS),
        (payments_of_many, LARGE_RECORDS),
    ]
    return [make(round(records * share)) for make, records in sizes]


def _jdk() -> Jdk:
    try:
        return find_jdk()
    except BenchmarkError as error:
        raise BenchmarkError(f"{error} penstock can be measured alone: --without-java.") from error


def _described(made: Rig) -> str:
    return f"{made.records:,} of about {made.dataset.value_bytes:,} B, {made.keys:,} keys, {PARTITIONS} partitions"


def _measure(
    made: Rig, jdk: Jdk | None, workloads: Sequence[str], repeat: int, guarantee: str, measured: Results
) -> None:
    state = made.work / "penstock-state"
    sides = [PenstockSide(made.records, made.bootstrap_servers, state, guarantee=guarantee).side()]
    if jdk is not None:
        sides.insert(0, build(jdk, made.work / "java", made.records, made.bootstrap_servers, guarantee).side())
    for workload in workloads:
        for _ in range(repeat):
            for side in sides:
                _run(made, side, workload, measured)


def _measure_stops(made: Rig, repeat: int, measured: Results) -> None:
    measured.stops, wrong = commit_stops.measure(made, repeat)
    measured.wrong += wrong


def _measure_lookups(made: Rig, repeat: int, idle_seconds: float, measured: Results) -> None:
    measured.http, measured.http_runs, wrong = http_lookups.measure(made, repeat, idle_seconds)
    measured.wrong += wrong


def _run(made: Rig, side: Side, workload: str, measured: Results) -> None:
    run, differing = made.run(side, workload)
    measured.runs.append(run)
    known = WORKLOADS[workload].kafka_streams_errs and side.name != NAME
    (measured.known if known else measured.wrong).extend(differing)
    cost = f"{run.cpu_us():5.1f} µs CPU/record  {run.peak_mb('worker'):6,.0f} MB"
    made.console.print(f"{workload:16} {side.name:20} {run.rate:10,.0f}/s  {cost}")


def _show(console: Console, measured: Results) -> None:
    if measured.runs:
        to_terminal(console, "Side by side", comparison(measured.runs))
    if measured.stops:
        to_terminal(console, "Stops for commits", commit_stops.table(measured.stops))
    if measured.driver:
        to_terminal(console, "TopologyTestDriver", driver_speed.table(measured.driver))
    if measured.http is not None:
        to_terminal(console, "Look-ups over HTTP", http_lookups.table(measured.http))
    verified = len(measured.runs) + len(measured.driver) + len(measured.stops) + len(measured.http_runs)
    console.print(f"outputs of all {verified} runs verified")


def page(measured: Results) -> str:
    """The Markdown page."""
    parts = [_HEAD, "\n".join(f"- {name}: {value}" for name, value in measured.where.items()) + "\n"]
    if measured.runs:
        parts += ["## Side by side\n", to_markdown(comparison(measured.runs)) + "\n", _LEGEND]
        parts += [_KNOWN + "".join(f"- {difference}\n" for difference in measured.known)] if measured.known else []
    if measured.stops:
        parts += ["## Stops for commits\n", to_markdown(commit_stops.table(measured.stops)) + "\n", _STOPS_LEGEND]
    if measured.driver:
        parts += ["## TopologyTestDriver\n", to_markdown(driver_speed.table(measured.driver)) + "\n", _DRIVER_LEGEND]
    if measured.http is not None:
        parts += ["## Look-ups over HTTP\n", to_markdown(http_lookups.table(measured.http)) + "\n", _HTTP_LEGEND]
    return "\n".join(parts)
