"""The example of Avro, on a registry within the process."""

from __future__ import annotations

import json

import penstock as ps
from examples import avro_orders
from examples.avro_orders import Order, Sum
from penstock.common.serdes import bound
from penstock.registry.contracts import Schema
from tests.examples.transcript import Given, Topics, same_as_kept, transcript

CONFIG = {"schema.registry.url": "mock://avro-orders"}
OLD = Schema(json.dumps({"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}))
strings = ps.Serdes.string()


def test_the_example_gives_the_results_of_its_transcript() -> None:
    given = [
        Given("orders", "12:00", "ada", Order("tea", 250)),
        Given("orders", "12:01", "bob", Order("cups", 1200, "SPRING")),
        Given("orders", "12:02", "ada", Order("honey", 480)),
    ]
    inputs: Topics = {"orders": (strings, ps.Serdes.avro(Order))}
    outputs: Topics = {"sums": (strings, ps.Serdes.avro(Sum))}
    assert same_as_kept("avro_orders", transcript(avro_orders.app, given, inputs, outputs, CONFIG))
    registry = ps.MockSchemaRegistry("avro-orders")
    assert registry.subjects == ["avro-orders-sums-changelog-value", "orders-value", "sums-value"]


def test_orders_of_before_the_voucher_are_read() -> None:
    before = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "cents", "type": "long"}],
    }
    writer = bound(ps.Serdes.avro(schema=before), "old-orders", "value", CONFIG)
    data = writer.serialize({"item": "tea", "cents": 250})
    assert bound(ps.Serdes.avro(Order), "old-orders", "value", CONFIG).deserialize(data) == Order("tea", 250)
