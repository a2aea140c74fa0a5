"""The fake consumer and the real one pass the same tests: of positions, progress, and the ends of partitions."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.kafka.contracts import BEGINNING, END
from tests.kafka.conftest import Rig
from tests.kafka.test_conformance import Eventually, read, reading, rows_of, write


def test_reading_begins_at_the_given_offset(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    write(rig, topic, *((None, b"%d" % n, n + 1) for n in range(5)))
    with reading(rig, {TopicPartition(topic, 0): 3}) as consumer:
        assert consumer.position(TopicPartition(topic, 0)) == 3
        assert [row[3] for row in rows_of(read(consumer, 2, eventually))] == [b"3", b"4"]
        assert consumer.position(TopicPartition(topic, 0)) == 5


def test_reading_from_the_end_sees_only_what_comes_after(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    write(rig, topic, (None, b"before", 1))
    with reading(rig, {tp: END}) as consumer:
        eventually(lambda: not consumer.poll(10, 0.05) and consumer.position(tp) == 1, "the end is known")
        write(rig, topic, (None, b"after", 2))
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"after"]


def test_partitions_that_stay_assigned_keep_their_position(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(rig, topic, (None, b"a0", 1), (None, b"a1", 2), partition=0)
    write(rig, topic, (None, b"b0", 1), partition=1)
    with reading(rig, {first: BEGINNING}) as consumer:
        read(consumer, 2, eventually)
        consumer.assign({first: BEGINNING, second: BEGINNING})
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"b0"]
        consumer.assign({second: BEGINNING})
        write(rig, topic, (None, b"a2", 3), partition=0)
        write(rig, topic, (None, b"b1", 3), partition=1)
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"b1"]
        consumer.assign({first: 2, second: BEGINNING})
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"a2"]


def test_paused_partitions_lose_nothing(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(rig, topic, *((None, b"a%d" % n, 1) for n in range(10)), partition=0)
    with reading(rig, {first: BEGINNING, second: BEGINNING}) as consumer:
        assert len(rows_of(read(consumer, 3, eventually, limit=3))) == 3
        consumer.pause([first])
        write(rig, topic, (None, b"b", 2), partition=1)
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"b"]
        assert consumer.poll(10, 0.05) == []
        consumer.resume([first])
        assert [row[1] for row in rows_of(read(consumer, 7, eventually))] == list(range(3, 10))


def test_ends_are_known_without_asking_once_something_was_fetched(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    with reading(rig, {tp: BEGINNING}) as consumer:
        assert consumer.end_offset(tp) is None
        write(rig, topic, *((None, b"v", 1) for _ in range(4)))
        read(consumer, 4, eventually)
        assert consumer.end_offset(tp) == 4
        assert consumer.position(tp) == 4


def test_the_first_offset_of_a_time_is_asked_for(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    first, second, empty = (TopicPartition(topic, number) for number in range(3))
    write(rig, topic, (None, b"a", 10), (None, b"b", 30), (None, b"c", 20), partition=0)
    write(rig, topic, (None, b"d", 5), partition=1)
    with reading(rig, {}) as consumer:
        assert consumer.fetch_offsets_at({first: 11, second: 11, empty: 0}) == {first: 1}
        assert consumer.fetch_offsets_at({first: 31, second: 5}) == {second: 0}
        assert consumer.fetch_offsets_at({}) == {}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("how", ["assigned again", "sought"])
@pytest.mark.long
def test_an_end_of_before_is_forgotten(rig: Rig, eventually: Eventually, how: str, more: int) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    write(rig, topic, (None, b"v", 1))
    with reading(rig, {tp: BEGINNING}) as consumer:
        read(consumer, 1, eventually)
        if how == "sought":
            consumer.seek(tp, 1)
        else:
            consumer.assign({})
            consumer.assign({tp: 1})
        write(rig, topic, *((None, b"w", 1) for _ in range(more)))
        assert consumer.end_offset(tp) is None
        read(consumer, more, eventually)
        eventually(
            lambda: not consumer.poll(10, 0.05) and consumer.end_offset(tp) == 1 + more, "the end is known again"
        )


def test_an_empty_partition_is_at_its_end(rig: Rig, eventually: Eventually) -> None:
    tp = TopicPartition(rig.topic(), 0)
    with reading(rig, {tp: BEGINNING}) as consumer:
        eventually(lambda: not consumer.poll(10, 0.05) and consumer.position(tp) == 0, "the position is known")
        assert consumer.end_offset(tp) == 0


def test_beginnings_and_ends_are_those_of_now(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(rig, topic, *((None, b"v", 1) for _ in range(5)), partition=0)
    rig.clients.admin().delete_records({first: 2})
    with closing(rig.clients.consumer()) as consumer:
        assert consumer.fetch_beginning_offsets([first, second]) == {first: 2, second: 0}
        assert consumer.fetch_end_offsets([first, second]) == {first: 5, second: 0}
        assert consumer.fetch_end_offsets([]) == {}
    assert rig.clients.admin().end_offsets([first, second]) == {first: 5, second: 0}


def test_a_deleted_offset_is_reported_and_reading_continues_where_the_caller_decides(
    rig: Rig, eventually: Eventually
) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(rig, topic, *((None, b"a%d" % n, 1) for n in range(5)), partition=0)
    write(rig, topic, *((None, b"b%d" % n, 1) for n in range(5)), partition=1)
    rig.clients.admin().delete_records({first: 4})
    lost: dict[TopicPartition, int] = {}
    others: list[RecordBatch] = []

    def reported() -> bool:
        others.extend(consumer.poll(10, 0.05))
        lost.update(consumer.lost_positions())
        return bool(lost) and sum(map(len, others)) == 5

    with reading(rig, {first: 1, second: 0}) as consumer:
        eventually(reported, "the lost position")
        assert lost == {first: 1}
        assert {tp for tp, *_ in rows_of(others)} == {second}, "the other partition is read all the same"
        assert consumer.lost_positions() == {}
        consumer.seek(first, 4)
        assert [row[3] for row in rows_of(read(consumer, 1, eventually))] == [b"a4"]
        assert (consumer.position(first), consumer.position(second)) == (5, 5)


def test_seeking_back_reads_again(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    write(rig, topic, *((None, b"%d" % n, 1) for n in range(4)))
    with reading(rig, {tp: 0}) as consumer:
        read(consumer, 4, eventually)
        consumer.seek(tp, 1)
        assert [row[1] for row in rows_of(read(consumer, 3, eventually))] == [1, 2, 3]
