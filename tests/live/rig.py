"""A bunch of cases as an application on a real Ray and a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.actors.checkpoints import fetching
from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import NO_HEADERS
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from tests.cluster.settled import until_settled
from tests.live.bunches import Bunch, Input
from tests.live.partitioned_driver import Written
from tests.parity.build import SERDES
from tests.waiting import PATIENCE_S, once_ready

LOOK_EACH_S = 0.1
"""Seconds between two looks, about as many as between commits: each look costs the broker something."""
_KEEP = {"retention.ms": "-1"}


class DownloadsAll(StateRestoreListener):
    """In the process that it comes to, the smallest checkpoint is worth its download."""

    def on_restore_start(self, *_: object) -> None:
        """Nothing is kept."""

    def on_batch_restored(self, *_: object) -> None:
        """Nothing is kept."""

    def on_restore_end(self, *_: object) -> None:
        """Nothing is kept."""

    def __reduce__(self) -> tuple[Any, ...]:
        return downloads_all, ()


def downloads_all() -> DownloadsAll:
    """Returns a listener, in an actor of the application."""
    vars(fetching)["WORTH_A_DOWNLOAD"] = 1
    return DownloadsAll()


def configuration(bunch: Bunch, application_id: str) -> dict[str, Any]:
    """Returns the configuration of both sides."""
    return {
        **bunch.config,
        **({} if bunch.caching else {"statestore.cache.max.bytes": 0}),
        "application.id": application_id,
        "default.key.serde": SERDES["string"],
        "default.value.serde": SERDES["string"],
    }


class LiveBunch:
    """The topics of a bunch on ``broker``, and its application while it runs."""

    def __init__(self, bunch: Bunch, broker: str, application_id: str) -> None:
        self.bunch, self.application_id = bunch, application_id
        self._broker = broker
        self._clients = ConfluentClients(broker, application_id)
        self._admin = self._clients.admin()
        self._producer = self._clients.producer()
        self._consumer = self._clients.consumer()
        self._admin.create_topics(NewTopic(topic, bunch.partitions, config=_KEEP) for topic in sorted(bunch.topics))
        topology = bunch.built.topology
        read = bunch.built.inputs.keys() - set(topology.global_topics)
        self._sent = dict.fromkeys(self._partitions(read), 0)
        written = {f"{application_id}-{name}" for name in topology.repartition_topics}
        written |= read & {topic for topic, _, _ in bunch.built.sinks}
        self._written_by_tasks = self._partitions(written)
        self.app: KafkaStreams | None = None
        self.checkpoints: Path | None = None
        """The place of checkpoints, if there are any."""

    def configuration(self, state_dir: Path) -> dict[str, Any]:
        """Returns the configuration of the live application."""
        return {
            **configuration(self.bunch, self.application_id),
            "bootstrap.servers": self._broker,
            "state.dir": state_dir,
            "commit.interval.ms": 100,
            "application.server": "",
            # The records in repartition topics are compared, too.
            "repartition.purge.interval.ms": 3_600_000,
            "consumer.session.timeout.ms": 10_000,
            **({} if self.checkpoints is None else {"state.checkpoint.uri": str(self.checkpoints)}),
        }

    def start(self, state_dir: Path, wait: bool = True) -> None:
        """Run the application. ``wait``: return when all tasks run and none will move to an actor that comes up late. A
        move would restart the task."""
        self.app = KafkaStreams(self.bunch.built.topology, self.configuration(state_dir))
        self.app.set_global_state_restore_listener(DownloadsAll())
        self.app.start(serve=False)
        if wait:
            until_settled(self.app)

    def stop(self) -> None:
        """Drain, commit and end the application."""
        assert self.app is not None
        assert self.app.close()
        self.app = None

    def send(self, records: Iterable[Input]) -> None:
        """Write ``records`` to the input topics."""
        for record in records:
            if (tp := TopicPartition(record.topic, record.partition)) in self._sent:
                self._sent[tp] += 1
            headers = record.headers or None
            self._producer.send(
                record.topic, record.key, record.value, record.timestamp, headers, partition=record.partition
            )
        assert self._producer.flush(60)

    def settle(self) -> None:
        """Wait until all records in source and repartition topics are processed and committed.

        A task commits only records whose results it has written: if what is committed now reaches the ends as they are
        afterwards, nothing is under way."""
        sent = {tp: count for tp, count in self._sent.items() if count}
        behind: Iterable[TopicPartition] = sent
        deadline = time.monotonic() + PATIENCE_S
        while True:
            committed = self._consumer.committed([*behind, *self._written_by_tasks])
            ends = sent | self._consumer.fetch_end_offsets(self._written_by_tasks)
            behind = {tp for tp in {*behind, *self._written_by_tasks} if ends[tp] > _offset(committed, tp)}
            if not behind:
                return
            behind &= sent.keys()
            # REBALANCING: on a busy machine, tasks move to actors that come up later.
            if self.app is not None and not (status := self.app.status()).state.is_live:
                raise AssertionError(f"{self.application_id}: {status.state.value}: {status.error}")
            assert time.monotonic() < deadline, f"not processed within {PATIENCE_S:.0f} s: {behind}"
            time.sleep(LOOK_EACH_S)

    def wait_until_written(self, counts: Mapping[str, int]) -> None:
        """Wait until each topic has that many records. If fewer come, the comparison will show it."""
        partitions = self._partitions(counts)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ends = self._consumer.fetch_end_offsets(partitions)
            if all(sum(ends[tp] for tp in self._partitions([topic])) >= count for topic, count in counts.items()):
                return
            time.sleep(LOOK_EACH_S)

    def internal_topics(self) -> set[str]:
        """The changelogs and repartition topics that the application has made."""
        return {topic for topic in self._admin.topics() if topic.startswith(f"{self.application_id}-")}

    def written(self) -> dict[str, list[list[Written]]]:
        """Returns the records of all topics of the bunch, by topic and partition."""
        partitions = self._partitions(self.bunch.topics | self.internal_topics())
        found: dict[str, list[list[Written]]] = {
            tp.topic: [[] for _ in range(self.bunch.partitions)] for tp in partitions
        }
        consumer = self._clients.consumer()
        ends = {tp: end for tp, end in consumer.fetch_end_offsets(partitions).items() if end}
        consumer.assign(dict.fromkeys(ends, BEGINNING))
        deadline = time.monotonic() + PATIENCE_S
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline, "the topics cannot be read to their ends"
            for batch in consumer.poll(10_000, 0.1):
                rows = zip(batch.keys, batch.values, batch.timestamps, strict=True)
                headers = batch.headers or [None] * len(batch.keys)
                found[batch.partition.topic][batch.partition.partition] += [
                    Written(*row, each or NO_HEADERS) for row, each in zip(rows, headers, strict=True)
                ]
        consumer.close()
        return found

    def stores(self) -> Mapping[str, dict[Any, Any]]:
        """Returns the rows that queries find in the named key-value stores."""
        app = self.app
        assert app is not None
        return once_ready(lambda: {name: dict(app.store(name).all()) for name in self.bunch.stores})

    def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(self.bunch.partitions)]

    def close(self) -> None:
        """End the applications that run, and delete the topics."""
        end_actors(self.application_id, find_coordinator(self.application_id))
        self._admin.delete_topics(self.bunch.topics | self.internal_topics())
        self._producer.close()
        self._consumer.close()


def _offset(committed: Mapping[TopicPartition, CommittedOffset], partition: TopicPartition) -> int:
    return committed[partition].offset if partition in committed else 0
