"""Ctrl-C in the commands that run Spark: exit code 130, one message that says how to continue, and no process left."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.tiers import sampled
from tests.waiting import PATIENCE_S, eventually

TIMES = 7
"""Number of interruptions of each of the three commands."""
PENSTOCK = Path(sys.executable).with_name("penstock")
PROGRAM = """
import os, time
import penstock as ps

def slow(value):
    time.sleep(600)
    return value

builder = ps.StreamsBuilder()
text = ps.Serdes.string()
slowly_written = ps.Serde("slow", lambda value: slow(value).encode(), bytes.decode)
builder.stream(os.environ["INPUT"], ps.Consumed.with_(text, text)).map_values(slow).to(
    os.environ["INPUT"] + "-out", ps.Produced.with_(text, text)
)
app = ps.KafkaStreams(builder.build(), {
    "application.id": os.environ["INPUT"], "bootstrap.servers": os.environ["BROKER"], "state.dir": os.environ["STATE"],
})
"""
SENTENCES = {
    "archive": "The archiving of {topic} was interrupted. Run it again: it continues where it ended",
    "backfill": "The backfill of program:app was interrupted. Run it again: with --resume it continues from what is "
    "finished. State and offsets come out the same; results that it had written are written again",
    "ingest": "The ingest into {topic} was interrupted. Run it again: it continues where it ended",
}
WRONG = re.compile("Traceback|Error|Exception|interrupted|killed")


class Commands:
    """A topic that gets a record before each command, a file with a row, and commands that take them slowly."""

    def __init__(self, broker: str, topic: str, folder: Path) -> None:
        self._broker, self._topic, self._folder = broker, topic, folder
        self._clients = ConfluentClients(broker, topic)
        self._clients.admin().create_topics([NewTopic(topic, 1), NewTopic(f"{topic}-out", 1)])
        (folder / "program.py").write_text(PROGRAM)
        (folder / "rows.jsonl").write_text('{"value": "two"}\n')

    def start(self, name: str) -> subprocess.Popen[str]:
        """Start a command in a session of its own: all of its processes belong to it."""
        producer = self._clients.producer()
        producer.send(self._topic, None, b"one", 1, partition=0)
        assert producer.flush(60)
        producer.close()
        options = {
            "archive": [self._topic, "--to", f"{self._folder}/archive", "-b", self._broker, "--every", "0.1"],
            "backfill": ["program:app"],
            "ingest": [
                f"{self._folder}/rows.jsonl", "--topic", self._topic, "-b", self._broker,
                "--value-column", "value", "--value", "program:slowly_written",
            ],
        }[name]  # fmt: skip
        environment = {
            **os.environ, "INPUT": self._topic, "STATE": f"{self._folder}/state", "BROKER": self._broker,
        }  # fmt: skip
        return subprocess.Popen(
            [PENSTOCK, name, *options, "--master", "local[1]"], cwd=self._folder, env=environment, text=True,
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def interrupt(self, name: str, moment: str, later_s: float) -> None:
        """Run a command, press Ctrl-C ``later_s`` after ``moment``, and check how the command ends."""
        process = self.start(name)
        try:
            eventually(lambda: MOMENTS[moment](process) or process.poll() is not None, moment, look_each_s=0.1)
            time.sleep(later_s)  # any moment will do
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Spark's processes, too
            output, errors = process.communicate(timeout=PATIENCE_S)
            # A process that got the signal may take a moment.
            eventually(lambda: not session_of(process), f"all processes of {name} end after {moment!r}", 60)
        finally:
            left = session_of(process)
            for each in left:
                each.kill()
        shown = f"{name}, {later_s:.2f} s after {moment!r}: {output}\n{errors}"
        assert process.returncode == 130, shown
        *progress, last = errors.splitlines()
        assert last == SENTENCES[name].format(topic=self._topic), shown
        assert not any(WRONG.search(line) for line in progress), shown
        assert left == [], shown


def session_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Returns the processes of a session that still run."""
    found = []
    for each in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(each.pid) == process.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def has(text: str) -> Callable[[subprocess.Popen[str]], bool]:
    """Returns a condition: the command has started a process whose command line contains ``text``."""

    def holds(process: subprocess.Popen[str]) -> bool:
        found = []
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(process.pid).children(recursive=True)
        for each in found:
            with suppress(psutil.NoSuchProcess):  # also a zombie
                if any(text in part for part in each.cmdline()):
                    return True
        return False

    return holds


def uses_kafka(process: subprocess.Popen[str]) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("librdkafka" in each.path for each in psutil.Process(process.pid).memory_maps())
    return False


MOMENTS: dict[str, Callable[[subprocess.Popen[str]], bool]] = {
    "Kafka is asked": uses_kafka,
    "Java is started": has(""),
    "Spark is started": has("org.apache.spark.deploy.SparkSubmit"),
    "workers run": has("pyspark.daemon"),
}


@pytest.fixture
def commands(broker: str, topic_name: Callable[[str], str], tmp_path: Path) -> Commands:
    return Commands(broker, topic_name("interrupted"), tmp_path)


@pytest.mark.submission
@pytest.mark.parametrize("name", sampled(SENTENCES, every=len(SENTENCES)))
def test_ctrl_c_ends_a_command_and_its_spark_with_one_message(commands: Commands, name: str) -> None:
    commands.interrupt(name, "workers run", 0.0)


@pytest.mark.long
@pytest.mark.parametrize("name", SENTENCES)
def test_ctrl_c_at_any_moment_ends_a_command_and_its_spark_with_one_message(commands: Commands, name: str) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for moment in rng.choices(list(MOMENTS), k=TIMES):
        later_s = rng.choice([0.0, rng.uniform(0, 4)])
        print(f"{later_s:.2f} s after {moment!r}")
        commands.interrupt(name, moment, later_s)
