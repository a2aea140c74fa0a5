"""The bytes of every serde that comes with penstock, what each refuses, and how serdes travel."""

from __future__ import annotations

import math
import pickle
import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, Serdes

SOME_UUID = UUID("123e4567-e89b-12d3-a456-426614174000")

BUILT_IN: dict[str, Serde[Any]] = {
    name: make() for name, make in vars(Serdes).items() if isinstance(make, staticmethod) and name != "list"
}
"""All but those of lists (test_list_serde.py)."""
FIXED = {"short": 2, "integer": 4, "long": 8, "float": 4, "double": 8}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "bytes": st.binary(),
    "byte_buffer": st.binary().map(memoryview),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "json": st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
}  # fmt: skip

pickler: Any = cloudpickle  # Ray's has no types


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        ("string", "", b""),
        ("string", "Zoë ✓ 😀", b"Zo\xc3\xab \xe2\x9c\x93 \xf0\x9f\x98\x80"),
        ("string", "\x00", b"\x00"),
        ("bytes", b"", b""),
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("short", 258, b"\x01\x02"),
        ("short", -1, b"\xff\xff"),
        ("short", -(2**15), b"\x80\x00"),
        ("integer", 0x01020304, b"\x01\x02\x03\x04"),
        ("integer", -2, b"\xff\xff\xff\xfe"),
        ("integer", 2**31 - 1, b"\x7f\xff\xff\xff"),
        ("long", 0x0102030405060708, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        ("long", -1, b"\xff" * 8),
        ("long", -(2**63), b"\x80" + b"\x00" * 7),
        ("float", 1.5, b"\x3f\xc0\x00\x00"),
        ("float", -0.0, b"\x80\x00\x00\x00"),
        ("float", math.inf, b"\x7f\x80\x00\x00"),
        ("double", 1.5, b"\x3f\xf8" + b"\x00" * 6),
        ("double", 0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
        ("double", -math.inf, b"\xff\xf0" + b"\x00" * 6),
        ("boolean", True, b"\x01"),
        ("boolean", False, b"\x00"),
        ("uuid", SOME_UUID, b"123e4567-e89b-12d3-a456-426614174000"),
        ("json", {"b": [1, 2.5, None], "a": "ë"}, b'{"b":[1,2.5,null],"a":"\xc3\xab"}'),
    ],
)
def test_a_value_has_exactly_these_bytes_and_comes_back_from_them(serde: str, value: object, data: bytes) -> None:
    written = BUILT_IN[serde].serialize(value)
    read = BUILT_IN[serde].deserialize(data)
    assert (written, type(written)) == (data, bytes)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("serde", ["float", "double"])
def test_not_a_number_comes_back_as_not_a_number(serde: str) -> None:
    assert math.isnan(BUILT_IN[serde].deserialize(BUILT_IN[serde].serialize(math.nan)))


def test_a_float_is_rounded_to_its_four_bytes() -> None:
    assert Serdes.float().deserialize(Serdes.float().serialize(0.1)) == 0.10000000149011612


@pytest.mark.parametrize("serde", sorted(VALUES))
@given(data=st.data())
def test_every_value_comes_back(serde: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[serde])
    back = BUILT_IN[serde].deserialize(BUILT_IN[serde].serialize(value))
    assert back == value
    assert isinstance(back, memoryview) or repr(back) == repr(value), (
        "repr tells -0.0 from 0.0, and 1 from 1.0 and True"
    )


def test_every_serde_but_void_is_tried_with_random_values() -> None:
    assert set(VALUES) | {"void"} == set(BUILT_IN)


@pytest.mark.parametrize("serde", ["short", "integer", "long"])
@given(data=st.data())
def test_bytes_of_numbers_that_are_not_negative_are_in_their_order(serde: str, data: st.DataObject) -> None:
    numbers = VALUES[serde].filter(lambda number: number >= 0)
    one, other = data.draw(numbers), data.draw(numbers)
    write = BUILT_IN[serde].serialize
    assert (write(one) < write(other)) == (one < other)


@pytest.mark.parametrize(("serde", "size"), FIXED.items())
@pytest.mark.parametrize("off", [-1, 1, None])
def test_bytes_of_another_length_are_refused_in_a_sentence(serde: str, size: int, off: int | None) -> None:
    data = b"" if off is None else b"\x00" * (size + off)
    with pytest.raises(SerializationError) as refused:
        BUILT_IN[serde].deserialize(data)
    assert str(refused.value) == f"{serde}: {size} bytes expected, {len(data)} received"


@pytest.mark.parametrize(("data", "seen"), [(b"", "none"), (b"\x02", "02"), (b"\x00\x01", "00 01")])
def test_a_boolean_is_one_byte_0_or_1(data: bytes, seen: str) -> None:
    with pytest.raises(SerializationError, match=f"^boolean: one byte expected, 0 or 1, {seen} received(?m:$)"):
        Serdes.boolean().deserialize(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no uuid",
        "123e4567e89b12d3a456426614174000",
        "{123e4567-e89b-12d3-a456-426614174000}",
        "urn:uuid:123e4567-e89b-12d3-a456-426614174000",
        "urn:123e4567e89b12d3a456426614174000",
        "123e4567e89b-12d3-a456-4266-14174000",
        "123e4567-e89b-12d3-a456-42661417400_0",
    ],
)
def test_a_uuid_is_36_characters_with_hyphens_in_their_places(text: str) -> None:
    with pytest.raises(SerializationError, match=r"^uuid: the 36 characters of a UUID expected, '"):
        Serdes.uuid().deserialize(text.encode())


def test_a_uuid_may_come_in_capitals() -> None:
    assert Serdes.uuid().deserialize(str(SOME_UUID).upper().encode()) == SOME_UUID


@pytest.mark.parametrize("data", [b"\xff", b"\xc3\x28", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98"])
@pytest.mark.parametrize("serde", ["string", "uuid"])
def test_broken_utf_8_is_refused(serde: str, data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        BUILT_IN[serde].deserialize(data)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Serdes.string().serialize("\ud83d")


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        ("string", 1),
        ("string", b"x"),
        ("bytes", "x"),
        ("bytes", bytearray(b"x")),
        ("bytes", 1),
        ("short", 2**15),
        ("integer", 2**31),
        ("integer", -(2**31) - 1),
        ("long", 2**63),
        ("long", 1.0),
        ("long", "1"),
        ("float", 1e39),
        ("double", "1.5"),
        ("boolean", "false"),
        ("boolean", 1),
        ("boolean", None),
        ("uuid", str(SOME_UUID)),
        ("uuid", "no uuid"),
    ],
)
def test_an_object_that_the_bytes_cannot_hold_is_refused(serde: str, value: object) -> None:
    with pytest.raises((TypeError, OverflowError, struct.error, SerializationError)):
        BUILT_IN[serde].serialize(value)


def test_void_neither_writes_nor_reads_anything() -> None:
    with pytest.raises(SerializationError, match=r"^void: only null can be written, not 7(?m:$)"):
        Serdes.void().serialize(7)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(SerializationError, match=r"^void: null expected, 3 bytes received(?m:$)"):
        Serdes.void().deserialize(b"abc")


@pytest.mark.parametrize(
    ("serde", "text", "value"),
    [
        ("string", "7", "7"),
        ("bytes", "ë", b"\xc3\xab"),
        ("byte_buffer", "ë", memoryview(b"\xc3\xab")),
        ("short", "-7", -7),
        ("integer", "7", 7),
        ("long", "7", 7),
        ("float", "1.5", 1.5),
        ("double", "1e3", 1000.0),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("uuid", str(SOME_UUID), SOME_UUID),
        ("json", '{"a": [1, "x"]}', {"a": [1, "x"]}),
    ],
)
def test_a_key_can_be_given_as_text(serde: str, text: str, value: object) -> None:
    of_text = BUILT_IN[serde].from_text
    assert of_text is not None
    assert (of_text(text), type(of_text(text))) == (value, type(value))


@pytest.mark.parametrize(
    ("serde", "text"),
    [("short", "seven"), ("long", "1.5"), ("double", "x"), ("boolean", "True"), ("boolean", "1"), ("boolean", ""),
     ("uuid", "x"), ("json", "{")],
)  # fmt: skip
def test_text_that_is_no_key_is_refused(serde: str, text: str) -> None:
    of_text = BUILT_IN[serde].from_text
    assert of_text is not None
    with pytest.raises(ValueError, match=r"."):
        of_text(text)


def test_no_text_means_null() -> None:
    assert Serdes.void().from_text is None


def test_only_text_and_bytes_may_travel_undecoded() -> None:
    assert {name for name, serde in BUILT_IN.items() if serde.lossless} == {"string", "bytes", "byte_buffer"}


@pytest.mark.parametrize("serde", sorted(BUILT_IN))
def test_a_serde_is_called_as_it_is_named(serde: str) -> None:
    assert BUILT_IN[serde].name == serde
    assert repr(BUILT_IN[serde]) == f"Serde({serde})"


@pytest.mark.parametrize("serde", sorted(BUILT_IN))
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_serdes_of_penstock_are_pickled_by_name_and_stay_the_same_objects(serde: str, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(BUILT_IN[serde], protocol)) is BUILT_IN[serde]


@pytest.mark.parametrize("serde", sorted(BUILT_IN))
def test_a_function_of_the_users_takes_a_serde_along(serde: str) -> None:
    mine = BUILT_IN[serde]
    assert pickler.loads(pickler.dumps(lambda: mine))() is mine


def a_serde_in_cents() -> Serde[float]:
    long = Serdes.long()
    return Serde("cents", lambda euro: long.serialize(round(euro * 100)), lambda data: long.deserialize(data) / 100)


def test_a_serde_of_the_users_is_two_functions() -> None:
    cents = a_serde_in_cents()
    assert cents.serialize(1.25) == b"\x00" * 7 + b"\x7d"
    assert cents.deserialize(b"\x00" * 7 + b"\x7d") == 1.25
    assert (cents.from_text, cents.lossless) == (None, False)


def test_a_serde_of_the_users_travels_with_its_functions() -> None:
    copy = pickler.loads(pickler.dumps(a_serde_in_cents()))
    assert copy.name == "cents"
    assert copy.deserialize(copy.serialize(1.25)) == 1.25


def test_a_serde_of_the_users_is_not_taken_for_the_built_in_of_that_name() -> None:
    mine = Serde[str]("string", lambda text: text[::-1].encode(), lambda data: data.decode()[::-1])
    copy = pickler.loads(pickler.dumps(mine))
    assert copy is not Serdes.string()
    assert copy.serialize("ab") == b"ba"


@pytest.mark.parametrize("place", [0, 63, 64, 199])
@pytest.mark.parametrize("of", [list, tuple, iter])
def test_one_text_of_many_that_is_not_utf_8_is_found_at_any_place(of: Any, place: int) -> None:
    check = Serdes.string().check
    assert check is not None
    texts = ["ë".encode()] * 200
    check(of(texts))
    texts[place] = b"\xc3"
    with pytest.raises(UnicodeDecodeError):
        check(of(texts))


def test_a_fetch_of_large_texts_is_not_put_together_as_a_whole() -> None:
    check = Serdes.string().check
    assert check is not None
    texts = [b"a" * 10_000] * 2_000
    tracemalloc.start()
    try:
        check(texts)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
