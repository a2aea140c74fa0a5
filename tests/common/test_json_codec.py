"""The compiled look at JSON does what the one in Python does, to the letter."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.common import plain_json
from penstock.common.errors import SerializationError

ODD = st.sampled_from([(1, 2), {1}, b"x", Decimal(1), float("nan"), float("inf"), 1e16, -1e16, 2**64, "\ud800", object])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    PLAIN | ODD,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=20,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def outcome(function: Callable[[Any], Any], given: Any) -> Any:
    try:
        return repr(function(given))
    except (SerializationError, msgspec.DecodeError) as error:
        return f"{type(error).__name__}: {error}"


def test_with_a_compiler_the_compiled_form_is_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert (plain_json.write_json is not plain_json._write_json) or compiler is None


@given(VALUES)
@example(nested(plain_json.MAX_DEPTH))
@example(nested(plain_json.MAX_DEPTH + 1))
def test_both_write_the_same_and_refuse_the_same(value: Any) -> None:
    assert outcome(plain_json.write_json, value) == outcome(plain_json._write_json, value)


@given(VALUES.map(repr).map(str.encode) | PLAIN.map(lambda value: msgspec.json.encode(value, enc_hook=repr)))
@example(b"[" * 600 + b"]" * 600)
@example(b"[" * 200 + b"]" * 200 + b" " * 400)
@example(b"[" * 201 + b"]" * 201)
@example(b"")
def test_both_read_the_same_and_refuse_the_same(data: bytes) -> None:
    assert outcome(plain_json.read_json, data) == outcome(plain_json._read_json, data)


@pytest.mark.parametrize("function", [plain_json.read_json, plain_json.write_json])
def test_a_serde_that_is_pickled_names_a_module_that_is_there_with_and_without_a_compiler(
    function: Callable[[Any], Any],
) -> None:
    pickled = pickle.dumps(function)
    assert b"penstock.common.plain_json" in pickled
    assert b"json_codec" not in pickled
    assert pickle.loads(pickled) is function
