"""The bytes of a table's update in a repartition topic: those of Kafka Streams' ChangedSerializer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.changes import changed
from penstock.common.errors import SerializationError
from penstock.common.serdes import Serdes

TEXTS = changed(Serdes.string())


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (("n", None), "6e01"),
        ((None, "o"), "6f00"),
        (("n", "o"), "026e6f02"),
        (("", None), "01"),
        (("", ""), "0002"),
        (("n" * 64, "o"), "8001" + "6e" * 64 + "6f02"),
        (("n" * 150, ""), "ac02" + "6e" * 150 + "02"),
    ],
)
def test_the_last_byte_encodes_which_of_the_old_and_the_new_value_are_present(
    change: tuple[Any, Any], data: str
) -> None:
    assert TEXTS.serialize(change).hex() == data
    assert TEXTS.deserialize(bytes.fromhex(data)) == change


@pytest.mark.parametrize(
    ("data", "change"),
    [("6f0003", (None, "o")), ("6e0104", ("n", None)), ("026e6f0105", ("n", "o")), ("026e6f0005", ("n", "o"))],
)
def test_the_forms_that_report_whether_they_are_the_latest_are_read_too(data: str, change: tuple[Any, Any]) -> None:
    assert TEXTS.deserialize(bytes.fromhex(data)) == change


@given(st.none() | st.text(max_size=300), st.text(max_size=300), st.booleans())
def test_every_change_comes_back(one: str | None, other: str, new_first: bool) -> None:
    change = (one, other) if new_first else (other, one)
    assert TEXTS.deserialize(TEXTS.serialize(change)) == change


@pytest.mark.parametrize("data", ["6e06", "ff02", "6eff"])
def test_bytes_that_are_no_change_are_refused(data: str) -> None:
    with pytest.raises(SerializationError):
        TEXTS.deserialize(bytes.fromhex(data))


@pytest.mark.parametrize("change", [(1, None), (None, 1), ("n", 1), (1, "o")])
def test_a_value_that_its_serde_refuses_is_named(change: tuple[Any, Any]) -> None:
    with pytest.raises(SerializationError, match=r"the serde string cannot write 1 \(int\): a str is expected"):
        TEXTS.serialize(change)
