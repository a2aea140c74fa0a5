"""Fills the benchmarks' topics: ``python -m benchmarks.generate HOST:PORT``, or :func:`generate` from a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.data import INPUT, KEYS, LARGE_KEYS, PARTITIONS, TABLE, payments, users
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin, RecordProducer

# The records' times lie in the past, and the broker would delete by them.
KEEP = {"retention.ms": "-1"}
_TELL_EVERY = 50_000
_FLUSH_TIMEOUT_S = 120.0


def generate(
    admin: Admin, producer: RecordProducer, records: int, keys: int = KEYS, tell: Callable[[int], None] | None = None
) -> None:
    """Create topics ``bench`` and ``users`` and write them; ``tell`` hears how many payments stand.

    ``users`` stays empty when there are so many that no workload reads it.
    """
    admin.create_topics(
        [NewTopic(INPUT, PARTITIONS, 1, KEEP), NewTopic(TABLE, PARTITIONS, 1, {"cleanup.policy": "compact"})]
    )
    for key, value, timestamp in users(keys if keys < LARGE_KEYS else 0):
        producer.send(TABLE, key, value, timestamp)
    rows = payments(records, keys)
    for done in range(0, records, _TELL_EVERY):
        for key, value, timestamp in islice(rows, _TELL_EVERY):
            producer.send(INPUT, key, value, timestamp)
        producer.poll()
        if tell is not None:
            tell(min(done + _TELL_EVERY, records))
    if not producer.flush(_FLUSH_TIMEOUT_S):
        raise TimeoutError(f"the broker did not take {records} records within {_FLUSH_TIMEOUT_S:.0f} s of the last one")


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

        def tell(done: int) -> None:
            status.update(f"Writing: {done:,} of {records:,}")

        generate(clients.admin(), producer, records, keys, tell)
    producer.close()
    console.print(f"{records:,} records in topic {INPUT}, {keys:,} in {TABLE}")


if __name__ == "__main__":
    typer.run(main)
