"""The bytes of foreign-key joins: for all inputs the compiled functions return the same as those in Python."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.tasks.operators import subscriptions

NAMES = ("prefix_of", "row_key", "primary_key", "response_to", "value_if_current")


def test_with_a_compiler_the_compiled_functions_are_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    in_python = [name for name in NAMES if getattr(subscriptions, name) is getattr(subscriptions, f"_{name}")]
    assert not in_python or not compiler


class Bytes(bytes):
    """Bytes as a serde of the user's own may return them."""


# First bytes that are usual, those of other versions, and such as no version has.
FIRST = st.sampled_from([0, 1, 0x80, 0x81, 2, 0x82, 0x7F, 0xFF])
HEADED = st.builds(lambda first, rest: bytes([first]) + rest, FIRST, st.binary(max_size=50))
DATA = st.binary(max_size=40) | st.binary(max_size=9).map(Bytes)
ROWS = st.binary(max_size=12) | st.builds(lambda data: subscriptions.prefix(data[:5]) + data, st.binary(max_size=20))


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    """Returns the result of ``function``, or the error that it raises."""
    try:
        returned = function(*given)
    except Exception as error:
        return type(error), str(error)
    return returned, type(returned)


def assert_alike(name: str, *given: Any) -> None:
    assert outcome(getattr(subscriptions, name), *given) == outcome(getattr(subscriptions, f"_{name}"), *given)


@given(subscription=HEADED | HEADED.map(Bytes), data=DATA)
@example(subscription=b"\x01\x02" + bytes(20), data=b"")
@example(subscription=b"\x01\x02" + bytes(19), data=b"")
@example(subscription=b"", data=b"")
@example(subscription=b"\x01\x02" + bytes(16) + b"key\xff\xff\xff\xff", data=b"value")
def test_subscriptions_are_read_alike(subscription: bytes, data: bytes) -> None:
    assert_alike("row_key", data, subscription)
    assert_alike("primary_key", subscription)
    assert_alike("response_to", subscription, data)


@given(response=HEADED, hashed=st.binary(max_size=17), fits=st.booleans())
@example(response=b"\x00" + bytes(16), hashed=b"", fits=True)
@example(response=b"\x00" + bytes(15), hashed=b"", fits=True)
def test_responses_are_read_alike(response: bytes, hashed: bytes, fits: bool) -> None:
    assert_alike("value_if_current", response, response[1:17] if fits else hashed)


@given(row=ROWS)
@example(row=b"\xff\xff\xff\xffrest")
@example(row=b"\x00\x00\x00\x09rest")
def test_keys_of_the_store_are_read_alike(row: bytes) -> None:
    assert_alike("prefix_of", row)


@pytest.mark.parametrize("foreign_key", [bytearray(b"key"), "key", None, 7])
def test_both_forms_accept_or_refuse_foreign_keys_that_are_not_bytes_alike(foreign_key: object) -> None:
    assert_alike("row_key", foreign_key, b"\x01\x02" + bytes(16) + b"primary" + bytes(4))
