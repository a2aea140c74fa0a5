"""Processes of Spark are killed while topics are archived: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.archive.verification import verify
from tests.pipeline.archive.archiving import Rig
from tests.pipeline.archive.killed_program import BEGINS, COMMITS, DONE, PHASES, WRITES
from tests.waiting import PATIENCE_S

LINES = 10_000
KILLS = 20


@pytest.fixture
def rig(broker: str, tmp_path: Path, spark: SparkSession) -> Rig:
    return Rig(broker, tmp_path / "archive", spark)


def run(rig: Rig, topics: list[str], master: str, *kill: str) -> subprocess.CompletedProcess[str]:
    """Run the program until it ends. A process of Spark may outlive it and hold a pipe: so a file takes its output."""
    command = [sys.executable, "-m", "tests.pipeline.archive.killed_program"]
    command += [rig.broker, rig.location.url, ",".join(topics), master, *kill]
    with tempfile.TemporaryFile("w+") as output:
        ended = subprocess.run(command, stdout=output, stderr=output, timeout=2 * PATIENCE_S, check=False)
        output.seek(0)
        return subprocess.CompletedProcess(command, ended.returncode, "", output.read())


def filled(rig: Rig, topic_name: Callable[[str], str]) -> list[str]:
    lines, others = topic_name("lines"), topic_name("others")
    rig.create(lines, 2)
    rig.create(others)
    more(rig, lines)
    rig.send(others, map(str, range(100)))
    return [lines, others]


def more(rig: Rig, topic: str) -> None:
    for partition in (0, 1):
        rig.send(topic, (f"{number:0100}" for number in range(LINES)), partition)


def check_whole(rig: Rig, topics: list[str]) -> None:
    for topic in topics:
        assert rig.rows(topic) == rig.in_kafka(topic)
        assert [report.problems for report in verify(rig.objects, rig.archived(topic), None)].count([]) > 0


def was_killed(rig: Rig) -> bool:
    return Path(f"{rig.location.url}-{DONE}").exists()


@pytest.mark.submission
def test_a_driver_that_is_killed_is_continued_by_the_next_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, topics, "local[2]", "driver", COMMITS, "3", "after")
    assert (ended.returncode, was_killed(rig)) == (-9, True), ended.stderr
    rig.archive(*topics)
    check_whole(rig, topics)


@pytest.mark.long
def test_a_worker_that_is_killed_is_replaced_within_the_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, topics, "local[2,3]", "worker", WRITES, "1", "before")
    assert (ended.returncode, was_killed(rig)) == (0, True), ended.stderr
    check_whole(rig, topics)


@pytest.mark.long
def test_an_executor_that_is_killed_is_replaced_within_the_run(rig: Rig, topic_name: Callable[[str], str]) -> None:
    topics = filled(rig, topic_name)
    ended = run(rig, topics, "local-cluster[2,1,1024]", "executor", WRITES, "1", "after")
    assert (ended.returncode, was_killed(rig)) == (0, True), ended.stderr
    check_whole(rig, topics)


@pytest.mark.long
def test_twenty_kills_in_all_phases_lose_and_double_nothing(rig: Rig, topic_name: Callable[[str], str]) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance, kills, runs = random.Random(seed), Counter[str](), 0
    phases = [(victim, phase) for victim, its in PHASES.items() for phase in its if phase != BEGINS]
    next_kills = [("driver", BEGINS), *chance.sample(phases, len(phases))]  # the first run alone begins generations
    topics = filled(rig, topic_name)
    while kills.total() < KILLS:
        victim, phase = next_kills.pop(0) if next_kills else chance.choice(phases)
        when = chance.choice(["before", "after"])
        ended = run(rig, topics, "local[2]", victim, phase, str(chance.randrange(1, 3)), when)
        runs += 1
        if was_killed(rig):
            Path(f"{rig.location.url}-{DONE}").unlink()
            assert ended.returncode == (-9 if victim == "driver" else 1), ended.stderr
            kills[f"{victim}, {phase}, {when}"] += 1
            print(f"{kills.total()}: {victim}, {phase}, {when}")
        else:
            assert ended.returncode == 0, ended.stderr
            check_whole(rig, topics)
        more(rig, topics[0])
    print("kills", dict(sorted(kills.items())), "in", runs, "runs")
    rig.archive(*topics)
    check_whole(rig, topics)
