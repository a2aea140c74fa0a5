"""Records have the bytes of Confluent's serializers, and each side reads those of the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock as ps
from penstock.common.serdes import bound
from tests.registry.messages import Address, Basket, Line, Order

VALUE = SerializationContext("orders", MessageField.VALUE)


@dataclass(frozen=True)
class Sale:
    id: int
    item: str
    cents: int
    price: float
    note: str | None = None


SALES = [Sale(1, "tea", 250, 2.5), Sale(-(1 << 63), "Zoë ✓", 0, -0.0, "x" * 300)]


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient.new_client({"url": "mock://theirs"}) as made:
        yield made


def ours(serde: ps.Serde[Any], config: dict[str, str]) -> ps.Serde[Any]:
    return bound(serde, "orders", "value", config)


@pytest.mark.parametrize("sale", SALES)
def test_avro_has_the_bytes_of_confluents_classes(
    sale: Sale, config: dict[str, str], registry: ps.MockSchemaRegistry, client: SchemaRegistryClient
) -> None:
    serde = ours(ps.Serdes.avro(Sale), config)
    data = serde.serialize(sale)
    text = registry.schema(1).text
    assert data == AvroSerializer(client, text)(asdict(sale), VALUE)
    assert AvroDeserializer(client)(data, VALUE) == asdict(sale)
    assert serde.deserialize(data) == sale


def test_avro_of_a_schema(config: dict[str, str], client: SchemaRegistryClient) -> None:
    schema = {
        "type": "record",
        "name": "Sale",
        "namespace": "shop",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        ],
    }
    from decimal import Decimal

    value = {"kind": "B", "tags": ["a", ""], "counts": {"x": 1}, "hash": b"\0\1", "price": Decimal("12.50")}
    serde = ours(ps.Serdes.avro(schema=schema), config)
    data = serde.serialize(value)
    assert data == AvroSerializer(client, json.dumps(schema))(value, VALUE)
    assert serde.deserialize(data) == value


@pytest.mark.parametrize(
    "message",
    [
        Order(id=1, item="tea", cents=250, price=2.5, to=Address(city="Rome")),
        Order(),
        Basket(items=["a", "b"]),
        Line(cents=3),
    ],
    ids=["first message", "empty", "second message", "nested message"],
)
def test_protobuf_has_the_bytes_of_confluents_classes(
    message: Any, config: dict[str, str], client: SchemaRegistryClient
) -> None:
    serde = ours(ps.Serdes.protobuf(type(message)), config)
    data = serde.serialize(message)
    theirs = ProtobufSerializer(type(message), client)(message, VALUE)
    assert theirs is not None
    # The imported file is registered first, in both.
    assert data == theirs
    assert data[:5] == b"\0\0\0\0\2"
    assert ProtobufDeserializer(type(message), {}, client)(data, VALUE) == message
    assert serde.deserialize(data) == message


def test_json_schema_has_the_bytes_of_confluents_classes(
    config: dict[str, str], registry: ps.MockSchemaRegistry, client: SchemaRegistryClient
) -> None:
    serde = ours(ps.Serdes.json_schema(Sale), config)
    data = serde.serialize(SALES[0])
    text = registry.schema(1).text
    theirs = JSONSerializer(text, client, lambda sale, _: asdict(sale))(SALES[0], VALUE)
    assert theirs is not None
    assert data[:5] == theirs[:5]
    assert json.loads(data[5:]) == json.loads(theirs[5:]), "they write spaces"
    assert JSONDeserializer(text, schema_registry_client=client)(data, VALUE) == asdict(SALES[0])
    assert serde.deserialize(theirs) == SALES[0]
