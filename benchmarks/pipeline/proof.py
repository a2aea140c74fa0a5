"""The proof that Spark and the live engine compute the same stores: on a real broker, with the job of page views.

    python -m benchmarks.pipeline.proof [--records N] [--users N]

The records are processed live to their end, and audited. A second application is backfilled from Kafka by Spark,
started, and audited. Then all stores of both are compared row by row, and the last result of each key. At last a row
of a table, one of a window and one with a TTL are changed on the disk of the second application: the audit must find
these three, and nothing else. Prints the tables in Markdown; the exit code is 1 if anything is not as it must be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.generate import KEEP
from benchmarks.pipeline.history import APPLICATION, SERVERS, STATE_DIR, application, caught_up, local_ray
from benchmarks.pipeline.job import COUNTED, PRICED, RECORDS, USERS, page_views
from benchmarks.rig import Rig, rig
from penstock.cli.audit import images_of
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.audit.audit import AuditReport, audit
from penstock.pipeline.reading.contracts import every_record
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.range_digests import Row, differing_rows
from penstock.tasks.program import TaskPrograms

SPAN_MS = 1_000_000
"""The most time from the first page view to the last one: rows of windows, sessions and TTLs expire."""
_LEAST_PER_MS = 1.0
"""The least number of page views in a millisecond. With fewer, tasks that are thousands of records apart could be
further apart in event time than the windows behind the repartition topic wait. Two runs would then drop different
records."""
PLANTED = {"prices": "key", "views-per-region": "window", "recent-views": "TTL row"}
"""The stores of which one row is changed."""
_POINT_S = 120.0
_CLOSE_S = 120.0


class StoreOnBoth(NamedTuple):
    """One store, all tasks together: rows of the live application, of the backfilled one, and those that differ."""

    store: str
    live: int
    backfilled: int
    different: int


def prove(made: Rig, master: str) -> list[str]:
    """Run all of it, and print the tables. Returns what is not as it must be."""
    faults: list[str] = []
    lived = application("lived", made.bootstrap_servers, made.work / "lived")
    with local_ray():
        begun = time.monotonic()
        lived.start()
        caught_up(lived)
        made.console.print(f"Live: {made.records:,} records in {time.monotonic() - begun:.0f} s")
        reports = [("live", _audited(lived, master))]
        lived.close(_CLOSE_S)
    by_live = _ends(made)
    begun = time.monotonic()
    _backfill(made, "backfilled", master)
    made.console.print(f"Backfill: {time.monotonic() - begun:.0f} s")
    by_spark = _ends(made)
    with local_ray():
        second = _running(made)
        reports.append(("backfilled, started", _audited(second, master)))
        second.close(_CLOSE_S)
    both = list(_compared(lived, second))
    results = _results(made, {}, by_live), _results(made, by_live, by_spark)
    planted = _plant(second)
    with local_ray():
        second = _running(made)
        found = _audited(second, master)
        second.close(_CLOSE_S)
    _print_stores(reports, both)
    print(f"\nLast results by key: {len(results[0]):,} live, {len(results[1]):,} backfilled")
    _print_differences(found)
    faults += [f"the audit is not clean: {name}: {it.differences[0]}" for name, it in reports if not it.is_clean]
    faults += [
        f"store {it.store}: {it.different} rows are not the same live and backfilled" for it in both if it.different
    ]
    faults += [
        f"the last results of {key!r} in topic {topic} are not the same: {results[0].get((topic, key))!r} live, "
        f"{results[1].get((topic, key))!r} backfilled"
        for topic, key in sorted(results[0].keys() | results[1].keys())
        if results[0].get((topic, key)) != results[1].get((topic, key))
    ]
    seen = {(each.store, each.task) for each in found.differences}
    counts = {store.store: store.different for store in found.stores if store.differs}
    if seen != planted or counts != dict.fromkeys(PLANTED, 1):
        faults.append(f"planted {sorted(planted)}, found {sorted(seen)}: {counts}")
    return faults


def _running(made: Rig) -> ps.KafkaStreams:
    app = application("backfilled", made.bootstrap_servers, made.work / "backfilled")
    app.start()
    app.wait_until_running()
    return app


def _audited(app: ps.KafkaStreams, master: str) -> AuditReport:
    return audit(app.topology, app.config, images_of(app.application_id, _POINT_S), master)


def _backfill(made: Rig, application_id: str, master: str) -> None:
    state_dir = str(made.work / application_id)
    environment = os.environ | {APPLICATION: application_id, SERVERS: made.bootstrap_servers, STATE_DIR: state_dir}
    command = [sys.executable, "-m", "penstock.cli.main", "backfill", "benchmarks.pipeline.spark_job:app"]
    subprocess.run([*command, "--master", master], env=environment, check=True, stdout=sys.stderr)


# ---- results ----


def _ends(made: Rig) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, number) for topic in (COUNTED, PRICED) for number in range(PARTITIONS)]
    return {at: it.end for at, it in _kafka(made).available(partitions).items()}


def _kafka(made: Rig) -> KafkaHistory:
    return KafkaHistory(ConfluentClients(made.bootstrap_servers, "proof"))


def _results(
    made: Rig, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[tuple[str, bytes | None], bytes | None]:
    """Returns the last value of each key in the topics of results between two offsets of each partition."""
    ranges = {at: OffsetRange(begins.get(at, 0), end) for at, end in ends.items()}
    return {
        (batch.partition.topic, key): value
        for batch in every_record(_kafka(made), ranges)
        for key, value in zip(batch.keys, batch.values, strict=True)
    }


# ---- stores on disk ----


@contextmanager
def _stores(app: ps.KafkaStreams, task: TaskId) -> Iterator[tuple[TaskStores, Mapping[str, AnyStoreBuilder]]]:
    """Opens the stores of one task of an application that is closed."""
    builders = TaskPrograms(app.topology, app.config).of(task.subtopology).stores
    folder = Path(app.config.state_dir) / app.application_id / str(task)
    with closing(open_task_stores(folder, builders.values())) as stores:
        yield stores, builders


def _tasks(app: ps.KafkaStreams) -> list[TaskId]:
    root = Path(app.config.state_dir) / app.application_id
    return sorted(TaskId.parse(folder.name) for folder in root.glob("*_*") if (folder / "rocksdb").is_dir())


def _compared(lived: ps.KafkaStreams, second: ps.KafkaStreams) -> Iterator[StoreOnBoth]:
    found: dict[str, StoreOnBoth] = {}
    for task in sorted({*_tasks(lived), *_tasks(second)}):
        with _stores(lived, task) as (ours, builders), _stores(second, task) as (theirs, _):
            for name, builder in builders.items():
                sides = [list(builder.compared_rows(stores.store(name))) for stores in (ours, theirs)]
                before = found.get(name, StoreOnBoth(name, 0, 0, 0))
                different = sum(1 for _ in differing_rows(*sides))
                found[name] = StoreOnBoth(
                    name,
                    before.live + len(sides[0]),
                    before.backfilled + len(sides[1]),
                    before.different + different,
                )
    return iter(found.values())


def _plant(app: ps.KafkaStreams) -> set[tuple[str, TaskId]]:
    """Change the last row of each store of :data:`PLANTED` in one task. Returns stores and tasks."""
    planted: dict[str, TaskId] = {}
    for task in _tasks(app):
        with _stores(app, task) as (stores, builders):
            batch = stores.new_batch()
            for name in PLANTED.keys() - planted.keys() & builders.keys():
                rows: list[Row] = list(builders[name].compared_rows(stores.store(name)))
                if rows:
                    key, row = rows[-1]
                    batch.put(name, key, _wrong(row))
                    planted[name] = task
            stores.write(batch, {})
    return set(planted.items())


def _wrong(row: bytes) -> bytes:
    """Returns a row with another number: in JSON that of ``cents``, else the count in the last byte."""
    if row.endswith(b"}"):
        return row[:-1] + b"1}"
    return row[:-1] + bytes([row[-1] ^ 1])


# ---- printing ----


def _print_stores(reports: list[tuple[str, AuditReport]], both: list[StoreOnBoth]) -> None:
    for name, report in reports:
        rows = sum(store.found for store in report.stores)
        verdict = "clean" if report.is_clean else "**not clean**"
        print(f"Audit, {name}: {verdict}; {rows:,} rows, {report.seconds:.0f} s, intake on hold {report.held_s:.1f} s")
        for store, why in report.not_compared.items():
            print(f"  not compared: {store}: {why}")
    print("\n| store | rows live | rows backfilled | differ |\n|---|--:|--:|--:|")
    for each in both:
        print(f"| {each.store} | {each.live:,} | {each.backfilled:,} | {each.different:,} |")


def _print_differences(report: AuditReport) -> None:
    print("\n| planted | store | key | expected | found | input offsets |\n|---|---|---|---|---|---|")
    for each in report.differences:
        origins = "; ".join(f"{it.partition}: {it.records}, last {it.last[-1]}" for it in each.origins)
        columns = (
            PLANTED.get(each.store, "-"),
            each.store,
            each.key,
            each.expected,
            each.found,
            origins or "by a repartition topic",
        )
        print("|", " | ".join(columns), "|")


def main(
    records: Annotated[int, typer.Option(help="Number of page views.")] = RECORDS,
    users: Annotated[int, typer.Option(help="Number of users.")] = USERS,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
) -> None:
    """Prove it with so many records."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with rig(
        page_views(records, users, hot=True, per_ms=max(records / SPAN_MS, _LEAST_PER_MS)), Console(stderr=True)
    ) as made:
        admin = ConfluentClients(made.bootstrap_servers, "benchmarks").admin()
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, KEEP) for topic in (COUNTED, PRICED)])
        faults = prove(made, master)
    for fault in faults:
        print(f"NOT AS IT MUST BE: {fault}")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    typer.run(main)
