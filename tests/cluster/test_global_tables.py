"""A global table and a global store on a real Ray and a real Kafka: every actor has all of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.errors import MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole
from tests.cluster.asking import patient_client
from tests.cluster.conftest import LONG, STRING
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually

USERS = 200


class Totals(ps.Processor[str, int, None, None]):
    """Keeps the sum of the values of each key."""

    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        self.store = context.get_state_store("totals")

    def process(self, record: ps.Record[str, int]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + record.value)


class AddTotal(ps.Processor[str, str, str, str]):
    """Puts the total of the record's key behind its value."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.totals = context.get_state_store("totals")

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record.with_value(f"{record.value}+{self.totals.get(record.key)}"))


class Joined:
    """Records of four partitions joined with a table of three, and with the totals of a topic of two."""

    def __init__(self, broker: str, name: str, state_dir: Path) -> None:
        self.id, self.broker, self.state_dir = name, broker, state_dir
        self.input, self.users, self.amounts, self.output = (
            f"{name}-{end}" for end in ("in", "users", "amounts", "out")
        )
        self.clients = ConfluentClients(broker, name)
        counts = {self.input: 4, self.users: 3, self.amounts: 2, self.output: 1}
        compacted = {"cleanup.policy": "compact"}
        self.clients.admin().create_topics(
            NewTopic(topic, count, config=compacted if topic == self.users else {}) for topic, count in counts.items()
        )

    def topology(self) -> ps.Topology:
        builder = ps.StreamsBuilder()
        store = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("totals"), STRING, LONG)
        builder.add_global_store(store, self.amounts, ps.Consumed.with_(STRING, LONG), Totals)
        users = builder.global_table(self.users, ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("users"))
        stream = builder.stream(self.input, ps.Consumed.with_(STRING, STRING))
        joined = stream.left_join(users, lambda value: value, lambda value, user: f"{value}={user}")
        joined.process(AddTotal).to(self.output, ps.Produced.with_(STRING, STRING))
        return builder.build()

    def app(self) -> KafkaStreams:
        config = {
            "application.id": self.id,
            "bootstrap.servers": self.broker,
            "state.dir": self.state_dir,
            "commit.interval.ms": 200,
            "application.server": "127.0.0.1:0",
        }
        return KafkaStreams(self.topology(), config)

    def send(self, topic: str, *rows: tuple[str, bytes | None]) -> None:
        producer = self.clients.producer()
        for key, value in rows:
            producer.send(topic, key.encode(), value, 1_000)
        assert producer.flush(60)
        producer.close()

    def ask(self) -> None:
        self.send(self.input, *((f"k{number}", f"u{number}".encode()) for number in range(USERS)))

    def update(self, round: int) -> None:
        self.send(self.users, *((f"u{number}", f"{number}/{round}".encode()) for number in range(USERS)))
        self.send(self.amounts, *((f"k{number}", LONG.serialize(number)) for number in range(USERS)))

    def expected(self, round: int) -> set[str]:
        return {f"u{number}={number}/{round}+{number * round}" for number in range(USERS)}

    def results(self) -> set[str]:
        batches = whole(self.clients, [TopicPartition(self.output, 0)])
        return {(value or b"").decode() for batch in batches for value in batch.values}


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.long
def test_tasks_find_all_of_the_table_and_the_store_and_follow_both(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    it = Joined(broker, topic_name("glob"), tmp_path)
    try:
        it.update(1)
        it.ask()
        with it.app() as app:
            assert len(until_settled(app).actors) > 1
            eventually(lambda: it.results() == it.expected(1), "all found at the start")
            assert sorted(map(str, app.status().placement)) == ["2_0", "2_1", "2_2", "2_3"]
            it.update(2)
            totals, users = app.store("totals"), app.store("users")
            eventually(lambda: totals.get("k7") == 14 and users.get("u7") == "7/2", "updates followed")
            eventually(lambda: dict(users.all()) == {f"u{n}": f"{n}/2" for n in range(USERS)}, "all updates followed")
            path = f"/v1/applications/{it.id}/stores/users/keys/u7"
            with patient_client(str(app.status().http_address)) as client:
                assert client.get(path).json()["value"] == "7/2"
        # Every actor reads on where its copy on disk has come to: nothing is added to a total twice.
        it.update(3)
        it.ask()
        with it.app() as app:
            app.wait_until_running(PATIENCE_S)
            eventually(lambda: it.expected(3) <= it.results(), "all found after a restart")
            assert it.results() == it.expected(1) | it.expected(3)
    finally:
        end_actors(it.id, find_coordinator(it.id))


def test_a_global_topic_that_does_not_exist_is_reported_before_anything_starts(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    it = Joined(broker, topic_name("glob"), tmp_path)
    it.clients.admin().delete_topics([it.users])
    eventually(lambda: it.users not in it.clients.admin().topics(), "the topic is gone")
    with pytest.raises(MissingTopicError, match=rf"the topic does not exist: '{it.users}' \(read\)"):
        it.app().start()
