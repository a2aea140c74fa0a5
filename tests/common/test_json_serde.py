"""What the json serde keeps of a number, and what it takes for JSON."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
def test_a_number_that_json_does_not_have_is_written_as_null(number: float) -> None:
    assert JSON.serialize({"a": number}) == b'{"a":null}'


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
def test_what_is_almost_json_is_refused(data: bytes) -> None:
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


@pytest.mark.parametrize("value", [{None: 2}, {(1, 2): 3}, object(), "\ud800", [2 + 1j]])
def test_what_json_has_no_form_for_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        JSON.serialize(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ((1, 2), b"[1,2]"),
        ({1: 2}, b'{"1":2}'),
        (Colour.RED, b"1"),
        ("\x00\u2028", b'"\\u0000\xe2\x80\xa8"'),
    ],
)
def test_what_has_a_form_is_written_in_it(value: Any, data: bytes) -> None:
    assert JSON.serialize(value) == data
