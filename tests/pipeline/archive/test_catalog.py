"""The catalog: which offsets of which generation an archive has, and what is wrong with it."""

from __future__ import annotations

import pytest

from penstock.common.errors import ArchiveError, ArchiveGapError
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.topic_log import BASE_EACH, TopicLog, begin_generation
from tests.pipeline.archive.making import begun, named, span


def test_an_archive_has_the_offsets_of_all_commits() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    log.commit("run-1", 2_000, [span(0, 10), span(5, 6, 1)], [named(0, 10), named(5, 6, 1)])
    log.commit("run-1", 3_000, [span(10, 12)], [named(10, 12)])
    archive = Archive(objects)
    assert archive.topics() == ["lines"]
    found = archive.generation("lines")
    assert found is not None
    assert found.topic_id == "id-1"
    assert found.partitions == {0: OffsetRange(0, 12), 1: OffsetRange(5, 6)}
    assert [file.name for file in found.files(0, OffsetRange(3, 12))] == [
        "lines/0/00000000000000000000-00000000000000000010.parquet",
        "lines/0/00000000000000000010-00000000000000000012.parquet",
    ]
    assert [file.begin for file in found.files(0, OffsetRange(3, 10))] == [0]
    assert found.files(0, OffsetRange(7, 7)) == []


def test_a_span_without_records_has_no_file_and_is_no_gap() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    log.commit("run-1", 2_000, [span(0, 4)], [named(0, 4)])
    log.commit("run-1", 2_000, [span(4, 9)], [])
    found = Archive(objects).generation("lines")
    assert found is not None
    assert [file.end for file in found.files(0, OffsetRange(0, 9))] == [4]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (OffsetRange(0, 20), "lacks offsets 0 to 9 of lines-0 .* it has offsets 10 to 19"),
        (OffsetRange(12, 25), "lacks offsets 20 to 24 of lines-0"),
        (OffsetRange(30, 40), "lacks offsets 30 to 39 of lines-0"),
    ],
)
def test_offsets_that_are_not_archived_are_named(asked: OffsetRange, message: str) -> None:
    log = begun(MemoryObjects())
    log.commit("run-1", 2_000, [span(10, 20)], [named(10, 20)])
    with pytest.raises(ArchiveGapError, match=message):
        log.archived.files(0, asked)
    with pytest.raises(ArchiveGapError, match="it has nothing of partition 3"):
        log.archived.files(3, asked)


def test_offsets_that_kafka_had_deleted_are_a_gap_and_the_archive_continues_behind_it() -> None:
    objects = MemoryObjects()
    begun(objects).commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    log = TopicLog(objects, Archive(objects).generations("lines")[0])
    log.open_run("run-2", 3_000, "host:2", lambda archived: [span(archived.partitions[0].end, 15)])
    log.commit("run-2", 4_000, [span(15, 20)], [named(15, 20)])
    found = Archive(objects).generation("lines")
    assert found is not None
    assert found.partitions == {0: OffsetRange(0, 20)}
    assert len(found.files(0, OffsetRange(15, 20))) == 1
    with pytest.raises(ArchiveGapError, match=r"lacks offsets 10 to 14 .*without 10 to 14, which Kafka had deleted"):
        found.files(0, OffsetRange(5, 20))


def test_a_topic_that_was_created_again_has_another_generation() -> None:
    objects = MemoryObjects()
    begun(objects).commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    second = TopicLog(objects, begin_generation(objects, "lines", "id-2", 2, 5_000))
    second.open_run("run-2", 5_000, "host:2", lambda _: ())
    second.commit("run-2", 6_000, [span(0, 3)], [])
    archive = Archive(objects)
    newest, first = archive.generation("lines"), archive.generation("lines", "id-1")
    assert newest is not None
    assert first is not None
    assert (newest.folder, newest.partitions) == ("lines~2", {0: OffsetRange(0, 3)})
    assert (first.folder, first.partitions) == ("lines", {0: OffsetRange(0, 10)})
    assert archive.generation("lines", "id-3") is None
    assert archive.generation("others") is None


def test_a_reader_needs_only_the_newest_base_and_what_comes_after_it() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    for number in range(BASE_EACH + 3):
        log.commit("run-1", 2_000, [span(number, number + 1)], [named(number, number + 1)])
    objects.delete([f"lines/manifests/{number:020}.json" for number in range(1, BASE_EACH + 1)])
    found = Archive(objects).generation("lines")
    assert found is not None
    assert found.base() == log.archived.base()
    assert found.partitions == {0: OffsetRange(0, BASE_EACH + 3)}


def test_compacted_files_are_those_that_readers_find() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    for begin in (0, 10, 20):
        log.commit("run-1", 2_000, [span(begin, begin + 10)], [named(begin, begin + 10)])
    log.compact("run-1", 9_000, [named(0, 20)], [named(0, 10).name, named(10, 20).name])
    found = Archive(objects).generation("lines")
    assert found is not None
    assert [(file.begin, file.end) for file in found.files(0, OffsetRange(0, 30))] == [(0, 20), (20, 30)]
    assert found.replaced == {named(0, 10).name: 5, named(10, 20).name: 5}


def test_a_manifest_that_is_missing_or_damaged_is_named() -> None:
    objects = MemoryObjects()
    log = begun(objects)
    for begin in (0, 10, 20):
        log.commit("run-1", 2_000, [span(begin, begin + 10)], [named(begin, begin + 10)])
    whole = objects.read("lines/manifests/00000000000000000003.json")
    objects.put("lines/manifests/00000000000000000003.json", whole[:50])
    with pytest.raises(ArchiveError, match=r"lines/manifests/00000000000000000003.json is damaged"):
        Archive(objects).generation("lines")
    objects.delete(["lines/manifests/00000000000000000003.json"])
    with pytest.raises(ArchiveError, match=r"manifests/00000000000000000003.json is missing in memory://"):
        Archive(objects).generation("lines")


def test_a_manifest_of_a_later_version_is_refused() -> None:
    objects = MemoryObjects()
    begun(objects)
    objects.put("topics/lines~1.json", objects.read("topics/lines~1.json").replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(ArchiveError, match=r"topics/lines~1.json has format 2, .* use a later version"):
        Archive(objects).generation("lines")


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [(12, 15, "adds offsets 12 to 14 of lines-0, but before it the next offset is 10"), (8, 15, "next offset is 10")],
)
def test_a_commit_that_does_not_follow_on_the_last_one_is_refused(begin: int, end: int, message: str) -> None:
    log = begun(MemoryObjects())
    log.commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    with pytest.raises(ArchiveError, match=message):
        log.commit("run-1", 2_000, [span(begin, end)], [named(begin, end)])


def test_two_files_of_the_same_offset_are_damage() -> None:
    log = begun(MemoryObjects())
    with pytest.raises(ArchiveError, match=r"0010.parquet and .*0012.parquet both have offset 9 of lines-0"):
        log.commit("run-1", 2_000, [span(0, 12)], [named(0, 10), named(9, 12)])


def test_a_place_without_an_archive_is_named() -> None:
    with pytest.raises(ArchiveError, match="there is no archive at memory://: penstock archive TOPIC --to URL makes"):
        Archive(MemoryObjects()).topics()
