"""The plan of a run: of which generation it archives, from which offsets on, in which batches and parts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.errors import ArchiveError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.memory import MemoryObjects
from penstock.pipeline.archive.batches import next_ranges, parts_of
from penstock.pipeline.archive.manifest import Generation, Span
from penstock.pipeline.archive.plan import Continued, check_lost, where_to_start, which_generation
from tests.pipeline.archive.making import begun, named, span

ONE, TWO = TopicPartition("lines", 0), TopicPartition("lines", 1)
offsets = st.integers(0, 1_000)


def generation(number: int, topic_id: str) -> Generation:
    return Generation(topic="lines", number=number, topic_id=topic_id, begun_at_ms=1)


def test_the_newest_generation_is_continued_and_another_id_begins_the_next() -> None:
    known = [generation(1, "id-1"), generation(2, "id-2")]
    assert which_generation("lines", "id-1", [], "here") == Continued(1, True)
    assert which_generation("lines", "id-2", known, "here") == Continued(2, False)
    assert which_generation("lines", "id-3", known, "here") == Continued(3, True)
    with pytest.raises(ArchiveError, match=r"id id-1 here, and here .* \(generation 2, id id-2\): two Kafka clusters"):
        which_generation("lines", "id-1", known, "here")


def test_a_run_starts_at_the_archives_end_or_behind_what_kafka_has_deleted() -> None:
    log = begun(MemoryObjects())
    log.commit("run-1", 2_000, [span(0, 10), span(0, 20, 1)], [named(0, 10), named(0, 20, 1)])
    kafka = {0: OffsetRange(5, 50), 1: OffsetRange(25, 30), 2: OffsetRange(7, 9)}
    start = where_to_start(log.archived, kafka)
    assert start.begins == {0: 10, 1: 25, 2: 7}
    assert start.lost == (Span(1, 20, 25), Span(2, 0, 7))
    check_lost("lines", start.lost, accepted=True)
    with pytest.raises(
        ArchiveError, match=r"lines-1 offsets 20 to 24, lines-2 offsets 0 to 6\. Archive more often, .* --accept-loss"
    ):
        check_lost("lines", start.lost, accepted=False)


def test_a_kafka_that_ends_before_the_archive_has_lost_records() -> None:
    log = begun(MemoryObjects())
    log.commit("run-1", 2_000, [span(0, 10)], [named(0, 10)])
    with pytest.raises(ArchiveError, match="has lines-0 up to offset 9, and Kafka ends at 7: Kafka has lost records"):
        where_to_start(log.archived, {0: OffsetRange(0, 8)})


@given(offsets, offsets, offsets, st.integers(1, 500))
def test_batches_come_to_the_ends_and_each_takes_of_all_partitions(one: int, two: int, begin: int, most: int) -> None:
    begins, ends = {ONE: begin, TWO: 0}, {ONE: begin + one, TWO: two}
    batches = 0
    while ranges := next_ranges(begins, ends, most):
        taken = sum(it.end - it.begin for it in ranges.values())
        assert 0 < taken <= most + len(ranges)  # each share is rounded up
        assert {it for it in begins if begins[it] < ends[it]} == ranges.keys()
        assert all(it.begin == begins[at] for at, it in ranges.items())
        begins |= {at: it.end for at, it in ranges.items()}
        batches += 1
    assert begins == ends
    assert batches <= (one + two) // most + 2


@given(offsets, offsets, st.integers(1, 9), st.integers(1, 300))
def test_parts_cover_each_offset_once_and_keep_all_tasks_busy(one: int, two: int, tasks: int, least: int) -> None:
    ranges = {at: OffsetRange(5, 5 + count) for at, count in ((ONE, one), (TWO, two)) if count}
    parts = parts_of(ranges, tasks, least)
    for at, its in ranges.items():
        own = [part for part in parts if part[:2] == at]
        assert [offset for _, _, begin, end in own for offset in range(begin, end)] == list(range(its.begin, its.end))
    assert all(0 < end - begin <= max(least, math.ceil((one + two) / tasks)) for _, _, begin, end in parts)
