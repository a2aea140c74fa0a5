"""Reads what a run has written and compares it with what plain Python makes of the same records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.data import PARTITIONS
from benchmarks.workloads import WORKLOADS
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import BEGINNING, Admin, RecordConsumer

_POLL = 20_000
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Output:
    """The content of an output topic: ``digest`` is the same for the same rows in any order (within one process)."""

    rows: int
    digest: int
    final: dict[bytes | None, bytes | None]
    """The last value of each key that has not been deleted."""

    @classmethod
    def of(cls, rows: Iterable[tuple[bytes | None, bytes | None, int]]) -> Output:
        """Returns the content of a topic that has these rows."""
        number = digest = 0
        final: dict[bytes | None, bytes | None] = {}
        for key, value, timestamp in rows:
            number += 1
            digest += _row_hash(key, value, timestamp)
            final[key] = value
        return cls(number, digest & _MASK, final)


def read_output(topic: str, admin: Admin, consumer: RecordConsumer) -> Output:
    """Read all that is in ``topic`` now."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = admin.end_offsets(partitions)
    left = {at for at, end in ends.items() if end > 0}
    consumer.assign(dict.fromkeys(left, BEGINNING))
    rows = digest = 0
    final: dict[bytes | None, bytes | None] = {}
    while left:
        for batch in consumer.poll(_POLL, 1.0):
            rows += len(batch)
            digest += sum(map(_row_hash, batch.keys, batch.values, batch.timestamps))
            final.update(zip(batch.keys, batch.values, strict=True))
        left = {at for at in left if consumer.position(at) < ends[at]}
    consumer.assign({})
    return Output(rows, digest & _MASK, {key: value for key, value in final.items() if value is not None})


def wait_for_output(
    topic: str, expected: Mapping[bytes | None, bytes | None], consumer: RecordConsumer,
    timeout_s: float = 600.0,
) -> bool:  # fmt: skip
    """Read ``topic`` until the last value of each key is the one expected; False when that takes too long."""
    deadline = time.monotonic() + timeout_s
    consumer.assign({TopicPartition(topic, number): BEGINNING for number in range(PARTITIONS)})
    right: set[bytes | None] = set()
    try:
        while len(right) < len(expected):
            if time.monotonic() > deadline:
                return False
            for batch in consumer.poll(_POLL, 0.05):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    if expected.get(key) == value:
                        right.add(key)
                    else:
                        right.discard(key)
        return True
    finally:
        consumer.close()


def differences(workload: str, expected: Output, actual: Output) -> list[str]:
    """Returns the differences between ``actual`` and ``expected``; empty if there are none.

    If every row is known, ``actual`` must have the same rows (key, value, timestamp), each as often. Else it must have
    the same last value of every key; how many rows are written in between is up to caches and commits.
    """
    found = []
    every_row = WORKLOADS[workload].every_row
    if every_row and expected.rows != actual.rows:
        found.append(f"{workload}: {actual.rows:,} rows instead of {expected.rows:,}")
    keys = expected.final.keys() | actual.final.keys()
    differing = [key for key in keys if expected.final.get(key) != actual.final.get(key)]
    if differing:
        found.append(f"{workload}: the last value of {len(differing):,} keys differs: {_some(differing)}")
    if every_row and not found and expected.digest != actual.digest:
        found.append(f"{workload}: as many rows and the same last values, but other rows in between")
    return found


def _row_hash(key: bytes | None, value: bytes | None, timestamp: int) -> int:
    # Of bytes, not of a tuple: a tuple's hash is nearly linear in its last item, so the sum stays the same when
    # two rows swap theirs.
    return hash(b"%d %d %b%b" % (timestamp, -1 if key is None else len(key), key or b"", value or b""))


def _some(keys: list[bytes | None]) -> str:
    shown = ", ".join(repr(key) for key in keys[:3])
    return shown + (", …" if len(keys) > 3 else "")
