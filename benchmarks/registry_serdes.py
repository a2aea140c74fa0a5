"""Decoding and encoding of an Avro record of five fields: penstock's serde beside Confluent's classes, in one process.

``python -m benchmarks.registry_serdes`` prints microseconds of CPU for each record: the median of the rounds, and the
fastest and the slowest. The sides take turns in each round, so that a busy machine slows all of them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock as ps
from penstock.common.serdes import bound
from penstock.tasks.record_queue import Part


@dataclass(frozen=True)
class Order:
    """The record: 38 bytes with its head."""

    id: int
    item: str
    cents: int
    price: float
    note: str | None = None


ORDER = Order(123_456, "green tea", 250, 2.5, "hello")


def main(
    records: Annotated[int, typer.Option(help="Number of records in each round")] = 5_000,
    rounds: Annotated[int, typer.Option(help="Number of rounds")] = 41,
) -> None:
    """Measure, and print a table."""
    sides = _sides(records)
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begun = time.thread_time()
            run()
            took[name].append((time.thread_time() - begun) / records * 1e6)
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.2f}, {rounds} rounds of {records:,} records"
    )
    for name, each in took.items():
        print(f"| {name} | {statistics.median(each):.2f} ({min(each):.2f}–{max(each):.2f}) |")


def _sides(records: int) -> dict[str, Callable[[], object]]:
    serde = bound(ps.Serdes.avro(Order), "orders", "value", {"schema.registry.url": "mock://benchmark"})
    data = serde.serialize(ORDER)
    text = ps.MockSchemaRegistry("benchmark").schema(1).text
    client = SchemaRegistryClient.new_client({"url": "mock://benchmark"})
    there = SerializationContext("orders", MessageField.VALUE)
    write = AvroSerializer(client, text, lambda order, _: asdict(order))
    write_dict = AvroSerializer(client, text)
    read = AvroDeserializer(client, text, lambda fields, _: Order(**fields))
    read_dict = AvroDeserializer(client)
    fields = asdict(ORDER)
    assert write(ORDER, there) == data == write_dict(fields, there)
    assert read(data, there) == serde.deserialize(data) == ORDER
    column: list[bytes | None] = [data] * records
    orders = [ORDER] * records
    batch, encode = Part(serde.deserialize), serde.serialize
    return {
        "decode: penstock, dataclass": lambda: batch.column(column),
        "decode: Confluent, dataclass": lambda: [read(each, there) for each in column if each],
        "decode: Confluent, dict": lambda: [read_dict(each, there) for each in column if each],
        "encode: penstock, dataclass": lambda: [encode(each) for each in orders],
        "encode: Confluent, dataclass": lambda: [write(each, there) for each in orders],
        "encode: Confluent, dict": lambda: [write_dict(fields, there) for _ in orders],
    }


if __name__ == "__main__":
    typer.run(main)
