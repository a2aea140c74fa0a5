"""The commit that an Iceberg table needs: whatever was lost in between, and whatever others did with the table."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.errors import ArchiveError
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.publication import InTable, plan_publication
from tests.pipeline.archive.making import begun, named, span
from tests.tiers import examples


class Table:
    """A table in memory, to which publications are applied. ``rows``: its files of the archive."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.end = 0
        self.entry = 0
        self.rewritten = False

    def publish(self, archived: ArchivedTopic) -> None:
        planned = plan_publication(archived, InTable(self.rows, {0: self.end}, self.entry, self.rewritten))
        for name in planned.removes:
            del self.rows[name]
        for file in planned.adds:
            assert self.rows.setdefault(file.name, file.rows) == file.rows
        if archived.number >= self.entry:
            self.entry, self.end = archived.number, archived.partitions[0].end


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from(["commit", "compact", "publish"]), max_size=30))
def test_a_table_has_each_file_of_the_archive_once_whatever_publications_were_lost(steps: list[str]) -> None:
    log, table = begun(MemoryObjects()), Table()
    for number, step in enumerate([*steps, "commit", "publish"]):
        archived, files = log.archived, log.archived.all_files()
        end = files[-1].end if files else 0
        if step == "commit":
            log.commit("run-1", number, [span(end, end + 10)], [named(end, end + 10)])
        elif step == "compact" and len(files) > 1:
            one, two = files[-2:]
            log.compact("run-1", number, [named(one.begin, two.end)], [one.name, two.name])
        elif step == "publish" and files:
            table.publish(archived)
    assert table.rows == {file.name: file.rows for file in log.archived.all_files()}


def archived(*edges: int) -> ArchivedTopic:
    log = begun(MemoryObjects())
    for begin, end in pairwise(edges):
        log.commit("run-1", 1, [span(begin, end)], [named(begin, end)])
    return log.archived


def test_a_run_that_was_overtaken_takes_nothing_back() -> None:
    newer = archived(0, 10, 20)
    table = Table()
    table.publish(newer)
    table.publish(archived(0, 10))
    assert len(table.rows) == 2


def test_rows_that_another_program_has_rewritten_or_deleted_are_not_added_again() -> None:
    table = Table()
    table.publish(archived(0, 10, 20))
    del table.rows[named(0, 10).name]
    table.rewritten = True
    table.publish(archived(0, 10, 20, 30))
    assert set(table.rows) == {named(10, 20).name, named(20, 30).name}


def test_a_compacted_file_replaces_others_only_if_the_table_has_them_whole() -> None:
    def state(*files: tuple[int, int], rows: int = 10) -> InTable:
        return InTable({named(*file).name: rows for file in files}, {0: 20}, 0, True)

    compacted = archived(0, 20)
    swapped = plan_publication(compacted, state((0, 10), (10, 20)))
    assert ([it.end for it in swapped.adds], len(swapped.removes)) == ([20], 2)
    assert not plan_publication(compacted, state())
    for partly in (state((0, 10)), state((0, 10), (10, 20), rows=-1)):
        with pytest.raises(ArchiveError, match=r"offsets 0 to 19 cannot be told apart in it\. Drop the table"):
            plan_publication(compacted, partly)
