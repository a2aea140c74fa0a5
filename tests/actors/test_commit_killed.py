"""Whenever an actor is killed, a commit under way or not: nothing is lost, and no store is behind its offset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.actors.commit_messages import CommitRequest
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.topics import NewTopic
from tests.actors.rig import APPLICATION, CHANGELOG, LONG, STRING, Rig, producer_of, settle, uncached
from tests.actors.test_commit_beside_records import KEYS, TASK, counted_once, processed
from tests.tiers import sampled


def rows_of(rig: Rig, offset: int) -> dict[bytes, bytes]:
    """Returns the rows that the first ``offset`` records of the changelog make."""
    rows: dict[bytes, bytes] = {}
    for record in rig.broker.records(CHANGELOG)[:offset]:
        assert record.key is not None
        assert record.value is not None
        rows[record.key] = record.value
    return rows


def topologies() -> dict[str, ps.Topology]:
    def count(materialized: Any) -> ps.KTable[str, int]:
        return builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(materialized)

    made = {}
    builder = ps.StreamsBuilder()
    count(ps.Materialized.as_("counts")).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    made["cached"] = builder.build()
    made["uncached"] = uncached()
    builder = ps.StreamsBuilder()
    doubled = count(ps.Materialized.as_("counts")).map_values(
        lambda value: 2 * value, ps.Materialized.as_("doubled").with_value_serde(LONG)
    )
    doubled.to_stream().to("out", ps.Produced.with_(STRING, LONG))
    made["two stores"] = builder.build()
    return made


TOPOLOGIES = topologies()


@pytest.mark.parametrize("shape", list(TOPOLOGIES))
@pytest.mark.parametrize("seed", sampled(range(8), every=3))
def test_whenever_it_is_killed_nothing_is_lost_and_no_store_is_behind_its_offset(
    tmp_path: Path, shape: str, seed: int
) -> None:
    print(f"seed {seed}, {shape}")
    random = Random(seed)
    rig = Rig(tmp_path, TOPOLOGIES[shape])
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-doubled-changelog", 1)])
    fed: Counter[str] = Counter()
    kills = 0
    for epoch in range(1, 7):
        loop, known = rig.loop(), None
        producer_of(loop).most_at_once = random.choice([None, 1, 50])
        rig.assign(loop, epoch, TASK)
        for _ in range(random.randrange(10, 250)):
            what = random.random()
            if what < 0.2:
                keys = [f"k{random.randrange(1300)}" for _ in range(random.choice([1, 10, 700]))]
                fed.update(keys)
                rig.write("in", *((key, "x", 1) for key in keys))
            elif what < 0.3:
                rig.clock.now_ms += 1001
            elif what < 0.4 and rig.coordinator.held is None:
                rig.coordinator.hold()
            elif what < 0.5:
                rig.coordinator.release()
            elif what < 0.55:
                producer = producer_of(loop)
                producer.offsets_unknown = not producer.offsets_unknown
            loop.step()
            assert not loop.finished.done(), loop.finished.result()
            known = _offset_is_true(rig, loop, known)
        kills += 1
        _kill(rig, loop)
    last = rig.loop()
    rig.assign(last, 99, TASK)
    settle(last, at_most=20_000)
    rig.stop(last)
    assert kills == 6
    found = dict(rig.counts())
    factor = 2 if shape == "two stores" else 1
    assert found.keys() == fed.keys()
    assert all(found[key] >= factor * count for key, count in fed.items()), "at least once: nothing is lost"
    assert rig.committed() == sum(fed.values())


def _offset_is_true(rig: Rig, loop: StreamLoop, known: int | None) -> int | None:
    """Asserts, if the offset beside the committed rows is not ``known``, that they are not older than the changelog's
    rows in front of it. Returns that offset."""
    hosted = loop._tasks.get(TASK)
    offset = hosted.state_manager.changelog_offset("counts") if hosted is not None else None
    if hosted is None or not offset or offset == known:
        return known
    assert known is None or offset > known
    buffer = hosted.state_manager.store("counts").buffer  # type: ignore[attr-defined]  # a key-value store's
    for key, value in rows_of(rig, offset).items():
        row = buffer.committed.get(key)
        assert row is not None
        assert int.from_bytes(row[8:], "big") >= int.from_bytes(value, "big"), (key, offset)
    return offset


def _kill(rig: Rig, loop: StreamLoop) -> None:
    """Acts as if the process had ended: queued records are gone, and answers that come now reach nobody."""
    producer_of(loop).close()
    loop._commits.abandon()
    loop._job = None
    loop._jobs.clear()
    rig.coordinator.held = None
    for hosted in loop._tasks.values():
        hosted.state_manager.close()


def test_a_request_that_was_sent_and_never_answered_is_repeated_by_the_next_life(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    taken: list[CommitRequest] = []
    rig.coordinator.hold()
    rig.commit(loop)
    taken += rig.coordinator.requests
    _kill(rig, loop)
    again = rig.running(epoch=2)
    assert len(taken) == 1
    assert processed(again) == KEYS
    rig.commit(again)
    assert rig.committed() == KEYS
