"""Sends records at an even pace, a given number or until its standard input ends, each with its due time:
``python -m benchmarks.sender``. A process of its own, so that it takes no time of the reader of the results."""

from __future__ import annotations

import sys
import threading
import time
from typing import Annotated

import typer

from penstock.common.murmur2 import partition_for
from penstock.kafka.clients import ConfluentClients

KEY = b"pulse-"
_KEYS = 1000
_TICK_S = 0.001


def main(
    bootstrap_servers: Annotated[str, typer.Argument(help="Address of the broker.")],
    topic: Annotated[str, typer.Argument(help="Topic to write to.")],
    partitions: Annotated[int, typer.Argument(help="Number of its partitions.")],
    per_second: Annotated[int, typer.Argument(help="Records to all partitions together.")],
    size: Annotated[int, typer.Argument(help="Bytes of a value.")],
    records: Annotated[int, typer.Argument(help="Number of records; 0: until standard input ends.")] = 0,
) -> None:
    """Send records. Prints their number, and the time of the last one (s)."""
    ending = threading.Event()
    if not records:
        threading.Thread(target=_wait_for_end, args=[ending], daemon=True).start()
    keys = [(key, partition_for(key, partitions)) for key in (KEY + b"%d" % number for number in range(_KEYS))]
    producer = ConfluentClients(bootstrap_servers, "", producer_overrides={"linger.ms": 1}).producer()
    begin_s, sent, each_ms = time.time(), 0, max(1, per_second // 1000)
    while sent < records if records else not ending.is_set():
        due = int((time.time() - begin_s) * per_second)
        if records:
            due = min(due, records)
        # A late record carries its due time, to a millisecond: the time that it waited for this sender counts.
        for first in range(sent, due, each_ms):
            due_s = begin_s + first / per_second
            value, due_ms = (b"%.6f " % due_s).ljust(size, b"."), int(due_s * 1000)
            for number in range(first, min(first + each_ms, due)):
                key, partition = keys[number % _KEYS]
                producer.send(topic, key, value, due_ms, None, partition)
        sent = max(sent, due)
        producer.poll()
        time.sleep(_TICK_S)
    producer.flush(60)
    print(f"{sent} {time.time():.6f}", flush=True)
    producer.close()


def _wait_for_end(ending: threading.Event) -> None:
    sys.stdin.read()
    ending.set()


if __name__ == "__main__":
    typer.run(main)
