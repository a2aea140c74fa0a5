"""Operators that call out on Spark: the same results as the test driver's, from records of a topic's history."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from penstock.common.serdes import bound
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.backfill.backfill import backfill
from penstock.pipeline.backfill.plan import stage_shapes
from penstock.pipeline.rows import SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.testing.whole_topics import whole
from penstock.topology.physical.topic_plan import plan_topics
from tests.pipeline.rows import CONFIG, Row, host, output, process, run
from tests.registry.orders import Order, Priced, price
from tests.registry.served import served

STRING = ps.Serdes.string()
TEXT = ps.Consumed.with_(STRING, STRING)
Build = Callable[[ps.KStream[str, str]], ps.KStream[str, str]]


async def upper_later(value: str) -> str:
    await asyncio.sleep(0.001)
    return value.upper()


def upper_slowly(value: str) -> str:
    time.sleep(0.001)
    return value.upper()


async def letters(record: ps.Record[str, str]) -> list[ps.Record[str, str]]:
    return [record.with_value(letter) for letter in record.value.upper()]


def all_upper(values: list[str]) -> list[str]:
    return [value.upper() for value in values]


CALLS: dict[str, Build] = {
    "coroutine": lambda stream: stream.map_values_async(upper_later),
    "thread": lambda stream: stream.map_values_async(upper_slowly),
    "process": lambda stream: stream.process_async(letters),
    "batch": lambda stream: stream.map_batch(all_upper, max_records=7),
}


def topology(build: Build) -> ps.Topology:
    builder = ps.StreamsBuilder()
    build(builder.stream("words", TEXT)).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


@pytest.mark.parametrize("called", CALLS)
@pytest.mark.parametrize("size", [1, 10])
def test_a_call_on_an_executor_gives_what_it_gives_on_the_test_driver(called: str, size: int) -> None:
    program = topology(CALLS[called])
    rows = [process(0, "words", offset, f"k{offset % 3}", f"ab{offset}", offset) for offset in range(50)]
    results = output(run(host(program), rows, size))[SINK]
    assert [(row["key"].decode(), row["value"].decode(), row["timestamp"]) for row in results] == on_driver(
        program, rows
    )


def on_driver(program: ps.Topology, rows: list[Row]) -> list[tuple[str | None, str | None, int]]:
    with ps.TopologyTestDriver(program) as driver:
        words = driver.create_input_topic("words", STRING, STRING)
        for row in rows:
            words.pipe_input(row[5].decode(), row[6].decode(), row[7])
        found = driver.create_output_topic("out", STRING, STRING).read_records_to_list()
    return [(each.key, each.value, each.timestamp) for each in found]


def test_calls_of_an_executor_run_together() -> None:
    together = threading.Barrier(10)

    def meet(value: str) -> str:
        together.wait(60)
        return value

    rows = [process(0, "words", offset, f"k{offset}", "a", offset) for offset in range(10)]
    results = output(run(host(topology(lambda stream: stream.map_values_async(meet))), rows, 100))
    assert len(results[SINK]) == 10


def test_a_call_that_fails_on_an_executor_names_the_record() -> None:
    def fail(value: str) -> str:
        raise OSError("down")

    rows = [process(0, "words", 7, "k", "a", 1)]
    with pytest.raises(ps.StreamsError, match=r"OSError: down.*topic words, partition 0, offset 7"):
        output(run(host(topology(lambda stream: stream.map_values_async(fail))), rows, 1))


class Remote:
    """Looks like a method of a Ray actor."""

    def remote(self, value: str) -> Any:
        raise NotImplementedError


def test_a_method_of_a_ray_actor_is_refused_before_spark_starts() -> None:
    remote: Any = Remote()
    program = topology(lambda stream: stream.map_values_async(remote))
    topics = plan_topics(program, CONFIG, {"words": 1, "out": 1})
    counts = TopicCounts({"words": 1}, frozenset(), frozenset())
    with pytest.raises(
        ps.ConfigError, match="operator KSTREAM-MAPVALUESASYNC-0000000001 calls a method of a Ray actor"
    ):
        stage_shapes(program, CONFIG, topics, counts)


async def price_later(order: Order) -> Priced:
    await asyncio.sleep(0)
    return price(order)


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> Iterator[str]:
    with served(ps.MockSchemaRegistry(request.node.nodeid)) as url:
        yield url
    ps.MockSchemaRegistry.drop(request.node.nodeid)


@pytest.mark.submission
@pytest.mark.usefixtures("shared_spark")
def test_a_backfill_reads_and_writes_avro_and_calls_out(
    broker: str, topic_name: Callable[[str], str], registry: str, tmp_path: Path
) -> None:
    name = topic_name("priced")
    clients = ConfluentClients(broker, name)
    clients.admin().create_topics([NewTopic(f"{name}-orders", 2), NewTopic(f"{name}-priced", 1)])

    def serde(kind: type[Any], topic: str) -> ps.Serde[Any]:
        return bound(ps.Serdes.avro(kind, config={"schema.registry.url": registry}), topic, "value")

    write, producer = serde(Order, f"{name}-orders").serialize, clients.producer()
    for number in range(100):
        producer.send(f"{name}-orders", b"k", write(Order("tea", number)), number, partition=number % 2)
    assert producer.flush(60)
    producer.close()
    builder = ps.StreamsBuilder()
    (
        builder.stream(f"{name}-orders", ps.Consumed.with_(STRING, ps.Serdes.avro(Order)))
        .map_values_async(price_later)
        .to(f"{name}-priced", ps.Produced.with_(STRING, ps.Serdes.avro(Priced)))
    )
    config = {
        "application.id": name,
        "bootstrap.servers": broker,
        "state.dir": tmp_path,
        "schema.registry.url": registry,
    }
    app = ps.KafkaStreams(builder.build(), config)
    assert backfill(app.topology, app.config, "local[2]").read == {f"{name}-orders": 100}
    read = serde(Priced, f"{name}-priced").deserialize
    found = [
        read(value)
        for batch in whole(clients, [TopicPartition(f"{name}-priced", 0)])
        for value in batch.values
        if value
    ]
    assert sorted(each.cents for each in found) == [10 * number for number in range(100)]
