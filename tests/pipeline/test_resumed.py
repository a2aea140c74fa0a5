"""Processes are killed in the middle of a backfill: what is finished is not repeated, and the results are the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.common.errors import ApplicationStateError, ConfigError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.backfill.backfill import BackfillOptions, BackfillReport, backfill
from penstock.pipeline.backfill.bounds import bounds_of
from tests.pipeline.killed_program import app_of
from tests.waiting import PATIENCE_S, eventually

LINES = [f"{word} {number % 7}" for number, word in enumerate(["a", "b", "c", "d"] * 25)]
KILLS = 6
RESUME = BackfillOptions(resume=True)


class Interrupted:
    """An application with a hundred lines, and what a test wants to happen in its second stage."""

    def __init__(self, folder: Path, broker: str, lines: str) -> None:
        self.folder, self.broker, self.lines = folder, broker, lines
        self.clients = ConfluentClients(broker, lines)
        self.admin = self.clients.admin()
        self.admin.create_topics([NewTopic(lines, 4), NewTopic(f"{lines}-out", 1)])
        self.send()

    def send(self) -> None:
        """Write the lines, once more."""
        producer = self.clients.producer()
        for number, line in enumerate(LINES):
            producer.send(self.lines, None, line.encode(), number, partition=number % 4)
        assert producer.flush(60)
        producer.close()

    def app(self) -> ps.KafkaStreams:
        return app_of(str(self.folder), self.lines, self.broker)

    def order(self, what: str) -> None:
        (self.folder / "order").write_text(what)

    def calls(self, function: str) -> int:
        return sum(file.stat().st_size for file in self.folder.glob(f"{function}-*"))

    def backfill(self, options: BackfillOptions | None = None) -> BackfillReport:
        app = self.app()
        return backfill(app.topology, app.config, "local[2]", options=options)

    def counts(self) -> dict[str, int]:
        """Returns the last count of each key in the changelog."""
        partitions = [TopicPartition(f"{self.lines}-counts-changelog", number) for number in range(4)]
        consumer = self.clients.consumer()
        ends = consumer.fetch_end_offsets(partitions)
        consumer.assign(consumer.fetch_beginning_offsets(partitions))
        found: dict[str, int] = {}
        while any(consumer.position(at) < end for at, end in ends.items()):
            for batch in consumer.poll(1000, 0.1):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    assert key is not None
                    assert value is not None
                    found[key.decode()] = ps.Serdes.long().deserialize(value)
        consumer.close()
        return found

    def work(self) -> list[Path]:
        return [path for path in (self.folder / "state" / self.lines / "backfill").rglob("*") if path.is_file()]


EXPECTED = dict(Counter(line.split()[0] for line in LINES))


@pytest.fixture
def it(tmp_path: Path, broker: str, topic_name: Callable[[str], str]) -> Interrupted:
    return Interrupted(tmp_path, broker, topic_name("killed"))


@pytest.mark.usefixtures("shared_spark")
def test_a_worker_that_is_killed_ends_the_run_which_continues_with_what_is_missing(it: Interrupted) -> None:
    it.order("worker")
    with capture_logs() as logs, pytest.raises(StreamsError, match=r"sub-topology 1 failed over history: .*--resume"):
        it.backfill(RESUME)
    warned = [each["event"] for each in logs if each["log_level"] == "warning"]
    assert any("there is no unfinished backfill to continue" in event for event in warned), "it says that it begins"
    assert it.calls("first") == len(LINES)
    assert it.work()
    report = it.backfill(RESUME)
    assert it.calls("first") == len(LINES)
    assert report.read == {it.lines: len(LINES)}
    assert it.counts() == EXPECTED
    assert it.work() == []


@contextmanager
def running(it: Interrupted, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is killed at the end, with all that it has started."""
    environment = {**os.environ, "KILLED_LINES": it.lines, "KILLED_FOLDER": str(it.folder), "KILLED_BROKER": it.broker}
    command = [sys.executable, "-m", "penstock.cli.main", "backfill", "tests.pipeline.killed_program:app", *options]
    with subprocess.Popen(
        command, env=environment, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_a_driver_that_is_killed_is_continued_by_another_process(it: Interrupted) -> None:
    it.order("wait")
    with running(it, "--master", "local[2]"):
        eventually((it.folder / "done").exists, "the second stage has begun", PATIENCE_S)
    assert it.calls("first") == len(LINES)
    report = it.backfill(RESUME)
    assert it.calls("first") == len(LINES)
    assert report.read == {it.lines: len(LINES)}
    assert it.counts() == EXPECTED
    assert it.work() == []


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_kills_at_any_moments_lose_nothing_and_count_nothing_twice(it: Interrupted) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(KILLS):
        with running(it, "--master", "local[2]", "--resume") as process:
            try:
                process.wait(rng.uniform(5, 40))
            except subprocess.TimeoutExpired:
                continue
            break
    it.backfill(RESUME)
    assert it.counts() == EXPECTED
    committed = it.admin.committed(it.lines)
    assert [committed[TopicPartition(it.lines, number)].offset for number in range(4)] == [25] * 4
    assert it.work() == []
    it.app().check()


@pytest.mark.long
def test_an_executor_that_is_killed_loses_no_finished_stage(it: Interrupted) -> None:
    it.order("executor")
    place = it.folder / "place"
    with running(it, "--master", "local-cluster[2,1,1024]", "--work", str(place)) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert (it.folder / "done").exists()
    assert it.calls("first") == len(LINES)
    assert it.counts() == EXPECTED
    assert [path for path in place.rglob("*") if path.is_file()] == []


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_only_the_same_backfill_of_the_same_program_is_continued(
    it: Interrupted,
) -> None:
    it.order("worker")
    with pytest.raises(StreamsError, match="failed over history"):
        it.backfill()
    with pytest.raises(ConfigError, match=r"begun with no options, not with --until .*:0:3"):
        it.backfill(BackfillOptions(bounds_of(None, f"{it.lines}:0:3"), resume=True))
    app = it.app()
    other = ps.StreamsBuilder()
    other.stream(it.lines).to(f"{it.lines}-out")
    with pytest.raises(ApplicationStateError, match=r"the topology of .* has changed"):
        backfill(other.build(), app.config, "local[2]", options=RESUME)
    it.admin.delete_topics([f"{it.lines}-counts-changelog"])
    with pytest.raises(ApplicationStateError, match=r"-counts-changelog' was deleted, and perhaps created again"):
        it.backfill(RESUME)
    it.order("worker")
    with pytest.raises(StreamsError, match="failed over history"):
        it.backfill()
    at = TopicPartition(f"{it.lines}-counts-changelog", 1)
    producer = it.clients.producer()
    producer.send(*at[:1], b"k", b"v", 1, partition=at.partition)
    assert producer.flush(60)
    producer.close()
    with pytest.raises(ApplicationStateError, match=r"partition 1, ended at offset 0 .* and ends at 1 now"):
        it.backfill(RESUME)
    it.admin.commit(it.lines, {TopicPartition(it.lines, 0): CommittedOffset(1)})
    with pytest.raises(ApplicationStateError, match="has committed offsets since the unfinished backfill began"):
        it.backfill(RESUME)


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_a_hand_over_that_failed_half_way_is_continued_from_finished_stages(
    it: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.pipeline.backfill.hand_over import KafkaHandOver

    def fails(self: KafkaHandOver, offsets: object) -> None:
        raise StreamsError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(KafkaHandOver, "offsets", fails)
        with pytest.raises(StreamsError, match="power"):
            it.backfill()
    calls = it.calls("first"), it.calls("second")
    it.backfill(RESUME)
    assert (it.calls("first"), it.calls("second")) == calls
    assert it.counts() == EXPECTED
    it.app().check()
    again = it.backfill(RESUME)
    assert (again.read, again.written) == ({}, {})
