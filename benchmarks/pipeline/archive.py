"""Measures ``penstock archive`` beside Spark's own stream into Parquet: ``python -m benchmarks.pipeline.archive``."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.pipeline.figures import Figure, ratios
from penstock.common.config import StreamsConfig
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker
from penstock.kafka.local_broker.jars import resolve
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.opening import ArchiveTask, check, open_run
from penstock.pipeline.archive.run import ArchiveRun
from penstock.pipeline.archive.spark_tasks import SparkTasks
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_session import spark_session

TOPIC, WARM = "records", "warm"
PARTITIONS, VALUE_BYTES, KEYS = 4, 180, 100_000
"""A record has 200 bytes: a key of 20 and a value of 180, half of which repeats in all records."""
_WARM_RECORDS = 50_000


def fill(clients: ConfluentClients, topic: str, records: int, hot: bool) -> None:
    """Write the records. ``hot``: nine of ten into the first partition."""
    clients.admin().create_topics([NewTopic(topic, PARTITIONS)])
    noise = random.Random(7).randbytes(1 << 20)
    constant = b"x" * (VALUE_BYTES // 2)
    producer = clients.producer()
    for number in range(records):
        begin = number * 97 % (len(noise) - VALUE_BYTES)
        value = constant + noise[begin : begin + VALUE_BYTES - len(constant)]
        key = b"key-%016d" % (number * 7919 % KEYS)
        partition = 0 if hot and number % 10 else number % PARTITIONS
        producer.send(topic, key, value, 1_700_000_000_000 + number, partition=partition)
    assert producer.flush(120)
    producer.close()


def ours(spark: SparkSession, clients: ConfluentClients, folder: Path, topic: str) -> None:
    """Archive the topic."""
    task = ArchiveTask([topic], ObjectLocation(str(folder)), clients)
    objects = task.location.open()
    check(task, objects)
    ArchiveRun(task, open_run(task, objects), SparkTasks(spark), lambda batch: None).run()


def sparks(spark: SparkSession, clients: ConfluentClients, folder: Path, topic: str) -> None:
    """Have Spark write the same columns by its own sink."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", clients.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "5000000")
        .load()
        .select("key", "value", "topic", "partition", "offset", "timestamp", "headers")
    )
    written = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}-checkpoint")
    written.trigger(availableNow=True).start(str(folder)).awaitTermination()


Way = Callable[[SparkSession, ConfluentClients, Path, str], None]


def measured(way: Way, spark: SparkSession, clients: ConfluentClients, folder: Path, topic: str) -> tuple[float, float]:
    """Returns the seconds and the CPU seconds of this process and its children, Spark's, that a way takes."""
    cpu, began = _cpu_s(), time.monotonic()
    way(spark, clients, folder, topic)
    return time.monotonic() - began, _cpu_s() - cpu


def _cpu_s() -> float:
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            if "kafka.Kafka" not in process.cmdline():
                used = process.cpu_times()
                total += used.user + used.system + used.children_user + used.children_system
    return total


def measure(records: int, repeat: int, hot: bool = False) -> list[Figure]:
    """Fill a topic on a broker of its own, and archive it both ways in turn."""
    rates: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as work, LocalBroker(Path(work) / "broker", port=0) as status:
        config = {
            "application.id": "bench-archive",
            "bootstrap.servers": status.bootstrap_servers,
            "consumer.isolation.level": "read_committed",
        }
        clients = ConfluentClients.of(StreamsConfig.of(config))
        fill(clients, WARM, _WARM_RECORDS, hot)
        fill(clients, TOPIC, records, hot)
        ways: dict[str, Way] = {"penstock archive": ours, "Spark's Parquet sink": sparks}
        connector = resolve([f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"], "spark-kafka")
        place = SparkPlace(f"local[{os.cpu_count()}]", {"spark.jars": ",".join(map(str, connector))})
        with spark_session(place, "bench-archive") as spark:
            for name, way in ways.items():
                measured(way, spark, clients, Path(work) / f"warm-{name}", WARM)
            for turn in range(repeat):
                for name, way in ways.items():
                    folder = Path(work) / f"{turn}-{name}"
                    seconds, cpu = measured(way, spark, clients, folder, TOPIC)
                    size = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6
                    rate, each = records / seconds, records / cpu
                    rates.setdefault(name, []).append((rate, each))
                    print(f"{name:22} {seconds:6.1f} s {rate:10,.0f}/s {each:10,.0f}/CPU s {size:8,.0f} MB", flush=True)
                    shutil.rmtree(folder)
    (own, own_cpu), (sink, sink_cpu) = (list(zip(*rates[name], strict=True)) for name in ways)
    shape = f"{records:,} records of 200 bytes, {'most in one of ' if hot else ''}{PARTITIONS} partitions"
    return [
        Figure("archive", f"{shape}: records/s", own, at_least=150_000),
        Figure("archive", "beside Spark's Parquet sink", ratios(own, sink), ".2f", at_least=0.8),
        Figure("archive", "the same, per CPU second", ratios(own_cpu, sink_cpu), ".2f"),
    ]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--hot", action="store_true", help="nine of ten records are in one partition")
    given = parser.parse_args()
    for figure in measure(given.records, given.repeat, given.hot):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    main()
