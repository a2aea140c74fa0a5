"""``archive verify``: damage is found, and each missing offset has its reason."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch
from penstock.common.topics import NewTopic
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive import kafka_comparison
from penstock.pipeline.archive.kafka_comparison import KafkaComparison
from penstock.pipeline.archive.topic_log import TopicLog
from penstock.pipeline.archive.verification import Missing, verify, without
from penstock.testing.fake_clients import FakeClients
from tests.pipeline.archive.making import begun, span, written


def test_missing_offsets_are_found_at_the_ends_of_files_and_within() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    log.commit("run-1", 2_000, [span(0, 10)], [written(objects, 0, 10, (0, 4, 5, 9))])
    log.commit("run-1", 2_000, [span(10, 12)], [])
    log.open_run("run-2", 3_000, "host:2", lambda _: [span(12, 20)])
    log.commit("run-2", 2_000, [span(20, 30)], [written(objects, 20, 30)])
    (report,) = verify(objects, log.archived, None)
    assert report.problems == []
    assert report.missing == [
        Missing(0, 1, "unknown"),
        Missing(4, 6, "unknown"),
        Missing(9, 12, "unknown"),
        Missing(12, 20, "retention"),
    ]
    assert report.rows == 16


def test_each_damaged_file_is_named() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    files = [written(objects, begin, begin + 10) for begin in range(0, 40, 10)]
    log.commit("run-1", 2_000, [span(0, 40)], files)
    objects.put(files[1].name, objects.read(files[1].name)[:-1] + b"?")
    objects.delete([files[2].name])
    (report,) = verify(objects, log.archived, None)
    assert [text.partition(". ")[0] for text in report.problems] == [
        f"file {files[1].name} of the archive memory:// is damaged: its content does not fit its hash",
        f"file {files[2].name} of the archive memory:// is missing",
    ]
    assert report.rows == 20


class Kafka:
    """A topic in the fake broker, with transactions, and an archive of it."""

    def __init__(self, policy: str = "delete") -> None:
        self.clients = FakeClients("archive", read_committed=True)
        self.clients.admin().create_topics([NewTopic("lines", 1, config={"cleanup.policy": policy})])
        self.policy = policy
        self.objects = MemoryObjects()
        self.log: TopicLog = begun(self.objects)

    def transaction(self, count: int, commit: bool) -> None:
        producer = self.clients.transactional_producer("tx")
        producer.init_transactions().result()
        producer.begin_transaction()
        for _ in range(count):
            producer.send("lines", b"k", b"v", 1, None, 0)
        assert producer.flush(1)
        (producer.commit_transaction({}, b"") if commit else producer.abort_transaction()).result()

    def comparison(self, begin: int, end: int) -> KafkaComparison:
        every = FakeClients("archive", self.clients.broker)
        return KafkaComparison("lines", self.clients, every, {0: OffsetRange(begin, end)}, self.policy == "compact")


@pytest.mark.parametrize(("policy", "hidden"), [("delete", "marker"), ("compact", "compacted or marker")])
def test_aborted_records_and_markers_are_told_apart_as_far_as_kafka_shows_them(policy: str, hidden: str) -> None:
    kafka = Kafka(policy)
    kafka.transaction(2, commit=True)
    kafka.transaction(3, commit=False)
    parts = kafka.comparison(0, 7).reasons(0, [OffsetRange(2, 7)])
    assert list(parts) == [
        (OffsetRange(2, 3), hidden),
        (OffsetRange(3, 6), "aborted"),
        (OffsetRange(6, 7), hidden),
    ]


def test_a_hole_of_a_hundred_million_offsets_takes_little_memory_and_each_part_has_a_reason() -> None:
    kafka = Kafka()
    kafka.transaction(3, commit=False)
    kafka.transaction(2, commit=True)
    objects, log, end = kafka.objects, kafka.log, 100_000_000
    log.commit("run-1", 2_000, [span(0, 3)], [])
    log.commit("run-1", 2_000, [span(3, end)], [written(objects, 4, 6)])
    tracemalloc.start()
    (report,) = verify(objects, log.archived, kafka.comparison(1, 7))
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert report.missing == [
        Missing(0, 1, "unknown: Kafka has deleted this part since"),
        Missing(1, 3, "aborted"),
        Missing(3, 4, "marker"),
        Missing(6, 7, "marker"),
        Missing(7, end, "unknown: Kafka has deleted this part since"),
    ]


def test_each_offset_of_holes_has_its_reason_and_holes_near_each_other_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    kafka = Kafka()
    at = {offset: "aborted" if rng.random() < 0.5 else "marker" for offset in range(60)}
    there = OffsetRange(rng.randrange(20), rng.randrange(40, 61))
    monkeypatch.setattr(kafka_comparison, "_FEW", 3)
    reads: list[OffsetRange] = []

    def read(self: Any, clients: Any, partition: int, offsets: OffsetRange) -> Iterator[RecordBatch]:
        reads.append(offsets)
        own = [offset for offset in range(offsets.begin, offsets.end) if at[offset] == "aborted"]
        for begin in range(0, len(own), 4):
            some = own[begin : begin + 4]
            nothing: list[bytes | None] = [None] * len(some)
            yield RecordBatch(TopicPartition("lines", 0), nothing, nothing, [0] * len(some), some)

    monkeypatch.setattr(KafkaComparison, "_read", read)
    edges = sorted(rng.sample(range(61), 12))
    holes = [OffsetRange(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    reasons = kafka.comparison(there.begin, there.end).reasons(0, holes)
    found = [(offset, why) for part, why in reasons for offset in range(part.begin, part.end)]
    assert found == [
        (offset, at[offset] if there.begin <= offset < there.end else "unknown: Kafka has deleted this part since")
        for hole in holes
        for offset in range(hole.begin, hole.end)
    ]
    assert len(reads) == 1 + sum(after.begin - before.end > 3 for before, after in pairwise(holes))


def test_the_ranges_that_remain() -> None:
    assert without(OffsetRange(0, 10), [OffsetRange(8, 12), OffsetRange(2, 4)]) == [
        OffsetRange(0, 2),
        OffsetRange(4, 8),
    ]
    assert without(OffsetRange(0, 10), [OffsetRange(0, 10)]) == []
    assert without(OffsetRange(0, 10), []) == [OffsetRange(0, 10)]
