"""Stacks of a stream actor for the page, as its process would give them."""

from __future__ import annotations

from penstock.cluster.read_side import Flame, FlameOwner

_LOOP = (
    "stream-loop",
    "Thread._bootstrap (threading.py:1002)",
    "Thread.run (threading.py:982)",
    "StreamLoop.run (penstock/actors/loop/stream_loop.py:140)",
)
_TASK = (*_LOOP, "Tasks.process (penstock/actors/loop/tasks.py:88)", "Task.process (penstock/tasks/task.py:301)")
_PRICE = (*_TASK, "map_values (penstock/tasks/operators/stateless.py:57)", "with_price (shop/prices.py:31)")
_FILES: dict[str, FlameOwner] = {
    "threading.py": "python",
    "json/decoder.py": "python",
    "penstock/actors/loop/stream_loop.py": "penstock",
    "penstock/actors/loop/tasks.py": "penstock",
    "penstock/actors/loop/commits.py": "penstock",
    "penstock/tasks/task.py": "penstock",
    "penstock/tasks/operators/stateless.py": "penstock",
    "penstock/state/rocksdb.py": "penstock",
    "shop/prices.py": "program",
    "shop/currencies.py": "program",
    "requests/api.py": "package",
}
TAKEN = Flame(
    (
        ((*_PRICE, "rate_of (shop/currencies.py:12)", "JSONDecoder.decode (json/decoder.py:337)"), 410),
        ((*_PRICE, "rate_of (shop/currencies.py:14)"), 120),
        ((*_PRICE, "get (requests/api.py:73)"), 90),
        (_PRICE, 60),
        ((*_TASK, "count (penstock/tasks/task.py:377)"), 110),
        ((*_LOOP, "Commits.flush (penstock/actors/loop/commits.py:61)", "write (penstock/state/rocksdb.py:92)"), 80),
        (_LOOP, 30),
        (("lease", "Thread._bootstrap (threading.py:1002)", "Event.wait (threading.py:629)"), 12),
    ),
    912, 10.02, "py-spy", None, _FILES,
)  # fmt: skip
"""A user's function that parses JSON for each record takes most of the time."""


def deep(frames: int = 100, stacks: int = 2_000) -> Flame:
    """Returns as many stacks, as deep, as an actor gives."""
    names = [tuple(f"f{each}_{depth} (a/b{each % 7}.py:{depth})" for depth in range(frames)) for each in range(stacks)]
    return Flame(tuple((("stream-loop", *each), 1) for each in names), stacks, 10.0, "penstock", "a note")
