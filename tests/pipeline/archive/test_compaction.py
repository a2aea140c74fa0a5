"""Compaction: fewer files, the same records, and nothing for a reader to notice."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common.errors import ArchiveError
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.contracts import ObjectStore
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.compaction import Compaction, compact, plan_compaction
from penstock.pipeline.archive.records import content_digest
from penstock.pipeline.archive.topic_log import ArchiveTakenOverError, TopicLog
from penstock.pipeline.archive.verification import verify
from tests.pipeline.archive.making import begun, span, table, written


def with_files(objects: ObjectStore, *edges: int) -> TopicLog:
    log = begun(objects)
    for begin, end in pairwise(edges):
        log.commit("run-1", 2_000, [span(begin, end)], [written(objects, begin, end)])
    return log


def records(objects: ObjectStore) -> pa.Table:
    found = Archive(objects).generation("lines")
    assert found is not None
    return pa.concat_tables([pq.read_table(pa.BufferReader(objects.read(it.name))) for it in found.all_files()])


def test_small_files_become_one_with_the_same_records() -> None:
    objects = MemoryObjects()
    log = with_files(objects, *range(0, 100, 10))
    assert compact(objects, log, lambda: 3_000) == Compaction(9, 1)
    found = Archive(objects).generation("lines")
    assert found is not None
    (file,) = found.all_files()
    assert (file.begin, file.end, file.rows) == (0, 90, 90)
    assert records(objects).equals(table(range(90)))
    assert file.content_digest == content_digest([table(range(90))])
    assert len(list(objects.list("lines/0/"))) == 10  # readers of older manifests find the replaced ones
    assert [report.problems for report in verify(objects, found, None)] == [[]]


def test_few_small_files_are_left_until_there_are_more() -> None:
    objects = MemoryObjects()
    log = with_files(objects, 0, 10, 20, 30)
    assert compact(objects, log, lambda: 3_000) == Compaction(0, 0)
    assert compact(objects, log, lambda: 3_000, worthwhile=2) == Compaction(3, 1)
    assert compact(objects, log, lambda: 3_000, worthwhile=2) == Compaction(0, 0)


def test_files_are_merged_up_to_a_size_within_their_partition_and_not_across_lost_offsets() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    sized = [written(objects, begin, begin + 10) for begin in range(0, 60, 10)]
    log.commit("run-1", 2_000, [span(0, 60)], sized)
    log.commit("run-1", 2_000, [span(0, 20, 1)], [written(objects, 0, 20, partition=1)])
    log.open_run("run-2", 3_000, "host:2", lambda _: [span(60, 70)])
    log.commit("run-2", 4_000, [span(70, 80)], [written(objects, 70, 80)])
    most = sum(file.bytes for file in sized[:4])
    merges = plan_compaction(log.archived, "mark", file_bytes=most, worthwhile=2)
    assert [merge.offsets for merge in merges] == [OffsetRange(0, 40), OffsetRange(40, 60)]


def test_a_compaction_gives_way_to_a_run_that_begins_meanwhile() -> None:
    objects = MemoryObjects()
    compacting = with_files(objects, *range(0, 100, 10))
    starting = TopicLog(objects, Archive(objects).generations("lines")[0])
    starting.open_run("run-2", 2_500, "host:2", lambda _: ())
    with pytest.raises(ArchiveTakenOverError):
        compact(objects, compacting, lambda: 3_000)
    assert len(Archive(objects).load(starting.archived.generation).all_files()) == 9


def test_a_damaged_file_is_not_compacted_away() -> None:
    objects = MemoryObjects()
    log = with_files(objects, *range(0, 100, 10))
    name = log.archived.all_files()[3].name
    objects.put(name, objects.read(name)[:-1] + b"?")
    with pytest.raises(ArchiveError, match=f"file {name} of the archive memory:// is damaged"):
        compact(objects, log, lambda: 3_000)
    assert len(log.archived.all_files()) == 9
