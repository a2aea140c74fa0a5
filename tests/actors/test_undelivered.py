"""At least once: records that the broker did not take in time. The tasks continue from the last commit.

A client that sends nothing shows no more than that (docs/STUCK_CLIENTS.md), nor does a broker that is away for long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import RecordProducer
from tests.actors.rig import (
    APPLICATION,
    CHANGELOG,
    LONG,
    STRING,
    Rig,
    count_of,
    key_query,
    producer_of,
    query,
    settle,
    states,
)
from tests.actors.test_commit_failures import failing_on
from tests.actors.test_lease import Clock
from tests.actors.test_restoration import kill

TASK = TaskId(0, 0)
ROWS_LOG = f"{APPLICATION}-rows-changelog"


def counting(store: Any, caching: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_(store)
    kept = kept.with_caching_enabled() if caching else kept.with_caching_disabled()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(kept)
    counts.to_stream().to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


SHAPES = {
    "cached": lambda: counting("counts", True),
    "uncached": lambda: counting("counts", False),
    "in memory": lambda: counting(ps.Stores.in_memory_key_value_store("counts"), False),
}


def expire(loop: StreamLoop) -> RecordProducer:
    """Lets what the loop's producer was given expire undelivered. Returns the producer."""
    producer = producer_of(loop)
    producer.expire()
    return producer


@pytest.mark.parametrize("shape", list(SHAPES))
def test_records_whose_results_were_not_delivered_are_processed_again_from_the_last_commit(
    tmp_path: Path, shape: str
) -> None:
    rig = Rig(tmp_path, SHAPES[shape]())
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 1))
    rig.commit(loop)
    producer_of(loop).most_at_once = 0  # stuck
    rig.write("in", ("a", "x", 2))
    rig.clock.now_ms += 1001
    for _ in range(20):
        loop.step()
    assert rig.committed() == 2, "nothing is committed whose results are not delivered"
    with capture_logs() as logs:
        before = expire(loop)
        producer_of(loop).most_at_once = None
        settle(loop)
        rig.commit(loop)
    (line,) = [line for line in logs if line["event"].endswith("going back to the last commit")]
    assert line["event"].startswith("records not delivered")
    assert "topic" in line["reason"]
    assert producer_of(loop) is before, "it alone keeps what is still on its way from coming later"
    assert states(loop) == {TASK: TaskState.RUNNING}
    assert rig.counts()[-1] == rig.counts(CHANGELOG)[-1] == ("a", 2)
    assert (count_of(loop, "a"), count_of(loop, "b"), rig.committed()) == (2, 1, 3)


def test_a_producer_that_delivers_nothing_twice_is_replaced(tmp_path: Path) -> None:
    """The producer may be what is stuck: the broker answers others."""
    rig = Rig(tmp_path)
    loop = rig.running()
    producer_of(loop).most_at_once = 0
    rig.write("in", ("a", "x", 1))
    before = producer_of(loop)
    for same in (True, False):
        rig.clock.now_ms += 1001
        for _ in range(20):
            loop.step()
        assert rig.committed() is None
        expire(loop)
        settle(loop)
        assert (producer_of(loop) is before) == same
    rig.commit(loop)
    assert (rig.counts(), rig.committed()) == ([("a", 1)], 1)


@pytest.mark.parametrize("shape", list(SHAPES))
def test_updates_that_reached_a_changelog_are_restored_before_their_records_come_again(
    tmp_path: Path, shape: str
) -> None:
    """A record may count twice, as after a crash, but a store is never behind its changelog."""
    rig = Rig(tmp_path, SHAPES[shape]())
    loop = rig.running()
    producer_of(loop).most_at_once = 1  # a round
    rig.write("in", ("a", "x", 1), ("b", "x", 1))
    rig.clock.now_ms += 1001
    while not rig.counts(CHANGELOG):
        loop.step()
    producer_of(loop).most_at_once = 0
    expire(loop)
    producer_of(loop).most_at_once = None
    settle(loop)
    rig.commit(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}
    folded = dict(rig.counts(CHANGELOG))
    assert folded == {key: count_of(loop, key) for key in "ab"}
    assert folded["a"] in (1, 2)
    assert folded["b"] in (1, 2)
    assert rig.committed() == 2


def test_an_outage_that_is_longer_than_records_may_wait_ends_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.down = True
    rig.clock.now_ms += 1001
    for _ in range(3):
        for _ in range(20):
            loop.step()
        expire(loop)
        rig.clock.now_ms += 121_000
    for _ in range(20):
        loop.step()
    assert not loop.finished.done()
    rig.broker.down = False
    rig.clock.now_ms += 10_000
    settle(loop)
    rig.commit(loop)
    assert (count_of(loop, "a"), rig.counts()[-1], rig.committed()) == (1, ("a", 1), 1)


def test_an_actor_that_stops_or_fails_ends_though_its_last_records_are_not_delivered(tmp_path: Path) -> None:
    for number, bad in enumerate(["", "bad"]):
        rig = Rig(tmp_path / str(number), failing_on("bad", 2), partitions=2)
        loop = rig.running()
        producer_of(loop).most_at_once = 0
        rig.write("in", ("a", "x", 1), partition=1)
        settle(loop)
        if bad:
            rig.write("in", ("b", bad, 1), partition=0)
        else:
            loop.stop()
        for _ in range(50):
            loop.step()
        assert not loop.finished.done(), "it waits for what it has sent"
        expire(loop)
        settle(loop)
        assert loop.finished.done()
        assert ("cannot bear bad" in (loop.finished.result() or "")) == bool(bad)
        assert rig.committed(1) is None


@pytest.mark.parametrize("why", ["timed out", "lease expired"])
@pytest.mark.parametrize("then", ["crash", "timed out again"])
def test_an_actor_that_goes_back_waits_for_the_answer_to_the_commit_under_way(
    tmp_path: Path, why: str, then: str
) -> None:
    """Kafka may take that commit late. Then records before it are not read again, so they must not be processed in
    between: their values would stay behind newer ones in the changelog."""
    rig = Rig(tmp_path / "here", latest_value(), statestore_cache_max_bytes=0)
    rig.clients.admin().create_topics([NewTopic(ROWS_LOG, 1)])
    clock = Clock()
    rig.lease = Lease(clock)
    rig.lease.begin(30.0)
    loop = rig.running()
    rig.write("in", ("k", "v0", 1))
    rig.commit(loop)
    rig.write("in", ("k", "v1", 2), ("k", "v2", 3))
    settle(loop)
    rig.coordinator.hold()
    rig.commit(loop)
    assert (rig.committed(), len(rig.coordinator.held or ())) == (1, 1), "the coordinator has no answer yet"
    rig.write("in", ("z", "x", 4))
    producer_of(loop).most_at_once = 0  # stuck
    for _ in range(20):
        loop.step()
    if why == "timed out":
        producer_of(loop).expire()
    else:
        clock.now_s += 30.0
        for _ in range(5):
            loop.step()
        rig.lease.begin(30.0)
    deliver_one(loop)  # of what the actor sends again
    rig.coordinator.release()
    deliver_one(loop)
    if then == "crash":
        kill(loop)
        loop = rig.on_another_node(tmp_path / "there").running(epoch=2, slot=2)
    else:
        producer_of(loop).expire()
        producer_of(loop).most_at_once = None
        settle(loop)
    rig.clock.now_ms += 10_000
    rig.commit(loop)
    rig.commit(loop)
    assert {it.key: it.value for it in rig.broker.records(ROWS_LOG)} == {b"k": b"v2", b"z": b"x"}
    (found,) = query(loop, key_query("k", store="rows"))
    assert found.rows[0][1] == "v2"


def latest_value() -> ps.Topology:
    """The last value of each key, in a store with a changelog of its own."""
    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_("rows").with_key_serde(STRING).with_value_serde(STRING)
    rows = builder.stream("in", ps.Consumed.with_(STRING, STRING)).to_table(kept)
    rows.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def deliver_one(loop: StreamLoop) -> None:
    """Lets the loop work for a while; then the broker takes one of the records that it has sent, and no other."""
    for _ in range(100):
        loop.step()
    producer = producer_of(loop)
    if producer._queue:
        producer.most_at_once = 1
        producer.poll()
        producer.most_at_once = 0
