"""Questions to the stores of a running task, answered between two batches of records."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from penstock.tasks.task import Task

Row = tuple[bytes, Any, int | None]
"""(key bytes, value object, timestamp in ms or None in a plain store)"""


def look_up(task: Task, store: str, key: bytes, committed: bool) -> Row | None:
    """The row of ``key``; ``committed`` leaves out what no commit has taken yet."""
    buffer = task.buffer(store)
    # Not by buffer.get: what only queries look at must not grow the buffer of a task that has nothing to process.
    entry = None if committed else buffer.peek(key)
    if entry is None and (row := buffer.committed.get(key)) is not None:
        entry = buffer.decode(row)
    return None if entry is None or entry[0] is None else (key, entry[0], entry[1] if buffer.timestamped else None)


def scan(
    task: Task, store: str, from_key: bytes | None, to_key: bytes | None, limit: int, committed: bool
) -> Iterable[Row]:
    """At most ``limit`` rows by key, both ends included, None open."""
    buffer = task.buffer(store)
    for key, (value, timestamp, *_) in islice(buffer.scan(from_key, to_key, committed=committed, limit=limit), limit):
        yield key, value, timestamp if buffer.timestamped else None


def approximate_num_entries(task: Task, store: str, committed: bool) -> int:
    """About how many rows there are; ``committed`` leaves out what no commit has taken yet."""
    buffer = task.buffer(store)
    return (buffer.committed if committed else buffer).approximate_num_entries()
