"""The order in which records of several partitions reach a task."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.ids import TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.due_records import BYTES_PER_CHUNK, DueBatch
from penstock.pipeline.reading.merge import TimedBatches, merged, merged_writers
from penstock.pipeline.reading.merge_cycle import merged_cycle
from tests.tiers import examples

TIMES = st.lists(st.lists(st.integers(0, 12), max_size=25), min_size=1, max_size=4)


def batches(at: TopicPartition, times: list[int], sizes: random.Random, writer: int = 0) -> Iterator[RecordBatch]:
    """Records in batches of any sizes, empty ones among them; their headers say which writer and place they are of."""
    begin = 0
    while begin < len(times):
        own = list(range(begin, min(begin + sizes.randrange(4), len(times))))
        headers: list[Headers | None] = [[(f"{writer}", b"%d" % place)] for place in own]
        own_times = [times[place] for place in own]
        yield RecordBatch(at, [b"k"] * len(own), [b"v"] * len(own), own_times, own, headers)
        begin += len(own)


LARGE = 100


def large(found: Iterator[RecordBatch], sizes: list[int]) -> Iterator[RecordBatch]:
    """The same records with values of these sizes."""
    for batch in found:
        yield replace(batch, values=[b"x" * sizes[offset] if sizes[offset] else None for offset in batch.offsets])


def by_running_maximum(times: list[list[int]]) -> list[tuple[int, int]]:
    """Partition (or writer) and place of each record, in order, worked out one by one."""
    rows = []
    for number, own in enumerate(times):
        latest = -1
        for place, time in enumerate(own):
            latest = max(latest, time)
            rows.append((latest, number, place))
    return [(number, place) for _, number, place in sorted(rows)]


def in_order(chunk: Chunk) -> list[tuple[int, int]]:
    """Partition and offset of each record of a chunk, in its order."""
    records = [
        iter([(batch.partition.partition, offset) for batch in own for offset in batch.offsets])
        for own in chunk.partitions
    ]
    return [next(records[index]) for index in chunk.order]


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, st.integers(1, 30), st.integers(0, 9))
def test_partitions_are_merged_by_the_running_maximum_in_chunks_that_depend_on_the_records_alone(
    times: list[list[int]], size: int, seed: int
) -> None:
    sizes = random.Random(seed)
    chunks = list(
        merged(
            [TimedBatches(batches(TopicPartition("t", number), own, sizes)) for number, own in enumerate(times)], size
        )
    )
    expected = by_running_maximum(times)
    assert [it for chunk in chunks for it in in_order(chunk)] == expected
    assert [len(chunk.order) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert sum(len(chunk.order) for chunk in chunks) == len(expected)


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, st.data())
def test_chunks_of_large_records_have_fewer_in_the_same_order_whatever_the_batches(
    times: list[list[int]], data: st.DataObject
) -> None:
    values = [data.draw(st.lists(st.integers(0, 80), min_size=len(own), max_size=len(own))) for own in times]

    def chunks(seed: int) -> list[Chunk]:
        sizes = random.Random(seed)
        of_partitions = [
            TimedBatches(large(batches(TopicPartition("t", number), own, sizes), values[number]))
            for number, own in enumerate(times)
        ]
        return list(merged(of_partitions, 20, LARGE))

    found = chunks(0)
    assert [it for chunk in found for it in in_order(chunk)] == by_running_maximum(times)
    assert [in_order(chunk) for chunk in chunks(1)] == [in_order(chunk) for chunk in found]
    for chunk in found:
        for number, own in enumerate(values):
            taken = [own[place] for partition, place in in_order(chunk) if partition == number]
            assert sum(taken[:-1]) < LARGE


def due(at: TopicPartition, rows: list[tuple[int, int, int]], sizes: random.Random) -> Iterator[DueBatch]:
    """Records of (due, place, size of the value), in batches of any sizes."""
    given = batches(at, [time for time, *_ in rows], sizes)
    for batch in large(given, [size for *_, size in rows]):
        own = [rows[offset] for offset in batch.offsets]
        yield DueBatch(batch, *(np.array([row[column] for row in own], np.int64) for column in (0, 1)))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 80)), max_size=25),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 30),
)
def test_chunks_of_a_cycle_are_bounded_in_records_and_bytes_and_depend_on_the_records_alone(
    given: list[list[tuple[int, int, int]]], size: int
) -> None:
    rows = [sorted(own, key=itemgetter(0, 1)) for own in given]

    def chunks(seed: int) -> list[Chunk]:
        sizes = random.Random(seed)
        partitions = [due(TopicPartition("t", number), own, sizes) for number, own in enumerate(rows)]
        return list(merged_cycle(partitions, size, LARGE))

    found = chunks(0)
    expected = sorted(
        (time, place, number, offset) for number, own in enumerate(rows) for offset, (time, place, _) in enumerate(own)
    )
    assert [it for chunk in found for it in in_order(chunk)] == [tuple(it[2:]) for it in expected]
    assert [it for chunk in found for it in zip(chunk.due, chunk.places, strict=True)] == [it[:2] for it in expected]
    assert [in_order(chunk) for chunk in chunks(1)] == [in_order(chunk) for chunk in found]
    for chunk in found:
        assert 0 < len(chunk.order) <= size
        for number, own in enumerate(rows):
            taken = [own[place][2] for partition, place in in_order(chunk) if partition == number]
            assert sum(taken[:-1]) < LARGE


def test_chunks_of_many_writers_with_large_values_are_as_bounded_as_those_of_few() -> None:
    value, writers = b"x" * 100_000, 64

    def written(number: int) -> Iterator[DueBatch]:
        for begin in range(0, 40, 10):
            batch = RecordBatch(
                TopicPartition("t", number), [None] * 10, [value] * 10, [0] * 10, range(begin, begin + 10)
            )
            yield DueBatch(batch, np.arange(begin, begin + 10), np.zeros(10, np.int64))

    chunks = list(merged_cycle([written(number) for number in range(writers)]))
    assert sum(len(chunk.order) for chunk in chunks) == 40 * writers
    assert max(len(chunk.order) for chunk in chunks) * len(value) <= BYTES_PER_CHUNK + writers * len(value)


@pytest.mark.parametrize("headers", [None, [[("h", b"x" * LARGE)], None, [("h", None)], [("h" * LARGE, None)]]])
def test_keys_and_headers_count_as_values_do(headers: list[Headers | None] | None) -> None:
    keys = [b"k", None, None, None] if headers else [b"k" * LARGE, None, b"k", b"k" * LARGE]
    batch = RecordBatch(TopicPartition("t", 0), keys, [None] * 4, [0] * 4, range(4), headers)
    chunks = merged([TimedBatches(iter([batch]))], 20, LARGE)
    assert [list(own.offsets) for chunk in chunks for (own,) in chunk.partitions] == [[0], [1, 2, 3]]


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, st.integers(0, 9))
def test_writers_keep_their_order_and_are_merged_by_the_running_maximum(times: list[list[int]], seed: int) -> None:
    sizes = random.Random(seed)
    at = TopicPartition("app-shuffle-repartition", 0)
    found = []
    for batch in merged_writers([batches(at, own, sizes, writer) for writer, own in enumerate(times)]):
        assert batch.partition == at
        assert batch.headers is not None
        places = [(int(own[0][0]), int(own[0][1] or b"")) for own in batch.headers if own is not None]
        assert list(map(itemgetter(1), places)) == list(batch.offsets)
        assert batch.timestamps == [times[writer][place] for writer, place in places]
        found += places
    assert found == by_running_maximum(times)


def test_a_late_record_follows_its_predecessor_at_once() -> None:
    late, other = TopicPartition("a", 0), TopicPartition("b", 1)
    order = list(
        merged(
            [
                TimedBatches(batches(late, [10, 50, 20, 60], random.Random(0))),
                TimedBatches(batches(other, [5, 15, 55, 12], random.Random(0))),
            ]
        )
    )
    times = {late: [10, 50, 20, 60], other: [5, 15, 55, 12]}
    (chunk,) = order
    found = [times[late if number == 0 else other][place] for number, place in in_order(chunk)]
    assert found == [5, 10, 15, 50, 20, 55, 12, 60]
