"""Every serde gives back what it was given, and rows of every form what they were made of, by the hundred."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.common.changes import changed
from penstock.common.ids import TopicPartition
from penstock.common.serdes import bound
from penstock.state.buffers.buffered_change import BufferedChangeCodec
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, VALUE
from penstock.state.versioned.history import HISTORY, History
from penstock.tasks.operators import subscriptions
from tests.tiers import examples

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(0, (1 << 63) - 1)
texts = st.text()
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@dataclass(frozen=True)
class Order:
    name: str
    amounts: tuple[int, ...]
    by: dict[str, float]


class Point(msgspec.Struct):
    x: float
    tag: str | None = None


numbers = st.floats(allow_nan=False, allow_infinity=False)
SERDES: Mapping[str, tuple[ps.Serde[Any], st.SearchStrategy[Any]]] = {
    "string": (ps.Serdes.string(), texts),
    "bytes": (ps.Serdes.bytes(), st.binary()),
    "byte_buffer": (ps.Serdes.byte_buffer(), st.binary().map(memoryview)),
    "list": (ps.Serdes.list(ps.Serdes.string()), st.lists(st.none() | texts)),
    "short": (ps.Serdes.short(), st.integers(-(1 << 15), (1 << 15) - 1)),
    "integer": (ps.Serdes.integer(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": (ps.Serdes.long(), LONGS),
    "float": (ps.Serdes.float(), st.floats(width=32)),
    "double": (ps.Serdes.double(), st.floats()),
    "boolean": (ps.Serdes.boolean(), st.booleans()),
    "uuid": (ps.Serdes.uuid(), st.uuids()),
    "json": (ps.Serdes.json(), JSON),
    "json of a dataclass": (
        ps.Serdes.json(Order),
        st.builds(Order, texts, st.lists(LONGS, max_size=3).map(tuple), st.dictionaries(texts, numbers, max_size=3)),
    ),
    "json of a struct": (ps.Serdes.json(Point), st.builds(Point, numbers, st.none() | texts)),
    "json of a list": (ps.Serdes.json(list[int]), st.lists(LONGS, max_size=5)),
}
KEYS = {name: SERDES[name] for name in ("string", "bytes", "long", "integer", "double", "uuid")}


def test_none_was_forgotten() -> None:
    made = {name for name in dir(ps.Serdes) if not name.startswith("_")}
    elsewhere = {"void", "avro", "protobuf", "json_schema"}  # it has nothing to give back; tests/registry
    assert {name.partition(" ")[0] for name in SERDES} == made - elsewhere


def same(one: Any, other: Any) -> bool:
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("name", SERDES)
@given(st.data())
def test_a_serde_gives_back_what_it_was_given(name: str, data: st.DataObject) -> None:
    serde, values = SERDES[name]
    value = data.draw(values)
    back = serde.deserialize(serde.serialize(value))
    assert same(back, value)
    assert type(back) is type(value)


@pytest.mark.parametrize("name", SERDES)
@given(st.data())
def test_a_bound_one_too(name: str, data: st.DataObject) -> None:
    serde, values = SERDES[name]
    value = data.draw(values)
    to = bound(serde, "topic", "value")
    assert same(to.deserialize(to.serialize(value)), value)


@pytest.mark.parametrize("name", ["short", "integer", "long"])
@given(st.integers())
def test_a_number_that_has_no_room_is_refused_and_not_cut(name: str, number: int) -> None:
    serde = SERDES[name][0]
    bits = {"short": 16, "integer": 32, "long": 64}[name]
    if -(1 << bits - 1) <= number < 1 << bits - 1:
        assert len(serde.serialize(number)) * 8 == bits
        return
    with pytest.raises(Exception, match=r"argument|range|int too large|format"):
        serde.serialize(number)


@given(st.lists(LONGS.filter(lambda number: number >= 0), min_size=2))
def test_numbers_that_are_not_negative_are_in_the_order_of_their_bytes(numbers: list[int]) -> None:
    """Ranges of keys go by this order."""
    assert sorted(numbers, key=ps.Serdes.long().serialize) == sorted(numbers)


class TestWindowed:
    @pytest.mark.parametrize("name", KEYS)
    @given(st.data(), TIMES, st.integers(1, 1 << 62))
    def test_a_key_in_a_window_of_time(self, name: str, data: st.DataObject, start: int, size: int) -> None:
        serde, keys = KEYS[name]
        windowed = ps.Windowed(data.draw(keys), ps.Window(start, min(start + size, (1 << 63) - 1)))
        serde = ps.WindowedSerdes.time_windowed_serde_from(serde, size)
        back = serde.deserialize(serde.serialize(windowed))
        assert same(back.key, windowed.key)
        assert back.window == windowed.window

    @pytest.mark.parametrize("name", KEYS)
    @given(st.data(), TIMES, TIMES)
    def test_a_key_in_a_session(self, name: str, data: st.DataObject, one: int, other: int) -> None:
        serde, keys = KEYS[name]
        windowed = ps.Windowed(data.draw(keys), ps.Window(min(one, other), max(one, other)))
        serde = ps.WindowedSerdes.session_windowed_serde_from(serde)
        back = serde.deserialize(serde.serialize(windowed))
        assert same(back.key, windowed.key)
        assert back.window == windowed.window

    @given(st.binary(), st.lists(TIMES, min_size=2))
    def test_windows_of_a_key_are_in_the_order_of_time(self, key: bytes, starts: list[int]) -> None:
        serde = ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.bytes(), 1)
        windows = [ps.Windowed(key, ps.Window(start, start + 1)) for start in starts]
        assert sorted(windows, key=serde.serialize) == sorted(windows, key=lambda windowed: windowed.window.start)

    @given(st.binary(max_size=7))
    def test_too_few_bytes_are_refused(self, data: bytes) -> None:
        with pytest.raises(ps.SerializationError, match="bytes expected"):
            ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.bytes(), 1).deserialize(data)
        with pytest.raises(ps.SerializationError, match="bytes expected"):
            ps.WindowedSerdes.session_windowed_serde_from(ps.Serdes.bytes()).deserialize(data * 2)


class TestRows:
    @given(texts, st.integers(-1, (1 << 63) - 1))
    def test_a_value_with_its_timestamp(self, value: str, timestamp: int) -> None:
        row = TIMESTAMPED_VALUE.row(value.encode(), timestamp)
        assert TIMESTAMPED_VALUE.value_and_timestamp(row) == (value.encode(), timestamp)
        assert TIMESTAMPED_VALUE.decoder(bytes.decode)(row)[:2] == (value, timestamp)

    @given(texts)
    def test_a_value_alone(self, value: str) -> None:
        row = VALUE.row(value.encode(), 5)
        assert VALUE.value_and_timestamp(row) == (value.encode(), -1)
        assert VALUE.decoder(bytes.decode)(row)[0] == value

    @given(st.lists(TIMES, min_size=1, max_size=7, unique=True), st.data())
    def test_the_history_of_a_versioned_store(self, times: list[int], data: st.DataObject) -> None:
        *starts, end = sorted(times)
        values = [data.draw(st.none() | st.binary()) for _ in starts]
        kept = History(end, starts, values)
        assert HISTORY.deserialize(HISTORY.serialize(kept)) == kept

    @given(st.binary(), st.binary(), st.sampled_from([0, 1]), st.booleans(), st.integers(0, 1 << 31 - 1), st.binary())
    def test_a_subscription_of_a_foreign_key_and_what_answers_it(
        self, foreign_key: bytes, primary_key: bytes, version: int, hashed: bool, partition: int, value: bytes
    ) -> None:
        hash_ = bytes(range(16)) if hashed else b""
        first = bytes([version | (0 if hashed else 0x80), 2])
        subscription = first + hash_ + primary_key + (partition.to_bytes(4, "big") if version else b"")
        assert subscriptions.primary_key(subscription) == primary_key
        to, response = subscriptions.response_to(subscription, value)
        assert to == (partition if version else None)
        assert response == (b"\x00" + hash_ if hashed else b"\x80") + value
        assert subscriptions.row_key(foreign_key, subscription) == subscriptions.prefix(foreign_key) + primary_key

    @given(st.binary(), st.binary(), st.binary())
    def test_a_subscription_is_stored_under_its_own_foreign_key_alone(
        self, one: bytes, other: bytes, key: bytes
    ) -> None:
        assert (subscriptions.prefix(one) + key).startswith(subscriptions.prefix(other)) == (one == other)

    @given(st.none() | texts, st.none() | texts)
    def test_a_change_on_its_way_to_its_group(self, new: str | None, old: str | None) -> None:
        if new is None and old is None:
            return
        serde = changed(ps.Serdes.string())
        assert serde.deserialize(serde.serialize((new, old))) == (new, old)

    @settings(max_examples=examples(150))
    @given(
        *[st.none() | texts] * 3,
        TIMES,
        TIMES,
        st.lists(st.tuples(texts, st.none() | st.binary()), max_size=3),
        st.none() | st.builds(TopicPartition, texts.filter(bool), st.integers(0, 1000)),
    )
    def test_an_update_that_is_held_back(
        self,
        prior: str | None,
        old: str | None,
        new: str | None,
        time: int,
        timestamp: int,
        headers: list[tuple[str, bytes | None]],
        source: TopicPartition | None,
    ) -> None:
        codec = BufferedChangeCodec("buffer", ps.Serdes.string())
        offset = -1 if source is None else 5
        data = codec.encode((time, prior, old, new, timestamp, headers, source, offset, None))
        back = codec.decode(data)
        assert back[:5] == (time, prior, old, new, timestamp)
        assert list(back[5] or ()) == headers
        assert back[6:8] == (source, offset)
