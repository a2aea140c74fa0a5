"""The speed of ``penstock ingest``: files of records of 200 bytes into a topic, exactly once, on this machine's cores.

``python -m benchmarks.pipeline.ingest [--records 2000000] [--files 4] [--format parquet]``. The broker runs on the same
cores. Spark's start is shown apart: it takes the same time for any number of records.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet
from rich.console import Console

from benchmarks.data import PARTITIONS, START_MS
from benchmarks.pipeline.figures import Figure
from benchmarks.rig import broker
from penstock.common.ids import TopicPartition
from penstock.common.secrets import Entries
from penstock.common.serdes import Serdes
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.ingest.contracts import CsvForm, FileFormat
from penstock.pipeline.ingest.files import find_source
from penstock.pipeline.ingest.ingest import Ingest, RunLanes
from penstock.pipeline.ingest.mapping import RecordMapping
from penstock.pipeline.ingest.progress import TRANSACTION_TIMEOUT_MS, Progress
from penstock.pipeline.ingest.spark_lanes import spark_lanes

TOPIC, USERS, VALUE_BYTES = "views", 100_000, 190
"""With the key, a record has about 200 bytes."""


def write_files(folder: Path, records: int, files: int, form: FileFormat) -> None:
    """Write ``records`` rows with a key, a time and a value, in ``files`` files."""
    filler = "x" * (VALUE_BYTES - 40)
    for file in range(files):
        numbers = range(file, records, files)
        table = pa.table(
            {
                "user": [f"user-{number * 7919 % USERS}" for number in numbers],
                "at": pa.array([START_MS + number for number in numbers], pa.timestamp("ms", "UTC")),
                "view": [f'{{"page":"/p{number % 500}","n":{10**8 + number},"a":"{filler}"}}' for number in numbers],
            }
        )
        if form is FileFormat.PARQUET:
            parquet.write_table(table, folder / f"{file}.parquet")
        elif form is FileFormat.CSV:
            csv.write_csv(table.set_column(1, "at", table["at"].cast(pa.int64())), folder / f"{file}.csv")
        else:
            lines = table.set_column(1, "at", table["at"].cast(pa.int64())).to_pylist()
            content = "".join(f'{{"user":"{row["user"]}","at":{row["at"]},"view":{row["view"]}}}\n' for row in lines)
            (folder / f"{file}.jsonl").write_text(content)


class Clock:
    """Notes when Spark had started, and when the first and the last rows were committed."""

    def __init__(self) -> None:
        self.started_s = self.first_s = self.last_s = 0.0
        self.first_rows = self.rows = 0

    def take(self, progress: Progress) -> None:
        """Take a report of the progress."""
        if progress.rows and not self.first_rows:
            self.first_s, self.first_rows = time.monotonic(), progress.rows
        if progress.rows != self.rows:
            self.last_s, self.rows = time.monotonic(), progress.rows

    @contextmanager
    def lanes(self, master: str) -> Iterator[RunLanes]:
        """Yields Spark's lanes; notes the time."""
        with spark_lanes(master, "bench") as run:
            self.started_s = time.monotonic()
            yield run


def measure(records: int, files: int, form: FileFormat, objects: bool, repeat: int, master: str) -> list[Figure]:
    """Ingest the same files into a topic of its own each time. Spark's start does not count."""
    console = Console()
    rates = []
    with broker(console) as (work, bootstrap_servers):
        folder = work / "files"
        folder.mkdir()
        write_files(folder, records, files, form)
        clients = ConfluentClients(
            bootstrap_servers,
            "bench-ingest",
            Entries({"isolation.level": "read_committed"}),
            Entries({"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}),
        )
        for number in range(repeat):
            topic = f"{TOPIC}-{number}"
            clients.admin().create_topics([NewTopic(topic, PARTITIONS)])
            mapping = RecordMapping(topic, PARTITIONS, "user", timestamp_column="at")
            if not objects:
                serde = Serdes.json() if form is FileFormat.JSON_LINES else Serdes.string()
                mapping = replace(mapping, value_columns=("view",), value_serde=serde)
            clock, begun = Clock(), time.monotonic()
            ingest = Ingest(f"bench-{number}", find_source(str(folder), {}), mapping, CsvForm(), clients)
            report = ingest.run(clock.lanes(master), clock.take)
            ends = clients.admin().end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)])
            assert report.records == records <= sum(ends.values())
            spark_s = clock.started_s - begun
            rates.append(report.records / (report.seconds - spark_s))
            console.print(
                f"{report.records:,} records of {files} files ({form}) in {report.seconds:.1f} s, of which Spark's "
                f"start took {spark_s:.1f} s: {rates[-1]:,.0f} a second"
            )
    made = ", values made of all columns" if objects else ""
    shape = f"{records:,} records of 200 bytes, {files} {form.value} files{made}: records/s"
    return [Figure("ingest", shape, tuple(rates), at_least=100_000)]


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--format", type=FileFormat, default=FileFormat.PARQUET)
    parser.add_argument("--objects", action="store_true", help="values are objects of all columns, made by the ingest")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--master", default=f"local[{os.cpu_count()}]")
    given = parser.parse_args()
    for figure in measure(given.records, given.files, given.format, given.objects, given.repeat, given.master):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    main()
