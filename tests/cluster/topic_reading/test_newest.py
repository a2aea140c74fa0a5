"""The newest records of a topic: those of all partitions, whatever offsets and timestamps there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.topic_reading.newest import Newest
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch

Log = list[int | None]
"""The timestamps of a partition's records; None for an offset without a record: a marker, or a compacted record."""


def batch_of(number: int, log: Log, offsets: OffsetRange) -> RecordBatch:
    """Returns the records at ``offsets``."""
    found = [(offset, time) for offset in range(offsets.begin, offsets.end) if (time := log[offset]) is not None]
    none: list[bytes | None] = [None] * len(found)
    times = [time for _, time in found]
    return RecordBatch(TopicPartition("t", number), none, list(none), times, [offset for offset, _ in found])


def newest(logs: list[Log], limit: int) -> tuple[list[tuple[int, int]], int]:
    """Returns the places of the newest records, and the number of offsets that were read for them."""
    search = Newest({number: OffsetRange(0, len(log)) for number, log in enumerate(logs)}, limit)
    read = 0
    while windows := search.next_round():
        for number, offsets in windows.items():
            read += len(offsets)
            search.take(batch_of(number, logs[number], offsets))
            search.end_window(number)
    return [(record.partition, record.offset) for record in search.records()], read


def expected(logs: list[Log], limit: int) -> list[tuple[int, int]]:
    """Takes the greatest timestamp among the last records of all partitions, again and again."""
    left = [[(offset, time) for offset, time in enumerate(log) if time is not None] for log in logs]
    found: list[tuple[int, int]] = []
    while len(found) < limit and any(left):
        number = max((n for n, each in enumerate(left) if each), key=lambda n: (left[n][-1][1], -n))
        found.append((number, left[number].pop()[0]))
    return found


logs_of = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=60), max_size=6)


@given(logs_of, st.integers(1, 25))
def test_it_finds_what_a_look_at_all_records_finds(logs: list[Log], limit: int) -> None:
    found, _ = newest(logs, limit)
    wanted = expected(logs, limit)

    def key(place: tuple[int, int]) -> int:
        return min(time for time in logs[place[0]][place[1] :] if time is not None)

    # Of records that count with the same time, in several partitions, any may be the last ones.
    assert list(map(key, found)) == list(map(key, wanted))
    for number in range(len(logs)):
        offsets = [offset for partition, offset in found if partition == number]
        assert offsets == sorted(offsets, reverse=True)
        there = [offset for offset, time in enumerate(logs[number]) if time is not None]
        assert offsets == there[len(there) - len(offsets) :][::-1], "none is left out between two"


def test_partitions_whose_records_are_older_are_not_read_further() -> None:
    newer: Log = [*range(1000, 11_000)]
    older: Log = [0] * 10_000
    logs = [newer, *[older] * 9]
    found, read = newest(logs, 20)
    assert found == [(0, offset) for offset in range(9999, 9979, -1)]
    assert read < 100


def test_a_long_stretch_without_records_takes_few_rounds() -> None:
    log: Log = [7, *[None] * 100_000]
    search = Newest({0: OffsetRange(0, len(log))}, 20)
    rounds = 0
    while windows := search.next_round():
        rounds += 1
        assert rounds < 10
        search.take(batch_of(0, log, windows[0]))
        search.end_window(0)
    assert [record.offset for record in search.records()] == [0]


def test_a_window_that_is_not_read_to_its_end_counts_for_nothing() -> None:
    log: Log = list(range(100))
    search = Newest({0: OffsetRange(0, 100)}, 20)
    search.take(batch_of(0, log, search.next_round()[0]))
    search.end_window(0)
    before = [record.offset for record in search.records()]
    window = search.next_round()[0]
    search.take(batch_of(0, log, OffsetRange(window.begin, window.begin + 1)))
    assert [record.offset for record in search.records()] == before == [99, 98]
    assert [each.reached for each in search.looked()] == [98]


def test_large_values_are_kept_as_far_as_they_can_be_shown() -> None:
    search = Newest({0: OffsetRange(0, 1)}, 5)
    search.next_round()
    headers = [[(f"{n}" * 1000, b"h" * 5_000_000) for n in range(100)]]
    search.take(RecordBatch(TopicPartition("t", 0), [b"k" * 5_000_000], [b"v" * 5_000_000], [1], [0], headers))  # type: ignore[arg-type]  # lists are invariant
    search.end_window(0)
    (record,) = search.records()
    assert record.key is not None
    assert record.value is not None
    assert (record.key.size, record.value.size, record.header_count) == (5_000_000, 5_000_000, 100)
    kept = len(record.key.data) + len(record.value.data) + sum(len(n) + len(d.data) for n, d in record.headers if d)
    assert kept < 256 << 10
