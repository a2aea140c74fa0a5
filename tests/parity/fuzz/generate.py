"""Random cases of the shapes that penstock has: the same seed and number make the same case, on every Python."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.parity.fuzz import grouped, streams, tables, versioned, words
from tests.parity.fuzz.by_hand import generate_by_hand
from tests.parity.fuzz.foreign_key import foreign_key
from tests.parity.fuzz.global_tables import global_table, stream_global
from tests.parity.fuzz.program import STREAM, TABLE, WINDOWED, Case, Program
from tests.parity.fuzz.stores import kept
from tests.parity.fuzz.stream_joins import stream_join
from tests.parity.fuzz.suppress import suppress

_OPTIMIZATIONS = ("all", "all", "none", "reuse.ktable.source.topics", "merge.repartition.topics")

Call = Callable[[Program], bool]
_PLAIN: tuple[Call, ...] = (
    *(streams.filter_stream, streams.map_values, streams.map_values, streams.rekey, streams.rekey, streams.peek),
    *(streams.merge, streams.merge, streams.branch, streams.repartition, streams.through),
)
_BETWEEN: tuple[Call, ...] = (tables.to_table, tables.to_stream, tables.to_stream)
_FAMILIES: tuple[tuple[Call, ...], ...] = (
    _PLAIN,
    (grouped.aggregate,) * 3,
    (streams.join_table,) * 3,
    (global_table, stream_global, stream_global),
    (stream_join,) * 2,
    (streams.process, streams.process, streams.process_values),
    (grouped.cogroup,) * 2,
    (grouped.in_windows,) * 3,
    (suppress,) * 2,
    (tables.table_table,) * 2,
    (tables.table_aggregate, tables.table_aggregate, tables.filter_table, tables.map_table_values),
    (foreign_key,) * 2,
)


def generate(seed: int, number: int) -> Case:
    """The ``number``-th case of ``seed``; each tenth is built node by node."""
    rng = Random(f"{seed}-{number}")
    if number % 10 == 9:
        case, inputs = generate_by_hand(seed, number)
        return {**case, "input": _input(Program(rng, inputs=inputs, steps=case["topology"]))}
    # A third are long chains, in which each step continues from the one before it.
    chain = rng.random() < 0.35
    program = Program(rng, nearness=0.85 if chain else 0.0)
    for _ in range(rng.choice((1, 2, 2, 3)) if chain else rng.choice((1, 1, 2, 2, 3))):
        _source(program)
    calls = _calls(rng)
    for _ in range(rng.choice((6, 8, 10, 12, 15)) if chain else rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12))):
        _operator(program, calls)
    _ends(program)
    config = {"topology.optimization": rng.choice(_OPTIMIZATIONS)} if program.chance(0.5) else {}
    if program.chance(0.05):
        config["statestore.cache.max.bytes"] = "0"
    return {
        "name": f"fuzz-{seed}-{number}",
        "config": config,
        "topology": program.steps,
        "input": _input(program),
    }


def _calls(rng: Random) -> list[Call]:
    """Steps of a few families, so that these meet often, or of all of them."""
    some = rng.random() < 0.7
    chosen = rng.sample(_FAMILIES, rng.choice((1, 2, 2, 3, 4, 5))) if some else _FAMILIES
    # Without what makes one from the other, families of streams and of tables would not meet.
    return [*(call for family in chosen for call in family), *_BETWEEN, *rng.sample(_PLAIN, 3)]


def _source(program: Program) -> None:
    topic = f"in{len(program.inputs) + 1}"
    key = "long" if program.chance(0.05) else "string"
    value = "long" if program.chance(0.2) else "string"
    program.inputs[topic] = (key, value)
    types: dict[str, Any] = {"key": key, "value": value}
    if program.chance(0.1):
        also = f"{topic}b"
        program.inputs[also] = (key, value)
        program.add("stream", STREAM, key, value, topics=[topic, also], **types)
    elif program.chance(0.6):
        program.add("stream", STREAM, key, value, topic=topic, **types)
        if program.chance(0.1):
            program.add("stream", STREAM, key, value, topic=topic, **types)
    elif program.chance(0.25):
        history: dict[str, Any] = {
            "store": f"store{program.number()}",
            "history_ms": program.rng.choice(versioned.HISTORIES_MS),
        }
        program.add("versioned_table", TABLE, key, value, topic=topic, **types, **history)
    else:
        how = kept(program, may_be_versioned=False) if program.chance(0.6) else {}
        program.add("table", TABLE, key, value, topic=topic, **types, **how)


def _operator(program: Program, calls: list[Call]) -> None:
    """Adds one more step, on any earlier one that it can be called on."""
    for _ in range(20):
        if program.rng.choice(calls)(program):
            return


def _ends(program: Program) -> None:
    """Adds sinks, mostly for all from which nothing continues. Sinks of one topic show in which order they write."""
    sinks: list[tuple[str, str, str]] = []
    for made in list(program.made):
        if made.kind not in (STREAM, TABLE, WINDOWED) or not program.chance(
            0.9 if made.id not in program.used else 0.15
        ):
            continue
        source = made
        if made.kind == WINDOWED:
            source = tables.windowed_to_stream(program, made)
        if made.kind == TABLE:
            source = program.add("to_stream", STREAM, made.key, made.value, made)
        shared = [topic for topic, *types in sinks if types == [source.key, source.value]]
        if not shared or program.chance(0.6):
            shared = [f"out{len(sinks) + 1}"]
        sinks.append((program.rng.choice(shared), source.key, source.value))
        program.end("to", source, topic=sinks[-1][0])


def _input(program: Program) -> list[dict[str, Any]]:
    """Returns records of all input topics: times advance, repeat or fall back; the wall clock moves now and then."""
    rng = program.rng
    # To emit the first windows that close, Kafka Streams goes through all segments since 1970 that a cache might have.
    on_close = any(step.get("emit_final") for step in program.steps)
    now = rng.choice((0, 0, 5, 100, 100 if on_close else 1_700_000_000_000))
    # Few cases with large steps: Kafka Streams opens a RocksDB for each segment of a window store.
    pace = 30_000 if program.chance(0.02) else rng.choice((1, 5, 20))
    wall = rng.choice((0.0, 0.02, 0.15))
    nulls = rng.choice((0.0, 0.1, 0.3))
    events: list[dict[str, Any]] = []
    for _ in range(rng.choice((3, 10, 20, 30, 40))):
        if program.chance(wall):
            events.append({"advance_wall_ms": rng.choice((1, 10, 25, 60, 250))})
        now += rng.choice((0, 1, pace, pace, pace, 3 * pace))
        late = rng.choice((0, 0, 0, 0, 1, pace, 2 * pace, 8 * pace))
        topic = rng.choice(list(program.inputs))
        key, value = program.inputs[topic]
        event: dict[str, Any] = {
            "topic": topic,
            "key": None if program.chance(nulls / 2) else words.content(rng, key, is_key=True),
            "value": None if program.chance(nulls) else words.content(rng, value, is_key=False),
            "ts": max(0, now - late),
        }
        if program.chance(0.12):
            event["headers"] = dict(rng.sample(words.HEADERS, rng.choice((1, 1, 2))))
        events.append(event)
    return events
