"""The parts of a row: a broker behind a proxy, a counting application on Ray, and what must hold in the end."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from penstock.cluster.read_side import ActorStatus
from penstock.common.ids import TopicPartition
from penstock.kafka.local_broker.broker import LocalBroker, free_port
from penstock.kafka.local_broker.node_files import HOST, Listener
from penstock.testing.chaos.proxy import Proxy, of_processes
from tests.elastic.cluster import PARTITIONS, SlowCount
from tests.processes import has_ended
from tests.waiting import PATIENCE_S, eventually

TRANSACTION_S = 5.0
"""``producer.transaction.timeout.ms``; the broker looks each second for those that have lasted longer."""
SESSION_S = 6.0
"""``consumer.session.timeout.ms``: the shortest that a broker allows."""
_END_TXN, _TXN_OFFSET_COMMIT = 26, 28
_TRANSACTIONS = "__transaction_state"


@dataclass(frozen=True)
class Kafka:
    """A broker; tests connect to it directly, the application by the proxy."""

    broker: LocalBroker
    address: str
    proxy: Proxy


@contextmanager
def kafka_behind_a_proxy(folder: Path, properties: dict[str, str] | None = None) -> Iterator[Kafka]:
    """Runs a broker of one node behind a proxy."""
    port = free_port()
    inner = free_port(avoid=[port])
    outer = free_port(avoid=[port, inner])
    listener = Listener("PROXIED", inner, "PLAINTEXT", advertised_port=outer)
    broker = LocalBroker(folder / "broker", port, listeners=[listener], properties=properties)
    with Proxy(inner, outer) as proxy, broker:
        yield Kafka(broker, f"{HOST}:{port}", proxy)
        proxy.heal()  # so that what still works can end


class Counting(SlowCount):
    """The counting program, exactly once by default, on two actors."""

    def __init__(
        self, kafka: Kafka, name: str, state_dir: Path, work: Callable[[str], str] | None = None, /, **entries: Any
    ) -> None:
        self.application_id = name
        settings = {
            "bootstrap.servers": kafka.proxy.address,
            "processing.guarantee": "exactly_once_v2",
            "tasks.per.actor": PARTITIONS // 2,
            "producer.transaction.timeout.ms": int(TRANSACTION_S * 1000),
            "consumer.session.timeout.ms": int(SESSION_S * 1000),
        }
        self.settings = settings | entries
        super().__init__(kafka.address, name, state_dir, 0.0, work, **self.settings)

    def start(self) -> None:
        """Starts the application; returns when it has counted something."""
        self.app.start()
        self.app.wait_until_running(PATIENCE_S)
        self.send(100)
        eventually(lambda: self.processed() == sum(self.sent.values()), "the first records are counted")

    def assert_continues(self, records: int = 100, timeout_s: float = 120.0) -> None:
        """Returns when ``records`` more have been counted."""
        before = self.processed()
        self._eventually(lambda: self.processed() >= before + records, f"{records} more are counted", timeout_s)

    def all_is_counted_once(self, timeout_s: float = 120.0) -> None:
        """Waits until all is counted; asserts that it is counted once, and that then no transaction is open."""
        self._eventually(lambda: self.processed() >= sum(self.sent.values()), "all is counted", timeout_s)
        assert self.is_exact(), "something was lost, or counted twice"
        self._eventually(lambda: not self.open_at(), "no transaction is open", 30)

    def nothing_is_lost(self, timeout_s: float = 120.0) -> None:
        """Waits until all is counted; at least once, so counts may be too high."""

        def counted() -> bool:
            counts = self.counts()
            return all(counts.get(key, [0])[-1] >= count for key, count in self.sent.items())

        self._eventually(counted, "all is counted", timeout_s)

    def _eventually(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        try:
            eventually(condition, what, timeout_s)
        except AssertionError as error:
            error.add_note(f"sent {sum(self.sent.values())}, counted {self.processed()}")
            error.add_note(f"open transactions hold back: {self.open_at()}")
            committed = self.clients.admin().committed(self.application_id)
            error.add_note(f"committed: { {str(tp): at.offset for tp, at in committed.items()} }")
            status = self.app.status()
            error.add_note(f"{status.state.value}, waiting: {status.waiting}, stuck: {status.stuck}")
            error.add_note(f"tasks: {[(str(task.task_id), task.state.value, task.lag) for task in status.tasks]}")
            raise

    def open_at(self) -> dict[str, tuple[int, int]]:
        """Returns the partitions with an open transaction: their last stable offset and high watermark."""
        admin = self.clients.admin()
        found = [TopicPartition(name, each) for name, count in admin.topics().items() for each in range(count)]
        mine = [tp for tp in found if tp.topic.startswith(self.application_id)]
        high = admin.high_watermarks(mine)  # first: what is written between the two is no open transaction
        stable = admin.end_offsets(mine)
        return {str(tp): (stable[tp], high[tp]) for tp in mine if stable[tp] < high[tp]}

    def actors(self) -> list[ActorStatus]:
        """Returns the actors, ordered by name."""
        return sorted(self.app.status().actors, key=lambda actor: actor.actor_id)

    def aborted(self) -> int:
        """Returns the number of transactions that its actors have seen aborted."""
        return sum(actor.aborted_transactions for actor in self.actors())


def called(title: str, family: psutil.Process) -> list[psutil.Process]:
    """Returns the living processes below ``family`` whose title begins with ``title``."""
    found = []
    for process in family.children(recursive=True):
        try:
            if (process.cmdline() or [""])[0].startswith(title):
                found.append(process)
        except psutil.Error:
            continue  # it has ended meanwhile
    return found


def coordinator() -> psutil.Process:
    """Returns the youngest coordinator's process among our children: rows of a session run one after another."""
    return max(called("ray::CoordinatorActor", psutil.Process()), key=lambda process: process.create_time())


def ends_a_transaction(piece: bytes) -> bool:
    """Returns True if an EndTxn is among the requests that a client has written at once."""
    return _END_TXN in requests_in(piece)


def commits_offsets(piece: bytes) -> bool:
    """Returns True if a TxnOffsetCommit is among the requests: then the transaction is open."""
    return _TXN_OFFSET_COMMIT in requests_in(piece)


def requests_in(piece: bytes) -> Iterator[int]:
    """Yields the API key of each request that begins in a piece of a connection's bytes."""
    at = 0
    while at + 6 <= len(piece):
        size, kind = struct.unpack_from(">ih", piece, at)
        yield kind
        at += 4 + size


def transactional_ids(address: str) -> dict[str, bool]:
    """Returns the ids that the brokers' own topic has ever had; True for those that the brokers still know."""
    settings = {"bootstrap.servers": address, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer(settings)
    metadata = consumer.list_topics(_TRANSACTIONS, timeout=30)
    partitions = list(metadata.topics[_TRANSACTIONS].partitions)
    consumer.assign([KafkaPartition(_TRANSACTIONS, each, 0) for each in partitions])
    known: dict[str, bool] = {}
    ends: set[int] = set()
    while len(ends) < len(partitions):
        for message in consumer.consume(1000, timeout=1):
            error, key = message.error(), message.key()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends.add(message.partition() or 0)
            elif key is not None:
                known[key[4:].decode()] = message.value() is not None
    consumer.close()
    return known


def lasts(seconds: float) -> None:
    """Waits for the duration of a fault. It is part of the row: the wait is not for any event."""
    threading.Event().wait(seconds)


__all__ = [
    "SESSION_S",
    "TRANSACTION_S",
    "Counting",
    "Kafka",
    "called",
    "commits_offsets",
    "coordinator",
    "ends_a_transaction",
    "eventually",
    "has_ended",
    "kafka_behind_a_proxy",
    "lasts",
    "of_processes",
    "transactional_ids",
]
