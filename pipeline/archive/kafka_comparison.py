"""Compares an archive with what Kafka still has of the topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import numpy as np

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.kafka.range_reader import KafkaReader
from penstock.objects.contracts import ObjectStore
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.plan import Offsets
from penstock.pipeline.archive.records import ContentDigest, arrow_of, read_file

ABORTED = "aborted"
MARKER = "marker"
COMPACTED = "compacted or marker"
DELETED = "unknown: Kafka has deleted this part since"
_SHOWN = 3
_FEW = 10_000
"""Most offsets between two holes that are read together: to read that many costs less than to make another consumer."""


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

    def reasons(self, partition: int, holes: Sequence[OffsetRange]) -> Iterator[tuple[OffsetRange, str]]:
        """Yields the parts of ``holes``, which ascend, each with the reason why the archive lacks it. Holes near each
        other are read together: transactions leave one after every few records."""
        hidden = COMPACTED if self.compacted else MARKER
        for near in _near(holes):
            there = self._there(partition, OffsetRange(near[0].begin, near[-1].end))
            records = chain.from_iterable(map(_runs, self._read(self.all_records, partition, there)))
            seen = next(records, None)
            for hole in near:
                at = hole.begin
                if at < there.begin:
                    at = min(hole.end, there.begin)
                    yield OffsetRange(hole.begin, at), DELETED
                end = max(at, min(hole.end, there.end))
                while at < end:
                    while seen is not None and seen.end <= at:
                        seen = next(records, None)
                    found = seen is not None and seen.begin <= at
                    edge = end if seen is None else min(end, seen.end if found else seen.begin)
                    yield OffsetRange(at, edge), ABORTED if found else hidden
                    at = edge
                if end < hole.end:
                    yield OffsetRange(end, hole.end), DELETED

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
        if not offsets:
            return
        here = TopicPartition(self.topic, partition)
        with closing(KafkaReader(clients.restore_consumer(), {here: offsets})) as reader:
            yield from reader.batches(here)


def _near(holes: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Yields lists of holes that have few offsets between them."""
    near: list[OffsetRange] = []
    for hole in holes:
        if near and hole.begin - near[-1].end > _FEW:
            yield near
            near = []
        near.append(hole)
    if near:
        yield near


def _runs(batch: RecordBatch) -> Iterator[OffsetRange]:
    """Yields the offsets of a batch as ranges, each without a gap."""
    offsets = np.asarray(batch.offsets, np.int64)
    edges = np.flatnonzero(np.diff(offsets) != 1) + 1
    for own in np.split(offsets, edges):
        yield OffsetRange(int(own[0]), int(own[-1]) + 1)
