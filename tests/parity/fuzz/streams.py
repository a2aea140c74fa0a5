"""Random steps on streams, without those that join or aggregate them."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz import versioned, words
from tests.parity.fuzz.program import STREAM, TABLE, Made, Program
from tests.parity.fuzz.stores import kept


def filter_stream(program: Program) -> bool:
    """A predicate on values or keys."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    op = program.rng.choice(("filter", "filter_not"))
    program.add(op, STREAM, source.key, source.value, source, fn=words.predicate(program.rng, source.value))
    return True


def map_values(program: Program) -> bool:
    """A mapper of values, or a flat one."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    if program.chance(0.4):
        fn = words.flat(program.rng, source.value)
        program.add("flat_map_values", STREAM, source.key, source.value, source, fn=fn)
    else:
        fn, value = words.mapper(program.rng, source.value)
        program.add("map_values", STREAM, source.key, value, source, fn=fn, value=value)
    return True


def rekey(program: Program) -> bool:
    """A step that makes other keys, and maybe other values."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    selector = words.selector(program.rng, source.key)
    match program.rng.choice(("map", "flat_map", "select_key")):
        case "map":
            fn, value = words.mapper(program.rng, source.value)
            program.add("map", STREAM, "string", value, source, key_fn=selector, fn=fn, value=value)
        case "flat_map":
            fn = words.flat(program.rng, source.value)
            program.add("flat_map", STREAM, "string", source.value, source, key_fn=selector, fn=fn)
        case _:
            program.add("select_key", STREAM, "string", source.value, source, fn=selector)
    return True


def peek(program: Program) -> bool:
    """A ``peek``, or now and then a ``for_each``."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    if program.chance(0.2):
        program.end("for_each", source)
    else:
        program.add("peek", STREAM, source.key, source.value, source)
    return True


def merge(program: Program) -> bool:
    """A merge of two streams of the same types."""
    source = program.any_of(STREAM)
    other = source and program.other(source, STREAM, source.key, source.value)
    if source is None or other is None or (other.id == source.id and program.chance(0.7)):
        return False
    program.add("merge", STREAM, source.key, source.value, source, **{"with": other.id})
    return True


def branch(program: Program) -> bool:
    """A stream split into up to four."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    number = program.number()
    fns = [words.predicate(program.rng, source.value) for _ in range(program.rng.choice((1, 2, 2, 3)))]
    ids = [f"b{number}_{end}" for end in range(len(fns) + 1)]
    program.steps.append({"op": "branch", "in": source.id, "name": f"split{number}", "fns": fns, "ids": ids})
    program.made += [Made(id, STREAM, source.key, source.value) for id in ids]
    program.used.add(source.id)
    return True


def repartition(program: Program) -> bool:
    """A stream by way of an internal topic."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    named: dict[str, Any] = {"name": f"rep{program.number()}"} if program.chance(0.8) else {}
    program.add("repartition", STREAM, source.key, source.value, source, **named)
    return True


def join_table(program: Program) -> bool:
    """A join of a stream with a table, by the table's history if it has one."""
    source = program.any_of(STREAM)
    table = source and program.any_of(TABLE, source.key)
    if source is None or table is None:
        return False
    kind = program.rng.choice(("inner", "left"))
    named = {"name": f"join{program.number()}"} if program.chance(0.2) else {}
    grace = versioned.grace(program.rng, versioned.history_of(program.steps, table.id))
    fields = {"with": table.id, "kind": kind, **named, **grace}
    program.add("stream_table", STREAM, source.key, "string", source, **fields)
    return True


def process(program: Program) -> bool:
    """A processor with a store, or with punctuations."""
    source = program.any_of(STREAM, "string")
    if source is None:
        return False
    fn = program.rng.choice(words.PROCESSORS)
    store = {"store": f"seen{program.number()}"} if fn == "dedupe" else {}
    value = source.value if fn == "dedupe" else "string"
    program.add("process", STREAM, "string", value, source, fn=fn, value=value, **store)
    return True


def process_values(program: Program) -> bool:
    """A processor that keeps keys, with a store or without."""
    source = program.any_of(STREAM, "string")
    if source is None:
        return False
    fn = program.rng.choice(("twice", "last"))
    store = {"store": f"last{program.number()}"} if fn == "last" else {}
    program.add("process_values", STREAM, "string", "string", source, fn=fn, value="string", **store)
    return True


def through(program: Program) -> bool:
    """A topic that one step writes and another reads."""
    source = program.any_of(STREAM)
    if source is None or program.chance(0.5):
        return False
    topic = f"mid{program.number()}"
    program.end("to", source, topic=topic)
    types: dict[str, Any] = {"key": source.key, "value": source.value}
    if program.chance(0.6):
        program.add("stream", STREAM, source.key, source.value, topic=topic, **types)
    else:
        how = kept(program, may_be_versioned=False) if program.chance(0.5) else {}
        program.add("table", TABLE, source.key, source.value, topic=topic, **types, **how)
    return True
