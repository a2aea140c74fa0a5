"""Computes what each workload must have written, in plain Python from the same records."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import pack

import orjson

from benchmarks.compare import Output
from benchmarks.data import BUYERS, CLICKS, INPUT, ORDERS, TABLE, VIEWS, Row
from benchmarks.workloads import APART_MS, COUNT, GAP_MS, LARGE, SHORT_WINDOW_MS, WINDOW_MS

Inputs = Mapping[str, Iterable[Row]]
"""The records of each topic, in order."""


def expected_output(workload: str, inputs: Inputs) -> Output:
    """Returns all rows if every row is known, else the last row of each key."""
    return Output.of(_EXPECTED[workload](inputs))


def _json(inputs: Inputs) -> Iterator[Row]:
    for key, value, timestamp in inputs[INPUT]:
        payment = orjson.loads(value)
        if payment["amount"] > 1000:
            yield key, orjson.dumps({"user": payment["user"], "cents": int(payment["amount"] * 100)}), timestamp


def _join(inputs: Inputs) -> Iterator[Row]:
    table = {key: value for key, value, _ in inputs[TABLE]}
    for key, value, timestamp in inputs[INPUT]:
        yield key, value + table[key], timestamp


def _count(inputs: Inputs) -> Iterator[Row]:
    counts = Counter(key for key, _, _ in inputs[INPUT])
    for key, number in counts.items():
        yield key, pack(">q", number), 0


def _window_sum(inputs: Inputs) -> Iterator[Row]:
    sums: defaultdict[tuple[bytes, int], float] = defaultdict(float)
    for key, value, timestamp in inputs[INPUT]:
        sums[key, timestamp - timestamp % WINDOW_MS] += orjson.loads(value)["amount"]
    for (key, start), total in sums.items():
        yield key + pack(">q", start), pack(">d", total), 0


def _window_count(inputs: Inputs) -> Iterator[Row]:
    counts = Counter((key, timestamp - timestamp % SHORT_WINDOW_MS) for key, _, timestamp in inputs[INPUT])
    for (key, start), number in counts.items():
        yield key + pack(">q", start), pack(">q", number), 0


def _session_count(inputs: Inputs) -> Iterator[Row]:
    open_sessions: dict[bytes, tuple[int, int, int]] = {}
    for key, _, timestamp in inputs[INPUT]:
        start, end, number = open_sessions.get(key, (timestamp, timestamp, 0))
        if timestamp > end + GAP_MS:
            yield _session(key, start, end, number)
            start, number = timestamp, 0
        open_sessions[key] = (start, timestamp, number + 1)
    for key, (start, end, number) in open_sessions.items():
        yield _session(key, start, end, number)


def _session(key: bytes, start: int, end: int, number: int) -> Row:
    return key + pack(">qq", end, start), pack(">q", number), 0


def _stream_join(inputs: Inputs) -> Iterator[Row]:
    views: defaultdict[bytes, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for key, value, timestamp in inputs[VIEWS]:
        times, lengths = views[key]
        times.append(timestamp)
        lengths.append(len(value))
    for key, value, timestamp in inputs[CLICKS]:
        times, lengths = views[key]
        for at in range(bisect_left(times, timestamp - APART_MS), bisect_left(times, timestamp + APART_MS + 1)):
            yield key, b"%d/%d" % (len(value), lengths[at]), max(timestamp, times[at])


def _table_join(inputs: Inputs) -> Iterator[Row]:
    clicks, views = ({key: value for key, value, _ in inputs[topic]} for topic in (CLICKS, VIEWS))
    for key in clicks.keys() & views.keys():
        yield key, clicks[key] + views[key], 0


def _foreign_key_join(inputs: Inputs) -> Iterator[Row]:
    buyers = {key: value for key, value, _ in inputs[BUYERS]}
    for key, order in {key: value for key, value, _ in inputs[ORDERS]}.items():
        yield key, order + b"|" + buyers[order.partition(b"|")[0]], 0


_EXPECTED: dict[str, Callable[[Inputs], Iterable[Row]]] = {
    "json": _json,
    COUNT: _count,
    "join": _join,
    "window-sum": _window_sum,
    "session-count": _session_count,
    "session-dense": _session_count,
    "window-1s": _window_count,
    "window-late": _window_count,
    "count-hot": _count,
    "json-wide": _json,
    "stream-join": _stream_join,
    "table-join": _table_join,
    "foreign-key-join": _foreign_key_join,
    LARGE: _count,
}
