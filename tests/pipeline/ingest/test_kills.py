"""``penstock ingest`` with Spark on a real broker: the driver, or a worker, is killed -9, and a rerun continues."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.common.ids import TopicPartition
from penstock.common.secrets import Entries
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from tests.waiting import eventually

FILES, ROWS, PARTITIONS = 4, 60_000, 3
READ_COMMITTED = Entries({"isolation.level": "read_committed"})


class Load:
    """Four files, a topic, and the command that ingests them."""

    def __init__(self, broker: str, topic: str, folder: Path) -> None:
        self.topic = topic
        self.clients = ConfluentClients(broker, topic, READ_COMMITTED)
        self.clients.admin().create_topics([NewTopic(topic, PARTITIONS)])
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._command = [
            sys.executable, "-m", "penstock.cli.main", "ingest", str(folder), "--topic", topic, "-b", broker,
            "--key-column", "key", "--master", "local[2]",
        ]  # fmt: skip
        for file in range(FILES):
            keys = [f"k{row % 50}" for row in range(ROWS)]
            table = pa.table({"key": keys, "file": [file] * ROWS, "row": range(ROWS)})
            parquet.write_table(table, folder / f"{file}.parquet")

    def start(self) -> subprocess.Popen[str]:
        """Start the command, in a group of processes of its own."""
        return subprocess.Popen(
            self._command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )

    def committed(self) -> int:
        """Returns an estimate of the number of committed records."""
        return sum(self.clients.admin().end_offsets(self._partitions).values())

    def require_each_once_and_in_order(self) -> None:
        """Require one record of each row, in the order of its file within each partition."""
        rows: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        ends = self.clients.admin().end_offsets(self._partitions)
        with closing(self.clients.consumer()) as consumer:
            consumer.assign(dict.fromkeys(self._partitions, BEGINNING))

            def read() -> bool:
                for batch in consumer.poll(10_000, 0.2):
                    for content in batch.values:
                        value = msgspec.json.decode(content or b"")
                        rows[value["file"], batch.partition.partition].append(value["row"])
                return all(consumer.position(partition) >= end for partition, end in ends.items())

            eventually(read, "all records are read", look_each_s=0)
        counts = Counter((file, row) for (file, _), found in rows.items() for row in found)
        assert counts == {(file, row): 1 for file in range(FILES) for row in range(ROWS)}
        assert all(found == sorted(found) for found in rows.values())


def kill_driver(process: subprocess.Popen[str]) -> None:
    """Kill the driver; the Java and the workers that it has started live on until they notice."""
    process.kill()


def kill_worker(process: subprocess.Popen[str]) -> None:
    """Kill the workers that write, as if their executor was lost; none if the command has just ended by itself."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for child in children:
        try:
            if "pyspark.daemon" in child.cmdline():
                child.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def play(load: Load, draw: random.Random, kills: Sequence[Callable[[subprocess.Popen[str]], None]]) -> None:
    """Run the ingest once for each of the ``kills``, each at a moment of its own, then to its end; check the topic."""
    for kill in kills:
        before, process = load.committed(), load.start()
        try:
            at = draw.choice([0, draw.randrange(FILES * ROWS // 2)])

            def is_due(at: int = at, before: int = before, process: subprocess.Popen[str] = process) -> bool:
                return load.committed() > before + at or process.poll() is not None

            eventually(is_due, f"{at} records more")
            kill(process)
            output, _ = process.communicate()
            assert process.returncode in (0, 1, -signal.SIGKILL), output
            if process.returncode == 1:
                assert "Run it again" in output or "run it again" in output, output
                assert "Traceback" not in output.splitlines()[-1]
        finally:
            end(process)
    process = load.start()
    try:
        output, _ = process.communicate()
        assert process.returncode == 0, output
    finally:
        end(process)
    load.require_each_once_and_in_order()


def end(process: subprocess.Popen[str]) -> None:
    """End what is left of a command."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.long
def test_a_killed_driver_and_a_killed_worker_lose_and_double_nothing(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    play(Load(broker, topic_name("killed"), tmp_path), random.Random(1), [kill_driver, kill_worker])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_twenty_kills_from_seeds_lose_and_double_nothing(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    kills = [draw.choice([kill_driver, kill_worker]) for _ in range(4)]
    play(Load(broker, topic_name(f"killed-{seed}"), tmp_path), draw, kills)
