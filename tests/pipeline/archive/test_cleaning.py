"""Deleted objects: what no manifest names at once, what readers may still want after a day."""

from __future__ import annotations

import pytest

from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.cleaning import KEPT_MS, Cleaning, clean, clean_outdated
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.topic_log import BASE_EACH, TopicLog
from tests.pipeline.archive.making import begun, named, span


def names(objects: MemoryObjects, prefix: str) -> list[str]:
    return [info.name for info in objects.list(prefix)]


class Storage:
    """An archive in memory, whose clock the test sets, and a run that has begun at 1000."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.now = 1_000
        self.ahead_ms = ahead_ms
        self.objects = MemoryObjects(lambda: self.now)
        self.log = begun(self.objects)

    def put(self, *files: ArchivedFile, at: int) -> None:
        self.now = at
        for file in files:
            self.objects.put(file.name, b"records")

    def clean(self, at: int) -> Cleaning:
        """Begin the next run, on a machine whose clock is ``ahead_ms`` ahead, and clean."""
        log, opened = self.next_run(f"run-{at}", at)
        return clean(self.objects, log.archived, opened)

    def next_run(self, run: str, at: int) -> tuple[TopicLog, str]:
        self.now = at
        log = TopicLog(self.objects, Archive(self.objects).generations("lines")[0])
        return log, log.open_run(run, at + self.ahead_ms, "host:2", lambda _: ())


def test_files_that_no_manifest_names_are_deleted_when_the_next_run_begins() -> None:
    storage = Storage()
    storage.put(named(0, 10), named(10, 20), at=1_500)
    storage.log.commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    assert storage.clean(3_000).orphans == (named(10, 20).name,)
    assert names(storage.objects, "lines/0/") == [named(0, 10).name]


def test_files_of_a_compaction_beside_the_run_are_left_alone() -> None:
    storage = Storage()
    log, opened = storage.next_run("run-2", 2_000)
    storage.put(named(0, 20), at=2_000 + 9 * KEPT_MS)
    assert clean(storage.objects, log.archived, opened).orphans == ()
    assert names(storage.objects, "lines/0/") == [named(0, 20).name]


@pytest.mark.parametrize("ahead_ms", [-90 * KEPT_MS, 0, 90 * KEPT_MS])
def test_replaced_files_are_kept_for_a_day_by_the_clock_of_the_storage(ahead_ms: int) -> None:
    storage = Storage(ahead_ms)
    for begin in (0, 10):
        storage.put(named(begin, begin + 10), at=2_000)
        storage.log.commit("run-1", 40 * KEPT_MS, [span(begin, begin + 10)], [named(begin, begin + 10)])
    storage.put(named(0, 20), at=5_000)
    storage.log.compact("run-1", 40 * KEPT_MS, [named(0, 20)], [named(0, 10).name, named(10, 20).name])
    assert storage.clean(5_000 + KEPT_MS - 1) == Cleaning((), ())
    assert len(names(storage.objects, "lines/0/")) == 3
    storage.clean(5_000 + KEPT_MS)
    assert names(storage.objects, "lines/0/") == [named(0, 20).name]


def test_replaced_files_are_kept_for_a_day_after_the_entry_that_replaced_them() -> None:
    storage = Storage()
    storage.put(named(0, 10), named(10, 20), at=2_000)
    storage.log.commit("run-1", 2_000, [span(0, 20)], [named(0, 10), named(10, 20)])
    storage.put(named(0, 20), at=3_000)
    storage.now += 2 * KEPT_MS  # the compaction was suspended
    storage.log.compact("run-1", 4_000, [named(0, 20)], [named(0, 10).name, named(10, 20).name])
    entered = storage.now
    assert storage.clean(entered + KEPT_MS - 1) == Cleaning((), ())
    storage.clean(entered + KEPT_MS)
    assert names(storage.objects, "lines/0/") == [named(0, 20).name]


def test_replaced_files_are_forgotten_once_deleted_and_a_later_compaction_of_them_is_void() -> None:
    storage = Storage()
    storage.put(named(0, 10), named(10, 20), at=2_000)
    storage.log.commit("run-1", 2_000, [span(0, 20)], [named(0, 10), named(10, 20)])
    suspended = TopicLog(storage.objects, storage.log.archived.generation)
    replaced = (named(0, 10).name, named(10, 20).name)
    storage.put(named(0, 20), at=3_000)
    storage.log.compact("run-1", 3_000, [named(0, 20)], replaced)
    storage.put(named(20, 21), at=3_000 + KEPT_MS)
    assert clean_outdated(storage.objects, storage.log.archived) == replaced
    assert storage.log.archived.replaced.keys() == set(replaced)
    clean_outdated(storage.objects, storage.log.archived)
    for number in range(20, 20 + BASE_EACH):
        storage.log.commit("run-1", 4_000, [span(number, number + 1)], [named(number, number + 1)])
    before = Archive(storage.objects).generation("lines")
    suspended.compact("run-1", 5_000, [named(0, 20)], replaced)
    after = Archive(storage.objects).generation("lines")
    assert before is not None
    assert after is not None
    assert (before.replaced, after.replaced, after.all_files()) == ({}, {}, before.all_files())


def test_manifests_that_a_base_covers_are_kept_for_a_day_and_the_archive_stays_whole() -> None:
    storage = Storage()
    for number in range(2 * BASE_EACH):
        storage.now = number
        storage.log.commit("run-1", number, [span(number, number + 1)], [named(number, number + 1)])
    before = Archive(storage.objects).generation("lines")
    assert before is not None
    assert storage.clean(KEPT_MS - 1).outdated == ()
    storage.clean(storage.now + 2 * KEPT_MS)
    assert names(storage.objects, "lines/bases/") == [f"lines/bases/{2 * BASE_EACH:020}.json"]
    assert names(storage.objects, "lines/manifests/")[0] == f"lines/manifests/{2 * BASE_EACH + 1:020}.json"
    after = Archive(storage.objects).generation("lines")
    assert after is not None
    assert (after.base().files, after.base().spans) == (before.base().files, before.base().spans)


def test_a_run_that_was_taken_over_from_deletes_nothing() -> None:
    storage = Storage()
    log, opened = storage.next_run("run-2", 2_000)
    storage.put(named(0, 10), at=500)
    storage.next_run("run-3", 3_000)
    assert clean(storage.objects, log.archived, opened) == Cleaning((), ())
    assert names(storage.objects, "lines/0/") == [named(0, 10).name]
