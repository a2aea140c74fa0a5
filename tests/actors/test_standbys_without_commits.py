"""At least once, a standby that does not hear of commits neither reports a lag nor takes its stores for fresh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_clients import FakeAdmin
from tests.actors.rig import APPLICATION, STRING, Rig, follow, settle, uncached
from tests.actors.standbys import READS, TASK, lag, raising, stale_count, standby_of
from tests.actors.test_restoration import kill

DAY_MS = 86_400_000
ROWS_LOG = f"{APPLICATION}-rows-changelog"


def age_ms(rig: Rig, standby: StreamLoop) -> int | None:
    return standby._standbys.by_id[TASK].directory.age_ms(rig.clock.wall_ms())


def wait(rig: Rig, standby: StreamLoop, duration_ms: int, steps: int = 10) -> None:
    for _ in range(steps):
        rig.clock.now_ms += duration_ms // steps
        follow(rig, standby)


def test_without_answers_the_age_of_its_stores_grows_and_its_lag_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, uncached())
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    follow(rig, standby)
    with monkeypatch.context() as deaf:
        deaf.setattr(FakeAdmin, "committed", raising(BrokerUnreachableError("the broker of the group")))
        wait(rig, standby, 30_000)
        assert [status.lag for status in lag(standby)] == [0], "a short silence"
        rig.write("in", ("ada", "x", 2))
        settle(active)
        rig.commit(active)
        wait(rig, standby, DAY_MS)
        assert lag(standby) == []
        assert (age_ms(rig, standby) or 0) >= DAY_MS
    follow(rig, standby)  # takes the last question that failed, and asks again
    follow(rig, standby)
    assert stale_count(standby, "ada") == 2
    assert [status.lag for status in lag(standby)] == [0]
    wait(rig, standby, 60_000)
    assert (age_ms(rig, standby) or 0) < 60_000


@pytest.mark.parametrize("hears", [True, False])
def test_deletions_that_are_compacted_while_a_standby_hears_nothing_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hears: bool
) -> None:
    rig = Rig(tmp_path / "here", table())
    config = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)}
    rig.clients.admin().create_topics([NewTopic(ROWS_LOG, 1, config=config)])
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig.on_another_node(tmp_path / "there"))
    follow(rig, standby)
    if not hears:
        monkeypatch.setattr(FakeAdmin, "committed", raising(BrokerUnreachableError("the broker of the group")))
    rig.write("in", ("ada", None, 2), ("bob", "x", 3))
    settle(active)
    rig.commit(active)
    wait(rig, standby, 3 * DAY_MS, steps=60)
    compact(rig, b"ada")
    kill(active)
    standby.assign(2, READS)
    settle(standby)
    rows = standby._tasks[TASK].state_manager._task_stores.store("rows")
    assert [key for key, _ in rows.scan(None, None)] == [b"bob"]


def test_an_outage_is_reported_once_and_its_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path)
    standby = standby_of(rig)
    for _ in range(2):
        with capture_logs() as logs:
            with monkeypatch.context() as deaf:
                deaf.setattr(FakeAdmin, "committed", raising(BrokerUnreachableError("the broker of the group")))
                wait(rig, standby, 30_000)
            wait(rig, standby, 30_000)
        reported = [(it["event"], it["log_level"]) for it in logs if it["event"].startswith("committed offsets")]
        assert reported == [
            ("committed offsets unknown, standbys wait", "warning"),
            ("committed offsets known again, standbys follow", "info"),
        ]


def compact(rig: Rig, deleted: bytes) -> None:
    """Remove all of a deleted key. The fake's logs have no gaps in offsets: deletions of another key fill them."""
    records = rig.broker.log(TopicPartition(ROWS_LOG, 0)).records
    records[:] = [replace(it, key=b"gone", value=None) if it.key == deleted else it for it in records]


def table() -> ps.Topology:
    builder = ps.StreamsBuilder()
    rows = builder.table("in", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("rows"))
    rows.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()
