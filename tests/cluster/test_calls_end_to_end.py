"""An application on Ray and Kafka whose records have Avro values, and are priced by an actor of another program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import ray

import penstock as ps
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.ids import TopicPartition
from penstock.common.serdes import bound
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole
from tests.cluster.settled import until_settled
from tests.registry.orders import Order, Priced, price
from tests.registry.served import served
from tests.waiting import eventually

pytestmark = pytest.mark.submission
STRING = ps.Serdes.string()
ORDERS = 300


@ray.remote(max_restarts=-1, num_cpus=0)
class Prices:
    """The service that is called out to. It has a process of its own, as a model on a GPU would."""

    async def price(self, order: Order) -> Priced:
        return price(order)


@pytest.fixture
def prices(ray_cluster: None) -> Iterator[Any]:
    actor: Any = Prices
    handle = actor.remote()
    yield handle
    ray.kill(handle)


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> Iterator[tuple[ps.MockSchemaRegistry, str]]:
    mock = ps.MockSchemaRegistry(request.node.nodeid)
    with served(mock) as url:
        yield mock, url
    ps.MockSchemaRegistry.drop(request.node.nodeid)


class PricedOrders:
    """The application, and what a test needs of Kafka."""

    def __init__(self, broker: str, name: str, state_dir: Path, registry_url: str) -> None:
        self.application_id, self.orders, self.priced = name, f"{name}-orders", f"{name}-priced"
        self.clients = ConfluentClients(broker, name, {"isolation.level": "read_committed"})
        self.clients.admin().create_topics([NewTopic(self.orders, 2), NewTopic(self.priced, 1)])
        self.config: dict[str, Any] = {
            "application.id": name,
            "bootstrap.servers": broker,
            "state.dir": state_dir,
            "application.server": "",
            "commit.interval.ms": 200,
            "schema.registry.url": registry_url,
        }

    def app(self, prices: Any, **entries: Any) -> ps.KafkaStreams:
        builder = ps.StreamsBuilder()
        calls = ps.Calls(max_in_flight=20, timeout_ms=60_000, retry=ps.Retry(tries=100, backoff_ms=50))
        (
            builder.stream(self.orders, ps.Consumed.with_(STRING, ps.Serdes.avro(Order)))
            .map_values_async(prices.price, calls)
            .to(self.priced, ps.Produced.with_(STRING, ps.Serdes.avro(Priced)))
        )
        return ps.KafkaStreams(builder.build(), {**self.config, **entries})

    def serde(self, type_: type[Any], topic: str) -> ps.Serde[Any]:
        config = {"schema.registry.url": self.config["schema.registry.url"]}
        return bound(ps.Serdes.avro(type_, config=config), topic, "value")

    def send(self, numbers: range) -> None:
        write, producer = self.serde(Order, self.orders).serialize, self.clients.producer()
        for number in numbers:
            value = write(Order(f"item{number}", number))
            producer.send(self.orders, b"%d" % (number % 7), value, 1_000 + number, partition=number % 2)
        assert producer.flush(60)
        producer.close()

    def written(self) -> list[Priced]:
        """Returns what the output topic holds, without what was aborted."""
        read = self.serde(Priced, self.priced).deserialize
        batches = whole(self.clients, [TopicPartition(self.priced, 0)])
        return [read(value) for batch in batches for value in batch.values if value is not None]

    def numbers(self) -> list[int]:
        """Returns the numbers of the orders that are priced."""
        return [each.cents // 10 for each in self.written()]

    def of_partitions(self) -> list[int]:
        """Returns how many orders of each partition are priced."""
        numbers = self.numbers()
        return [sum(number % 2 == partition for number in numbers) for partition in range(2)]


@pytest.fixture
def priced(
    broker: str,
    topic_name: Callable[[str], str],
    tmp_path: Path,
    ray_cluster: None,
    registry: tuple[ps.MockSchemaRegistry, str],
) -> Iterator[PricedOrders]:
    it = PricedOrders(broker, topic_name("priced"), tmp_path, registry[1])
    yield it
    end_actors(it.application_id, find_coordinator(it.application_id))


def test_orders_are_priced_once_though_the_pricing_actor_dies_and_the_registry_is_away_now_and_then(
    priced: PricedOrders, prices: Any, registry: tuple[ps.MockSchemaRegistry, str]
) -> None:
    mock, _ = registry
    priced.send(range(ORDERS))
    app = priced.app(prices, **{"processing.guarantee": "exactly_once_v2"})
    app.pause()  # until the registry is away, and each task is on the actor that keeps it
    with ExitStack() as away, app:
        until_settled(app)
        with mock.outage():
            asked = len(mock.calls)
            app.resume()
            eventually(lambda: len(mock.calls) > asked + 2, "the registry asked again and again")
        # By then each task has its schemas. From here on the registry is away for good.
        eventually(lambda: all(each >= ORDERS // 20 for each in priced.of_partitions()), "the first orders priced")
        ray.kill(prices, no_restart=False)
        away.enter_context(mock.outage())
        priced.send(range(ORDERS, 2 * ORDERS))
        eventually(lambda: len(priced.written()) >= 2 * ORDERS, "all orders priced without the registry")
    numbers = priced.numbers()
    assert sorted(numbers) == list(range(2 * ORDERS))
    for key, partition in itertools.product(range(7), range(2)):
        own = [number for number in numbers if (number % 7, number % 2) == (key, partition)]
        assert own == sorted(own), f"key {key} of partition {partition} in order"
    assert mock.subjects == [f"{priced.orders}-value", f"{priced.priced}-value"]
