"""Compares an archive with what Kafka still has of the topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.objects.contracts import ObjectStore
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.plan import Offsets
from penstock.pipeline.archive.records import ContentDigest, arrow_of, read_file
from penstock.pipeline.offset_ranges import OffsetRange
from penstock.pipeline.reading.kafka_reader import KafkaReader

ABORTED = "aborted"
MARKER = "marker"
COMPACTED = "compacted or marker"
DELETED = "unknown: Kafka has deleted this part since"
_SHOWN = 3


@dataclass(frozen=True)
class KafkaComparison:
    """One topic in Kafka. ``committed`` reads committed records only, ``all_records`` also aborted
    ones. ``offsets``: those that Kafka has now. ``compacted``: True if its ``cleanup.policy`` has compact."""

    topic: str
    committed: KafkaClients
    all_records: KafkaClients
    offsets: Offsets
    compacted: bool

    def compare(self, objects: ObjectStore, file: ArchivedFile) -> tuple[int, list[str]]:
        """Returns the number of records of a file that Kafka has, too, with the same key and value, and all differences
        that compaction does not explain. A file of which Kafka has deleted a part is compared from there on."""
        there = self._there(file.partition, file.offsets)
        if not there:
            return 0, []
        digest = ContentDigest()
        for batch in self._read(self.committed, file.partition, there):
            digest.update(arrow_of(batch))
        if there == file.offsets and digest.hexdigest() == file.content_digest:
            return file.rows, []
        return self._compare_each(objects, file, there)

    def reasons(self, partition: int, hole: OffsetRange) -> list[str]:
        """Returns the reason for which each offset of ``hole`` is missing in the archive."""
        there = self._there(partition, hole)
        seen = {offset for batch in self._read(self.all_records, partition, there) for offset in batch.offsets}
        hidden = COMPACTED if self.compacted else MARKER
        return [
            DELETED if not there.begin <= offset < there.end else ABORTED if offset in seen else hidden
            for offset in range(hole.begin, hole.end)
        ]

    def _there(self, partition: int, offsets: OffsetRange) -> OffsetRange:
        return offsets.common(self.offsets.get(partition, OffsetRange(0, 0)))

    def _compare_each(self, objects: ObjectStore, file: ArchivedFile, there: OffsetRange) -> tuple[int, list[str]]:
        table = read_file(objects, file.name, file.digest).read(["offset", "key", "value"]).to_pydict()
        archived = {
            offset: (key, value)
            for offset, key, value in zip(table["offset"], table["key"], table["value"], strict=True)
            if there.begin <= offset < there.end
        }
        found: dict[int, str] = {}
        same = 0
        for batch in self._read(self.committed, file.partition, there):
            for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                if offset not in archived:
                    found[offset] = "is in Kafka and not in the archive"
                elif archived.pop(offset) != (key, value):
                    found[offset] = "has another key or value in Kafka"
                else:
                    same += 1
        if not self.compacted:
            found |= dict.fromkeys(archived, "is in the archive and not in Kafka, which has its neighbours")
        where = f"{self.topic}-{file.partition}, file {file.name}"
        texts = [f"{where}: offset {offset} {what}" for offset, what in sorted(found.items())[:_SHOWN]]
        return same, texts + ([f"{where}: {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])

    def _read(self, clients: KafkaClients, partition: int, offsets: OffsetRange) -> Iterator[RecordBatch]:
        here = TopicPartition(self.topic, partition)
        with closing(KafkaReader(clients.restore_consumer(), {here: offsets})) as reader:
            yield from reader.batches(here)
