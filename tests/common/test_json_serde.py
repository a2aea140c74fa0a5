"""The precision with which the json serde keeps numbers, and the input that it accepts as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

import penstock as ps
from penstock.common.errors import SerializationError
from penstock.common.serdes import Serdes

JSON = Serdes.json()
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63) - 1, 10**100 + 1])
def test_an_integer_is_read_to_its_last_digit(number: int) -> None:
    assert JSON.deserialize(b'{"n":[%d]}' % number) == {"n": [number]}


@pytest.mark.parametrize("number", [2**64 - 1, 2**64 + 1])
def test_a_key_given_as_text_is_read_as_the_bytes_are(number: int) -> None:
    assert JSON.from_text is not None
    read = JSON.from_text(str(number))
    assert (read, type(read)) == (number, int)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_an_integer_is_written_to_its_last_digit(number: int) -> None:
    assert JSON.serialize([number]) == b"[%d]" % number


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
@example(1e16)
@example(0.1 + 0.2)
def test_a_float_comes_back_to_its_last_bit_and_as_a_float(number: float) -> None:
    back = JSON.deserialize(JSON.serialize(number))
    assert (type(back), back.hex()) == (float, number.hex())


@given(NUMBERS)
@example("9007199254740993.0")
@example("2.2250738585072011e-308")
@example("-0")
def test_numbers_are_read_as_python_reads_them(text: str) -> None:
    assert repr(JSON.deserialize(text.encode())) == repr(json.loads(text))


@pytest.mark.parametrize("data", [b"NaN", b"Infinity", b"-Infinity", b'{"a":NaN}', b"1e400"])
def test_a_number_that_json_does_not_have_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.deserialize(data)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("wrap", "at"),
    [
        (lambda n: n, "value"),
        (lambda n: {"a": n}, "value['a']"),
        (lambda n: {"b": [0.5, {"c": n}]}, "value['b'][1]['c']"),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_when_it_is_written(wrap: Any, at: str, number: float) -> None:
    with pytest.raises(SerializationError) as refused:
        JSON.serialize(wrap(number))
    assert str(refused.value) == f"json: {at} is {number!r}, which JSON does not have: use None, or leave it out"


@pytest.mark.parametrize(
    "data",
    [b'"\xff"', b'"\xc3\x28"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'{"\xff":1}', b'"' + b"a" * 64 + b'\xff"',
     b'"\\ud800"'],
)  # fmt: skip
def test_broken_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.deserialize(data)


@pytest.mark.parametrize(
    "data", [b"", b" ", b"1 2", b"{", b"[1,]", b"{'a':1}", b"{1:2}", b"01", b"+1", b".5", b"nul", b"\xef\xbb\xbf1",
             b'"\x01"', b"/* */1"]
)  # fmt: skip
def test_bytes_that_are_almost_json_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        JSON.deserialize(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b' {"a" : 1 }\n', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"b":1,"a":2}', {"b": 1, "a": 2}),
        (b'"\\u00eb\\ud83d\\ude00"', "ë😀"),
        (b"null", None),
    ],
)
def test_json_of_other_programs_is_read(data: bytes, value: object) -> None:
    assert JSON.deserialize(data) == value


def test_the_order_of_an_object_stays_as_it_is() -> None:
    assert JSON.serialize({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert list(JSON.deserialize(b'{"b":1,"a":2}')) == ["b", "a"]


class Colour(IntEnum):
    RED = 1


class Mood(StrEnum):
    CALM = "calm"


class Plain(Enum):
    ONE = "one"


@dataclass
class Point:
    x: int


class Struct(msgspec.Struct):
    x: int


class Model(BaseModel):
    x: int


class Pair(NamedTuple):
    x: int
    y: int


NOT_PLAIN: list[Any] = [
    (1, 2), Pair(1, 2), {1, 2}, frozenset([1]), {1: 2}, {None: 2}, {(1, 2): 3}, {True: 1}, {1.5: 1}, {Mood.CALM: 1},
    Colour.RED, Mood.CALM, Plain.ONE, Point(1), Struct(1), Model(x=1), datetime(2026, 1, 1), date(2026, 1, 1), time(1),
    timedelta(1), UUID(int=1), Decimal("1.5"), b"x", bytearray(b"x"), OrderedDict(a=1), defaultdict(int), Counter("a"),
    object(), 2 + 1j, Point, print, range(3), numpy.array([1]), numpy.datetime64("2026-01-01"),
]  # fmt: skip
PLACES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: v, "value"),
    (lambda v: [v], "value[0]"),
    (lambda v: {"a": v}, "value['a']"),
    (lambda v: {"n": 1, "x": [{"a": "b"}, {"y": v}]}, "value['x'][1]['y']"),
]


@pytest.mark.parametrize("value", NOT_PLAIN, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("wrap", "at"), PLACES)
def test_a_value_that_json_would_change_is_refused_with_its_place_its_type_and_a_remedy(
    wrap: Callable[[Any], Any], at: str, value: Any
) -> None:
    with pytest.raises(SerializationError) as refused:
        JSON.serialize(wrap(value))
    assert str(refused.value).startswith(f"json: {at} ")
    kind = type(next(iter(value))) if type(value) is dict else type(value)
    assert kind.__name__ in str(refused.value)
    assert "Use Serdes.json(YourType)" in str(refused.value)


def test_text_that_is_none_is_refused_with_its_place() -> None:
    for value, at in [
        ("\ud800", "value"),
        ({"a": ["\ud800"]}, r"value\['a'\]\[0\]"),
        ({"\ud800": 1}, "key .* of value"),
    ]:
        with pytest.raises(SerializationError, match=f"^json: {at} is no valid text"):
            JSON.serialize(value)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES)
@example({"a": 1e16, "b": 1e-7, "c": [1e22, 123456789012345680.0, -0.0], "d": '\x7f\b\f\n\r\t"\\/'})
def test_plain_values_come_back_and_have_the_bytes_that_msgspec_writes(value: Any) -> None:
    data = JSON.serialize(value)
    assert data == msgspec.json.encode(value)
    assert repr(JSON.deserialize(data)) == repr(value)


NUMPY = [
    (numpy.int64(-5), -5), (numpy.uint8(5), 5), (numpy.float64(0.5), 0.5), (numpy.float32(0.5), 0.5),
    (numpy.bool_(True), True), (numpy.str_("a"), "a"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written"), NUMPY)
@pytest.mark.parametrize(("wrap", "at"), PLACES)
def test_numbers_of_numpy_are_written_as_pythons(wrap: Callable[[Any], Any], at: str, value: Any, written: Any) -> None:
    assert JSON.serialize(wrap(value)) == msgspec.json.encode(wrap(written))


def test_a_number_of_numpy_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"value\['a'\] is nan"):
        JSON.serialize({"a": numpy.float64("nan")})


@pytest.mark.parametrize("serde", [Serdes.short(), Serdes.integer(), Serdes.long()])
def test_whole_numbers_of_numpy_pass(serde: Any) -> None:
    assert serde.serialize(numpy.int64(7)) == serde.serialize(7)


@pytest.mark.parametrize("serde", [Serdes.float(), Serdes.double()])
@pytest.mark.parametrize("value", [numpy.float64(0.5), numpy.float32(0.5), numpy.int64(2)])
def test_numbers_of_numpy_pass_as_floats(serde: Any, value: Any) -> None:
    assert serde.serialize(value) == serde.serialize(float(value))


def test_truth_of_numpy_passes_as_a_boolean() -> None:
    assert Serdes.boolean().serialize(numpy.bool_(False)) == b"\x00"  # type: ignore[arg-type]  # numpy's


def test_numpy_is_not_imported_for_it() -> None:
    code = "import sys, penstock as ps; ps.Serdes.json().serialize([1]); print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def deep(levels: int, innermost: Any = 1) -> Any:
    value = innermost
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def test_two_hundred_levels_are_written_and_read() -> None:
    assert JSON.deserialize(JSON.serialize(deep(200))) == deep(200)
    assert JSON.deserialize(JSON.serialize(deep(200, 2**70))) == deep(200, 2**70)


@pytest.mark.parametrize("levels", [201, 600, 100_000])
@pytest.mark.parametrize("innermost", [1, 2**70, "[{"])
@pytest.mark.parametrize("kind", [None, dict, dict[str, Any]])
def test_deeper_json_is_neither_read_nor_written(kind: Any, levels: int, innermost: Any) -> None:
    serde = Serdes.json(kind)
    data = b'{"a":' * levels + msgspec.json.encode(innermost) + b"}" * levels
    with pytest.raises(SerializationError, match="dicts and lists are nested more than 200 deep"):
        serde.deserialize(data)
    value = innermost
    for _ in range(levels):
        value = {"a": value}
    with pytest.raises(SerializationError, match="dicts and lists are nested more than 200 deep"):
        serde.serialize(value)


def test_the_depth_is_distinguished_from_the_length_and_from_brackets_in_text() -> None:
    values: list[Any] = [["["] * 300, [[]] * 300, [{"a": "{"}] * 300, "[" * 1000]
    for value in values:
        assert JSON.deserialize(JSON.serialize(value)) == value


def test_a_record_that_is_nested_too_deep_is_dropped_if_the_handler_decides_so() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(Serdes.string(), JSON)).to("out", ps.Produced.with_(Serdes.string(), JSON))
    config = {"deserialization.exception.handler": ps.LogAndContinue()}
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", Serdes.string(), Serdes.bytes())
        for data in (b"1", b"[" * 600 + b"]" * 600, b"2"):
            source.pipe_input("k", data)
        assert driver.create_output_topic("out", Serdes.string(), JSON).read_values_to_list() == [1, 2]
