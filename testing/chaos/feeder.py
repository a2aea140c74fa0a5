"""Writes the input while faults happen, round by round."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from penstock.common.errors import ConfigError
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import RecordProducer
from penstock.testing.chaos.program import Program, Written

_AT_ONCE = 0.2
_FLUSH_S = 180.0
_OLDEST_MS = 86_400_000
"""A changelog of windows keeps them for a day longer than they need, by the times of its records and today's date."""


def feed(clients: KafkaClients, program: Program, seconds: float, stopped: threading.Event) -> None:
    """Write a fifth at once, so that there is a backlog, the rest over ``seconds``; returns when the broker has it."""
    total = program.rounds
    begin = time.monotonic()
    with closing(clients.producer()) as producer:
        for number in range(total):
            share = (number / total - _AT_ONCE) / (1 - _AT_ONCE)
            # The pace of the load, not a wait for anything.
            if stopped.wait(max(0.0, begin + share * seconds - time.monotonic())):
                return
            for record in program.round(number):
                _send(producer, record)
            producer.poll()
        _flush(producer, "the input")


def write(clients: KafkaClients, records: list[Written]) -> None:
    """Write these at once; returns when the broker has them."""
    with closing(clients.producer()) as producer:
        for record in records:
            _send(producer, record)
        _flush(producer, f"{len(records)} records more")


def _send(producer: RecordProducer, record: Written) -> None:
    age_ms = time.time_ns() // 1_000_000 - record.timestamp
    if age_ms > _OLDEST_MS:
        raise ConfigError(
            f"a record for topic {record.topic!r} is {age_ms / 86_400_000:.0f} days old, by its timestamp "
            f"{record.timestamp}: brokers delete what is older than the retention of its topic, in the middle of the "
            "run. Let the times of records be of today, such as time.time_ns() // 1_000_000"
        )
    producer.send(record.topic, record.key, record.value, record.timestamp, partition=record.partition)


def _flush(producer: RecordProducer, what: str) -> None:
    if not producer.flush(_FLUSH_S):
        raise TimeoutError(f"the broker did not take {what} within {_FLUSH_S:.0f} s")
