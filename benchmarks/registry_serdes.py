"""Decoding and encoding of an Avro record of five fields: penstock's serde beside Confluent's classes, in one process.

``python -m benchmarks.registry_serdes`` prints microseconds for each record: the median of the rounds, and the fastest
and the slowest. The sides take turns in each round, so that a busy machine slows all of them.
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

_COLUMN = 500


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
    records: Annotated[int, typer.Option(help="Number of records in each round")] = 20_000,
    rounds: Annotated[int, typer.Option(help="Number of rounds")] = 15,
) -> None:
    """Measure, and print a table."""
    sides = _sides(records)
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            begun = time.perf_counter()
            run()
            took[name].append((time.perf_counter() - begun) / records * 1e6)
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
    part, column = Part(serde.deserialize, many=serde.deserialize_many), [data] * _COLUMN

    def times(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(records):
                call()

        return run

    def columns() -> None:
        for _ in range(records // _COLUMN):
            part.column(list(column))

    return {
        "decode: penstock, a column of a batch, dataclass": columns,
        "decode: penstock, one record, dataclass": times(lambda: serde.deserialize(data)),
        "decode: Confluent, dataclass": times(lambda: read(data, there)),
        "decode: Confluent, dict": times(lambda: read_dict(data, there)),
        "encode: penstock, dataclass": times(lambda: serde.serialize(ORDER)),
        "encode: Confluent, dataclass": times(lambda: write(ORDER, there)),
        "encode: Confluent, dict": times(lambda: write_dict(fields, there)),
    }


if __name__ == "__main__":
    typer.run(main)
