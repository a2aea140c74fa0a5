"""Records of two partitions in turn: the order, and all that is told of it, as with one record at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.errors import InvalidTimestampError
from penstock.common.ids import TopicPartition
from penstock.tasks.alternation import process_both
from penstock.tasks.context import TaskContext
from penstock.tasks.partition_group import PartitionGroup
from penstock.tasks.record_queue import RecordQueue
from penstock.topology.dsl.streams_builder import StreamsBuilder
from tests.tasks.bench import STRINGS, Bench, Resume, Row

SOME = 10**6
BATCHES = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=8), min_size=1, max_size=3)


def merging(handler: Resume) -> Bench:
    """A task that writes down the records of two topics in their order; those whose value ends in "!" fail."""

    def loud(value: str) -> str:
        if value.endswith("!"):
            raise ValueError(value)
        return value

    builder = StreamsBuilder()
    builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS)).map_values(loud).to("out")
    serdes = {"default.key.serde": STRINGS.key_serde, "default.value.serde": STRINGS.value_serde}
    return Bench(builder, {**serdes, "processing.exception.handler": handler})


def played(batches: list[list[int]], others: list[list[int]], failing: set[int], at_once: list[int]) -> object:
    """Everything that shows of a task which is given these batches, records of these times, and takes ``at_once`` many
    at each step, then the rest."""
    handler, written = Resume(), 0
    bench = merging(handler)
    for topic, given_batches in (("left", batches), ("right", others)):
        for times in given_batches:
            rows = []
            for time in times:
                rows.append(Row("k", f"{topic} {written}{'!' if written in failing else ''}", time))
                written += 1
            bench.add(topic, *rows)
    steps: list[int] = []
    done = 0
    while count := bench.task.process(at_once[len(steps) % len(at_once)], 0):
        steps.append(count)
        done += count
    errors = [(error.topic, error.partition, error.offset) for error in handler.errors]
    sent = [(each.value, each.timestamp) for each in bench.collector.take()]
    assert done == written
    assert all(count <= most for count, most in zip(steps, at_once * len(steps), strict=False))
    return sent, errors, bench.task.offsets(), bench.task.metrics()


@given(BATCHES, BATCHES, st.sets(st.integers(0, 20)), st.lists(st.integers(1, 9), min_size=1))
def test_any_steps_give_what_steps_of_one_record_give(
    batches: list[list[int]], others: list[list[int]], failing: set[int], at_once: list[int]
) -> None:
    assert played(batches, others, failing, at_once) == played(batches, others, failing, [1])
    assert played(batches, others, failing, [SOME]) == played(batches, others, failing, [1])


def test_equal_timestamps_alternate() -> None:
    bench = merging(Resume())
    bench.add("left", *(Row("k", f"l{number}", 5) for number in range(3)))
    bench.add("right", *(Row("k", f"r{number}", 5) for number in range(3)))
    bench.task.process(SOME, 0)
    assert [each.value for each in bench.collector.take()] == [b"l0", b"r0", b"l1", b"r1", b"l2", b"r2"]


def test_records_of_two_partitions_go_through_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[tuple[RecordQueue, int] | None] = []

    def watched(context: TaskContext, group: PartitionGroup, queue: RecordQueue, most: int) -> object:
        together.append(found := process_both(context, group, queue, most))
        return found

    monkeypatch.setattr("penstock.tasks.task.process_both", watched)
    bench = merging(Resume())
    bench.add("left", *(Row("k", "l", 5) for _ in range(100)))
    bench.add("right", *(Row("k", "r", 5) for _ in range(100)))
    assert bench.task.process(SOME, 0) == 200
    assert [found[1] for found in together if found] == [199]


@pytest.mark.parametrize("behind", [0, 2])
def test_a_bad_record_is_due_after_those_before_it_and_at_once(behind: int) -> None:
    bench = merging(Resume())
    bench.add("left", *(Row("k", "l", 5) for _ in range(3)))
    bench.add("right", *(Row("k", "r", 6) for _ in range(behind)), Row("k", "bad", -5))
    with pytest.raises(InvalidTimestampError) as refused:
        bench.task.process(SOME, 0)
    assert (refused.value.topic, refused.value.offset) == ("right", behind)
    rights = [b"r"] * behind
    assert [each.value for each in bench.collector.take()] == ([b"l"] * 3 + rights if behind else [])


def test_records_with_headers_keep_their_own() -> None:
    bench = merging(Resume())
    bench.add("left", Row("k", "l", 5, [("h", b"1")]), Row("k", "l", 5))
    bench.add("right", *(Row("k", "r", 5) for _ in range(2)))
    bench.task.process(SOME, 0)
    assert [each.headers for each in bench.collector.take()] == [[("h", b"1")], None, None, None]
    assert bench.task.buffered(TopicPartition("left", 0)) == 0
