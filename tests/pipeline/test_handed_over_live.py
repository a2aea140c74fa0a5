"""A live application, on a real Ray and Kafka, starts from the checkpoints that a backfill by Spark has handed over."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.checkpoints.repository import CheckpointRepository
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.metric_names import TASK
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.backfill import backfill
from tests.cluster.settled import until_settled
from tests.pipeline.topologies import IN_MEMORY, LOGGED, every_kind_of_store
from tests.waiting import eventually, once_ready

_HOUR_S = 3600
KEYS = 2000
"""Together, the stores with that many keys have more changelog offsets than the fewest for which anything is
downloaded."""


class Every:
    """The application with every kind of store."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.id, self.state_dir, self.objects = name, folder / "state", folder / "objects"
        self.topics = [f"{name}-{each}" for each in ("lines", "table", "users", "out")]
        self.lines, self.table, self.users, _ = self.topics
        self.topology = every_kind_of_store(*self.topics)
        # Of today: the broker deletes older records from the changelogs of windows and sessions.
        self.begin_ms = int(time.time()) // _HOUR_S * _HOUR_S * 1000
        self.clients = ConfluentClients(broker, name)
        self.clients.admin().create_topics(NewTopic(topic, 1) for topic in self.topics)
        self.config = {
            "application.id": name, "bootstrap.servers": broker, "state.dir": self.state_dir, "application.server": "",
            "commit.interval.ms": 200, "state.checkpoint.uri": str(self.objects), "tasks.per.actor": 1,
            "state.checkpoint.interval.ms": 3_600_000, "consumer.session.timeout.ms": 10_000,
        }  # fmt: skip

    def send(self, topic: str, keys: range, at: int) -> None:
        producer = self.clients.producer()
        for key in keys:
            producer.send(topic, f"k{key}".encode(), f"{key} at {at}".encode(), self.begin_ms + at, partition=0)
        assert producer.flush(60)
        producer.close()

    def started(self) -> ps.KafkaStreams:
        app = ps.KafkaStreams(self.topology, self.config)
        app.start()
        until_settled(app)
        eventually(self.has_caught_up, "all records are processed and committed")
        return app

    def has_caught_up(self) -> bool:
        sources = [TopicPartition(self.lines, 0), TopicPartition(self.table, 0)]
        admin = self.clients.admin()
        ends, committed = admin.end_offsets(sources), admin.committed(self.id, sources)
        return all(at in committed and committed[at].offset == ends[at] for at in sources)

    def handed_over_bytes(self) -> int:
        found = CheckpointRepository(ObjectLocation(str(self.objects)).open(), self.id).newest_hand_over()
        assert found is not None
        checkpoint = found.checkpoint("0_0")
        assert checkpoint is not None
        return checkpoint.size


@pytest.fixture
def every(broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None) -> Iterator[Every]:
    it = Every(broker, topic_name("every"), tmp_path)
    yield it
    end_actors(it.id, find_coordinator(it.id))


def restored(app: ps.KafkaStreams) -> tuple[int, object]:
    """Returns the changelog records that were read, and the bytes that were downloaded."""
    (task,) = app.status().tasks
    return task.restore_total, task.measured.get((TASK, "checkpoint-restored-bytes"), 0)


def found_in(app: ps.KafkaStreams, key: str, begin_ms: int) -> dict[str, Any]:
    """Returns what queries of each store find for a key, with the window that begins at ``begin_ms``."""

    kinds = ps.QueryableStoreTypes
    apart = {"windows", "sessions", "versioned", "held-store"}

    def ask() -> dict[str, Any]:
        windows = app.store("windows", kinds.window_store()).fetch(key, begin_ms)
        sessions = [count for _, count in app.store("sessions", kinds.session_store()).fetch(key)]
        latest = app.store("versioned", kinds.versioned_key_value_store()).get(key)
        others = {name: app.store(name).get(key) for name in {*LOGGED, "unlogged", "users"} - apart}
        return {**others, "windows": windows, "sessions": sessions, "versioned": latest and latest.value}

    return once_ready(ask)


@pytest.mark.submission
@pytest.mark.usefixtures("shared_spark")
def test_a_start_after_a_backfill_downloads_the_hand_over_and_reads_only_the_tail_of_the_changelogs(
    every: Every,
) -> None:
    every.send(every.users, range(10), 0)
    every.send(every.table, range(KEYS), 1000)
    every.send(every.lines, range(KEYS), 2000)
    report = backfill(every.topology, StreamsConfig.of(every.config), "local[2]")
    assert report.handed_over == 1
    every.send(every.lines, range(20), 2500)
    app = every.started()
    in_memory = KEYS * len(IN_MEMORY)
    assert restored(app) == (in_memory, every.handed_over_bytes())
    assert found_in(app, "k3", every.begin_ms) == {
        "counts": 2, "in-memory": 2, "unlogged": 2, "windows": 2, "sessions": [2], "fleeting": "3 at 2500",
        "plain": "3 at 2500", "stamped": "3 at 2500", "versioned": "3 at 2500", "table": "3 at 1000", "users": "3 at 0",
    }  # fmt: skip
    there = found_in(app, f"k{KEYS - 1}", every.begin_ms)
    assert (there["counts"], there["in-memory"], there["unlogged"], there["sessions"]) == (1, 1, 1, [1])
    assert app.close()
    # The disk is lost: the hand-over is still the newest checkpoint.
    shutil.rmtree(every.state_dir)
    app = every.started()
    records, size = restored(app)
    assert size == every.handed_over_bytes()
    assert in_memory < records < in_memory + KEYS, "of the other stores only the tail is read"
    counted = found_in(app, "k3", every.begin_ms)
    # Without a changelog it is lost with the disk.
    assert (counted["counts"], counted["sessions"], counted["unlogged"]) == (2, [2], None)
    assert app.close()
