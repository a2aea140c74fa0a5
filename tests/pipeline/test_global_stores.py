"""Global stores in a backfill: every executor has all that their topics held when it began."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.pipeline.backfill.backfill import backfill
from penstock.pipeline.rows import SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.global_topics import GlobalTopics, may_look_into_global_stores
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from tests.pipeline.rows import CONFIG, output, process, records_in, run
from tests.pipeline.topologies import described, latest_words


def test_an_executor_fills_its_stores_up_to_where_the_backfill_begins() -> None:
    topology = described("lines", "users", "words", "out")
    clients = FakeClients("app")
    clients.admin().create_topics([NewTopic("users", 2), NewTopic("words", 1)])
    for number in range(20):
        clients.broker.append("users", FakeRecord(b"u%d" % number, b"old", 1, None), number % 2)
        clients.broker.append("users", FakeRecord(b"u%d" % number, b"new", 1, None), number % 2)
    clients.broker.append("words", FakeRecord(b"k", b"long", 1, None), 0)
    clients.broker.append("words", FakeRecord(b"k", b"no", 1, None), 0)
    ranges = {
        TopicPartition("users", 0): OffsetRange(0, 20),
        TopicPartition("users", 1): OffsetRange(0, 19),
        TopicPartition("words", 0): OffsetRange(0, 2),
    }
    clients.broker.append("words", FakeRecord(b"k", b"longer", 1, None), 0)
    topics = GlobalTopics(topology.global_subtopologies, ranges, partial(records_in, clients))
    (sub,) = topology.subtopologies
    host = TaskHost(sub, HostSettings(CONFIG, TopicCounts({"lines": 2}, frozenset(), frozenset()), {}, topics))
    rows = [process(task, "lines", 0, "k", f"u{number}", 1) for task, number in ((0, 0), (1, 19))]
    rows.append(process(1, "lines", 1, "other", "nobody", 2))
    found = [row["value"].decode() for row in output(run(host, rows, 2))[SINK]]
    assert found == ["u0=new/long", "u19=old/long", "nobody=None/None"]


def test_only_a_sub_topology_that_may_look_into_them_reads_them() -> None:
    assert may_look_into_global_stores(described("lines", "users", "words", "out").subtopologies[0])
    assert not may_look_into_global_stores(latest_words().subtopologies[0])


@pytest.mark.usefixtures("shared_spark")
def test_a_backfill_joins_with_all_of_a_global_table(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    lines, users, words, out = (topic_name(each) for each in ("lines", "users", "words", "out"))
    config = StreamsConfig.of(
        {"application.id": topic_name("app"), "bootstrap.servers": broker, "state.dir": tmp_path}
    )  # fmt: skip
    clients = ConfluentClients.of(config)
    clients.admin().create_topics([NewTopic(lines, 3), NewTopic(users, 2), NewTopic(words, 1), NewTopic(out, 1)])
    producer = clients.producer()
    for number in range(100):
        producer.send(users, b"u%d" % number, b"%d" % number, 1_000)
        producer.send(words, b"k%d" % number, b"w" * number, 1_000)
        producer.send(lines, b"k%d" % number, b"u%d" % number, 1_000)
    assert producer.flush(60)
    producer.close()
    report = backfill(described(lines, users, words, out), config, "local[2]")
    assert report.read == {lines: 100}
    consumer = clients.consumer()
    here = TopicPartition(out, 0)
    consumer.assign({here: BEGINNING})
    found: set[bytes | None] = set()
    while len(found) < 100:
        found.update(value for batch in consumer.poll(1000, 1.0) for value in batch.values)
    consumer.close()
    assert found == {b"u%d=%d/%s" % (n, n, b"w" * n or b"None") for n in range(100)}
