"""Two writers of one archive: the later run takes over, and the earlier one can commit nothing more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from penstock.common.errors import ObjectExistsError
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.topic_log import ArchiveTakenOverError, TopicLog, begin_generation
from tests.pipeline.archive.making import begun, named, span
from tests.tiers import examples


def another(objects: MemoryObjects) -> TopicLog:
    return TopicLog(objects, Archive(objects).generations("lines")[0])


def test_a_run_that_another_has_taken_over_from_can_commit_nothing() -> None:
    objects = MemoryObjects()
    first = begun(objects)
    second = another(objects)
    second.open_run("run-2", 2_000, "host:2", lambda _: ())
    with pytest.raises(ArchiveTakenOverError, match="another run has begun to archive lines to memory://"):
        first.commit("run-1", 3_000, [span(0, 10)], [named(0, 10)])
    with pytest.raises(ArchiveTakenOverError):
        first.compact("run-1", 3_000, [], [])
    second.commit("run-2", 3_000, [span(0, 10)], [named(0, 10)])
    assert another(objects).archived.partitions == {0: OffsetRange(0, 10)}


def test_a_compaction_beside_a_run_stops_neither() -> None:
    objects = MemoryObjects()
    running = begun(objects)
    for begin in (0, 10):
        running.commit("run-1", 2_000, [span(begin, begin + 10)], [named(begin, begin + 10)])
    compacting = another(objects)
    running.commit("run-1", 3_000, [span(20, 30)], [named(20, 30)])
    compacting.compact("run-1", 4_000, [named(0, 20)], [named(0, 10).name, named(10, 20).name])
    running.commit("run-1", 5_000, [span(30, 40)], [named(30, 40)])
    archived = another(objects).archived
    assert [(file.begin, file.end) for file in archived.all_files()] == [(0, 20), (20, 30), (30, 40)]


def test_a_commit_whose_answer_was_lost_is_one_commit() -> None:
    class Forgetful(MemoryObjects):
        """Repeats each request, as a client does that got no answer to the first."""

        @override
        def create(self, name: str, content: bytes) -> None:
            super().create(name, content)
            raise ObjectExistsError(name)

    objects = Forgetful()
    log = begun(objects)
    log.commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    log.commit("run-1", 2_000, [span(10, 20)], [named(10, 20)])
    assert another(objects).archived.number == 3
    assert another(objects).archived.partitions == {0: OffsetRange(0, 20)}


def test_two_clusters_cannot_begin_the_same_generation() -> None:
    objects = MemoryObjects()
    begin_generation(objects, "lines", "id-1", 1, 1_000)
    assert begin_generation(objects, "lines", "id-1", 1, 2_000).begun_at_ms == 1_000
    with pytest.raises(ArchiveTakenOverError, match="two clusters are archived to one place"):
        begin_generation(objects, "lines", "id-2", 1, 2_000)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["open", "commit", "compact"])), max_size=40))
def test_whatever_several_writers_do_the_archive_has_each_offset_once(steps: list[tuple[int, str]]) -> None:
    objects = MemoryObjects()
    begin_generation(objects, "lines", "id-1", 1, 1_000)
    logs = [another(objects) for _ in range(3)]
    runs = ["", "", ""]
    committed = 0
    for number, (who, step) in enumerate(steps):
        log, archived = logs[who], logs[who].archived
        end = archived.partitions.get(0, OffsetRange(0, 0)).end
        try:
            if step == "open":
                log.open_run(f"run-{number}", number, "host", lambda _: ())
                runs[who] = f"run-{number}"
            elif step == "commit" and runs[who]:
                log.commit(runs[who], number, [span(end, end + 10)], [named(end, end + 10)])
                committed += 1
            elif step == "compact" and len(archived.all_files()) > 1:
                one, two = archived.all_files()[-2:]
                log.compact(archived.run, number, [named(one.begin, two.end)], [one.name, two.name])
        except ArchiveTakenOverError:
            runs[who] = ""
        found = another(objects).archived
        assert sum(file.rows for file in found.all_files()) == 10 * committed
        assert found.partitions.get(0, OffsetRange(0, 0)) == OffsetRange(0, 10 * committed)
