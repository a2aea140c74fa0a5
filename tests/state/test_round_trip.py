"""Stores say, once, that what was put into them comes back as something else after a restart."""

from __future__ import annotations

import json
import pickle
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from penstock.common.serdes import Serde, Serdes
from penstock.state.builders import StoreBuilder, StoreKind
from penstock.state.key_value import TypedKeyValueStore
from penstock.state.memory import InMemoryTaskStores
from penstock.state.round_trip import RoundTripCheck, same
from penstock.state.write_buffer import WriteBuffer

PICKLE: Serde[Any] = Serde("pickle", pickle.dumps, pickle.loads)
Said = list[MutableMapping[str, Any]]


@dataclass
class Total:
    n: int


class Plain:
    def __init__(self, n: int) -> None:
        self.n = n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


def flushed(serde: Serde[Any], values: list[Any], caching: bool = True) -> Said:
    """What a store says while ``values`` are put and flushed, each in a commit of its own."""
    builder = StoreBuilder("totals", StoreKind.KEY_VALUE, Serdes.bytes(), serde)
    stores = InMemoryTaskStores([builder])
    buffer = WriteBuffer(builder, stores.store("totals"), lambda *_: None, caching)
    with capture_logs() as said:
        for number, value in enumerate(values):
            buffer.put(b"%d" % number, value, 0, None)
            batch = stores.new_batch()
            for _ in buffer.flush(batch):
                pass
            stores.write(batch, {})
            buffer.committed_now()
    return said


@pytest.mark.parametrize("caching", [True, False])
def test_a_dataclass_that_json_gives_back_as_a_dictionary_is_told_once(caching: bool) -> None:
    # JSON as of plain Python: whatever the built-in serde refuses, a user's own may not.
    serde: Serde[Any] = Serde("json", msgspec.json.encode, msgspec.json.decode)
    (said,) = flushed(serde, [Total(1), Total(2), Total(3)] * 10, caching)
    assert said["log_level"] == "warning"
    assert "value of store totals" in said["event"]
    assert said["serde"] == "json"
    assert said["put"] == "Total Total(n=1)"
    assert said["comes_back"] == "dict {'n': 1}"
    assert "Serdes.json(Total)" in said["what_to_do"]


def test_a_dictionary_whose_numbers_come_back_as_text_is_told() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (said,) = flushed(serde, [{1: "a"}])
    assert said["comes_back"] == "dict {'1': 'a'}"


def test_a_tuple_that_comes_back_as_a_list_is_told() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (said,) = flushed(serde, [(1, 2)])
    assert said["put"] == "tuple (1, 2)"


def test_bytes_that_cannot_be_read_are_told_with_the_error() -> None:
    serde: Serde[Any] = Serde("half", lambda value: b"x", lambda data: 1 // 0)
    (said,) = flushed(serde, ["v"])
    assert said["comes_back"].startswith("ZeroDivisionError")


def test_the_tenth_value_is_looked_at_again() -> None:
    serde: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    (said,) = flushed(serde, [1] * 9 + [(1,)] + [(2,)] * 9)
    assert said["put"] == "tuple (1,)"


def test_looking_at_values_becomes_seldom() -> None:
    read = []

    def deserialize(data: bytes) -> str:
        read.append(data)
        return data.decode()

    assert flushed(Serde("text", str.encode, deserialize), [f"{n}" for n in range(1000)]) == []
    assert read == [b"0", b"9", b"99", b"999"]


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.json(), {"a": [1, 2.5, None, True]}),
        (Serdes.long(), 7),
        (Serdes.string(), "é"),
        (Serdes.double(), float("nan")),
        (PICKLE, {"deep": [float("nan"), Plain(1)]}),
        (PICKLE, Plain(1)),
        (PICKLE, Slotted(1)),
        (PICKLE, Total(1)),
    ],
)
def test_what_comes_back_equal_is_not_told(serde: Serde[Any], value: object) -> None:
    assert flushed(serde, [value]) == []


def test_arrays_whose_equality_is_an_array_are_compared_by_their_type() -> None:
    numpy = pytest.importorskip("numpy")
    assert flushed(PICKLE, [numpy.arange(3)]) == []
    assert flushed(PICKLE, [{"deep": [numpy.arange(3)]}]) == []
    assert not same(numpy.arange(3), [0, 1, 2])


def test_plain_objects_that_differ_are_told_apart() -> None:
    assert same(Plain(1), Plain(1))
    assert not same(Plain(1), Plain(2))
    assert not same([1], (1,))
    assert not same({"n": 1}, Total(1))


def test_a_key_that_comes_back_as_another_is_told() -> None:
    keys: Serde[Any] = Serde("own-json", lambda value: json.dumps(value).encode(), json.loads)
    builder = StoreBuilder("visits", StoreKind.KEY_VALUE, keys, Serdes.long())
    buffer = WriteBuffer(builder, InMemoryTaskStores([builder]).store("visits"), None, False)
    with capture_logs() as logs:
        store = TypedKeyValueStore(buffer, keys, lambda: 0)
        for number in range(20):
            store.put(("a", number), number)
    (said,) = logs
    assert "key of store visits" in said["event"]
    assert said["comes_back"] == "list ['a', 0]"


def test_what_cannot_be_serialised_is_left_to_whoever_writes_it() -> None:
    check = RoundTripCheck("s", "value", Serdes.long())
    with capture_logs() as logs:
        check.check("no number", 1)
    assert logs == []
    assert check.next == 10
