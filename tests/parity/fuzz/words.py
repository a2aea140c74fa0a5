"""The vocabulary of random cases: keys, values, headers, and the functions that fit a type."""

from __future__ import annotations

from random import Random
from typing import Any

KEYS = ("a", "b", "k1", "k2", "K3", "", "é", "水", "🙂x")
TEXTS = ("", "a", "b", "ab", "ba", "x", "2", "x y x", "cat x", "b b", "zz a", " a", "Ünal", "🙂", "水 火", "null")
LONGS = (0, 1, 2, 3, 7, 12, -1, -20, 1_000_000_007, 2**40)
LONG_KEYS = (0, 1, 2, -1, 500, 2**40)
HEADERS = (("h", "x"), ("h", "y"), ("trace", "ü"), ("empty", ""))

_PREDICATES = {
    "string": ("len_gt:1", "len_gt:2", "contains:a", "contains:x", "not_null", "key_in:a,k1,K3", "key_in:b,2,水"),
    "long": ("even", "len_gt:1", "contains:1", "not_null", "key_in:a,k1,K3", "key_in:0,2,b"),
}
_MAPPERS = {
    "string": (
        ("upper", "string"), ("concat:!", "string"), ("to_string", "string"), ("identity", "string"),
        ("null_if:x", "string"), ("null_if_contains:b", "string"), ("len", "long"),
    ),
    "long": (
        ("add:3", "long"), ("add:-3", "long"), ("identity", "long"), ("null_if:2", "long"),
        ("null_if_contains:1", "long"), ("to_string", "string"), ("concat:#", "string"), ("len", "long"),
    ),
}  # fmt: skip
_SELECTORS = ("first_char", "value", "key_upper", "key_first", "const:c")
_FLAT = {"string": ("split", "twice", "none"), "long": ("twice", "none")}
_REDUCERS = {"string": ("concat", "minus", "last", "drop_on:x", "drop_on:b"), "long": ("sum", "sub", "max", "last")}
_AGGREGATORS = {
    ("string", "empty"): ("concat", "minus", "last", "drop_on:x", "drop_on:2"),
    ("string", "zero"): ("sum", "sub"),
    ("long", "empty"): ("concat", "minus", "drop_on:2"),
    ("long", "zero"): ("sum", "sub", "max", "last"),
}
PROCESSORS = ("dedupe", "tick_stream:10", "tick_stream:25", "tick_stream:100", "tick_wall:10", "tick_wall:50")


def predicate(rng: Random, value_type: str) -> str:
    """A predicate on values of a type."""
    return rng.choice(_PREDICATES[value_type])


def mapper(rng: Random, value_type: str) -> tuple[str, str]:
    """A mapper of values of a type, with the type of what it makes."""
    return rng.choice(_MAPPERS[value_type])


def selector(rng: Random, key_type: str) -> str:
    """A selector that makes a string key of a record."""
    return rng.choice((*_SELECTORS, "same") if key_type == "string" else _SELECTORS)


def flat(rng: Random, value_type: str) -> str:
    """A flat mapper that keeps the type."""
    return rng.choice(_FLAT[value_type])


def reducer(rng: Random, value_type: str) -> str:
    """A reducer, which makes one value of two."""
    return rng.choice(_REDUCERS[value_type])


def aggregator(rng: Random, value_type: str) -> tuple[str, str]:
    """An initializer and an aggregator that go together."""
    init = rng.choice(("empty", "zero"))
    return init, rng.choice(_AGGREGATORS[value_type, init])


def aggregators(value_type: str, init: str) -> tuple[str, ...]:
    """The aggregators of values of a type that go with an initializer."""
    return _AGGREGATORS[value_type, init]


def content(rng: Random, type: str, is_key: bool) -> Any:
    """A key or a value of a type."""
    if type == "long":
        return rng.choice(LONG_KEYS if is_key else LONGS)
    if is_key:
        # Mostly few keys, so that records meet each other.
        return rng.choice(KEYS[:5] if rng.random() < 0.85 else KEYS)
    return rng.choice(TEXTS)
