"""Stores warn, once, that a value that was put into them comes back as something else after a restart."""

from __future__ import annotations

import json
import pickle
from collections import Counter, OrderedDict
from collections.abc import MutableMapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import numpy
import pytest
from structlog.testing import capture_logs

from penstock.common.serdes import Serde, Serdes
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.key_value.typed_store import TypedKeyValueStore
from penstock.state.rows.round_trip import RoundTripCheck
from penstock.state.rows.typed_keys import TypedKeys
from tests.state.contexts import a_buffer

PICKLE: Serde[Any] = Serde("pickle", pickle.dumps, pickle.loads)
Said = list[MutableMapping[str, Any]]


@dataclass
class Total:
    n: int


@dataclass
class Basket:
    owner: str
    items: list[int]


class Struct(msgspec.Struct):
    n: Any


class Level(IntEnum):
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int


class Plain:
    def __init__(self, n: float) -> None:
        self.n = n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: float) -> None:
        self.n = n


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


def flushed(serde: Serde[Any], values: list[Any], caching: bool = True) -> Said:
    """Returns what a store logs while ``values`` are put and flushed, each in a commit of its own."""
    builder = KeyValueStoreBuilder("totals", Serdes.bytes(), serde)
    stores = InMemoryTaskStores([builder])
    buffer = a_buffer(stores.store("totals"), serde, lambda *_: None, caching, name="totals")
    with capture_logs() as message:
        for number, value in enumerate(values):
            buffer.put(b"%d" % number, value, 0, None)
            batch = stores.new_batch()
            for _ in buffer.flush(batch):
                pass
            stores.write(batch, {})
            buffer.batch_written()
    return message


@pytest.mark.parametrize("caching", [True, False])
def test_a_dataclass_that_json_gives_back_as_a_dictionary_is_reported_once(caching: bool) -> None:
    # JSON without the checks of the built-in serde: a user's own may accept what that refuses.
    serde: Serde[Any] = Serde("json", msgspec.json.encode, msgspec.json.decode)
    (message,) = flushed(serde, [Total(1), Total(2), Total(3)] * 10, caching)
    assert message["log_level"] == "warning"
    assert "object changed by its serde" in message["event"]
    assert (message["store"], message["part"], message["serde"]) == ("totals", "value", "json")
    assert message["put"] == "Total(n=1) (Total)"
    assert message["difference"] == "comes back as {'n': 1} (dict)"
    assert "Serdes.json(Total)" in message["what_to_do"]


def test_a_dictionary_whose_numbers_come_back_as_text_is_reported() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (message,) = flushed(serde, [{1: "a"}])
    assert message["difference"] == "comes back as {'1': 'a'} (dict)"


def test_a_value_that_does_not_fit_its_declared_type_is_reported_by_its_field() -> None:
    ill_typed: Any = (1, 2)
    (message,) = flushed(Serdes.json(Basket), [Basket("ann", ill_typed)])
    assert message["difference"].endswith(": its field items was (1, 2) (tuple) and is [1, 2] (list)")
    assert message["what_to_do"].startswith("the value does not fit what Basket declares")
    assert "Serdes.json" not in message["what_to_do"], "it has that serde already"


def test_a_value_that_its_declared_type_cannot_read_is_reported_by_its_field() -> None:
    ill_typed: Any = "three"
    (message,) = flushed(Serdes.json(Total), [Total(ill_typed)])
    assert "$.n" in message["difference"]
    assert message["what_to_do"].startswith("the value does not fit what Total declares")


def test_a_tuple_that_comes_back_as_a_list_is_reported() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (message,) = flushed(serde, [(1, 2)])
    assert message["put"] == "(1, 2) (tuple)"


def test_bytes_that_cannot_be_read_are_reported_with_the_error() -> None:
    serde: Serde[Any] = Serde("half", lambda value: b"x", lambda data: 1 // 0)
    (message,) = flushed(serde, ["v"])
    assert message["difference"].startswith("cannot be read back (ZeroDivisionError")


def test_the_tenth_value_is_looked_at_again() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (message,) = flushed(serde, [1] * 9 + [(1,)] + [(2,)] * 9)
    assert message["put"] == "(1,) (tuple)"


def test_looking_at_values_becomes_seldom() -> None:
    read = []

    def deserialize(data: bytes) -> str:
        read.append(data)
        return data.decode()

    assert flushed(Serde("text", str.encode, deserialize), [f"{n}" for n in range(1000)]) == []
    assert read == [b"0", b"9", b"99", b"999"]


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Counter("a"), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (Level.HIGH, 2),
        (Point(1, 2), (1, 2)),
        ({"deep": [Counter("a")]}, {"deep": [{"a": 1}]}),
        ({Level.HIGH: 1}, {2: 1}),
        ({Level.HIGH}, {2}),
        (Total(Level.HIGH), Total(2)),
        (Struct(Counter("a")), Struct({"a": 1})),
        (Plain(1), Plain(2)),
        (Slotted(1), Slotted(2)),
        ({"deep": Plain(1)}, {"deep": Plain(2)}),
        ([1], (1,)),
        ({"n": 1}, Total(1)),
        ({1: "a"}, {"1": "a"}),
        ({"a": 1}, {"a": 1, "b": 2}),
        (float("nan"), 0.0),
        (numpy.arange(3), [0, 1, 2]),
        (numpy.arange(3), numpy.arange(3.0)),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_a_value_that_comes_back_as_another_type_is_reported_even_if_it_is_equal(value: object, back: object) -> None:
    """Found wrong: Counter, IntEnum and NamedTuple passed here and were errors of the test driver."""
    (message,) = flushed(Serde("lossy", lambda each: b"%d" % id(each), lambda _: back), [value])
    assert message["difference"].startswith("comes back as ")


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.json(), {"a": [1, 2.5, None, True]}),
        (Serdes.json(), [numpy.int64(1), {"a": numpy.float64(0.5)}]),
        (Serdes.json(list[float]), [3]),
        (Serdes.long(), 7),
        (Serdes.string(), "é"),
        (Serdes.double(), float("nan")),
        (Serdes.double(), 3),
        (Serdes.float(), 0.1),
        (PICKLE, {"deep": [float("nan"), Plain(1)]}),
        (PICKLE, Plain(float("nan"))),
        (PICKLE, Slotted(float("nan"))),
        (PICKLE, Total(1)),
        (PICKLE, {Level.HIGH, Point(1, 2)}),
        (PICKLE, numpy.int64(3)),
        (PICKLE, numpy.arange(3)),
        (PICKLE, {"deep": [numpy.arange(3)]}),
        (PICKLE, CIRCLE),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_a_value_that_survives_the_round_trip_is_not_reported(serde: Serde[Any], value: object) -> None:
    assert flushed(serde, [value]) == []


def test_a_key_that_comes_back_as_another_is_reported() -> None:
    keys: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    builder = KeyValueStoreBuilder("visits", keys, Serdes.long())
    buffer = a_buffer(InMemoryTaskStores([builder]).store("visits"), Serdes.long(), name="visits")
    with capture_logs() as logs:
        store = TypedKeyValueStore(buffer, TypedKeys("visits", keys), lambda: 0)
        for number in range(20):
            store.put(("a", number), number)
    (message,) = logs
    assert (message["store"], message["part"]) == ("visits", "key")
    assert message["difference"] == "comes back as ['a', 0] (list)"


def test_a_value_that_cannot_be_serialised_is_left_to_the_code_that_writes_it() -> None:
    check = RoundTripCheck("s", "value", Serdes.long())
    with capture_logs() as logs:
        check.check("no number", 1)
    assert logs == []
    assert check.next == 10
