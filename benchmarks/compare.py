"""Reads what a run has written and compares it with what plain Python makes of the same records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from benchmarks.data import PARTITIONS
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import BEGINNING, Admin, RecordConsumer

_POLL = 20_000
_COUNTS = ("count", "count-large")
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Output:
    """What stands in an output topic: ``digest`` is the same for the same rows in any order (within one process)."""

    rows: int
    digest: int
    final: dict[bytes | None, bytes | None]
    """The last value of each key."""


def read_output(topic: str, admin: Admin, consumer: RecordConsumer) -> Output:
    """Read all of ``topic`` as it stands now."""
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
    return Output(rows, digest & _MASK, final)


def differences(workload: str, expected: Output, actual: Output) -> list[str]:
    """What sets ``actual`` apart from ``expected``, empty when nothing does.

    ``json`` and ``join``: the same rows (key, value, timestamp), each as often. The counts: the same final count of
    every key; how many counts are written in between is up to caches and commits.
    """
    found = []
    if workload not in _COUNTS and expected.rows != actual.rows:
        found.append(f"{workload}: {actual.rows:,} rows instead of {expected.rows:,}")
    keys = expected.final.keys() | actual.final.keys()
    differing = [key for key in keys if expected.final.get(key) != actual.final.get(key)]
    if differing:
        found.append(f"{workload}: the last value of {len(differing):,} keys differs: {_some(differing)}")
    if workload not in _COUNTS and not found and expected.digest != actual.digest:
        found.append(f"{workload}: as many rows and the same last values, but other rows in between")
    return found


def expected_output(
    workload: str, payments: Iterable[tuple[bytes, bytes, int]], users: Iterable[tuple[bytes, bytes, int]]
) -> Output:
    """What a workload must have written for these payments, computed by plain Python."""
    if workload in _COUNTS:
        counts = Counter(key for key, _, _ in payments)
        return Output(len(counts), 0, {key: count.to_bytes(8, "big") for key, count in counts.items()})
    table = {key: value for key, value, _ in users}
    rows = digest = 0
    final: dict[bytes | None, bytes | None] = {}
    for key, value, timestamp in payments:
        if workload == "join":
            result = value + table[key]
        else:
            payment = orjson.loads(value)
            if payment["amount"] <= 1000:
                continue
            result = orjson.dumps({"user": payment["user"], "cents": int(payment["amount"] * 100)})
        rows += 1
        digest += _row_hash(key, result, timestamp)
        final[key] = result
    return Output(rows, digest & _MASK, final)


def _row_hash(key: bytes | None, value: bytes | None, timestamp: int) -> int:
    # Of bytes, not of a tuple: a tuple's hash is nearly linear in its last item, so the sum stays the same when
    # two rows swap theirs.
    return hash(b"%d %d %b%b" % (timestamp, -1 if key is None else len(key), key or b"", value or b""))


def _some(keys: list[bytes | None]) -> str:
    shown = ", ".join(repr(key) for key in keys[:3])
    return shown + (", …" if len(keys) > 3 else "")
