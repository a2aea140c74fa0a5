"""The part of the changelogs that a commit covers, in the metadata of its offsets."""

from __future__ import annotations

import pytest

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.tasks.commit_coverage import covered, covering, without_coverage
from penstock.tasks.offsets import LONGEST, STREAM_TIME, decode_partition_time, decode_remembered, encode_partition_time

A, B = TopicPartition("in", 0), TopicPartition("other", 0)
LOGGED = {"counts": 7, "windows": 1 << 40}


def test_one_offset_carries_the_coverage_and_the_times_remain() -> None:
    times = {"join" + STREAM_TIME: 5}
    offsets = {B: CommittedOffset(4, "AgAAAAAAAAAK"), A: CommittedOffset(3, encode_partition_time(77, times))}
    reported, left_out = covering(offsets, LOGGED, LOGGED)
    assert (reported[B], reported[A].offset, left_out) == (offsets[B], 3, 0)
    assert decode_partition_time(reported[A].metadata) == 77
    assert times.items() <= decode_remembered(reported[A].metadata).items()
    assert covered(reported.values(), ["counts", "windows", "no such store"]) == LOGGED


def test_without_it_a_commit_is_what_it_was() -> None:
    for metadata in ("", encode_partition_time(77), encode_partition_time(-1, {"store": 3, "join" + STREAM_TIME: 5})):
        reported, _ = covering({A: CommittedOffset(3, metadata)}, LOGGED, LOGGED)
        before = CommittedOffset(3, metadata or encode_partition_time(-1))
        assert without_coverage(reported[A], LOGGED) == before
        assert without_coverage(before, LOGGED) == before


def test_of_several_commits_the_furthest_counts() -> None:
    old, _ = covering({A: CommittedOffset(3)}, {"counts": 5}, ["counts"])
    new, _ = covering({B: CommittedOffset(3)}, {"counts": 8}, ["counts"])
    assert covered({**old, **new}.values(), ["counts"]) == {"counts": 8}


def stores(count: int) -> dict[str, int]:
    """Offsets of so many stores, named as a builder names them."""
    return {f"KSTREAM-AGGREGATE-STATE-STORE-{number:010d}": 1_000_000_000 + number for number in range(count)}


@pytest.mark.parametrize("count", [1, 90, 140, 400])
def test_hundreds_of_stores_have_room(count: int) -> None:
    logged = {store: end for store, end in stores(count).items() if count == 1 or not store.endswith("7")}
    reported, left_out = covering({A: CommittedOffset(3, encode_partition_time(77))}, logged, stores(count))
    assert (left_out, len(reported[A].metadata) <= LONGEST) == (0, True)
    assert covered(reported.values(), reversed(list(stores(count)))) == logged
    assert without_coverage(reported[A], stores(count)) == CommittedOffset(3, encode_partition_time(77))


def test_a_list_of_other_stores_reports_nothing() -> None:
    reported, _ = covering({A: CommittedOffset(3)}, stores(400), stores(400))
    assert covered(reported.values(), stores(401)) == {}


def test_it_is_the_first_to_be_left_out_where_there_is_no_room() -> None:
    times = {f"KSTREAM-AGGREGATE-{number:010d}{STREAM_TIME}": number for number in range(100)}
    logged = stores(400)
    reported, left_out = covering({A: CommittedOffset(3, encode_partition_time(77, times))}, logged, logged)
    assert left_out == 400
    assert len(reported[A].metadata) <= LONGEST
    assert covered(reported.values(), logged) == {}
    assert len(decode_remembered(without_coverage(reported[A], logged).metadata)) == len(times)
