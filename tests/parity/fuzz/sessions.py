"""Random cases of sessions and cogroups: short programs, and many records that meet, come late and bridge pauses."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.fuzz import words

Case = dict[str, Any]
Step = dict[str, Any]


def generate(seed: int, number: int) -> Case:
    """The ``number``-th case of ``seed``."""
    rng = Random(f"sessions-{seed}-{number}")
    steps: list[Step] = []
    inputs: dict[str, tuple[str, str]] = {}
    if rng.random() < 0.3:
        table, value = _cogroup(rng, steps, inputs), "string"
    else:
        table, value = _sessions(rng, steps, inputs)
    _downstream(rng, steps, table, value)
    config = {"topology.optimization": "all"} if rng.random() < 0.2 else {}
    if rng.random() < 0.05:
        config["statestore.cache.max.bytes"] = "0"
    return {
        "name": f"sessions-{seed}-{number}",
        "config": config,
        "topology": steps,
        "input": _input(rng, inputs),
    }


def _add(steps: list[Step], op: str, **fields: Any) -> str:
    steps.append({"op": op, **fields, "id": f"n{len(steps) + 1}"})
    return f"n{len(steps)}"


def _grouped(rng: Random, steps: list[Step], inputs: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """A grouped stream of a topic of its own; its type of values."""
    topic, value = f"in{len(inputs) + 1}", rng.choice(("string", "string", "long"))
    inputs[topic] = ("string", value)
    made = _add(steps, "stream", topic=topic, key="string", value=value)
    if rng.random() < 0.2:
        made = _add(steps, "filter", **{"in": made}, fn=words.predicate(rng, value))
    name = {"name": f"group{len(steps)}"} if rng.random() < 0.2 else {}
    if rng.random() < 0.7:
        return _add(steps, "group_by_key", **{"in": made}, **name), value
    return _add(steps, "group_by", **{"in": made}, fn=words.selector(rng, "string"), **name), value


def _kept(rng: Random, number: int) -> dict[str, Any]:
    kept: dict[str, Any] = {"store": f"store{number}"} if rng.random() < 0.5 else {}
    if rng.random() < 0.35:
        kept["caching"] = False
    if rng.random() < 0.1:
        kept["logging"] = False
    return kept


def _cogroup(rng: Random, steps: list[Step], inputs: dict[str, tuple[str, str]]) -> str:
    parts = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        grouped, value = _grouped(rng, steps, inputs)
        parts.append({"in": grouped, "fn": rng.choice(words.aggregators(value, "empty"))})
    window = {"window": _window(rng)} if rng.random() < 0.6 else {}
    return _add(steps, "cogroup", parts=parts, init="empty", **window, **_kept(rng, len(steps)))


def _window(rng: Random) -> dict[str, Any]:
    grace = rng.choice((0, 2, 20, 100))
    match rng.choice(("time", "sliding", "session", "session")):
        case "time":
            advance = {"advance_ms": rng.choice((2, 5))} if rng.random() < 0.5 else {}
            return {"op": "time_window", "size_ms": rng.choice((5, 20)), "grace_ms": grace, **advance}
        case "sliding":
            return {"op": "sliding_window", "size_ms": rng.choice((3, 20)), "grace_ms": grace}
        case _:
            return {"op": "session_window", "gap_ms": rng.choice((2, 5, 15)), "grace_ms": grace}


def _sessions(rng: Random, steps: list[Step], inputs: dict[str, tuple[str, str]]) -> tuple[str, str]:
    grouped, value = _grouped(rng, steps, inputs)
    gap, grace = rng.choice((1, 3, 5, 15, 40_000)), rng.choice((0, 0, 2, 5, 20, 100, 50_000))
    final = {"emit_final": True} if rng.random() < 0.3 else {}
    windowed = _add(steps, "session_window", **{"in": grouped}, gap_ms=gap, grace_ms=grace, **final)
    kept = _kept(rng, len(steps))
    match rng.choice(("count", "reduce", "aggregate", "aggregate")):
        case "count":
            return _add(steps, "count", **{"in": windowed}, **kept), "long"
        case "reduce":
            return _add(steps, "reduce", **{"in": windowed}, fn=words.reducer(rng, value), **kept), value
        case _:
            init, fn = words.aggregator(rng, value)
            made = _add(steps, "aggregate", **{"in": windowed}, init=init, fn=fn, **kept)
            return made, "long" if init == "zero" else "string"


def _downstream(rng: Random, steps: list[Step], table: str, value: str) -> None:
    windowed = steps[-1]["op"] != "cogroup" or "window" in steps[-1]
    if rng.random() < 0.3:
        table = _add(steps, "filter", **{"in": table}, fn=words.predicate(rng, value))
    if rng.random() < 0.2:
        fn, value = words.mapper(rng, value)
        table = _add(steps, "map_values", **{"in": table}, fn=fn, value=value)
    stream = _add(steps, "windowed_to_stream" if windowed else "to_stream", **{"in": table})
    _add(steps, "to", **{"in": stream}, topic="out")


def _input(rng: Random, inputs: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    # Few cases with many segments: Kafka Streams opens a RocksDB for each.
    now, pace = rng.choice((0, 5, 100, 1_700_000_000_000)), 30_000 if rng.random() < 0.03 else rng.choice((1, 2, 5, 20))
    nulls = rng.choice((0.0, 0.1, 0.3))
    keys = words.KEYS[: rng.choice((1, 2, 5))]
    events: list[dict[str, Any]] = []
    for _ in range(rng.choice((5, 20, 40, 40))):
        now += rng.choice((0, 1, pace, pace, 3 * pace))
        late = rng.choice((0, 0, 0, 1, pace, 2 * pace, 8 * pace))
        topic = rng.choice(list(inputs))
        event: dict[str, Any] = {
            "topic": topic,
            "key": None if rng.random() < nulls / 2 else rng.choice(keys),
            "value": None if rng.random() < nulls else words.content(rng, inputs[topic][1], is_key=False),
            "ts": max(0, now - late),
        }
        if rng.random() < 0.12:
            event["headers"] = dict(rng.sample(words.HEADERS, 1))
        events.append(event)
    return events
