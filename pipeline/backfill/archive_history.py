"""History in an archive, alone or up to its last offset and then in Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from penstock.common.errors import ArchiveError, ArchiveGapError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.records import RecordBatch
from penstock.objects.contracts import ObjectStore
from penstock.objects.ranged_file import RangedFile
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.records import read_file
from penstock.pipeline.reading.contracts import HistorySource, OpenHistory
from penstock.pipeline.rows import headers_of

_BATCH_RECORDS = 5_000


@dataclass(frozen=True)
class ArchiveHistory(HistorySource):
    """The topics of an archive. ``topic_ids``: the ids that the topics have in Kafka now; records of a topic that was
    deleted and created again are not those of the topic."""

    location: ObjectLocation
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @override
    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        """A partition without archived records is left out."""
        found: dict[TopicPartition, OffsetRange] = {}
        archived: dict[str, ArchivedTopic] = {}
        for at in partitions:
            if at.topic not in archived:
                archived[at.topic] = self.topic(at.topic)
            if (offsets := archived[at.topic].partitions.get(at.partition)) is not None:
                found[at] = offsets
        return found

    @override
    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        objects = self.location.open()
        asked = list(partitions)
        ranges = self.available(asked)
        found = {}
        for at in asked:
            if at not in ranges:
                continue
            offsets = ranges[at]
            files = self.topic(at.topic).files(at.partition, offsets)
            each = (_first_at(objects, file, time_ms) for file in files)
            found[at] = next((offset for offset in each if offset is not None), offsets.end)
        return found

    @override
    def require(self, ranges: Ranges) -> None:
        self._files(ranges)

    @override
    def open(self, ranges: Ranges) -> OpenHistory:
        return _OpenArchive(self.location.open(), self._files(ranges), ranges)

    def topic(self, name: str) -> ArchivedTopic:
        """Returns the generation of a topic that Kafka has. Raises ArchiveError if the archive does not have it."""
        archive = Archive.open(self.location)
        archive.topics()  # is there an archive at all?
        known = self.topic_ids.get(name)
        found = archive.generation(name, known)
        if found is not None:
            return found
        if others := archive.generations(name):
            raise ArchiveError(
                f"the archive {archive.objects.url} has topic {name!r} as it was before it was deleted (id "
                f"{', '.join(other.topic_id for other in others)}): the topic that Kafka has now was created again (id "
                f"{known}). Archive it, or read it from Kafka (--source kafka)"
            )
        raise ArchiveError(
            f"the archive {archive.objects.url} does not have topic {name!r}; it has {', '.join(archive.topics())}"
        )

    def _files(self, ranges: Ranges) -> dict[TopicPartition, list[ArchivedFile]]:
        topics = {name: self.topic(name) for name in sorted({at.topic for at, offsets in ranges.items() if offsets})}
        return {at: topics[at.topic].files(at.partition, offsets) for at, offsets in ranges.items() if offsets}


@dataclass(frozen=True)
class ArchiveAndKafka(HistorySource):
    """Each partition up to the last offset of the archive from there, and from that offset on from Kafka. ``alone``:
    history ends where the archive ends; the application continues in Kafka."""

    archive: ArchiveHistory
    kafka: HistorySource
    alone: bool = False

    @override
    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        asked = list(partitions)
        there, live = self._archived(asked), self.kafka.available(asked)
        return {at: self._joined(at, there.get(at), live[at]) for at in asked}

    def _joined(self, at: TopicPartition, there: OffsetRange | None, live: OffsetRange) -> OffsetRange:
        if there is None:
            return OffsetRange(live.begin, live.begin if self.alone else live.end)
        if there.end < live.begin:
            raise ArchiveGapError(
                f"the offsets {there.end} to {live.begin - 1} of {at} are neither in the archive nor in Kafka: the "
                f"archive ends at offset {there.end - 1}, and Kafka begins at {live.begin}. If another archive has "
                "them, read from that one; otherwise read from Kafka alone"
            )
        if there.end > live.end:
            raise ArchiveError(
                f"the archive has {at} up to offset {there.end - 1}, and Kafka ends at {live.end - 1}: they are not of "
                "the same topic, or Kafka has lost records"
            )
        return OffsetRange(min(there.begin, live.begin), there.end if self.alone else live.end)

    def _archived(self, partitions: Iterable[TopicPartition]) -> Ranges:
        """Returns what the archive has. A topic that it does not have at all is read from Kafka, unless it is
        ``alone``."""
        asked = list(partitions)
        if not self.alone:
            known = set(Archive.open(self.archive.location).topics())
            asked = [at for at in asked if at.topic in known]
        return self.archive.available(asked)

    def switches(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset of each partition from which on Kafka is read."""
        asked = list(partitions)
        there = self._archived(asked)
        live = self.kafka.available([at for at in asked if at not in there])
        return {at: there[at].end if at in there else live[at].begin for at in asked}

    @override
    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        asked = list(partitions)
        switches = self.switches(asked)
        found = dict(self.archive.offsets_at(self._archived(asked), time_ms))
        later = [at for at in asked if found.get(at, switches[at]) >= switches[at]]
        if self.alone:
            return {**switches, **found}
        live = self.kafka.offsets_at(later, time_ms) if later else {}
        return {**found, **{at: max(switches[at], live[at]) for at in later}}

    @override
    def require(self, ranges: Ranges) -> None:
        archived, _ = self._split(ranges)
        self.archive.require(archived)

    @override
    def open(self, ranges: Ranges) -> OpenHistory:
        archived, live = self._split(ranges)
        return _OpenBoth(self.archive.open(archived), self.kafka.open(live), archived.keys(), live.keys())

    def _split(self, ranges: Ranges) -> tuple[dict[TopicPartition, OffsetRange], dict[TopicPartition, OffsetRange]]:
        """Returns the parts of ``ranges`` that are read from the archive, and from Kafka."""
        wanted = {at: offsets for at, offsets in ranges.items() if offsets}
        switches = self.switches(wanted)
        archived = {at: OffsetRange(each.begin, min(each.end, switches[at])) for at, each in wanted.items()}
        live = {at: OffsetRange(max(each.begin, switches[at]), each.end) for at, each in wanted.items()}
        return {at: each for at, each in archived.items() if each}, {at: each for at, each in live.items() if each}


@dataclass(frozen=True)
class _OpenArchive(OpenHistory):
    objects: ObjectStore
    files: Mapping[TopicPartition, Sequence[ArchivedFile]]
    ranges: Ranges

    @override
    def batches(self, partition: TopicPartition) -> Iterator[RecordBatch]:
        for file in self.files.get(partition, ()):
            parquet = read_file(self.objects, file.name, file.digest)
            for rows in parquet.iter_batches(_BATCH_RECORDS):
                if len(wanted := _within(rows, self.ranges[partition])):
                    yield _batch(partition, wanted)

    @override
    def close(self) -> None:
        """Nothing is open between two batches."""


@dataclass(frozen=True)
class _OpenBoth(OpenHistory):
    archive: OpenHistory
    kafka: OpenHistory
    archived: Collection[TopicPartition]
    live: Collection[TopicPartition]

    @override
    def batches(self, partition: TopicPartition) -> Iterator[RecordBatch]:
        if partition in self.archived:
            yield from self.archive.batches(partition)
        if partition in self.live:
            yield from self.kafka.batches(partition)

    @override
    def close(self) -> None:
        self.archive.close()
        self.kafka.close()


def _within(rows: pa.RecordBatch, offsets: OffsetRange) -> pa.RecordBatch:
    column = rows.column("offset").to_numpy()
    begin, end = (int(column.searchsorted(bound)) for bound in (offsets.begin, offsets.end))
    return rows.slice(begin, end - begin)


def _batch(at: TopicPartition, rows: pa.RecordBatch) -> RecordBatch:
    return RecordBatch(
        at,
        rows.column("key").to_pylist(),
        rows.column("value").to_pylist(),
        rows.column("timestamp").cast(pa.int64()).to_pylist(),
        rows.column("offset").to_pylist(),
        headers_of(rows.column("headers")),
    )


def _first_at(objects: ObjectStore, file: ArchivedFile, time_ms: int) -> int | None:
    """Returns the offset of the first record of a file that is of ``time_ms`` or later; None if there is none. Reads no
    more of the file than its statistics, and the times of one group of rows."""
    with pq.ParquetFile(RangedFile(objects, file.name, file.bytes)) as parquet:
        column = parquet.schema_arrow.get_field_index("timestamp")
        for number in range(parquet.num_row_groups):
            statistics = parquet.metadata.row_group(number).column(column).statistics
            if statistics is not None and statistics.has_min_max and _ms(statistics.max) < time_ms:
                continue
            rows = parquet.read_row_group(number, columns=["offset", "timestamp"])
            times = rows.column("timestamp").cast(pa.int64()).to_pylist()
            for offset, time in zip(rows.column("offset").to_pylist(), times, strict=True):
                if time >= time_ms:
                    return int(offset)
    return None


def _ms(time: object) -> int:
    return int(pa.scalar(time, pa.timestamp("ms", "UTC")).cast(pa.int64()).as_py())
