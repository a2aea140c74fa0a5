"""A Ray of this process alone, and the part of Kafka that an end-to-end test needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.api.kafka_streams import KafkaStreams
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serdes
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced
from tests.own_ray import own_ray

STRING, LONG = Serdes.string(), Serdes.long()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """Ray with four CPUs on any machine; it ends with the session."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            # Its workers must find penstock, installed or not, also when a driver elsewhere connects.
            patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
            stack.enter_context(own_ray(_system_config={"metrics_report_interval_ms": 1000}))
        yield


class WordCount:
    """The word count on topics of its own."""

    def __init__(self, broker: str, name: str, state_dir: Path, partitions: int = 2) -> None:
        self.broker, self.application_id, self.state_dir = broker, name, state_dir
        self.partitions = partitions
        self.lines, self.counts_topic = f"{name}-in", f"{name}-out"
        self.clients = ConfluentClients(broker, name)
        self.admin = self.clients.admin()
        self.admin.create_topics([NewTopic(self.lines, partitions), NewTopic(self.counts_topic, 1)])
        self.sent: Counter[str] = Counter()

    def app(self, **entries: Any) -> KafkaStreams:
        """Returns a new, unstarted application."""
        builder = StreamsBuilder()
        (
            builder.stream(self.lines, Consumed.with_(STRING, STRING))
            .flat_map_values(str.split)
            .group_by(lambda _, word: word, Grouped.with_(STRING, STRING))
            .count(Materialized.as_("counts"))
            .to_stream()
            .to(self.counts_topic, Produced.with_(STRING, LONG))
        )
        config = {
            "application.id": self.application_id,
            "bootstrap.servers": self.broker,
            "state.dir": self.state_dir,
            "commit.interval.ms": 200,
            "application.server": "127.0.0.1:0",
            **{key.replace("_", "."): value for key, value in entries.items()},
        }
        return KafkaStreams(builder.build(), config)

    def send(self, lines: Iterable[str]) -> None:
        """Write lines, spread over the partitions."""
        producer = self.clients.producer()
        for number, line in enumerate(lines):
            self.sent.update(line.split())
            producer.send(self.lines, None, line.encode(), 1_000 + number, partition=number % 2)
        assert producer.flush(60)
        producer.close()

    def written(self) -> dict[str, int]:
        """Returns the last count of each word in the output topic."""
        found: dict[str, int] = {}
        for batch in whole(self.clients, [TopicPartition(self.counts_topic, 0)]):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert key is not None
                assert value is not None
                found[key.decode()] = LONG.deserialize(value)
        return found

    def changes(self) -> int:
        """Returns the number of records in the changelog of the counts: each write to the store is one."""
        changelog = f"{self.application_id}-counts-changelog"
        return sum(
            self.admin.end_offsets([TopicPartition(changelog, each) for each in range(self.partitions)]).values()
        )

    def committed(self) -> int:
        """Returns the number of lines that the group has committed."""
        offsets = self.admin.committed(self.application_id)
        return sum(committed.offset for tp, committed in offsets.items() if tp.topic == self.lines)

    def complete(self) -> bool:
        """Returns True if the output has exactly the counts of what was sent."""
        return self.written() == dict(self.sent)


@pytest.fixture
def word_count(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> Iterator[Callable[[], WordCount]]:
    """Makes word counts; those that still run at the end of the test are ended."""
    from penstock.cluster.client.control import end_actors
    from penstock.cluster.ray_cluster.named_actors import find_coordinator

    made: list[WordCount] = []

    def make(partitions: int = 2) -> WordCount:
        made.append(WordCount(broker, topic_name("wc"), tmp_path, partitions))
        return made[-1]

    yield make
    for it in made:
        end_actors(it.application_id, find_coordinator(it.application_id))
