"""The choice of the next partition, and the conditions under which an empty one holds the others back."""

from __future__ import annotations

import pytest

from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.tasks.context import TaskContext
from penstock.tasks.partition_group import PartitionGroup
from penstock.tasks.record_queue import Part, RecordQueue, Source
from penstock.topology.dsl.streams_builder import StreamsBuilder
from tests.tasks.bench import STRINGS, Bench

A, B, C, D = (TopicPartition(topic, 0) for topic in "abcd")


def group_of(*partitions: TopicPartition, idle_ms: int = 0) -> PartitionGroup:
    context = TaskContext("app", TaskId(0, 0))
    source = Source("t", Part(None), Part(None), FailOnInvalidTimestamp(), lambda key, value, timestamp: None, "s")
    queues = {each: RecordQueue(each, source, context, False) for each in partitions}
    return PartitionGroup(queues, idle_ms)


def fill(group: PartitionGroup, partition: TopicPartition, *timestamps: int) -> None:
    nothing: list[bytes | None] = [None] * len(timestamps)
    queue = group.queues[partition]
    waited = bool(queue)
    queue.add(RecordBatch(partition, nothing, nothing, list(timestamps), list(range(len(timestamps)))))
    if not waited:
        group.offer(queue)


def drain_one_by_one(group: PartitionGroup) -> list[tuple[str, int]]:
    """Takes one record at a time, as a task may. Returns topics and timestamps in that order."""
    order = []
    while chosen := group.poll():
        queue = chosen[0]
        order.append((queue.partition.topic, queue.head_timestamp))
        queue.advance(queue.index + 1)
        if queue:
            group.offer(queue)
    return order


def test_the_smallest_head_timestamp_goes_first() -> None:
    group = group_of(A, B, C)
    fill(group, A, 5, 9)
    fill(group, B, 3, 7)
    fill(group, C, 4)
    assert drain_one_by_one(group) == [("b", 3), ("c", 4), ("a", 5), ("b", 7), ("a", 9)]


def test_order_within_a_partition_is_offset_order_even_when_time_runs_backwards() -> None:
    group = group_of(A, B)
    fill(group, A, 10, 2, 3)
    fill(group, B, 6)
    assert drain_one_by_one(group) == [("b", 6), ("a", 10), ("a", 2), ("a", 3)]


def test_equal_timestamps_are_served_as_javas_priority_queue_serves_them() -> None:
    # Worked out by hand from siftUp and siftDown: A stays the root, then the last element (D) takes its place.
    group = group_of(A, B, C, D)
    for each in (A, B, C, D):
        fill(group, each, 1)
    assert [topic for topic, _ in drain_one_by_one(group)] == ["a", "d", "c", "b"]


def test_a_run_ends_where_another_partitions_head_comes_first() -> None:
    group = group_of(A, B)
    fill(group, A, 1, 2, 3)
    fill(group, B, 3)
    chosen = group.poll()
    assert chosen is not None
    assert (chosen[0].partition, chosen[1]) == (A, 3)


def test_a_bad_record_at_the_head_is_due_at_once() -> None:
    group = group_of(A, B)
    fill(group, A, 1)
    fill(group, B, -5)  # the default extractor refuses it
    chosen = group.poll()
    assert chosen is not None
    assert chosen[0].partition == B


class TestWaiting:
    def test_nothing_is_ready_without_records(self) -> None:
        assert not group_of(A, B).ready(0)

    def test_with_records_in_every_partition_no_one_is_waited_for(self) -> None:
        group = group_of(A, B, idle_ms=1000)
        fill(group, A, 1)
        fill(group, B, 1)
        assert group.ready(0)

    @pytest.mark.parametrize("known", [None, False], ids=["lag unknown", "lag above 0"])
    def test_an_empty_partition_that_may_have_records_is_waited_for_however_long(self, known: bool | None) -> None:
        group = group_of(A, B)
        fill(group, A, 1)
        group.set_caught_up(B, known)
        assert not group.ready(0)
        assert not group.ready(10**12)

    def test_by_default_one_that_is_caught_up_is_not_waited_for(self) -> None:
        group = group_of(A, B)
        fill(group, A, 1)
        group.set_caught_up(B, True)
        assert group.ready(0)

    def test_one_that_is_caught_up_is_waited_for_until_the_idle_time_has_passed(self) -> None:
        group = group_of(A, B, idle_ms=100)
        fill(group, A, 1)
        group.set_caught_up(B, True)
        assert not group.ready(1000)
        assert not group.ready(1099)
        assert group.ready(1100)

    def test_the_idle_time_begins_again_when_lag_shows_up_in_between(self) -> None:
        group = group_of(A, B, idle_ms=100)
        fill(group, A, 1)
        group.set_caught_up(B, True)
        assert not group.ready(0)
        group.set_caught_up(B, False)
        assert not group.ready(150)
        group.set_caught_up(B, True)
        assert not group.ready(160)
        assert group.ready(260)

    def test_the_idle_time_begins_again_when_a_partition_runs_empty_again(self) -> None:
        group = group_of(A, B, idle_ms=100)
        fill(group, A, 1, 2, 3)
        group.set_caught_up(B, True)
        assert not group.ready(0)
        fill(group, B, 0)
        assert group.ready(50)
        chosen = group.poll()
        assert chosen is not None
        chosen[0].advance(1)  # B is empty again
        assert not group.ready(1000)
        assert group.ready(1100)

    def test_minus_one_never_waits(self) -> None:
        group = group_of(A, B, idle_ms=-1)
        fill(group, A, 1)
        assert group.ready(0)

    def test_all_empty_partitions_must_have_waited(self) -> None:
        group = group_of(A, B, C, idle_ms=100)
        fill(group, A, 1)
        group.set_caught_up(B, True)
        assert not group.ready(0)
        group.set_caught_up(C, True)
        assert not group.ready(100)
        assert group.ready(200)


def test_a_task_merges_two_topics_by_time() -> None:
    builder = StreamsBuilder()
    builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS)).to("out")
    bench = Bench(builder, {"default.key.serde": STRINGS.key_serde, "default.value.serde": STRINGS.value_serde})
    bench.add("left", ("k", "l1", 1), ("k", "l5", 5), ("k", "l6", 6))
    bench.add("right", ("k", "r2", 2), ("k", "r3", 3), ("k", "r7", 7))
    bench.run()
    assert [each.value for each in bench.collector.take()] == [b"l1", b"r2", b"r3", b"l5", b"l6", b"r7"]


def test_a_task_with_max_task_idle_holds_records_back_until_the_time_is_over() -> None:
    builder = StreamsBuilder()
    builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS)).to("out")
    serdes = {"default.key.serde": STRINGS.key_serde, "default.value.serde": STRINGS.value_serde}
    bench = Bench(builder, {**serdes, "max.task.idle.ms": 50})
    bench.add("left", ("k", "l5", 5))
    assert bench.run(wall_ms=1000) == 0
    bench.add("right", ("k", "r2", 2))
    assert bench.run(wall_ms=1010) == 1
    assert bench.run(wall_ms=1060) == 1
    assert [each.value for each in bench.collector.take()] == [b"r2", b"l5"]
