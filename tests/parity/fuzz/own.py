"""Random cases of what Kafka Streams lacks: ``deduplicate``, rows that expire, windows that close on an idle topic.

They are compared with a reference model. To keep the model small, a case has nothing else that the model does not know:
one repartition topic at most, tables in named stores.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.parity.fuzz import words
from tests.parity.fuzz.program import GROUPED, GROUPED_TABLE, STREAM, TABLE, Case, Made, Program
from tests.parity.ops_own import IDLE

SHAPES = ("deduplicate", "ttl", "ttl", "idle")

_INTERVALS_MS = (1, 2, 7, 20, 100, 5_000, 90_000)
_OF_TIME = ("ttl_ms", "within_ms", "retention_ms", "size_ms")
_IDLE_MS = (1, 10, 50, 1000)


def generate_own(seed: int, number: int) -> Case:
    """The ``number``-th case of ``seed``."""
    rng = Random(f"own {seed}-{number}")
    shape = SHAPES[number % len(SHAPES)]
    own = _Own(Program(rng, nearness=rng.choice((0.0, 0.7))), shape)
    config: dict[str, Any] = {}
    if shape == "idle" or own.chance(0.1):
        config[IDLE] = rng.choice(_IDLE_MS)
    _sources(own, 1 if config else rng.choice((1, 1, 2, 3)))
    for _ in range(rng.choice((2, 3, 4, 6, 8))):
        _operator(own, rng.choice(_OPERATORS[shape]))
    _operator(own, _NEEDED[shape])
    _ends(own)
    # Without a cache, windows that close and leave the store with one record are lost: docs/WINDOWS.md.
    if shape != "idle" and own.chance(0.1):
        config["statestore.cache.max.bytes"] = "0"
    steps = own.program.steps
    return {"name": f"{shape}-{seed}-{number}", "config": config, "topology": steps, "input": _input(own, bool(config))}


class _Own:
    """A program and what its operators have in common."""

    def __init__(self, program: Program, shape: str) -> None:
        self.program, self.rng, self.chance = program, program.rng, program.chance
        self.interval = self.rng.choice(_INTERVALS_MS)
        self.rekeyed: set[str] = set()
        """Ids of the streams that an operator by key must repartition."""
        self.repartitioned = False
        self.nulls = shape == "deduplicate"
        """True if keys and values of streams may be null."""

    def ms(self) -> int:
        """Returns an interval (ms) of the order of the case's own."""
        return max(1, int(self.interval * self.rng.choice((0.5, 1, 1, 1, 2, 5))))

    def any_of(self, kind: str, *, by_key: bool = False) -> Made | None:
        """Returns something of a kind, or None. ``by_key``: all records of a key come together in it, if need be by the
        only repartition."""
        made = self.program.any_of(kind)
        if made is None or not by_key or made.id not in self.rekeyed:
            return made
        return None if self.repartitioned else made

    def gathered(self, made: Made) -> None:
        """Notes that an operator by key continues from ``made``."""
        self.repartitioned |= made.id in self.rekeyed

    def kept(self, *, ttl: float = 0.75) -> dict[str, Any]:
        """Returns the settings of a table's store, as fields of its step."""
        fields: dict[str, Any] = {"store": f"store{self.program.number()}"}
        if self.chance(0.6):
            fields["caching"] = False
        if self.chance(0.5):
            fields["in_memory"] = True
        if self.chance(ttl):
            fields["ttl_ms"] = self.ms()
        return fields


Call = Callable[[_Own], bool]
"""Adds steps; False if there is nothing to add them to."""


def _sources(own: _Own, count: int) -> None:
    program = own.program
    for number in range(count):
        topic, value = f"in{number + 1}", "long" if own.chance(0.2) else "string"
        program.inputs[topic] = ("string", value)
        types: dict[str, Any] = {"topic": topic, "key": "string", "value": value}
        if not own.nulls and own.chance(0.5):
            program.add("table", TABLE, "string", value, **types, **own.kept())
        else:
            program.add("stream", STREAM, "string", value, **types)


def _operator(own: _Own, calls: tuple[Call, ...]) -> None:
    for _ in range(20):
        if own.rng.choice(calls)(own):
            return


def _on(own: _Own, op: str, source: Made, to: str | None = None, /, **fields: Any) -> bool:
    """Adds an operator that keeps keys as they are."""
    made = own.program.add(op, STREAM, source.key, to or source.value, source, **fields)
    own.rekeyed |= {made.id} if source.id in own.rekeyed else set()
    return True


def _plain(own: _Own) -> bool:
    source = own.any_of(STREAM)
    if source is None:
        return False
    match own.rng.choice(("filter", "map_values", "map_values", "flat_map_values", "merge")):
        case "filter":
            return _on(own, "filter", source, fn=words.predicate(own.rng, source.value))
        case "flat_map_values":
            return own.nulls and _on(own, "flat_map_values", source, fn=words.flat(own.rng, source.value))
        case "merge":
            other = own.program.other(source, STREAM, source.key, source.value)
            if other is None or other.id == source.id or (other.id in own.rekeyed) != (source.id in own.rekeyed):
                return False
            return _on(own, "merge", source, **{"with": other.id})
    fn, value = words.mapper(own.rng, source.value)
    return (own.nulls or "null_if" not in fn) and _on(own, "map_values", source, value, fn=fn, value=value)


def _select_key(own: _Own) -> bool:
    source = own.any_of(STREAM)
    if source is None or own.rekeyed:
        return False
    # Without nulls the first character of a text may still be none.
    fns = ("first_char", "value", "key_upper", "const:c") if own.nulls else ("key_upper", "const:c", "value")
    made = own.program.add("select_key", STREAM, "string", source.value, source, fn=own.rng.choice(fns))
    own.rekeyed.add(made.id)
    return True


def _deduplicate(own: _Own) -> bool:
    source = own.any_of(STREAM, by_key=True)
    if source is None:
        return False
    within = own.ms()
    fields: dict[str, Any] = {"within_ms": within}
    if own.chance(0.5):
        fields["fn"] = own.rng.choice(("value", "value", "first_char"))
    if own.chance(0.6):
        fields["store"] = f"seen{own.program.number()}"
    if own.chance(0.4):
        fields["retention_ms"] = own.rng.choice((within, within + within // 2, 5 * within))
    if own.chance(0.3):
        fields["in_memory"] = True
    if own.chance(0.2):
        fields["name"] = f"once{own.program.number()}"
    own.gathered(source)
    own.program.add("deduplicate", STREAM, source.key, source.value, source, **fields)
    return True


def _aggregate(own: _Own) -> bool:
    source = None if own.nulls else own.any_of(STREAM, by_key=True)
    if source is None:
        return False
    own.gathered(source)
    grouped = own.program.add("group_by_key", GROUPED, source.key, source.value, source)
    kept = own.kept()
    match own.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            own.program.add("count", TABLE, source.key, "long", grouped, **kept)
        case "reduce":
            fn = words.reducer(own.rng, source.value)
            own.program.add("reduce", TABLE, source.key, source.value, grouped, fn=fn, **kept)
        case _:
            init, fn = words.aggregator(own.rng, source.value)
            value = "long" if init == "zero" else "string"
            own.program.add("aggregate", TABLE, source.key, value, grouped, init=init, fn=fn, **kept)
    return True


def _to_table(own: _Own) -> bool:
    source = None if own.nulls else own.any_of(STREAM, by_key=True)
    if source is None:
        return False
    own.gathered(source)
    own.program.add("to_table", TABLE, source.key, source.value, source, **own.kept())
    return True


def _mapped_table(own: _Own) -> bool:
    table = own.any_of(TABLE)
    if table is None:
        return False
    if own.chance(0.5):
        fn = words.predicate(own.rng, table.value)
        own.program.add("filter", TABLE, table.key, table.value, table, fn=fn, **own.kept())
    else:
        fn, value = words.mapper(own.rng, table.value)
        own.program.add("map_values", TABLE, table.key, value, table, fn=fn, value=value, **own.kept())
    return True


def _grouped_table(own: _Own) -> bool:
    """Adds an aggregate of a table under new keys: what has expired is subtracted."""
    table = own.any_of(TABLE)
    if table is None or own.repartitioned:
        return False
    own.repartitioned = True
    fn = own.rng.choice(("first_char", "value", "const:c"))
    grouped = own.program.add("group_by", GROUPED_TABLE, "string", table.value, table, fn=fn)
    kept = own.kept(ttl=0)
    if own.chance(0.5):
        own.program.add("count", TABLE, "string", "long", grouped, **kept)
    else:
        add = own.program.add
        add("aggregate", TABLE, "string", "long", grouped, init="zero", fn="sum", sub="sub", **kept)
    return True


def _join(own: _Own) -> bool:
    stream, table = own.any_of(STREAM, by_key=True), own.any_of(TABLE)
    if stream is None or table is None:
        return False
    own.gathered(stream)
    kind = own.rng.choice(("inner", "left"))
    own.program.add("stream_table", STREAM, stream.key, "string", stream, **{"with": table.id}, kind=kind)
    return True


def _join_tables(own: _Own) -> bool:
    table = own.any_of(TABLE)
    other = table and own.program.other(table, TABLE)
    if table is None or other is None or table.id == other.id:
        return False
    kind = own.rng.choice(("inner", "left"))
    fields: dict[str, Any] = {"with": other.id, "kind": kind, **own.kept()}
    own.program.add("table_table", TABLE, table.key, "string", table, **fields)
    return True


def _alive(own: _Own) -> bool:
    source = own.any_of(STREAM)
    if source is None or source.id in own.rekeyed:
        return False
    fields = {"fn": "alive", "store": f"alive{own.program.number()}", "ttl_ms": own.ms(), "value": "string"}
    made = own.program.add("process", STREAM, source.key, "string", source, **fields, in_memory=own.chance(0.5))
    own.rekeyed.add(made.id)
    return True


def _windows(own: _Own) -> bool:
    source = own.any_of(STREAM)
    if source is None or own.nulls or source.id in own.rekeyed:
        return False
    grouped = own.program.add("group_by_key", GROUPED, source.key, source.value, source)
    size = min(own.ms(), 10_000)
    fields: dict[str, Any] = {"size_ms": size, "grace_ms": own.rng.choice((0, 0, size // 2, 2 * size))}
    if size > 1 and own.chance(0.4):
        fields["advance_ms"] = max(1, size // own.rng.choice((2, 3)))
    if own.chance(0.7):
        fields["emit_final"] = True
    cut = own.program.add("time_window", "cut", source.key, source.value, grouped, **fields)
    kept = {"store": f"store{own.program.number()}"} if own.chance(0.5) else {}
    counted = own.program.add("count", "windowed", source.key, "long", cut, **kept)
    own.program.add("windowed_to_stream", STREAM, "string", "long", counted)
    own.rekeyed.add(own.program.made[-1].id)
    own.repartitioned = True  # no operator by key continues from the new keys
    return True


_PLAIN: tuple[Call, ...] = (_plain, _plain, _select_key)
_OPERATORS: dict[str, tuple[tuple[Call, ...], ...]] = {
    "deduplicate": (_PLAIN, (_deduplicate,)),
    "ttl": (
        *(_PLAIN, (_aggregate,), (_to_table,), (_mapped_table,), (_grouped_table,)),
        *((_join,), (_join_tables,), (_alive,), (_deduplicate,)),
    ),
    "idle": ((_plain,), (_windows,), (_aggregate,), (_to_table,), (_mapped_table,), (_alive,)),
}
_NEEDED: dict[str, tuple[Call, ...]] = {
    "deduplicate": (_deduplicate,),
    "ttl": (_aggregate, _to_table, _alive, _mapped_table),
    "idle": (_windows, _aggregate, _to_table, _mapped_table),
}


def _ends(own: _Own) -> None:
    """Adds a sink for nearly everything, each with a topic of its own."""
    program = own.program
    for made in list(program.made):
        if made.kind == TABLE and own.chance(0.9):
            _stream_out(own, program.add("to_stream", STREAM, made.key, made.value, made))
        elif made.kind == STREAM and own.chance(0.95 if made.id not in program.used else 0.2):
            _stream_out(own, made)


def _stream_out(own: _Own, stream: Made) -> None:
    own.program.end("to", stream, topic=f"out{own.program.number()}")


def _input(own: _Own, walls: bool) -> list[dict[str, Any]]:
    """Returns records that are parts of the case's interval apart, in order and late."""
    rng, program = own.rng, own.program
    tables = {step["topic"] for step in program.steps if step["op"] == "table"}
    part = max(own.interval // 4, 1)
    intervals = [step[field] for step in program.steps for field in _OF_TIME if field in step]
    now, events = rng.choice((0, 0, 100, 1_700_000_000_000)), list[dict[str, Any]]()
    times = [now]
    for _ in range(rng.choice((5, 15, 30, 45))):
        if walls and own.chance(0.25):
            events.append({"advance_wall_ms": rng.choice((1, 9, 50, 400, part, own.interval))})
        if intervals and own.chance(0.3):
            # At, or next to, the end of an interval that began with an earlier record.
            time = rng.choice(times[-5:]) + rng.choice(intervals) * rng.choice((1, 1, -1)) + rng.choice((-1, 0, 0, 1))
        else:
            late = rng.choice((0, 0, 0, 1, part, 3 * part, 4 * part, 4 * part + 1, 9 * part))
            time = now + rng.choice((0, 1, 1, part, part, 2 * part, 6 * part)) - late
        times.append(max(0, time))
        now = max(now, time)
        topic = rng.choice(list(program.inputs))
        key, value = program.inputs[topic]
        no_value = (0.25 if topic in tables else 0.1) * (topic in tables or own.nulls)
        events.append(
            {
                "topic": topic,
                "key": None if own.nulls and own.chance(0.1) else words.content(rng, key, is_key=True),
                "value": None if own.chance(no_value) else words.content(rng, value, is_key=False),
                "ts": times[-1],
            }
        )
    return events
