"""Lists and byte buffers: the bytes of Kafka's own serializers, and what is refused."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.common.serdes import bound, format_of

SOME_UUID = UUID("123e4567-e89b-12d3-a456-426614174000")
STRINGS = ps.Serdes.list(ps.Serdes.string())
INTEGERS = ps.Serdes.list(ps.Serdes.integer())

BY_KAFKA: list[tuple[ps.Serde[Any], list[Any], str]] = [
    (STRINGS, [], "0100000000"),
    (STRINGS, ["a", "", None, "Zoë"], "0100000004000000016100000000ffffffff000000045a6fc3ab"),
    (ps.Serdes.list(ps.Serdes.short()), [], "000000000000000000"),
    (ps.Serdes.list(ps.Serdes.short()), [1, None, -2], "000000000100000001000000030001fffe"),
    (INTEGERS, [1, -2], "00000000000000000200000001fffffffe"),
    (INTEGERS, [None, None], "0000000002000000000000000100000002"),
    (ps.Serdes.list(ps.Serdes.long()), [None, 1, 2, None],
     "000000000200000000000000030000000400000000000000010000000000000002"),
    (ps.Serdes.list(ps.Serdes.float()), [1.5, None], "000000000100000001000000023fc00000"),
    (ps.Serdes.list(ps.Serdes.double()), [0.1, None, -1.0],
     "000000000100000001000000033fb999999999999abff0000000000000"),
    (ps.Serdes.list(ps.Serdes.uuid()), [SOME_UUID, None],
     "0000000001000000010000000231323365343536372d653839622d313264332d613435362d343236363134313734303030"),
    (ps.Serdes.list(ps.Serdes.boolean()), [True, None, False], "01000000030000000101ffffffff0000000100"),
    (ps.Serdes.list(ps.Serdes.bytes()), [], "0100000000"),
    (ps.Serdes.list(ps.Serdes.bytes()), [b"\1\2", None, b""], "0100000003000000020102ffffffff00000000"),
    (ps.Serdes.list(INTEGERS), [[1], None, []],
     "01000000030000000d00000000000000000100000001ffffffff00000009000000000000000000"),
]  # fmt: skip
"""Lists with the bytes that ``Serdes.ListSerde(ArrayList.class, …).serializer()`` of Kafka 4.3.1 wrote of them."""


@pytest.mark.parametrize(("serde", "value", "data"), BY_KAFKA, ids=[f"{it[0].name} {it[1]}" for it in BY_KAFKA])
def test_a_list_has_the_bytes_that_kafka_writes(serde: ps.Serde[Any], value: list[Any], data: str) -> None:
    assert serde.serialize(value).hex() == data
    assert serde.deserialize(bytes.fromhex(data)) == value


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x01"])
def test_a_byte_buffer_has_the_bytes_that_kafka_writes(data: bytes) -> None:
    serde = ps.Serdes.byte_buffer()
    assert serde.serialize(memoryview(data)) == data
    read = serde.deserialize(data)
    assert read == data
    assert read.readonly
    assert hash(read) == hash(data)


def test_all_bytes_of_a_view_are_written() -> None:
    assert ps.Serdes.byte_buffer().serialize(memoryview(b"abcde")[1:4:2]) == b"bd"


def test_bytes_are_no_byte_buffer() -> None:
    with pytest.raises(ps.SerializationError, match=r"byte_buffer: a memoryview expected, not b'a' \(bytes\)"):
        ps.Serdes.byte_buffer().serialize(b"a")  # type: ignore[arg-type]  # that is the point


LISTS: list[tuple[ps.Serde[Any], st.SearchStrategy[list[Any]]]] = [
    (STRINGS, st.lists(st.none() | st.text())),
    (INTEGERS, st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1))),
    (ps.Serdes.list(INTEGERS), st.lists(st.none() | st.lists(st.none() | st.integers(0, 9)))),
    (ps.Serdes.list(ps.Serdes.json(list[int])), st.lists(st.none() | st.lists(st.integers(0, 9)))),
]


@pytest.mark.parametrize(("serde", "lists"), LISTS, ids=[serde.name for serde, _ in LISTS])
@given(data=st.data())
def test_every_list_comes_back(serde: ps.Serde[Any], lists: st.SearchStrategy[list[Any]], data: st.DataObject) -> None:
    value = data.draw(lists)
    assert serde.deserialize(serde.serialize(value)) == value


@pytest.mark.parametrize("serde", [STRINGS, INTEGERS], ids=["string", "integer"])
@given(st.binary(max_size=30))
def test_any_bytes_are_a_list_or_an_error_of_a_serde(serde: ps.Serde[Any], data: bytes) -> None:
    for head in (b"", b"\0\0\0\0", b"\1\0\0\0"):
        with suppress(ps.SerializationError, UnicodeDecodeError):
            serde.deserialize(head + data)


@pytest.mark.parametrize(
    ("serde", "data", "why"),
    [
        (STRINGS, "", "the 0 bytes end before the list does"),
        (STRINGS, "01", "the 1 bytes end before the list does"),
        (STRINGS, "02", "a list begins with a byte 0 or 1, this one with 2"),
        (STRINGS, "0100000001", "the 5 bytes end before the list does"),
        (STRINGS, "010000000100000005", "the 9 bytes end before the list does"),
        (STRINGS, "0100000001000000056162", "the 11 bytes end before the list does"),
        (STRINGS, "01ffffffff", "a list cannot have -1 elements"),
        (STRINGS, "0100000001fffffffe", "an element cannot have -2 bytes"),
        (STRINGS, "000000000000000001", "written with elements of one length"),
        (INTEGERS, "000000000000000001", "the 9 bytes end before the list does"),
        (INTEGERS, "00000000007fffffff", "the 9 bytes end before the list does"),
        (INTEGERS, "007fffffff", "the 5 bytes end before the list does"),
        (INTEGERS, "0000000000ffffffff", "a list cannot have -1 elements"),
    ],
)
def test_bytes_that_are_no_list_are_refused_in_a_sentence(serde: ps.Serde[Any], data: str, why: str) -> None:
    with pytest.raises(ps.SerializationError, match=rf"^list\((string|integer)\): .*{why}"):
        serde.deserialize(bytes.fromhex(data))


@pytest.mark.parametrize("value", [("a",), {"a"}, "a", None])
def test_a_value_that_is_not_a_list_is_refused(value: Any) -> None:
    with pytest.raises(ps.SerializationError, match=r"^list\(string\): a list is expected, not "):
        STRINGS.serialize(value)


def test_an_element_that_its_serde_refuses_is_refused() -> None:
    with pytest.raises(struct.error):
        INTEGERS.serialize([1 << 31])


def test_a_list_needs_the_serde_of_its_elements() -> None:
    with pytest.raises(ps.TopologyError, match=r"the Serde of the elements is needed, not <class 'int'> \(type\)"):
        ps.Serdes.list(int)  # type: ignore[arg-type]  # that is the point


def test_lists_of_one_serde_are_one_serde_also_behind_a_pickle() -> None:
    assert ps.Serdes.list(ps.Serdes.string()) is STRINGS
    assert pickle.loads(pickle.dumps(STRINGS)) is STRINGS
    assert repr(STRINGS) == "Serde(list(string))"


def test_the_elements_are_part_of_the_format_and_the_type_within_them_is_not() -> None:
    assert format_of("list(string)") == "list(string)"
    assert format_of("list(json(Order))") == "list(json)"


class OfTopic(ps.Serde[str]):
    def bind(self, topic: str, part: str) -> ps.Serde[str]:
        return ps.Serde(f"of({topic}-{part})", lambda text: f"{topic}:{text}".encode(), bytes.decode)


def test_the_serde_of_the_elements_is_bound_to_the_topic() -> None:
    serde = bound(ps.Serdes.list(OfTopic("mine", str.encode, bytes.decode)), "orders", "value")
    assert serde.serialize(["a"]) == b"\1\0\0\0\1\0\0\0\x08orders:a"


def test_a_store_of_lists_and_a_topic_of_byte_buffers() -> None:
    builder = ps.StreamsBuilder()
    (
        builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.byte_buffer()))
        .group_by_key()
        .aggregate(
            list, lambda _, one, all_: [*all_, len(one)], ps.Materialized.as_("lengths").with_value_serde(INTEGERS)
        )
        .to_stream()
        .to("out")
    )
    with ps.TopologyTestDriver(builder.build()) as driver:
        buffers = driver.create_input_topic("in", ps.Serdes.string(), ps.Serdes.byte_buffer())
        buffers.pipe_input("k", memoryview(b"abc"))
        buffers.pipe_input("k", memoryview(b""))
        out = driver.create_output_topic("out", ps.Serdes.string(), INTEGERS)
        assert out.read_values_to_list() == [[3], [3, 0]]
