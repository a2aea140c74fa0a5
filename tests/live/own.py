"""Cases of what Kafka Streams lacks, to be played live: some random, some for what they combine.

The reference model of ``tests/parity/fuzz`` holds the driver to what these operators mean; here the live application is
held to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import count, islice
from random import Random
from typing import Any

from tests.parity.fuzz.own import generate_own
from tests.parity.ops_own import IDLE

Case = dict[str, Any]
Step = dict[str, Any]

SEED = 20261122
IDLE_MS = 4000
"""Longer than a live task may seem idle while its records are on their way."""
_OF_CHANCE = {"deduplicate": 20, "ttl": 30}
_LONGEST_MS = 600_000
_SECOND_MS = 1000
_HOUR_MS = 3_600_000


@cache
def of_shapes() -> dict[str, list[Case]]:
    """Returns all cases, by their shapes."""
    found: dict[str, list[Case]] = defaultdict(list)
    for shape, many in _OF_CHANCE.items():
        found[shape] = [*_by_hand(shape), *islice(_of_chance(shape), many)]
    found["idle"] = [_idle(name, steps) for name, steps in _IDLE.items()]
    return found


def _of_chance(shape: str) -> Any:
    for number in count():
        case = generate_own(SEED, number)
        times = [record["ts"] for record in case["input"] if "ts" in record]
        # The broker takes no times of the future; those of cases are added to today's midnight.
        if case["name"].startswith(f"{shape}-") and IDLE not in case["config"] and max(times) < _LONGEST_MS:
            yield {**case, "config": {}}


# ---- what they combine ----

_STREAM = {"op": "stream", "topic": "in", "id": "in"}
_TABLE = {"op": "table", "topic": "in", "store": "in-rows", "ttl_ms": 40, "id": "in"}
_OTHER = {"op": "table", "topic": "other", "store": "other-rows", "id": "other"}


def _out(step: Step, *, table: bool = True) -> list[Step]:
    steps = [step]
    if table:
        steps.append({"op": "to_stream", "in": step["id"], "id": "updates"})
    return [*steps, {"op": "to", "in": steps[-1]["id"], "topic": "out"}]


_BY_HAND: dict[str, dict[str, list[Step]]] = {
    "deduplicate": {
        "by key": [_STREAM, *_out({"op": "deduplicate", "in": "in", "within_ms": 30, "id": "once"}, table=False)],
        "by id behind a repartition, and counted for a while": [
            _STREAM,
            {"op": "select_key", "in": "in", "fn": "first_char", "id": "keyed"},
            {"op": "deduplicate", "in": "keyed", "within_ms": 30, "fn": "value", "store": "seen", "id": "once"},
            {"op": "group_by_key", "in": "once", "id": "grouped"},
            *_out({"op": "count", "in": "grouped", "store": "counts", "ttl_ms": 60, "id": "counts"}),
        ],
        "before windows that are emitted on close": [
            _STREAM,
            {"op": "deduplicate", "in": "in", "within_ms": 10, "fn": "value", "id": "once"},
            {"op": "group_by_key", "in": "once", "id": "grouped"},
            {"op": "time_window", "in": "grouped", "size_ms": 40, "grace_ms": 0, "emit_final": True, "id": "windows"},
            {"op": "count", "in": "windows", "store": "counts", "id": "counts"},
            {"op": "windowed_to_stream", "in": "counts", "id": "closed"},
            {"op": "to", "in": "closed", "topic": "out"},
        ],
        "twice, in memory": [
            _STREAM,
            {"op": "deduplicate", "in": "in", "within_ms": 10, "in_memory": True, "name": "one", "id": "once"},
            *_out({"op": "deduplicate", "in": "once", "within_ms": 50, "fn": "value", "id": "again"}, table=False),
        ],
        "without a changelog": [
            _STREAM,
            *_out({"op": "deduplicate", "in": "in", "within_ms": 60, "logging": False, "id": "once"}, table=False),
        ],
    },
    "ttl": {
        "a table and one joined with it": [
            *(_TABLE, _OTHER),
            *_out({"op": "table_table", "in": "in", "with": "other", "kind": "outer", "ttl_ms": 90, "store": "both",
                   "id": "both"}),
        ],
        "a table that is grouped anew": [
            _TABLE,
            {"op": "group_by", "in": "in", "fn": "first_char", "id": "grouped"},
            *_out({"op": "aggregate", "in": "grouped", "init": "zero", "fn": "sum", "sub": "sub", "store": "sums",
                   "id": "sums"}),
        ],
        "of several streams together": [
            _STREAM,
            {"op": "stream", "topic": "other", "id": "more"},
            {"op": "group_by_key", "in": "in", "id": "one"},
            {"op": "group_by_key", "in": "more", "id": "two"},
            *_out({"op": "cogroup", "parts": [{"in": "one", "fn": "concat"}, {"in": "two", "fn": "minus"}],
                   "init": "empty", "ttl_ms": 50, "store": "together", "id": "together"}),
        ],
        "what a stream is joined with, and what a processor keeps": [
            *(_TABLE, {"op": "stream", "topic": "other", "id": "more"}),
            {"op": "stream_table", "in": "more", "with": "in", "kind": "left", "id": "joined"},
            {"op": "process", "in": "joined", "fn": "alive", "store": "alive", "ttl_ms": 70, "value": "string",
             "id": "alive"},
            {"op": "to", "in": "alive", "topic": "out"},
        ],
        "transformed": [
            _TABLE,
            *_out({"op": "transform_values", "in": "in", "fn": "with_key", "value": "string", "store": "changed",
                   "ttl_ms": 20, "id": "changed"}),
        ],
        "held back": [
            _TABLE,
            *_out({"op": "suppress", "in": "in", "wait_ms": 15, "id": "held"}),
        ],
    },
}  # fmt: skip


def _by_hand(shape: str) -> list[Case]:
    return [
        {"name": f"{shape}-by_hand-{number}", "config": {}, "topology": steps, "input": _records(steps, what)}
        for number, (what, steps) in enumerate(_BY_HAND[shape].items())
    ]


def _records(steps: list[Step], what: str) -> list[dict[str, Any]]:
    rng, now = Random(what), 0
    topics = [step["topic"] for step in steps if step["op"] in ("stream", "table")]
    records = []
    for _ in range(30):
        now += rng.choice((0, 1, 5, 10, 10, 30))
        records.append(
            {
                "topic": rng.choice(topics),
                "key": rng.choice(("a", "b", "c", "d", "k1", "k2")),
                "value": rng.choice(("a", "ab", "b", "x", None if "table" in steps[0]["op"] else "y")),
                "ts": max(0, now - rng.choice((0, 0, 0, 5, 60))),
            }
        )
    return records


# ---- time that advances without records ----

_CUT = {"op": "time_window", "in": "grouped", "size_ms": _SECOND_MS, "grace_ms": 500, "id": "windows"}
_GROUPED = [_STREAM, {"op": "group_by_key", "in": "in", "id": "grouped"}]
_COUNTED = {"op": "count", "in": "windows", "store": "counts", "retention_ms": 60_000, "id": "counts"}


def _closed(of: str) -> list[Step]:
    return [
        {"op": "windowed_to_stream", "in": of, "id": "closed"},
        {"op": "to", "in": "closed", "topic": "out"},
    ]


_IDLE: dict[str, list[Step]] = {
    "idle-windows-0": [*_GROUPED, {**_CUT, "emit_final": True}, _COUNTED, *_closed("counts")],
    "idle-sessions-1": [
        *_GROUPED,
        {"op": "session_window", "in": "grouped", "gap_ms": 700, "grace_ms": 0, "emit_final": True, "id": "windows"},
        *(_COUNTED, *_closed("counts")),
    ],
    "idle-suppressed-2": [*_GROUPED, _CUT, _COUNTED, {"op": "suppress", "in": "counts", "id": "f"}, *_closed("f")],
    "idle-ttl-3": [*_GROUPED, *_out({"op": "count", "in": "grouped", "store": "c", "ttl_ms": 2000, "id": "c"})],
    "idle-repartitioned-4": [
        *(_STREAM, {"op": "select_key", "in": "in", "fn": "key_upper", "id": "keyed"}),
        {"op": "group_by_key", "in": "keyed", "id": "grouped"},
        # Records of several tasks come to it in any order.
        {**_CUT, "emit_final": True, "grace_ms": 6000},
        *(_COUNTED, *_closed("counts")),
    ],
    "idle-unmatched-5": [
        *(_STREAM, {"op": "filter", "in": "in", "fn": "contains:a", "id": "left"}),
        {"op": "filter_not", "in": "in", "fn": "contains:a", "id": "right"},
        {"op": "stream_stream", "in": "left", "with": "right", "kind": "left", "before_ms": 300, "after_ms": 300,
         "grace_ms": 0, "id": "joined"},
        {"op": "to", "in": "joined", "topic": "out"},
    ],
}  # fmt: skip


def _idle(name: str, steps: list[Step]) -> Case:
    """Returns a case with records of a few seconds, then none; after the restart some that are too late, and others of
    the next hour. All of one second have one key, so that only the clock can close the last window of each."""
    records = []
    for begin in (0, _HOUR_MS):
        if begin:
            records += [_record("a0", "late a", 100), _record("b1", "late b", 1200)]
        for number, key in enumerate(("a", "b", "a", "c", "d")):
            at = begin + number * _SECOND_MS
            of = f"{key}{number}"
            records += [_record(of, "a", at), _record(of, "b" if number % 2 else "a", at + 200)]
        records.append({"advance_wall_ms": 10 * IDLE_MS})
    return {"name": name, "config": {IDLE: IDLE_MS}, "topology": steps, "input": records}


def _record(key: str, value: str, timestamp: int) -> dict[str, Any]:
    return {"topic": "in", "key": key, "value": value, "ts": timestamp}
