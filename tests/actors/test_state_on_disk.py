"""State that tasks leave on disk: its age limits and its removal. On the fake broker."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.state.disk.rocksdb import RocksDBTaskStores
from tests.actors.rig import (
    APPLICATION,
    CHANGELOG,
    STRING,
    Rig,
    count_of,
    key_query,
    query,
    settle,
    states,
)

HOUR_MS = 3_600_000


def keep_deletions_for(rig: Rig, ms: int) -> None:
    rig.clients.admin().delete_topics([CHANGELOG])
    config = {"cleanup.policy": "compact", "delete.retention.ms": str(ms)}
    rig.clients.admin().create_topics([NewTopic(CHANGELOG, 1, config=config)])


def compact(rig: Rig) -> None:
    """Do what the log cleaner does some time after the retention: deletions go, and what they deleted went before."""
    log = rig.broker.log(TopicPartition(CHANGELOG, 0))
    deleted = {record.key for record in log.records if record.value is None}
    # Offsets must stay: records that are compacted away are replaced by one that changes nothing.
    other = next(record for record in log.records if record.key not in deleted)
    log.records = [other if record.key in deleted else record for record in log.records]


@pytest.mark.parametrize(("away_ms", "comes_back"), [(HOUR_MS // 2, True), (2 * HOUR_MS, False)])
def test_stores_older_than_the_changelog_keeps_deletions_are_wiped_at_the_start(
    tmp_path: Path, away_ms: int, comes_back: bool
) -> None:
    rig = Rig(tmp_path)
    keep_deletions_for(rig, HOUR_MS)
    rig.write("in", ("gone", "x", 1), ("stays", "x", 1))
    rig.stop(rig.running())
    producer = rig.clients.producer()  # the task's next owner
    producer.send(CHANGELOG, b"gone", None, 5, None, 0)
    producer.send(CHANGELOG, b"stays", (7).to_bytes(8, "big"), 5, None, 0)
    producer.flush(1)
    compact(rig)
    rig.clock.now_ms += away_ms
    loop = rig.running()
    assert count_of(loop, "stays") == 7
    # Within the retention a real log still has the deletion; here it shows that nothing was wiped.
    assert (count_of(loop, "gone") == 1) is comes_back


def test_stores_of_any_age_are_kept_when_nothing_was_written_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    keep_deletions_for(rig, HOUR_MS)
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    rig.clock.now_ms += 100 * HOUR_MS
    wiped: list[str] = []
    monkeypatch.setattr(RocksDBTaskStores, "wipe", lambda self, store: wiped.append(store))
    assert count_of(rig.running(), "a") == 1
    assert wiped == []


def directories(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / APPLICATION).iterdir() if path.is_dir())


def left_an_hour_ago(tmp_path: Path, task: str) -> None:
    directory = tmp_path / APPLICATION / task
    hour_ago = time.time() - 3600
    for path in [directory, *directory.rglob("*")]:
        os.utime(path, (hour_ago, hour_ago))


def let_the_delay_pass(rig: Rig, loop: StreamLoop) -> None:
    rig.clock.now_ms += 600_001
    settle(loop)
    settle(loop)


def test_the_directory_of_a_task_that_moved_away_is_removed_after_the_delay(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("a", "x", 1), partition=1)
    loop = rig.running()
    rig.commit(loop)
    rig.assign(loop, 2, TaskId(0, 0))
    settle(loop)
    let_the_delay_pass(rig, loop)
    assert directories(tmp_path) == ["0_0", "0_1"], "it left just now"
    left_an_hour_ago(tmp_path, "0_0")
    left_an_hour_ago(tmp_path, "0_1")
    (tmp_path / APPLICATION / "notes").mkdir()
    let_the_delay_pass(rig, loop)
    assert directories(tmp_path) == ["0_0", "notes"], "what belongs to no task is left alone"
    assert count_of(loop, "a") == 1
    rig.assign(loop, 3, TaskId(0, 0), TaskId(0, 1))
    settle(loop)
    assert set(states(loop).values()) == {TaskState.RUNNING}


def test_the_delay_counts_from_the_close_however_long_ago_the_last_commit_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    loop = rig.running()
    rig.commit(loop)
    close, note = RocksDBTaskStores.close, tmp_path / APPLICATION / "0_0" / "last-commit"

    def close_and_leave_nothing_new(stores: RocksDBTaskStores) -> None:
        close(stores)
        noted = note.stat().st_mtime
        left_an_hour_ago(tmp_path, "0_0")
        os.utime(note, (noted, noted))

    monkeypatch.setattr(RocksDBTaskStores, "close", close_and_leave_nothing_new)
    rig.assign(loop, 2)
    settle(loop)
    let_the_delay_pass(rig, loop)
    assert directories(tmp_path) == ["0_0"], "it left just now"
    left_an_hour_ago(tmp_path, "0_0")
    let_the_delay_pass(rig, loop)
    assert directories(tmp_path) == []


def test_a_directory_that_another_actor_has_open_is_never_removed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    rig.write("in", ("a", "x", 1), partition=0)
    other = rig.running(TaskId(0, 0))
    rig.commit(other)
    loop = rig.running(TaskId(0, 1), slot=2)
    left_an_hour_ago(tmp_path, "0_0")
    let_the_delay_pass(rig, loop)
    assert directories(tmp_path) == ["0_0", "0_1"]
    assert count_of(other, "a", committed=True) == 1
    rig.write("in", ("a", "x", 2), partition=0)
    settle(other)
    rig.commit(other)
    assert count_of(other, "a", committed=True) == 2


# ---- tables restored from their source topic ----


def table_rig(tmp_path: Path) -> Rig:
    """A rig whose store ``counts`` is the table of ``in`` and has no changelog but that."""
    builder = ps.StreamsBuilder()
    builder.table("in", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("counts"))
    rig = Rig(tmp_path, builder.build({"topology.optimization": "all"}))
    assert rig.spec.topology.store_builders["counts"].source_topic == "in"
    return rig


def value_of(loop: StreamLoop, key: str) -> object:
    (found,) = query(loop, key_query(key))
    assert found.failure is None, found
    return found.rows[0][1] if found.rows else None


def test_a_table_that_is_behind_what_its_source_topic_still_has_is_wiped_for_deletions_may_be_among_what_is_gone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig = table_rig(tmp_path)
    rig.write("in", ("gone", "old", 1), ("stays", "old", 1))
    rig.stop(rig.running())
    rig.write("in", ("gone", None, 2), ("stays", "new", 2), ("other", "new", 2))
    source = TopicPartition("in", 0)
    rig.clients.admin().commit(APPLICATION, {source: CommittedOffset(5)})  # of another owner
    rig.clients.admin().delete_records({source: 3})
    loop = rig.running()
    assert [value_of(loop, key) for key in ("gone", "stays", "other")] == [None, "new", "new"]
    assert "the store does not belong to its changelog" in "".join(capfd.readouterr())


def test_a_table_whose_source_topic_was_recreated_is_wiped(tmp_path: Path) -> None:
    rig = table_rig(tmp_path)
    rig.write("in", ("old", "x", 1), ("older", "x", 1))
    rig.stop(rig.running())
    rig.clients.admin().delete_topics(["in"])
    rig.clients.admin().create_topics([NewTopic("in", 1)])
    rig.write("in", ("new", "x", 1))
    loop = rig.running()
    assert [value_of(loop, key) for key in ("old", "older", "new")] == [None, None, "x"]


def test_a_table_that_is_ahead_of_what_is_committed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = table_rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("b", "x", 1))
    rig.stop(rig.running())
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(0)})
    wiped: list[str] = []
    monkeypatch.setattr(RocksDBTaskStores, "wipe", lambda self, store: wiped.append(store))
    assert value_of(rig.running(), "b") == "x"
    assert wiped == []


def test_a_store_whose_changelog_has_lost_every_record_starts_empty_with_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig = Rig(tmp_path / "first")
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    end = len(rig.broker.records(CHANGELOG))
    assert end
    message = "store starts empty: its changelog has offsets, but no record any more"
    assert message not in "".join(capfd.readouterr())
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): end})
    rig.spec = replace(rig.spec, config=StreamsConfig.of({"application.id": APPLICATION, "state.dir": tmp_path / "2"}))
    loop = rig.running()
    assert count_of(loop, "a") is None
    reported = "".join(capfd.readouterr())
    assert message in reported
    assert CHANGELOG in reported
