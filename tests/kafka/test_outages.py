"""Outages of all lengths around that of a session: none ends a process that asks Kafka meanwhile."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin
from tests.faults.rig import Kafka, kafka_behind_a_proxy
from tests.kafka.outage_programs import SESSION_MS
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("outages")

SEED = 21
FEW = (0.5, 1.1, 2.0)
"""Lengths of the outages that ``make test`` can afford, in sessions."""
MANY = 50
BACK_S = 120.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka that allows short sessions, so that outages may be short."""
    shortest = {"group.min.session.timeout.ms": str(SESSION_MS // 2)}
    with kafka_behind_a_proxy(tmp_path_factory.mktemp("outages"), shortest) as it:
        yield it


def lengths(request: pytest.FixtureRequest) -> list[float]:
    """The lengths of the outages in sessions: from a tenth of one to three, most of them about one."""
    if request.param == "few":
        return list(FEW)
    drawn = random.Random(SEED)
    print(f"seed {SEED}")
    return [drawn.choice([drawn.uniform(0.1, 3.0), drawn.uniform(0.8, 1.4)]) for _ in range(MANY)]


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.faults)])
def outages(request: pytest.FixtureRequest) -> list[float]:
    return lengths(request)


class Program:
    """A program of ``outage_programs.py``; ``message`` is the last line that it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._messages, self._errors = folder / "message", folder / "errors"
        with self._messages.open("w") as message, self._errors.open("w") as errors:
            command = [sys.executable, "-m", "tests.kafka.outage_programs", *arguments]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=message, stderr=errors)

    @property
    def message(self) -> str:
        lines = self._messages.read_text().rpartition("\n")[0].splitlines()
        return lines[-1] if lines else ""

    def await_more(self, than: int, progress: Callable[[], int], what: str) -> None:
        """Waits for progress beyond ``than``. Fails if the process has ended."""

        def more() -> bool:
            assert self._process.poll() is None, self._errors.read_text()[-4000:]
            return progress() > than

        eventually(more, what, BACK_S)

    def end(self) -> None:
        self._process.communicate()


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[Program]:
    it = Program(folder, *arguments)
    try:
        yield it
    finally:
        it.end()


def play(kafka: Kafka, outages: list[float], it: Program, progress: Callable[[], int]) -> None:
    """Plays the outages, and waits for progress again after each."""
    it.await_more(0, progress, "the program works")
    for length in outages:
        kafka.proxy.cut()
        time.sleep(length * SESSION_MS / 1000)  # the outage itself
        before = progress()
        kafka.proxy.heal()
        it.await_more(before, progress, f"it goes on after {length:.2f} sessions")


def topic_on(kafka: Kafka, name: str) -> Admin:
    admin = ConfluentClients(kafka.address, "nobody").admin()
    admin.create_topics([NewTopic(name, 1)])
    return admin


@pytest.mark.long
def test_a_static_member_remains_or_joins_again_after_every_outage(
    kafka: Kafka, outages: list[float], topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = group = topic_name("member")
    admin, here = topic_on(kafka, topic), TopicPartition(topic, 0)

    def committed() -> int:
        found = admin.committed(group)
        return found[here].offset if found else 0

    with program(tmp_path, "member", kafka.proxy.address, group, topic) as it:
        play(kafka, outages, it, committed)


@pytest.mark.long
def test_no_question_to_a_broker_that_goes_away_ends_the_process(
    kafka: Kafka, outages: list[float], topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """DescribeConsumerGroups and AlterConsumerGroupOffsets ended it within some ten outages (librdkafka 2.16)."""
    topic = group = topic_name("questions")
    topic_on(kafka, topic)

    def least_answered() -> int:
        answers: dict[str, int] = json.loads(it.message or "{}")
        return min(answers.values()) if len(answers) == 8 else 0

    with program(tmp_path, "questions", kafka.proxy.address, group, topic) as it:
        play(kafka, outages, it, least_answered)
