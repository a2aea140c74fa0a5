"""Random cases of the shapes that penstock has: the same seed and number make the same case, on every Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.parity.fuzz import versioned, windows, words
from tests.parity.fuzz.by_hand import generate_by_hand
from tests.parity.fuzz.foreign_key import foreign_key
from tests.parity.fuzz.global_tables import global_table, stream_global
from tests.parity.fuzz.stores import kept as _kept
from tests.parity.fuzz.stream_joins import stream_join
from tests.parity.fuzz.tables import table_aggregate, table_table

Case = dict[str, Any]
Step = dict[str, Any]

_UNNAMED = ("repartition", "group_by", "group_by_key", "stream_table", "stream_stream", "foreign_key", "stream_global")
"""Steps that have a ``name`` instead of ``named``: of what they may add before them; or neither."""
_OPTIMIZATIONS = ("all", "all", "none", "reuse.ktable.source.topics", "merge.repartition.topics")


@dataclass(frozen=True)
class _Made:
    """A stream, a table or a grouped stream that steps may go on from."""

    id: str
    kind: str
    key: str
    value: str


@dataclass
class _Program:
    rng: Random
    steps: list[Step] = field(default_factory=list)
    made: list[_Made] = field(default_factory=list)
    inputs: dict[str, tuple[str, str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self) -> int:
        return len(self.steps) + 1

    def add(self, op: str, kind: str, key: str, value: str, /, on: _Made | None = None, **fields: Any) -> None:
        """Append a step, called on ``on``, and what it makes."""
        made = _Made(f"n{self.number()}", kind, key, value)
        called_on = {"in": on.id} if on else {}
        if op not in _UNNAMED and kind != "windowed" and self.chance(0.1):
            fields["named"] = f"my-{op}-{self.number()}"
        self.steps.append({"op": op, **called_on, **fields, "id": made.id})
        self.made.append(made)
        self.used.update([*called_on.values(), *(fields[name] for name in ("with",) if name in fields)])

    def any_of(self, kind: str, key: str | None = None, value: str | None = None) -> _Made | None:
        """Something of a kind, and of these types where they are said; what was made last is taken more often."""
        fitting = [
            made for made in self.made if made.kind == kind and key in (None, made.key) and value in (None, made.value)
        ]
        if not fitting:
            return None
        return self.rng.choice(fitting[-3:] if self.chance(0.6) else fitting)


def generate(seed: int, number: int) -> Case:
    """The ``number``-th case of ``seed``; each tenth is built node by node."""
    if number % 10 == 9:
        case, inputs = generate_by_hand(seed, number)
        return {**case, "input": _input(_Program(Random(f"{seed}-{number}"), inputs=inputs))}
    program = _Program(Random(f"{seed}-{number}"))
    for _ in range(program.rng.choice((1, 1, 2, 2, 3))):
        _source(program)
    for _ in range(program.rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12))):
        _operator(program)
    _ends(program)
    config = {"topology.optimization": program.rng.choice(_OPTIMIZATIONS)} if program.chance(0.5) else {}
    if program.chance(0.05):
        config["statestore.cache.max.bytes"] = "0"
    return {
        "name": f"fuzz-{seed}-{number}",
        "config": config,
        "topology": program.steps,
        "input": _input(program),
    }


def _source(program: _Program) -> None:
    topic = f"in{len(program.inputs) + 1}"
    key = "long" if program.chance(0.05) else "string"
    value = "long" if program.chance(0.2) else "string"
    program.inputs[topic] = (key, value)
    types: dict[str, Any] = {"key": key, "value": value}
    if program.chance(0.1):
        also = f"{topic}b"
        program.inputs[also] = (key, value)
        program.add("stream", "stream", key, value, topics=[topic, also], **types)
    elif program.chance(0.6):
        program.add("stream", "stream", key, value, topic=topic, **types)
        if program.chance(0.1):
            program.add("stream", "stream", key, value, topic=topic, **types)
    elif program.chance(0.3):
        history: dict[str, Any] = {
            "store": f"store{program.number()}",
            "history_ms": program.rng.choice(versioned.HISTORIES_MS),
        }
        program.add("versioned_table", "table", key, value, topic=topic, **types, **history)
    else:
        kept = _kept(program) if program.chance(0.6) else {}
        program.add("table", "table", key, value, topic=topic, **types, **kept)


def _operator(program: _Program) -> None:
    """One more step, on whatever is there that it can be called on."""
    for _ in range(20):
        call = program.rng.choice(_CALLS)
        if call(program):
            return


def _filter(program: _Program) -> bool:
    kind = program.rng.choice(("stream", "stream", "table"))
    source = program.any_of(kind)
    if source is None:
        return False
    op = program.rng.choice(("filter", "filter_not"))
    kept = _kept(program) if kind == "table" and program.chance(0.4) else {}
    fn = words.predicate(program.rng, source.value)
    program.add(op, kind, source.key, source.value, source, fn=fn, **kept)
    return True


def _map_values(program: _Program) -> bool:
    kind = program.rng.choice(("stream", "stream", "table"))
    source = program.any_of(kind)
    if source is None:
        return False
    fn, value = words.mapper(program.rng, source.value)
    kept = _kept(program) if kind == "table" and program.chance(0.4) else {}
    program.add("map_values", kind, source.key, value, source, fn=fn, value=value, **kept)
    return True


def _rekey(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    selector = words.selector(program.rng, source.key)
    match program.rng.choice(("map", "flat_map", "select_key")):
        case "map":
            fn, value = words.mapper(program.rng, source.value)
            program.add("map", "stream", "string", value, source, key_fn=selector, fn=fn, value=value)
        case "flat_map":
            fn = words.flat(program.rng, source.value)
            program.add("flat_map", "stream", "string", source.value, source, key_fn=selector, fn=fn)
        case _:
            program.add("select_key", "stream", "string", source.value, source, fn=selector)
    return True


def _flat_map_values(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    fn = words.flat(program.rng, source.value)
    program.add("flat_map_values", "stream", source.key, source.value, source, fn=fn)
    return True


def _peek(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    if program.chance(0.2):
        program.steps.append({"op": "for_each", "in": source.id, "id": f"n{program.number()}"})
        program.used.add(source.id)
        return True
    program.add("peek", "stream", source.key, source.value, source)
    return True


def _merge(program: _Program) -> bool:
    source = program.any_of("stream")
    other = source and program.any_of("stream", source.key, source.value)
    if source is None or other is None or (other.id == source.id and program.chance(0.9)):
        return False
    program.add("merge", "stream", source.key, source.value, source, **{"with": other.id})
    return True


def _branch(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    number = program.number()
    fns = [words.predicate(program.rng, source.value) for _ in range(program.rng.choice((1, 2, 2, 3)))]
    ids = [f"b{number}_{end}" for end in range(len(fns) + 1)]
    program.steps.append({"op": "branch", "in": source.id, "name": f"split{number}", "fns": fns, "ids": ids})
    program.made += [_Made(id, "stream", source.key, source.value) for id in ids]
    program.used.add(source.id)
    return True


def _repartition(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    named: dict[str, Any] = {"name": f"rep{program.number()}"} if program.chance(0.8) else {}
    program.add("repartition", "stream", source.key, source.value, source, **named)
    return True


def _to_table(program: _Program) -> bool:
    source = program.any_of("stream")
    if source is None:
        return False
    program.add("to_table", "table", source.key, source.value, source, **_kept(program, named=0.5))
    return True


def _to_stream(program: _Program) -> bool:
    source = program.any_of("table")
    if source is None:
        return False
    if program.chance(0.2):
        selector = words.selector(program.rng, source.key)
        program.add("to_stream", "stream", "string", source.value, source, key_fn=selector)
    else:
        program.add("to_stream", "stream", source.key, source.value, source)
    return True


def _aggregate(program: _Program) -> bool:
    """An aggregate, of a stream grouped for it or of one that is grouped already."""
    grouped = program.any_of("grouped") if program.chance(0.25) else None
    if grouped is None:
        source = program.any_of("stream")
        if source is None:
            return False
        named: dict[str, Any] = {"name": f"group{program.number()}"} if program.chance(0.2) else {}
        if program.chance(0.5):
            program.add("group_by_key", "grouped", source.key, source.value, source, **named)
        else:
            fn = words.selector(program.rng, source.key)
            program.add("group_by", "grouped", "string", source.value, source, fn=fn, **named)
        grouped = program.made[-1]
    kept = _kept(program, named=0.6)
    match program.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            program.add("count", "table", grouped.key, "long", grouped, **kept)
        case "reduce":
            fn = words.reducer(program.rng, grouped.value)
            program.add("reduce", "table", grouped.key, grouped.value, grouped, fn=fn, **kept)
        case _:
            init, fn = words.aggregator(program.rng, grouped.value)
            value = "long" if init == "zero" else "string"
            program.add("aggregate", "table", grouped.key, value, grouped, init=init, fn=fn, **kept)
    return True


def _join(program: _Program) -> bool:
    source = program.any_of("stream")
    table = source and program.any_of("table", source.key)
    if source is None or table is None:
        return False
    kind = program.rng.choice(("inner", "left"))
    named = {"name": f"join{program.number()}"} if program.chance(0.2) else {}
    grace = versioned.grace(program.rng, versioned.history_of(program.steps, table.id))
    fields = {"with": table.id, "kind": kind, **named, **grace}
    program.add("stream_table", "stream", source.key, "string", source, **fields)
    return True


def _process(program: _Program) -> bool:
    source = program.any_of("stream", "string")
    if source is None:
        return False
    fn = program.rng.choice(words.PROCESSORS)
    store = {"store": f"seen{program.number()}"} if fn == "dedupe" else {}
    value = source.value if fn == "dedupe" else "string"
    program.add("process", "stream", "string", value, source, fn=fn, value=value, **store)
    return True


def _process_values(program: _Program) -> bool:
    source = program.any_of("stream", "string")
    if source is None:
        return False
    fn = program.rng.choice(("twice", "last"))
    store = {"store": f"last{program.number()}"} if fn == "last" else {}
    program.add("process_values", "stream", "string", "string", source, fn=fn, value="string", **store)
    return True


def _through(program: _Program) -> bool:
    """A topic that one step writes and another reads."""
    source = program.any_of("stream")
    if source is None or program.chance(0.5):
        return False
    topic = f"mid{program.number()}"
    _to(program, source, topic)
    types: dict[str, Any] = {"key": source.key, "value": source.value}
    if program.chance(0.6):
        program.add("stream", "stream", source.key, source.value, topic=topic, **types)
    else:
        kept = _kept(program) if program.chance(0.5) else {}
        program.add("table", "table", source.key, source.value, topic=topic, **types, **kept)
    return True


def _to(program: _Program, source: _Made, topic: str) -> None:
    program.steps.append({"op": "to", "in": source.id, "topic": topic, "id": f"n{program.number()}"})
    program.used.add(source.id)


_CALLS: tuple[Callable[[_Program], bool], ...] = (
    *(_filter, _filter, _map_values, _map_values, _rekey, _rekey, _flat_map_values, _peek, _merge, _merge),
    *(_branch, _repartition, _to_table, _to_stream, _aggregate, _aggregate, _aggregate, _join, _join, _join),
    *(_process, _process, _process_values, _through, stream_join, stream_join),
    *(foreign_key, foreign_key, global_table, stream_global, stream_global),
    *(table_table, table_table, table_aggregate, table_aggregate),
)


def _ends(program: _Program) -> None:
    """Sinks, mostly of all that nothing goes on from. Those that share a topic show in which order they write."""
    sinks: list[tuple[str, str, str]] = []
    for made in list(program.made):
        if made.kind not in ("stream", "table", "windowed") or not program.chance(
            0.9 if made.id not in program.used else 0.15
        ):
            continue
        source = made
        if made.kind == "windowed":
            windows.to_stream(program, made)
            source = program.made[-1]
        if made.kind == "table":
            program.add("to_stream", "stream", made.key, made.value, made)
            source = program.made[-1]
        shared = [topic for topic, *types in sinks if types == [source.key, source.value]]
        if not shared or program.chance(0.6):
            shared = [f"out{len(sinks) + 1}"]
        sinks.append((program.rng.choice(shared), source.key, source.value))
        _to(program, source, sinks[-1][0])


def _input(program: _Program) -> list[dict[str, Any]]:
    """Records of all input topics: times go on, stand still or fall back; the wall clock moves now and then."""
    rng = program.rng
    now = rng.choice((0, 0, 5, 100, 1_700_000_000_000))
    pace = rng.choice((1, 5, 20))
    wall = rng.choice((0.0, 0.02, 0.15))
    nulls = rng.choice((0.0, 0.1, 0.3))
    events: list[dict[str, Any]] = []
    for _ in range(rng.choice((3, 10, 20, 30, 40))):
        if program.chance(wall):
            events.append({"advance_wall_ms": rng.choice((1, 10, 25, 60, 250))})
        now += rng.choice((0, 1, pace, pace))
        late = rng.choice((0, 0, 0, 0, 1, pace, 8 * pace))
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
