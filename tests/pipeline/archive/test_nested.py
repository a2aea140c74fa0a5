"""Decoded objects as nested columns: the type of the serde decides, never a value."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from penstock.common.errors import RetriableError
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.serdes import Serde, Serdes
from penstock.pipeline.archive.decoding import Decoding, NamedSerde
from penstock.pipeline.archive.records import arrow_of


class Size(enum.Enum):
    SMALL = "small"


@dataclass
class Item:
    name: str
    count: int


@dataclass
class Order:
    id: int
    items: list[Item]
    prices: dict[str, float]
    at: datetime | None = None
    size: Size | None = None
    note: int | str | None = None


class Node(TypedDict):
    name: str
    below: list[Node]


class Person(BaseModel):
    name: str
    born: date
    number: uuid.UUID


def decoded(serde: Serde[Any], *values: bytes | None) -> tuple[pa.Table, int]:
    """Returns the decoded column as it is in a file, and the number of values that were refused."""
    count = len(values)
    batch = RecordBatch(TopicPartition("t", 0), [None] * count, list(values), [1] * count, list(range(count)))
    records, refused = Decoding(value=NamedSerde("m:s", serde)).bound("t").with_columns(arrow_of(batch))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([records]), sink)
    return pq.read_table(pa.BufferReader(sink.getvalue())).column("value_decoded").combine_chunks(), refused


def test_a_dataclass_becomes_a_struct_with_lists_and_maps() -> None:
    column, refused = decoded(
        Serdes.json(Order),
        b'{"id": 1, "items": [{"name": "tea", "count": 2}], "prices": {"tea": 2.5}, "at": "2026-01-01T08:00:00Z",'
        b' "size": "small", "note": "x"}',
        b'{"id": 2, "items": [], "prices": {}}',
        None,
    )
    assert refused == 0
    item = pa.struct([("name", pa.string()), ("count", pa.int64())])
    assert column.type == pa.struct(
        [
            ("id", pa.int64()), ("items", pa.list_(item)), ("prices", pa.map_(pa.string(), pa.float64())),
            ("at", pa.timestamp("us", "UTC")), ("size", pa.string()), ("note", pa.string()),
        ]
    )  # fmt: skip
    assert column.to_pylist() == [
        {
            "id": 1, "items": [{"name": "tea", "count": 2}], "prices": [("tea", 2.5)],
            "at": datetime(2026, 1, 1, 8, tzinfo=UTC), "size": "small", "note": '"x"',
        },
        {"id": 2, "items": [], "prices": [], "at": None, "size": None, "note": None},
        None,
    ]  # fmt: skip


def test_what_does_not_decode_or_fit_is_null_and_counted() -> None:
    column, refused = decoded(
        Serdes.json(Item), b"no", b'{"name": "a", "count": 1}', b'{"name": "b", "count": 99999999999999999999}', None
    )
    assert column.to_pylist() == [None, {"name": "a", "count": 1}, None, None]
    assert refused == 2


def test_a_type_that_contains_itself_is_json_where_it_does() -> None:
    column, _ = decoded(Serdes.json(Node), b'{"name": "a", "below": [{"name": "b", "below": []}]}')
    assert column.to_pylist() == [{"name": "a", "below": ['{"name":"b","below":[]}']}]


def test_a_model_of_pydantic_is_a_struct() -> None:
    number = uuid.UUID(int=7)
    column, _ = decoded(Serdes.json(Person), f'{{"name": "Ada", "born": "1815-12-10", "number": "{number}"}}'.encode())
    assert column.to_pylist() == [{"name": "Ada", "born": date(1815, 12, 10), "number": str(number)}]


def test_a_serde_of_ones_own_names_its_type_by_an_annotation() -> None:
    """As one of Avro or Protobuf does."""

    def read(data: bytes) -> Item:
        return Item(data.decode(), len(data))

    def read_amount(data: bytes) -> list[Decimal]:
        return [Decimal(data.decode())]

    column, _ = decoded(Serde("avro", lambda item: b"", read), b"tea")
    assert column.to_pylist() == [{"name": "tea", "count": 3}]
    column, _ = decoded(Serde("amount", lambda item: b"", read_amount), b"2.50")
    assert column.to_pylist() == [["2.50"]]


OWN: Serde[Any] = Serde("own", lambda value: b"", lambda data: {"n": data.decode()})


@pytest.mark.parametrize("serde", [Serdes.json(), OWN])
def test_objects_without_a_known_type_are_json(serde: Serde[Any]) -> None:
    column, _ = decoded(serde, b"1")
    assert column.type == pa.string()


def test_a_serde_that_cannot_answer_now_refuses_no_value() -> None:
    def away(data: bytes) -> int:
        raise RetriableError("the registry does not answer")

    with pytest.raises(RetriableError):  # null would stand in the archive for ever
        decoded(Serde("away", bytes, away), b"1")
