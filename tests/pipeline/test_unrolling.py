"""Cycles as passes: what each reads and writes, and the order in which it takes the records of other passes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.backfill.order import in_order
from penstock.pipeline.backfill.unrolling import unrolled
from penstock.pipeline.reading.due_records import DueBatch
from penstock.pipeline.reading.merge import TimedBatches
from penstock.pipeline.reading.merge_cycle import merged_cycle, placed
from penstock.topology.physical.topology import Topology
from tests.pipeline.topologies import (
    STRING,
    foreign_key_chain,
    foreign_key_join,
    foreign_key_join_merged_with_its_input,
    foreign_key_join_of_rows_that_expire,
    foreign_key_join_with_views,
    self_join,
)

Pass = tuple[set[str], int, int, bool]
"""The topics from outside, the numbers of topics of the cycle that it reads and writes, and True if it is partial."""


def passes(topology: Topology) -> list[Pass] | None:
    cycle, *_ = in_order(topology)
    found = unrolled(cycle)
    if found is None:
        return None
    written: set[str] = set()
    shown = []
    for each in found:
        read = {topic for source in each.subtopology.sources for topic in source.topics}
        assert read & cycle.inner <= written, "each pass reads what earlier ones wrote"
        assert not each.writes & written, "and writes what none has written"
        written |= each.writes
        shown.append((read - cycle.inner, len(read & cycle.inner), len(each.writes), each.partial))
        own = {node.name for node in each.subtopology.nodes}
        parents = {parent for node in each.subtopology.nodes for parent in getattr(node, "parents", ())}
        assert parents <= own, "it has each operator with all that it gets records from"
    assert written == cycle.inner
    whole = {each.subtopology.id: each.subtopology for each in found if not each.partial}
    assert whole == {sub.id: sub for sub in cycle.subtopologies}
    return shown


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (foreign_key_join, [({"left"}, 0, 1, True), ({"right"}, 1, 1, False), ({"left"}, 1, 0, False)]),
        (
            foreign_key_join_with_views,
            [({"left"}, 0, 1, True), ({"right"}, 1, 1, False), ({"left", "views"}, 1, 0, False)],
        ),
        (
            foreign_key_join_merged_with_its_input,
            [({"left"}, 0, 1, True), ({"right"}, 1, 1, False), ({"left"}, 1, 0, False)],
        ),
        (self_join, [({"people"}, 0, 1, True), ({"people"}, 1, 1, True), ({"people"}, 2, 0, False)]),
        (
            foreign_key_chain,
            [
                ({"left"}, 0, 1, True),
                ({"right"}, 1, 1, False),
                ({"left"}, 1, 1, True),
                ({"third"}, 1, 1, False),
                ({"left"}, 2, 0, False),
            ],
        ),
    ],
)
def test_a_pass_reads_what_leads_to_its_topics_and_the_last_one_of_a_subtopology_all(
    program: Callable[[], Topology], expected: list[Pass]
) -> None:
    assert passes(program()) == expected


class _Same(ps.FixedKeyProcessor[str, str, str]):
    def init(self, context: ps.FixedKeyProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.FixedKeyRecord[str, str]) -> None:
        self.context.forward(record)


def processed_by_the_user() -> Topology:
    builder = ps.StreamsBuilder()
    texts = ps.Consumed.with_(STRING, STRING)
    kept: ps.Materialized[str, str] = ps.Materialized.as_("kept")
    left = builder.stream("left", texts).process_values(_Same)
    table = left.to_table(kept.with_key_serde(STRING).with_value_serde(STRING))
    joined = table.join(builder.table("right", texts), lambda value: value, lambda value, other: value)
    joined.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


@pytest.mark.parametrize("program", [foreign_key_join_of_rows_that_expire, processed_by_the_user])
def test_what_sees_the_records_of_other_topics_by_their_time_runs_once(program: Callable[[], Topology]) -> None:
    assert passes(program()) is None


def outside(topic: str, times: list[int], size: int) -> Iterator[RecordBatch]:
    for begin in range(0, len(times), size):
        own = times[begin : begin + size]
        keys: list[bytes | None] = [f"{topic}{begin + index}".encode() for index in range(len(own))]
        yield RecordBatch(TopicPartition(topic, 0), keys, [None] * len(own), own, range(begin, begin + len(own)))


def test_what_a_pass_wrote_comes_behind_the_record_that_led_to_it() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    times = {topic: [rng.randrange(30) for _ in range(40)] for topic in ("a", "b")}

    def read(size: int) -> list[Iterator[DueBatch]]:
        first = {"a": 0, "b": 1 << 40}
        return [placed(TimedBatches(outside(topic, times[topic], size)), first[topic], 0) for topic in times]

    def keys(partitions: list[Iterator[DueBatch]], records: int) -> list[tuple[bytes | None, int, int]]:
        found = []
        for chunk in merged_cycle(partitions, records):
            rows = [iter([key for batch in own for key in batch.keys]) for own in chunk.partitions]
            found += [
                (next(rows[index]), due, place)
                for index, due, place in zip(chunk.order, chunk.due, chunk.places, strict=True)
            ]
        return found

    order = keys(read(7), 1000)
    assert [key for key, *_ in order] == [
        f"{topic}{index}".encode()
        for _, topic, index in sorted(
            (max(own[: index + 1]), topic, index) for topic, own in times.items() for index in range(len(own))
        )
    ]
    led_to = [(b"of " + (key or b""), due, place) for key, due, place in order if rng.random() < 0.5]
    writers = [[row for number, row in enumerate(led_to) if number % 3 == writer] for writer in range(3)]

    def written(rows: list[tuple[bytes, int, int]], size: int) -> Iterator[DueBatch]:
        for begin in range(0, len(rows), size):
            keys, due, places = zip(*rows[begin : begin + size], strict=True)
            count = len(keys)
            batch = RecordBatch(TopicPartition("inner", 0), [*keys], [None] * count, [5] * count, range(count))
            yield DueBatch(batch, np.array(due, np.int64), np.array(places, np.int64))

    expected = [
        row for each in order for row in (each, *(own for own in led_to if own[0] == b"of " + (each[0] or b"")))
    ]
    for size in (1, 5, 1000):
        for records in (1, 9, 1000):
            inner = [written(rows, size) for rows in writers]
            assert keys([*read(size), *inner], records) == expected
