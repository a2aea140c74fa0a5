"""Rows 10, 11 and 25: faults of brokers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from penstock.common.topics import NewTopic
from penstock.kafka.local_broker.broker import LocalBroker, free_port
from penstock.testing.chaos.proxy import Proxy
from tests.faults.rig import Counting, Kafka, eventually, kafka_behind_a_proxy, transactional_ids

INTERNAL_PARTITIONS = 4
_LARGEST_FILE = 400_000


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    broker = LocalBroker(tmp_path_factory.mktemp("three") / "broker", free_port(3), 3)
    try:
        address = broker.start().bootstrap_servers
        with Proxy(1) as unused:
            unused.port = int(address.split(",")[0].rpartition(":")[2])  # nobody is between them here
            yield Kafka(broker, address, unused)
    finally:
        broker.stop()


def java_hash(text: str) -> int:
    """``String.hashCode``, made positive as Kafka does it."""
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found & 0x7FFFFFFF


def leader(address: str, topic: str, partition: int) -> int:
    metadata = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30)
    return int(metadata.topics[topic].partitions[partition].leader)


def coordinator_of_the_group(it: Counting, address: str) -> int:
    return leader(address, "__consumer_offsets", java_hash(it.application_id) % INTERNAL_PARTITIONS)


def coordinator_of_the_transactions(it: Counting, address: str) -> int:
    ids = [each for each, known in transactional_ids(address).items() if known]
    mine = next(each for each in ids if each.startswith(it.application_id) and not each.endswith("-try-out"))
    return leader(address, "__transaction_state", java_hash(mine) % INTERNAL_PARTITIONS)


def leader_of_the_input(it: Counting, address: str) -> int:
    return leader(address, it.input, 0)


@pytest.mark.parametrize(
    "victim_of",
    [
        pytest.param(leader_of_the_input, id="row_10 a leader"),
        pytest.param(coordinator_of_the_group, id="row_11 the coordinator of the group"),
        pytest.param(coordinator_of_the_transactions, id="row_11 the coordinator of the transactions"),
    ],
)
def test_rows_10_and_11_a_broker_of_three_is_killed(
    three_nodes: Kafka, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None,
    victim_of: Callable[[Counting, str], int],
) -> None:  # fmt: skip
    settings = {"bootstrap.servers": three_nodes.address}
    it = Counting(three_nodes, topic_name("row"), tmp_path / "state", **settings)
    try:
        it.start()
        node = victim_of(it, three_nodes.address)
        [pid] = [each.pid for each in three_nodes.broker.status().nodes if each.address.node_id == node]
        with it.fed():
            victim = psutil.Process(pid)
            victim.kill()
            victim.wait(30)
            eventually(lambda: victim_of(it, three_nodes.address) not in {node, -1}, "another has taken over", 60)
            it.assert_continues(200, timeout_s=200)  # a commit may be given up first
            three_nodes.broker.start()
            it.assert_continues(200)
        it.all_is_counted_once()
    finally:
        if not three_nodes.broker.status().running:
            three_nodes.broker.start()  # the next row has all three
        it.app.close()


def said_by_brokers(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.glob("broker/node-*/*.log"))


def test_row_25_the_disk_of_the_broker_is_full(
    tmp_path: Path, topic_name: Callable[[str], str], ray_cluster: None
) -> None:
    with kafka_behind_a_proxy(tmp_path) as kafka:
        # With one replica Kafka itself may lose the end of a transaction (docs/RELIABILITY.md).
        it = Counting(kafka, topic_name("row"), tmp_path / "state", **{"processing.guarantee": "at_least_once"})
        try:
            it.start()
            [node] = kafka.broker.status().nodes
            assert node.pid is not None
            broker = psutil.Process(node.pid)
            it.clients.admin().create_topics([NewTopic(f"{it.application_id}-ballast", 1)])
            broker.rlimit(psutil.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
            with it.fed():
                producer = it.clients.producer()
                for number in range(2 * _LARGEST_FILE // 1000):
                    producer.send(f"{it.application_id}-ballast", None, os.urandom(1000), 1_000 + number)
                broker.wait(60)
                assert "File too large" in said_by_brokers(tmp_path), "it ended of something else"
                eventually(lambda: "no broker answers" in (it.app.status().waiting or ""), "it is said so")
                kafka.broker.start()
                producer.close()
                it.assert_continues()
            it.nothing_is_lost()
        finally:
            it.app.close()
