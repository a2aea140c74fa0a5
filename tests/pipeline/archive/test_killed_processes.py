"""Processes of Spark are killed while topics are archived: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.archive.verification import verify
from tests.pipeline.archive.archiving import Rig
from tests.pipeline.archive.killed_program import DONE
from tests.waiting import PATIENCE_S

LINES = 30_000
KILLS = 20


@pytest.fixture
def rig(broker: str, tmp_path: Path, spark: SparkSession) -> Rig:
    return Rig(broker, tmp_path / "archive", spark)


def run(rig: Rig, topics: str, who: str, request: int, master: str) -> subprocess.CompletedProcess[str]:
    """Run the program until it ends. A process of Spark may outlive it and hold a pipe: so a file takes its output."""
    command = [sys.executable, "-m", "tests.pipeline.archive.killed_program"]
    command += [rig.broker, rig.location.url, topics, who, str(request), master]
    with tempfile.TemporaryFile("w+") as output:
        ended = subprocess.run(command, stdout=output, stderr=output, timeout=2 * PATIENCE_S, check=False)
        output.seek(0)
        return subprocess.CompletedProcess(command, ended.returncode, "", output.read())


def filled(rig: Rig, topic_name: Callable[[str], str]) -> list[str]:
    lines, others = topic_name("lines"), topic_name("others")
    rig.create(lines, 2)
    rig.create(others)
    for partition in (0, 1):
        rig.send(lines, (f"{number:0100}" for number in range(LINES)), partition)
    rig.send(others, map(str, range(100)))
    return [lines, others]


def check_whole(rig: Rig, topics: list[str]) -> None:
    for topic in topics:
        assert rig.rows(topic) == rig.in_kafka(topic)
        assert [report.problems for report in verify(rig.objects, rig.archived(topic), None)].count([]) > 0


def was_killed(rig: Rig) -> bool:
    return Path(f"{rig.location.url}-{DONE}").exists()


@pytest.mark.submission
def test_a_driver_that_is_killed_is_continued_by_the_next_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, ",".join(topics), "driver", 24, "local[2]")
    assert (ended.returncode, was_killed(rig)) == (-9, True), ended.stderr
    rig.archive(*topics)
    check_whole(rig, topics)


@pytest.mark.submission
def test_a_worker_that_is_killed_is_replaced_within_the_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, ",".join(topics), "worker", 1, "local[2,3]")
    assert (ended.returncode, was_killed(rig)) == (0, True), ended.stderr
    check_whole(rig, topics)


@pytest.mark.long
def test_an_executor_that_is_killed_is_replaced_within_the_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, ",".join(topics), "executor", 1, "local-cluster[2,1,1024]")
    assert (ended.returncode, was_killed(rig)) == (0, True), ended.stderr
    check_whole(rig, topics)


@pytest.mark.long
def test_kills_at_random_requests_lose_nothing_and_double_nothing(rig: Rig, topic_name: Callable[[str], str]) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    topics = filled(rig, topic_name)
    kills = 0
    for _ in range(KILLS):
        who = chance.choice(["driver", "driver", "worker"])
        ended = run(rig, ",".join(topics), who, chance.randrange(1, 60 if who == "driver" else 3), "local[2]")
        kills += was_killed(rig)
        Path(f"{rig.location.url}-{DONE}").unlink(missing_ok=True)
        if ended.returncode == 0:
            check_whole(rig, topics)
        for partition in (0, 1):
            rig.send(topics[0], (f"{number:0100}" for number in range(LINES)), partition)
    assert kills >= KILLS // 2
    rig.archive(*topics)
    check_whole(rig, topics)
