"""Topics whose times a user's extractor decides are merged by these, as the live task merges them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.rows import SINK
from penstock.pipeline.task_hosts.event_times import EventTimes
from penstock.pipeline.task_hosts.task_host import program_of
from penstock.tasks.offsets import encode_partition_time
from tests.pipeline.rows import CONFIG, Row, RowsInput, host, on_the_driver, output, process

STRING = ps.Serdes.string()


class InValue:
    """The number before the colon; the largest so far for a record without one."""

    def __call__(self, record: ps.Record[Any, Any], broker: int, partition_time: int, at: Any) -> int:
        time = record.value.partition(":")[0]
        return int(time) if time else partition_time


def joined() -> ps.Topology:
    builder = ps.StreamsBuilder()
    text = ps.Consumed.with_(STRING, STRING).with_timestamp_extractor(InValue())
    prices = builder.table("prices", text)
    orders = builder.stream("orders", text)
    orders.left_join(prices, lambda order, price: f"{order}@{price}").to("priced", ps.Produced.with_(STRING, STRING))
    return builder.build()


def records(rng: random.Random, topic: str, parity: int) -> list[Row]:
    """Records whose own timestamps mislead: they come in the opposite order."""
    time, rows = 0, []
    for offset in range(200):
        time += rng.randrange(1, 6)
        extracted = str(max(0, time - rng.choice([0, 0, 0, 9])) * 2 + parity) if rng.random() < 0.9 else ""
        rows.append(process(0, topic, offset, f"k{rng.randrange(4)}", f"{extracted}:{offset}", 10_000 - offset))
    return rows


def times(rows: list[Row], committed: dict[TopicPartition, CommittedOffset] | None = None) -> list[int]:
    program = program_of(joined().subtopologies[0], CONFIG)
    partition = TopicPartition(rows[0][2], 0)
    found = EventTimes(program, partition, committed or {})
    made: list[int] = []
    for begin in range(0, len(rows), 30):
        _, _, _, _, offsets, keys, values, own, _ = map(list, zip(*rows[begin : begin + 30], strict=True))
        made += found.of(RecordBatch(partition, keys, values, own, offsets))
    return made


def test_a_join_that_is_merged_by_the_times_of_an_extractor_gives_what_the_live_task_gives() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    sides = [records(rng, "orders", 0), records(rng, "prices", 1)]
    program = program_of(joined().subtopologies[0], CONFIG)
    given = RowsInput(sides[0] + sides[1], 70, times_of=lambda *at: EventTimes(program, TopicPartition(*at), {}).of)
    results = output(host(joined()).run([0], given))[SINK]
    expected = on_the_driver(joined(), sides[0] + sides[1], 0)
    assert [(row["key"], row["value"], row["timestamp"]) for row in results] == expected


def test_the_largest_time_so_far_continues_from_what_was_committed() -> None:
    rows = [process(0, "orders", 5, "k", ":", 1)]
    committed = {TopicPartition("orders", 0): CommittedOffset(5, encode_partition_time(70))}
    assert times(rows) == [-1]
    assert times(rows, committed) == [70]


def test_a_record_that_the_task_will_refuse_is_due_at_once() -> None:
    rows = [process(0, "orders", 0, "k", "7:", 1), process(0, "orders", 1, "k", "no number:", 2)]
    assert times(rows) == [7, -1]


def test_a_serde_that_cannot_answer_now_stops_the_merge() -> None:
    # With a time of no record, the task would take the record too early, and read it when the registry answers again.
    def away(data: bytes) -> str:
        raise ps.RetriableError("the registry does not answer")

    builder = ps.StreamsBuilder()
    text = ps.Consumed.with_(STRING, ps.Serde("away", str.encode, away)).with_timestamp_extractor(InValue())
    builder.stream("orders", text).to("out", ps.Produced.with_(STRING, STRING))
    partition = TopicPartition("orders", 0)
    found = EventTimes(program_of(builder.build().subtopologies[0], CONFIG), partition, {})
    with pytest.raises(ps.RetriableError):
        found.of(RecordBatch(partition, [b"k"], [b"1:a"], [1], [0]))
