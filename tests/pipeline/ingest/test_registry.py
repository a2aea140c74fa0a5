"""Rows become records of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock as ps
from penstock.common.serdes import bound
from penstock.pipeline.ingest.encoding import Encoder, encode_with
from penstock.pipeline.ingest.mapping import RecordMapping
from tests.registry.conftest import config as config
from tests.registry.conftest import registry as registry


@dataclass
class Order:
    item: str
    at: datetime


ROW = {"item": "tea", "at": datetime(2026, 1, 2, tzinfo=UTC)}
SCHEMA = {
    "type": "record", "name": "Order", "fields": [
        {"name": "item", "type": "string"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    ]
}  # fmt: skip


@pytest.mark.parametrize("serde", [ps.Serdes.avro(Order), ps.Serdes.avro(schema=SCHEMA)], ids=["type", "schema"])
def test_a_row_becomes_an_object_of_the_type_or_is_written_by_the_schema(
    serde: ps.Serde[Any], config: dict[str, str]
) -> None:
    data = encode_with(serde.configure(config), "orders", "value")(ROW)
    assert bound(ps.Serdes.avro(Order), "orders", "value", config).deserialize(data) == Order(**ROW)  # type: ignore[arg-type]  # values of two types


class OneRow:
    first = 0

    def __init__(self) -> None:
        self.refused: dict[int, str] = {}

    def __len__(self) -> int:
        return 1

    def values(self, column: str) -> list[Any]:
        return [ROW]


def test_no_row_is_refused_because_a_registry_is_away() -> None:
    def away(value: Any) -> bytes:
        raise ps.RetriableError("the registry does not answer")

    serde: ps.Serde[Any] = ps.Serde("away", away, bytes)
    mapping = RecordMapping("orders", 1, None, serde, ("order",), serde)
    rows: Any = OneRow()
    with pytest.raises(ps.RetriableError):
        Encoder(mapping).encode(rows)
    assert rows.refused == {}
