"""Operators with state of their own, which must continue after an abort as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.common.topics import NewTopic
from tests.actors.exactly_once import EXACTLY, Ticker
from tests.actors.rig import APPLICATION, LONG, STRING, Rig, settle


def held_back() -> ps.Topology:
    """Counts per key, each let go when 100 ms of the records' time have passed."""
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(ps.Materialized.as_("counts"))
    for_100_ms = ps.Suppressed.until_time_limit(100, ps.BufferConfig.unbounded())
    counts.suppress(for_100_ms.with_name("held")).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


@pytest.mark.parametrize("aborts", [1, 2])
def test_results_held_back_before_an_abort_are_sent_afterwards(tmp_path: Path, aborts: int) -> None:
    rig = Rig(tmp_path, held_back(), **EXACTLY)
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-held-store-changelog", 1)])
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    rig.commit(loop)
    rig.write("in", ("c", "x", 101))
    rig.commit(loop)
    assert rig.counts() == [("a", 1)], "the others wait"
    for _ in range(aborts):
        rig.coordinator.join()
        rig.write("in", ("c", "x", 101))
        rig.commit(loop)
        rig.clock.now_ms += 10_000
        settle(loop)
    rig.write("in", ("d", "x", 1000))
    rig.commit(loop)
    assert rig.counts() == [("a", 1), ("b", 1), ("c", 1 + aborts)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_sink_that_chooses_partitions_need_not_ask_for_their_number_while_no_broker_answers(
    tmp_path: Path, guarantee: str
) -> None:
    def last(topic: str, key: str, value: str, partitions: int) -> int:
        return partitions - 1

    builder = ps.StreamsBuilder()
    ticks = builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Ticker)
    ticks.to("out", ps.Produced.with_(STRING, STRING).with_stream_partitioner(last))
    rig = Rig(tmp_path, builder.build(), partitions=2, processing_guarantee=guarantee)
    loop = rig.running()
    if guarantee == "exactly_once_v2":
        rig.broker.expire_transactions()
        rig.broker.init_producer(f"{APPLICATION}-1")
        rig.commit(loop)  # there is another producer from here on
    before = len(rig.broker.records("out"))
    rig.broker.down = True
    for _ in range(3):
        rig.clock.now_ms += 1001
        for _ in range(10):
            loop.step()
    assert not loop.finished.done(), loop.finished.result()
    rig.broker.down = False
    for _ in range(3):
        rig.clock.now_ms += 10_000
        settle(loop)
    assert len(rig.broker.records("out")) > before
    assert not [record for record in rig.broker.log(ps.TopicPartition("out", 0)).records if not record.is_marker]
