"""A Ray cluster of several nodes on this machine, and a program whose records take a given time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import ray.core.generated.autoscaler_pb2
from ray.cluster_utils import Cluster

import penstock as ps
from penstock.cluster.names import NAMESPACE
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.testing.chaos.rays_lines import leave_out_rays_lines
from tests.waiting import once_ready

PARTITIONS = 8
KEYS = 50
STORE_BYTES = 80_000_000
_FEED_EACH_S, _AT_ONCE = 0.1, 20
_BEGUN_S = time.monotonic()


def head_without_cpus() -> Any:
    """Starts a Ray cluster with a head without CPUs; this process is no driver of it."""
    args = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    return Cluster(initialize_head=True, head_node_args=args)


def say(what: str) -> None:
    """Prints one line of a process's story, with the seconds since it began."""
    print(f"{time.monotonic() - _BEGUN_S:6.1f} s  {what}", flush=True)


@contextmanager
def ray_nodes(*cpus: int) -> Iterator[tuple[Cluster, list[Any]]]:
    """Runs a head without CPUs, and a node for each of these numbers of CPUs."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = head_without_cpus()
    try:
        nodes = [add_node(cluster, each) for each in cpus]
        leave_out_rays_lines()
        ray.init(cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Any, cpus: int) -> Any:
    """Adds a node; returns when Ray knows it."""
    return cluster.add_node(num_cpus=cpus, object_store_memory=STORE_BYTES)


def drain(cluster: Any, node_id: str, seconds: int) -> None:
    """Drains a node, as ``ray drain-node --reason PREEMPTION`` does, or a cloud that takes a node back."""
    deadline_ms = time.time_ns() // 1_000_000 + seconds * 1000
    untyped: Any = ray
    gcs = untyped._raylet.GcsClient(address=cluster.address)
    reason = untyped.core.generated.autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why_not = gcs.drain_node(node_id, reason, "taken back", deadline_ms)
    assert accepted, why_not


class SlowCount:
    """Counts records by key, each of which takes ``record_s``, or the ``work`` that is given."""

    def __init__(
        self,
        broker: str,
        name: str,
        state_dir: Path,
        record_s: float,
        work: Callable[[str], str] | None = None,
        /,
        **entries: Any,
    ) -> None:
        self.input, self.output = f"{name}-in", f"{name}-out"
        self.clients = ConfluentClients(broker, name, {"isolation.level": "read_committed"})
        self.clients.admin().create_topics([NewTopic(self.input, PARTITIONS), NewTopic(self.output, 1)])
        self.sent: Counter[str] = Counter()
        config = {
            "application.id": name, "bootstrap.servers": broker, "state.dir": state_dir, "commit.interval.ms": 200,
            "application.server": "", **entries,
        }  # fmt: skip
        self._topology, self._config = topology(self.input, self.output, work or taking(record_s)), config
        self.app = self.another()

    def another(self) -> ps.KafkaStreams:
        """Makes the application again, to be started when this one has ended."""
        return ps.KafkaStreams(self._topology, self._config)

    def send(self, records: int) -> None:
        """Sends this many records, evenly over all keys and partitions."""
        producer = self.clients.producer()
        first = sum(self.sent.values())
        for number in range(first, first + records):
            key = f"key-{number % KEYS}"
            self.sent[key] += 1
            producer.send(self.input, key.encode(), b"1", 1_000 + number, partition=number % KEYS % PARTITIONS)
        assert producer.flush(100)  # a broker may be away meanwhile
        producer.close()

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Sends a few records all the time."""
        ending = threading.Event()

        def feed() -> None:
            while not ending.wait(_FEED_EACH_S):
                self.send(_AT_ONCE)

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()

    def counts(self) -> Mapping[str, list[int]]:
        """Returns all counts that were written of each key, in their order."""
        consumer = self.clients.consumer()
        here = TopicPartition(self.output, 0)
        # After a leader has died, a broker of another epoch may answer.
        end = once_ready(lambda: consumer.fetch_end_offsets([here])[here], BrokerUnreachableError)
        consumer.assign({here: BEGINNING})
        found: dict[str, list[int]] = {}
        while end and consumer.position(here) < end:
            for batch in consumer.poll(1000, 0.1):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    assert key is not None
                    assert value is not None
                    found.setdefault(key.decode(), []).append(int(value))
        consumer.close()
        return found

    def processed(self) -> int:
        """Returns the number of records that are counted."""
        return sum(counts[-1] for counts in self.counts().values())

    def is_exact(self) -> bool:
        """Returns True if each count was written once, in order, up to what was sent: nothing is lost or doubled."""
        return self.counts() == {key: list(range(1, count + 1)) for key, count in self.sent.items()}


def taking(seconds: float) -> Callable[[str], str]:
    """Returns a function that takes time and does nothing."""

    def take_time(value: str) -> str:
        time.sleep(seconds)
        return value

    return take_time


def topology(source: str, sink: str, work: Callable[[str], str]) -> ps.Topology:
    """Returns the counting program."""
    builder = ps.StreamsBuilder()
    string = ps.Serdes.string()
    (
        builder.stream(source, ps.Consumed.with_(string, string))
        .map_values(work)
        .group_by_key(ps.Grouped.with_(string, string))
        .count(ps.Materialized.as_("counts").with_caching_disabled())
        .to_stream()
        .map_values(str)
        .to(sink, ps.Produced.with_(string, string))
    )
    return builder.build()
