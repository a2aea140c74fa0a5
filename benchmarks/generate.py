"""Fills the benchmarks' topics: ``python -m benchmarks.generate HOST:PORT``, or :func:`generate` from a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.data import INPUT, KEYS, PARTITIONS, TABLE, Dataset, Row, payments_of_users
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin, RecordProducer

# The records' times lie in the past, and the broker would delete by them.
KEEP = {"retention.ms": "-1"}
_REPORT_EVERY = 50_000
_FLUSH_TIMEOUT_S = 120.0


def generate(
    admin: Admin, producer: RecordProducer, dataset: Dataset, report: Callable[[int], None] | None = None
) -> None:
    """Create the topics of a dataset and write them; ``report`` is called with the number of records of its streams."""
    admin.create_topics(
        [NewTopic(topic, PARTITIONS, 1, KEEP) for topic in dataset.streams]
        + [NewTopic(topic, PARTITIONS, 1, {"cleanup.policy": "compact"}) for topic in dataset.tables]
    )
    for topic, rows_of in dataset.tables.items():
        for key, value, timestamp in rows_of():
            producer.send(topic, key, value, timestamp)
    done = 0

    def report_total(of_topic: int) -> None:
        if report is not None:
            report(done + of_topic)

    for topic, rows_of in dataset.streams.items():
        done += fill(producer, topic, rows_of(), report_total)


def fill(producer: RecordProducer, topic: str, rows: Iterator[Row], report: Callable[[int], None]) -> int:
    """Write ``rows`` to a topic that exists, and call ``report`` with their number so far. Returns their number."""
    done = 0
    while chunk := list(islice(rows, _REPORT_EVERY)):
        for key, value, timestamp in chunk:
            producer.send(topic, key, value, timestamp)
        producer.poll()
        done += len(chunk)
        report(done)
    if not producer.flush(_FLUSH_TIMEOUT_S):
        raise TimeoutError(f"the broker did not take {done} records within {_FLUSH_TIMEOUT_S:.0f} s of the last one")
    return done


def main(
    bootstrap_servers: Annotated[str, typer.Argument(help="Address of the broker.")],
    records: Annotated[int, typer.Option(help="Number of payments.")] = 4_000_000,
    keys: Annotated[int, typer.Option(help="Number of users.")] = KEYS,
) -> None:
    """Fill topics `bench` and `users`."""
    clients = ConfluentClients(bootstrap_servers, "benchmarks")
    producer = clients.producer()
    console = Console(stderr=True)
    with console.status("Writing") as status:

        def report(done: int) -> None:
            status.update(f"Writing: {done:,} of {records:,}")

        generate(clients.admin(), producer, payments_of_users(records, keys), report)
    producer.close()
    console.print(f"{records:,} records in topic {INPUT}, {keys:,} in {TABLE}")


if __name__ == "__main__":
    typer.run(main)
