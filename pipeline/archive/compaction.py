"""Compaction: many small files of a partition become few large ones, which readers find in their place."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import msgspec

from penstock.common.offset_ranges import OffsetRange
from penstock.objects.contracts import ObjectStore
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.file_builder import FileBuilder
from penstock.pipeline.archive.file_writer import FILE_BYTES
from penstock.pipeline.archive.manifest import ArchivedFile, Span
from penstock.pipeline.archive.records import read_file
from penstock.pipeline.archive.topic_log import TopicLog

_ROWS = 10_000
WORTHWHILE = 8
"""Number of neighbouring small files that are compacted even if they do not fill a file."""


class Merge(msgspec.Struct, frozen=True):
    """Neighbouring files that become one. ``mark``: tells its name from one that an earlier compaction has used."""

    folder: str
    files: tuple[ArchivedFile, ...]
    mark: str

    @property
    def offsets(self) -> OffsetRange:
        """The offsets of the file that they become."""
        return OffsetRange(self.files[0].begin, self.files[-1].end)


def plan_compaction(
    archived: ArchivedTopic, mark: str, file_bytes: int = FILE_BYTES, worthwhile: int = WORTHWHILE
) -> list[Merge]:
    """Returns the merges that leave no row of small files.

    A merge fills a file by at least half, or takes at least ``worthwhile`` files. So no record is written again for
    each commit: its file at least doubles each time, or grows by the files of many commits.
    """
    merges: list[Merge] = []
    for group in _groups(archived, file_bytes):
        size = sum(file.bytes for file in group)
        if len(group) > 1 and (len(group) >= worthwhile or size >= file_bytes // 2):
            merges.append(Merge(archived.folder, tuple(group), mark))
    return merges


def _groups(archived: ArchivedTopic, file_bytes: int) -> Iterator[list[ArchivedFile]]:
    """Yields neighbours that fit into one file. Lost offsets, and other decoded columns, separate neighbours."""
    group: list[ArchivedFile] = []
    size = 0
    for file in archived.all_files():
        fits = group and file.partition == group[0].partition and file.decoded == group[0].decoded
        if not fits or size + file.bytes > file_bytes or _lost_between(archived.lost, group[-1], file):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.bytes
    yield group


def _lost_between(lost: Sequence[Span], before: ArchivedFile, after: ArchivedFile) -> bool:
    return any(it.partition == after.partition and before.end <= it.begin and it.end <= after.begin for it in lost)


def merged(objects: ObjectStore, merge: Merge) -> ArchivedFile:
    """Write the file that some files become; their hashes are checked. Returns what a manifest has of it."""
    builder: FileBuilder | None = None
    for file in merge.files:
        parquet = read_file(objects, file.name, file.digest)
        builder = builder or FileBuilder(parquet.schema_arrow)
        for batch in parquet.iter_batches(_ROWS):
            builder.add(batch)
    assert builder is not None
    first = merge.files[0]
    return builder.store(
        objects, merge.folder, first.partition, merge.offsets,
        undecodable=sum(file.undecodable for file in merge.files), decoded=first.decoded,
        mark=merge.mark, plain=False,
    )  # fmt: skip


@dataclass(frozen=True)
class Compaction:
    """The result of a compaction: the number of files before and after it, of those that it has merged."""

    before: int
    after: int


def compact(objects: ObjectStore, log: TopicLog, at_ms: Callable[[], int], worthwhile: int = WORTHWHILE) -> Compaction:
    """Merge the small files of one generation, beside a run if there is one; several merges at once, in threads.

    Each merge is a commit. Raises ArchiveTakenOverError if a run begins meanwhile: it may delete the new files.
    """
    archived = log.archived
    if not archived.run:
        return Compaction(0, 0)
    run, merges = archived.run, plan_compaction(archived, uuid.uuid4().hex[:8], worthwhile=worthwhile)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for merge, file in zip(merges, pool.map(partial(merged, objects), merges), strict=True):
            log.compact(run, at_ms(), [file], [it.name for it in merge.files])
    return Compaction(sum(len(merge.files) for merge in merges), len(merges))
