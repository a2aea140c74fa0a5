"""History from an archive, alone or up to its last offset and then from Kafka."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common.errors import ArchiveError, ArchiveGapError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.topics import NewTopic
from penstock.kafka.range_reader import KafkaReader
from penstock.objects.digests import digest_of
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.manifest import ArchivedFile, file_name
from penstock.pipeline.archive.records import FILE_SCHEMA, content_digest
from penstock.pipeline.backfill.archive_history import ArchiveAndKafka, ArchiveHistory
from penstock.pipeline.backfill.backfill import BackfillOptions, backfill, explain
from penstock.pipeline.backfill.bounds import bounds_of
from penstock.pipeline.reading.contracts import HistorySource, OpenHistory, every_record
from penstock.pipeline.reading.kafka_history import kafka_ranges
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from tests.cluster.conftest import WordCount
from tests.pipeline.archive.making import begun, span, written

FIRST, SECOND = TopicPartition("lines", 0), TopicPartition("lines", 1)


@dataclass(frozen=True)
class FakeHistory:
    """The topics of a fake broker: without Spark."""

    clients: FakeClients

    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        with closing(self.clients.consumer()) as consumer:
            return kafka_ranges(consumer, partitions)

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        found = {}
        for at in partitions:
            log = self.clients.broker.log(at)
            times = [record.timestamp for record in log.records]
            found[at] = next((log.beginning + n for n, time in enumerate(times) if time >= time_ms), log.end)
        return found

    def require(self, ranges: Ranges) -> None:
        pass

    def records(self, spark: object, ranges: Ranges) -> None:
        raise AssertionError

    def open(self, ranges: Ranges) -> OpenHistory:
        return KafkaReader(self.clients.consumer(), ranges)


class Rig:
    """A topic of two partitions: its first one has 20 records, of which 10 are archived and 4 are gone from Kafka."""

    def __init__(self, folder: Path, archived: tuple[int, int] = (0, 10), gone: int = 4) -> None:
        self.location = ObjectLocation(str(folder))
        self.objects = self.location.open()
        self.log = begun(self.objects)
        self.log.commit("run-1", 2_000, [span(*archived)], [written(self.objects, *archived, missing=(7,))])
        self.clients = FakeClients("app")
        self.clients.admin().create_topics([NewTopic("lines", 2)])
        for offset in range(20):
            record = FakeRecord(f"k{offset}".encode(), b"kafka", 1_000_000 + offset, None)
            self.clients.broker.append("lines", record, 0)
        self.clients.admin().delete_records({FIRST: gone})

    def source(self, topic_id: str = "id-1", *, alone: bool = False) -> ArchiveAndKafka:
        kafka: HistorySource = FakeHistory(self.clients)
        return ArchiveAndKafka(ArchiveHistory(self.location, {"lines": topic_id}), kafka, alone)

    def read(self, source: HistorySource, begin: int, end: int) -> list[tuple[int, bytes | None]]:
        batches = every_record(source, {FIRST: OffsetRange(begin, end)})
        return [pair for batch in batches for pair in zip(batch.offsets, batch.values, strict=True)]


def test_a_partition_is_read_from_the_archive_up_to_its_last_offset_and_then_from_kafka(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    both = rig.source()
    assert both.available([FIRST, SECOND]) == {FIRST: OffsetRange(0, 20), SECOND: OffsetRange(0, 0)}
    read = rig.read(both, 2, 13)
    assert [offset for offset, _ in read] == [2, 3, 4, 5, 6, 8, 9, 10, 11, 12]
    assert [value for _, value in read] == [
        *(None if offset == 6 else b"value %d" % offset for offset in (2, 3, 4, 5, 6, 8, 9)),
        *[b"kafka"] * 3,
    ]


def test_alone_it_ends_where_the_archive_ends(tmp_path: Path) -> None:
    alone = Rig(tmp_path).source(alone=True)
    assert alone.available([FIRST, SECOND]) == {FIRST: OffsetRange(0, 10), SECOND: OffsetRange(0, 0)}


def test_a_source_can_be_sent_to_an_executor(tmp_path: Path) -> None:
    archive = ArchiveHistory(Rig(tmp_path).location, {"lines": "id-1"})
    assert pickle.loads(pickle.dumps(archive)) == archive


@pytest.mark.parametrize(("time_ms", "offset"), [(0, 0), (1_000_003, 3), (1_000_007, 8), (1_000_012, 12), (9e12, 20)])
def test_times_are_found_in_the_archive_first(tmp_path: Path, time_ms: int, offset: int) -> None:
    rig = Rig(tmp_path)
    assert rig.source().offsets_at([FIRST], int(time_ms)) == {FIRST: offset}
    assert rig.source(alone=True).offsets_at([FIRST], int(time_ms)) == {FIRST: min(offset, 10)}


def test_offsets_that_neither_has_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveGapError, match=r"offsets 10 to 11 of lines-0 are neither in the archive nor in Kafka"):
        Rig(tmp_path, gone=12).source().available([FIRST])


def test_a_gap_within_the_archive_is_named_before_it_is_read(tmp_path: Path) -> None:
    source = Rig(tmp_path, archived=(2, 10)).source()
    assert source.available([FIRST]) == {FIRST: OffsetRange(2, 20)}
    with pytest.raises(ArchiveGapError, match="lacks offsets 0 to 1 of lines-0"):
        source.require({FIRST: OffsetRange(0, 10)})
    source.require({FIRST: OffsetRange(2, 20)})


def test_an_archive_that_is_ahead_of_kafka_is_of_another_topic(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="lines-0 up to offset 29, and Kafka ends at 19"):
        Rig(tmp_path, archived=(0, 30)).source().available([FIRST])


def test_a_topic_that_was_created_again_is_not_mixed_with_what_was_archived_before(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"before it was deleted \(id id-1\).* created again \(id id-2\)"):
        Rig(tmp_path).source("id-2").available([FIRST])


def test_a_topic_that_is_not_archived_is_read_from_kafka_if_that_is_asked_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clients.admin().create_topics([NewTopic("words", 1)])
    words = TopicPartition("words", 0)
    rig.clients.broker.append("words", FakeRecord(b"k", b"v", 1, None), 0)
    assert rig.source().available([words]) == {words: OffsetRange(0, 1)}
    with pytest.raises(ArchiveError, match="does not have topic 'words'; it has lines"):
        rig.source(alone=True).available([words])
    with pytest.raises(ArchiveError, match="there is no archive at"):
        ArchiveHistory(ObjectLocation(str(tmp_path / "empty"))).available([words])
    assert not (tmp_path / "empty").exists()


LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 20


def archive(it: WordCount, location: ObjectLocation, end: int) -> None:
    """Archives the lines of both partitions up to ``end``."""
    objects = location.open()
    topic_id = it.admin.topic_ids([it.lines])[it.lines]
    log = begun(objects, topic=it.lines, topic_id=topic_id)
    files = []
    for number in (0, 1):
        own = LINES[number::2][:end]
        rows = [
            {"key": None, "value": line.encode(), "topic": it.lines, "partition": number, "offset": offset,
             "timestamp": 1_000 + offset, "headers": None}
            for offset, line in enumerate(own)
        ]  # fmt: skip
        records = pa.Table.from_pylist(rows, schema=FILE_SCHEMA)
        sink = pa.BufferOutputStream()
        pq.write_table(records, sink)
        content = sink.getvalue().to_pybytes()
        name = file_name(it.lines, number, OffsetRange(0, end))
        objects.put(name, content)
        files.append(
            ArchivedFile(
                name=name, partition=number, begin=0, end=end, rows=len(own), bytes=len(content),
                digest=digest_of(content), content_digest=content_digest([records]),
                first_timestamp=1_000, last_timestamp=1_000 + end - 1,
            )
        )  # fmt: skip
    log.commit("run-1", 2_000, [span(0, end, 0), span(0, end, 1)], files)


@pytest.mark.usefixtures("shared_spark")
def test_what_retention_has_deleted_is_counted_from_the_archive_and_the_rest_from_kafka(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    it = WordCount(broker, topic_name("wc"), tmp_path / "state")
    it.send(LINES)
    location = ObjectLocation(str(tmp_path / "archive"))
    archive(it, location, 20)
    it.admin.delete_records({TopicPartition(it.lines, 0): 15, TopicPartition(it.lines, 1): 20})
    app = it.app()
    options = BackfillOptions(archive=location)
    lines = explain(app.topology, app.config, options)
    assert any(
        f"{it.lines}: 60 offsets, from the archive file://" in line and "from there on Kafka" in line for line in lines
    )
    report = backfill(app.topology, app.config, "local[2]", options=options)
    assert report.read == {it.lines: len(LINES)}
    assert it.complete()
    committed = it.admin.committed(it.application_id)
    assert [committed[TopicPartition(it.lines, number)].offset for number in (0, 1)] == [30, 30]


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_an_archive_alone_is_history_and_the_application_continues_in_kafka(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    it = WordCount(broker, topic_name("wc"), tmp_path / "state")
    it.send(LINES)
    location = ObjectLocation(str(tmp_path / "archive"))
    archive(it, location, 20)
    app = it.app()
    options = BackfillOptions(archive=location, kafka_too=False)
    report = backfill(app.topology, app.config, "local[2]", options=options)
    assert report.read == {it.lines: 40}
    assert report.notes == ()
    rest = backfill(app.topology, app.config, "local[2]", options=BackfillOptions(bounds_of(None, "latest")))
    assert rest.read == {it.lines: 20}
    assert it.complete()
