"""Writes the input while faults happen: in rounds, one record of each key in each."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing

from penstock.common.serdes import Serdes
from penstock.kafka.clients import ConfluentClients
from tests.chaos.program import INPUT, PARTITIONS

KEYS = 1000
_AT_ONCE = 0.2
_FLUSH_S = 180.0


def key(number: int) -> str:
    """The name of the ``number``-th key."""
    return f"k{number:04}"


def rounds(records: int) -> int:
    """In how many rounds at least ``records`` are written."""
    return -(-records // KEYS)


def expected(records: int) -> Mapping[str, int]:
    """How many records each key has in the end."""
    return {key(number): rounds(records) for number in range(KEYS)}


def feed(clients: ConfluentClients, records: int, seconds: float, stopped: threading.Event) -> None:
    """Write a fifth at once, so that there is a backlog, and the rest over ``seconds``; returns when the broker has it.

    A key's records go to one partition, another one than the repartition topic's.
    """
    total = rounds(records)
    keys = [(key(number).encode(), number % PARTITIONS) for number in range(KEYS)]
    serialize = Serdes.long().serialize
    begin = time.monotonic()
    with closing(clients.producer()) as producer:
        for number in range(total):
            share = (number / total - _AT_ONCE) / (1 - _AT_ONCE)
            # The pace of the load, not a wait for anything.
            if stopped.wait(max(0.0, begin + share * seconds - time.monotonic())):
                return
            value, now_ms = serialize(number), time.time_ns() // 1_000_000
            for name, partition in keys:
                producer.send(INPUT, name, value, now_ms, partition=partition)
            producer.poll()
        if not producer.flush(_FLUSH_S):
            raise TimeoutError(f"the broker did not take the input within {_FLUSH_S:.0f} s")
