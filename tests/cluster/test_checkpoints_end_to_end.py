"""Checkpoints on a real Ray, a real Kafka and a real folder: lost disks, and processes that are killed."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random, randrange

import psutil
import pytest

from penstock.actors.status import ActorStatus
from penstock.actors.task_host.task_directory import CHECKPOINT, FETCHED
from penstock.checkpoints.manifest import CheckpointManifest
from penstock.checkpoints.repository import CheckpointRepository
from penstock.cluster.client.control import end_actors
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.metric_names import TASK
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.objects.storage import ObjectLocation
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed
from tests.cluster.conftest import STRING
from tests.cluster.settled import until_settled
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually, once_ready

KEYS = 15_000
"""More than the fewest changelog offsets for which a checkpoint is downloaded."""


_KILLS = 20


class Counting:
    """Counts the records of each key, in one task with checkpoints."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.id, self.topic = name, f"{name}-in"
        self.state_dir, self.objects = folder / "state", folder / "objects"
        self.location = ObjectLocation(str(self.objects))
        self.clients = ConfluentClients(broker, name)
        self.clients.admin().create_topics([NewTopic(self.topic, 1)])
        self.sent = 0
        self.config = {
            "application.id": name, "bootstrap.servers": broker, "state.dir": self.state_dir,
            "commit.interval.ms": 200, "state.checkpoint.uri": str(self.objects), "application.server": "",
            "state.checkpoint.interval.ms": 4000, "tasks.per.actor": 1,
        }  # fmt: skip

    def started(self, **entries: object) -> KafkaStreams:
        builder = StreamsBuilder()
        records = builder.stream(self.topic, Consumed.with_(STRING, STRING))
        records.group_by_key().count(Materialized.as_("counts"))
        app = KafkaStreams(builder.build(), {**self.config, **entries})
        app.start()
        app.wait_until_running(PATIENCE_S)
        return app

    def send(self, keys: range) -> None:
        """Write a record of each of these keys."""
        producer = self.clients.producer()
        for key in keys:
            producer.send(self.topic, f"k{key}".encode(), b"x", 1_000, partition=0)
        assert producer.flush(60)
        producer.close()
        self.sent += len(keys)

    def has_committed(self) -> bool:
        at = TopicPartition(self.topic, 0)
        found = self.clients.admin().committed(self.id, [at]).get(at)
        return found is not None and found.offset == self.sent

    def newest(self) -> CheckpointManifest | None:
        return next(self.repository().newest_first("0_0"), None)

    def repository(self) -> CheckpointRepository:
        return CheckpointRepository(self.location.open(), self.id)

    def is_saved(self) -> bool:
        """Returns True if the newest checkpoint has all that was sent."""
        newest = self.newest()
        return newest is not None and newest.inputs[self.topic][0].offset == self.sent

    def lose_disk(self) -> None:
        shutil.rmtree(self.state_dir)

    @property
    def task_directory(self) -> Path:
        return self.state_dir / self.id / "0_0"

    def has(self, prefix: str) -> bool:
        """Returns True if the directory of the task has a folder that begins with ``prefix``."""
        return any(self.task_directory.glob(f"{prefix}*"))

    def doing(self, app: KafkaStreams) -> str:
        """Returns what the task is doing. The folder of an upload may be left over from a killed actor."""
        if self.has(FETCHED):
            return "in a download"
        uploads = self.has(CHECKPOINT)
        if not is_running(app):
            return "before it runs"
        return "in an upload" if uploads else "while it runs"

    def hold(self) -> Held:
        """Make the next download of the newest checkpoint wait at the largest of its files."""
        newest = self.newest()
        assert newest is not None
        return Held(self.objects / self.id / max(newest.files.values(), key=lambda each: each.size).object)


class Held:
    """A file whose readers wait until they are killed or the file is released."""

    def __init__(self, file: Path) -> None:
        self._file, self._content = file, file.read_bytes()
        file.unlink()
        os.mkfifo(file)  # a reader waits for a writer

    def release(self) -> None:
        """Put the file back."""
        self._file.unlink()
        self._file.write_bytes(self._content)


@pytest.fixture
def counting(broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None) -> Iterator[Counting]:
    it = Counting(broker, topic_name("checkpointed"), tmp_path)
    yield it
    end_actors(it.id, find_coordinator(it.id))


def measured(app: KafkaStreams, name: str) -> float:
    (task,) = until_settled(app).tasks
    found = task.measured.get((TASK, name), 0)
    assert isinstance(found, int | float)
    return found


def count(app: KafkaStreams, key: int) -> object:
    return once_ready(lambda: app.store("counts").get(f"k{key}"))


@pytest.mark.submission
def test_a_lost_disk_is_restored_from_the_checkpoint_and_the_tail_of_the_changelog(counting: Counting) -> None:
    app = counting.started()
    counting.send(range(KEYS))
    eventually(counting.is_saved, "a checkpoint has all records")
    assert app.close()
    app = counting.started(**{"state.checkpoint.interval.ms": 3_600_000})
    counting.send(range(100))
    eventually(counting.has_committed, "the tail is committed")
    assert app.close()
    counting.lose_disk()
    newest = counting.newest()  # now: the application that is started takes another one after its interval
    assert newest is not None
    app = counting.started()
    (task,) = until_settled(app).tasks
    assert task.restore_total == 100, "only the tail of the changelog is read"
    assert measured(app, "checkpoint-restored-bytes") == newest.size
    assert [count(app, key) for key in (0, 99, 100, KEYS - 1)] == [2, 2, 1, 1]
    assert app.close()


@pytest.mark.long
def test_an_actor_that_is_killed_while_it_downloads_leaves_nothing_that_is_taken_for_state(counting: Counting) -> None:
    app = counting.started()
    counting.send(range(KEYS))
    eventually(counting.is_saved, "a checkpoint has all records")
    assert app.close()
    counting.lose_disk()
    newest = counting.newest()
    assert newest is not None
    held = counting.hold()
    app = start_without_waiting(counting)
    partial = counting.task_directory / "fetched-1.partial"
    eventually(lambda: len(list(partial.rglob("*"))) >= len(newest.files) - 1, "all other files are downloaded")
    eventually(lambda: [it.state.value for it in app.status().tasks] == ["restoring"], "the status names the download")
    pids = {actor.pid for actor in app.status().actors}
    assert pids
    for pid in pids:
        signal_ray_process(pid)
    assert partial.exists()
    held.release()
    eventually(lambda: bool(app.status().actors) and not pids & {it.pid for it in app.status().actors}, "another actor")
    app.wait_until_running(PATIENCE_S)
    assert [count(app, key) for key in (0, KEYS - 1)] == [1, 1]
    assert measured(app, "checkpoint-restored-bytes") == newest.size
    assert not partial.exists()
    assert app.close()


def start_without_waiting(counting: Counting) -> KafkaStreams:
    builder = StreamsBuilder()
    records = builder.stream(counting.topic, Consumed.with_(STRING, STRING))
    records.group_by_key().count(Materialized.as_("counts"))
    app = KafkaStreams(builder.build(), counting.config)
    app.start()
    return app


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_actors_that_are_killed_and_lose_their_disks_lose_nothing(counting: Counting, guarantee: str) -> None:
    """The kills come during uploads, during downloads, and between them."""
    seed = randrange(2**32)
    print("seed", seed)
    rng, keys, times, kills = Random(seed), KEYS // 3, 1, Counter[str]()
    counting.config |= {"processing.guarantee": guarantee, "state.checkpoint.interval.ms": 1000}
    app = counting.started()
    counting.send(range(KEYS))
    eventually(counting.is_saved, "a checkpoint has all records")
    while kills.total() < _KILLS:
        counting.send(range(keys))
        times += 1
        if rng.random() < 0.5:
            eventually(lambda: is_running(app), "the task runs")
            eventually(lambda: counting.has(CHECKPOINT), "an upload", look_each_s=0.001)
        else:
            time.sleep(rng.uniform(0, 3))  # the kill comes at any moment
        held = kill_actors(app, counting, kills, lose_disk=rng.random() < 0.7)
        if held is not None:
            eventually(lambda: counting.has(FETCHED) or is_running(app), "a download that waits", look_each_s=0.01)
            kill_actors(app, counting, kills, lose_disk=rng.random() < 0.5, held=held)
    app.wait_until_running(PATIENCE_S)
    eventually(counting.has_committed, "all is committed")
    print("kills", dict(kills))
    counts = [count(app, key) for key in (0, 1, keys - 1, keys)]
    if guarantee == "exactly_once_v2":
        assert counts == [times, times, times, 1]
    else:
        assert all(isinstance(found, int) and found >= times for found in counts[:3])
    assert not counting.has(FETCHED)
    assert app.close()


def kill_actors(
    app: KafkaStreams, counting: Counting, kills: Counter[str], *, lose_disk: bool, held: Held | None = None
) -> Held | None:
    """Kill the actors that there are, and wait for others. Returns the file at which the next download waits, if the
    disk is lost and ``held`` is None. Releases ``held``."""
    pids = {actor.pid for actor in running_actors(app)}
    kills[counting.doing(app)] += 1
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # the last one that was killed may still be listed
            signal_ray_process(pid)
    next_held = counting.hold() if lose_disk and held is None else None
    if lose_disk:
        shutil.rmtree(counting.task_directory, ignore_errors=True)
    if held is not None:
        held.release()
    eventually(lambda: bool({it.pid for it in running_actors(app)} - pids), "other actors")
    return next_held


def is_running(app: KafkaStreams) -> bool:
    with suppress(StreamsError):
        return [task.state.value for task in app.status().tasks] == ["running"]
    return False


def running_actors(app: KafkaStreams) -> list[ActorStatus]:
    try:
        return list(app.status().actors)
    except StreamsError:
        return []
