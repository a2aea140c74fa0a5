"""How long an application is silent when its busiest stream actor is killed: ``python -m benchmarks.failover``.

On a Ray of two nodes, with a store of so many bytes. Before, between and after the kills, records are sent at an even
pace to each partition, with the time when they were sent; how late each result comes is their end-to-end latency.
"""

from __future__ import annotations

import logging
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import ray
import typer
from ray.cluster_utils import Cluster
from rich.console import Console
from rich.table import Table

import penstock as ps
from benchmarks.measure import BenchmarkError
from benchmarks.penstock_side import ENVIRONMENT
from benchmarks.report import surroundings
from benchmarks.rig import broker
from penstock.cluster.names import NAMESPACE
from penstock.cluster.read_side import ActorStatus, ApplicationState, ApplicationStatus
from penstock.common.ids import TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import END

_APPLICATION, _INPUT, _OUTPUT = "failover", "entries", "changes"
_PATIENCE_S = 600.0
_STEADY_S = 5.0
_VALUE_BYTES = 500
_LAG = 1000


def topology() -> ps.Topology:
    """The last value of each key."""
    builder = ps.StreamsBuilder()
    serdes = ps.Serdes.string(), ps.Serdes.bytes()
    (
        builder.stream(_INPUT, ps.Consumed.with_(*serdes))
        .group_by_key()
        .reduce(lambda _, last: last, ps.Materialized.as_("last").with_caching_disabled())
        .to_stream()
        .to(_OUTPUT, ps.Produced.with_(*serdes))
    )
    return builder.build()


@dataclass(frozen=True)
class Heard:
    """A result of one partition: when its record was sent, and when it came (s)."""

    sent_s: float
    at_s: float

    @property
    def latency_ms(self) -> float:
        """How late it is."""
        return (self.at_s - self.sent_s) * 1000


@dataclass(frozen=True)
class Setting:
    """How large the application is."""

    tasks: int
    nodes: int
    standbys: int
    guarantee: str

    def is_at_rest(self, status: ApplicationStatus, but: str = "") -> bool:
        """RUNNING, with all processed and every copy caught up; without the actor ``but``."""
        if status.state is not ApplicationState.RUNNING or any(actor.actor_id == but for actor in status.actors):
            return False
        copies = [standby for actor in status.actors for standby in actor.standbys]
        caught_up = len(copies) == self.tasks * self.standbys and all(copy.lag < _LAG for copy in copies)
        balanced = len(status.actors) == self.nodes and all(actor.tasks for actor in status.actors)
        tasks = status.tasks
        return (
            caught_up and balanced and len(tasks) == self.tasks and all(task.lags and task.lag < _LAG for task in tasks)
        )


class Pulse:
    """Sends records at an even pace, and hears their results, in two threads."""

    def __init__(self, clients: ConfluentClients, partitions: int, per_second: int) -> None:
        self.heard: dict[int, list[Heard]] = defaultdict(list)
        self._clients = clients
        self._partitions = partitions
        self._pause_s = 1 / per_second
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=it, daemon=True) for it in (self._send, self._hear)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        keys = {}
        number = 0
        while len(keys) < self._partitions:
            key = f"pulse-{number}".encode()
            keys.setdefault(partition_for(key, self._partitions), key)
            number += 1
        producer, due_s, at = self._clients.producer(), time.monotonic(), 0
        while not self._ending.is_set():
            at = (at + 1) % self._partitions
            sent = f"{time.time():.6f}".encode()
            producer.send(_INPUT, keys[at], sent, int(time.time() * 1000), None, at)
            producer.poll()
            due_s += self._pause_s
            time.sleep(max(0.0, due_s - time.monotonic()))
        producer.flush(10)
        producer.close()

    def _hear(self) -> None:
        consumer = self._clients.consumer()
        consumer.assign({TopicPartition(_OUTPUT, number): END for number in range(self._partitions)})
        while not self._ending.is_set():
            for batch in consumer.poll(10_000, 0.1):
                now_s, heard = time.time(), self.heard[batch.partition.partition]
                heard += [
                    Heard(float(value), now_s)
                    for key, value in zip(batch.keys, batch.values, strict=True)
                    if key is not None and value is not None and key.startswith(b"pulse-")
                ]
        consumer.close()

    def silence_s(self, partition: int, since_s: float) -> float | None:
        """How long no result of ``partition`` came, around ``since_s``; None while none has come since."""
        heard = list(self.heard[partition])
        before = [it.at_s for it in heard if it.at_s <= since_s]
        # What was on its way when the actor died is no sign of life.
        after = [it.at_s for it in heard if it.at_s > since_s and it.sent_s > since_s]
        return min(after) - max(before[-1:], default=since_s) if after else None

    def latencies_ms(self, begin_s: float, end_s: float) -> list[float]:
        """Of all records that were sent between the two, sorted."""
        return sorted(it.latency_ms for of in self.heard.values() for it in list(of) if begin_s <= it.sent_s < end_s)

    def close(self) -> None:
        """End both threads."""
        self._ending.set()
        for thread in self._threads:
            thread.join()


@dataclass(frozen=True)
class Failover:
    """What one kill came to. ``silent_s``: until the first new result of each partition that the actor had."""

    silent_s: dict[int, float]
    at_rest_s: float
    before_ms: list[float]
    strip_ms: list[tuple[float, float]]


class Bench:
    """The application with its state; :meth:`kill` may be called any number of times."""

    def __init__(self, clients: ConfluentClients, app: ps.KafkaStreams, setting: Setting) -> None:
        self._clients, self._app, self._setting = clients, app, setting

    def fill(self, records: int) -> None:
        """Write the records that the state is made of, and wait until all of it stands."""
        producer, value = self._clients.producer(), os.urandom(_VALUE_BYTES)
        for number in range(records):
            producer.send(_INPUT, b"key-%d" % number, b"%d " % number + value, 1)
            if not number % 1000:
                producer.poll()
        producer.flush(600)
        producer.close()
        self.until(self._setting.is_at_rest, "all is processed")

    def until(self, condition: Callable[[ApplicationStatus], bool], what: str) -> ApplicationStatus:
        """Wait for it. Raises BenchmarkError."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            status = self._app.status()
            if status is not None and condition(status):
                return status
            time.sleep(0.05)
        raise BenchmarkError(f"not within {_PATIENCE_S:.0f} s: {what}")

    def kill(self, pulse: Pulse) -> Failover:
        """kill -9 of the actor with most tasks, while records come at the pace of ``pulse``."""
        time.sleep(_STEADY_S)
        status = self._app.status()
        assert status is not None
        busiest: ActorStatus = max(status.actors, key=lambda actor: (len(actor.tasks), actor.actor_id))
        lost = sorted(task.task_id.partition for task in busiest.tasks)
        killed_s = time.time()
        os.kill(busiest.pid, signal.SIGKILL)
        silent: dict[int, float] = {}
        while len(silent) < len(lost) and time.time() < killed_s + _PATIENCE_S:
            for partition in lost:
                if partition not in silent and (found := pulse.silence_s(partition, killed_s)) is not None:
                    silent[partition] = found
            time.sleep(0.005)
        self.until(lambda now: self._setting.is_at_rest(now, but=busiest.actor_id), "all is at rest")
        rest_s = time.time() - killed_s
        time.sleep(1.0)
        strip = [pulse.latencies_ms(killed_s + second, killed_s + second + 1) for second in range(-2, 8)]
        shown = [(statistics.median(it), it[-1]) if it else (0.0, 0.0) for it in strip]
        return Failover(silent, rest_s, pulse.latencies_ms(killed_s - _STEADY_S + 1, killed_s - 1), shown)


@contextmanager
def application(work: Path, address: str, setting: Setting) -> Iterator[ps.KafkaStreams]:
    """The application on its nodes; all ends with the block."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    os.environ.update(ENVIRONMENT)
    settings: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    try:
        for _ in range(setting.nodes - 1):
            cluster.add_node(**settings)
        ray.init(cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        app = ps.KafkaStreams(
            topology(),
            {
                "application.id": _APPLICATION,
                "bootstrap.servers": address,
                "state.dir": work / "state",
                "application.server": "",
                "processing.guarantee": setting.guarantee,
                "commit.interval.ms": 100,
                "num.standby.replicas": setting.standbys,
                "tasks.per.actor": -(-setting.tasks // setting.nodes),
            },
        )
        app.start()
        try:
            app.wait_until_running()
            yield app
        finally:
            app.close(60)
    finally:
        ray.shutdown()
        cluster.shutdown()


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="What the store comes to.")] = 1000,
    tasks: Annotated[int, typer.Option(min=1, help="Partitions of the input.")] = 4,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the Ray cluster, with a stream actor on each.")] = 2,
    standbys: Annotated[int, typer.Option(min=0, help="num.standby.replicas, fewer than nodes.")] = 1,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "at_least_once",
    per_second: Annotated[int, typer.Option(min=10, help="Records that are sent to all partitions.")] = 1000,
    kills: Annotated[int, typer.Option(min=1, help="How often the busiest actor is killed.")] = 5,
) -> None:
    """Measure how long results stay away after kill -9 of the busiest stream actor."""
    console, setting = Console(), Setting(tasks, nodes, standbys, guarantee)
    try:
        with broker(console) as (work, address):
            isolation = {"isolation.level": "read_committed"} if guarantee == "exactly_once_v2" else {}
            clients = ConfluentClients(address, "benchmarks", isolation)
            clients.admin().create_topics([NewTopic(name, tasks) for name in (_INPUT, _OUTPUT)])
            with application(work, address, setting) as app:
                bench = Bench(clients, app, setting)
                with console.status(f"Filling the store: {megabytes} MB"):
                    bench.fill(megabytes * 1_000_000 // _VALUE_BYTES)
                pulse = Pulse(clients, tasks, per_second)
                try:
                    found = [bench.kill(pulse) for _ in range(kills)]
                finally:
                    pulse.close()
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    _show(
        console,
        found,
        f"{megabytes} MB, {tasks} tasks, {nodes} nodes, {standbys} standbys, {guarantee}, {per_second}/s",
    )


def _show(console: Console, found: list[Failover], title: str) -> None:
    table = Table("kill", "silent, s", "at rest, s", "p50 ms", "p99 ms", "p99.9 ms", title=title)
    for number, each in enumerate(found, 1):
        silent = ", ".join(f"{seconds:.2f}" for seconds in each.silent_s.values())
        quantiles = [_quantile(each.before_ms, at) for at in (0.5, 0.99, 0.999)]
        table.add_row(str(number), silent, f"{each.at_rest_s:.1f}", *(f"{it:.1f}" for it in quantiles))
    console.print(table)
    silences = sorted(seconds for each in found for seconds in each.silent_s.values())
    console.print(f"silent: median {statistics.median(silences):.2f} s, longest {silences[-1]:.2f} s", highlight=False)
    for number, each in enumerate(found, 1):
        strip = "  ".join(
            f"{second:+d} s: {p50:.0f}/{most:.0f}" for second, (p50, most) in enumerate(each.strip_ms, -2)
        )
        console.print(f"kill {number}, median/longest latency in ms: {strip}", highlight=False, soft_wrap=True)
    for name, value in surroundings(None).items():
        console.print(f"{name}: {value}", highlight=False)


def _quantile(values: list[float], at: float) -> float:
    return values[min(len(values) - 1, int(len(values) * at))] if values else float("nan")


if __name__ == "__main__":
    typer.run(main)
