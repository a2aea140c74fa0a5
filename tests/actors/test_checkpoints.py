"""Tasks take checkpoints of their stores, and begin with them where their state is not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.checkpoints.manifest import CheckpointDraft
from penstock.common.errors import ObjectStoreError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.objects.storage import ObjectLocation
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.tasks.commit_coverage import covered
from tests.actors.checkpointed import (
    TASK_0,
    Threads,
    checkpoint,
    checkpointed,
    metric,
    records,
    repository,
    status_of,
    stored,
    threads,
)
from tests.actors.rig import CHANGELOG, HeardRestores, Rig, count_of, settle, states

__all__ = ["threads"]
KEYS = [f"k{number}" for number in range(10)]


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def rig(tmp_path: Path, threads: Threads, request: pytest.FixtureRequest) -> Rig:
    return checkpointed(tmp_path, processing_guarantee=request.param)


@pytest.fixture
def once(tmp_path: Path, threads: Threads) -> Rig:
    return checkpointed(tmp_path)


def saved(rig: Rig) -> StreamLoop:
    """A loop whose task has a checkpoint with a count of 1 for each key."""
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, loop)
    assert len(stored(rig)) == 1
    return loop


def test_a_lost_disk_is_restored_from_the_checkpoint_and_the_tail_of_the_changelog(rig: Rig, tmp_path: Path) -> None:
    loop = saved(rig)
    rig.write("in", *records("k0", "k1", at=2))
    settle(loop)
    rig.stop(loop)
    other = rig.on_another_node(tmp_path / "node 2")
    heard = HeardRestores()
    other.spec = replace(other.spec, restore_listener=heard)
    begun = other.running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in ("k0", "k1", "k2", "k9")] == [2, 2, 1, 1]
    assert status_of(begun).restore_total == 2
    assert metric(begun, "checkpoint-restored-bytes") == stored(rig)[-1].size > 0
    assert heard.calls[0][0] == "start"
    assert heard.calls[0][1] == stored(rig)[-1].stores["counts"].changelog_offset


def test_a_checkpoint_has_the_committed_offsets_and_the_ids_of_topics(rig: Rig) -> None:
    saved(rig)
    (found,) = stored(rig)
    ids = rig.clients.admin().topic_ids(["in", CHANGELOG])
    store, source = found.stores["counts"], found.inputs["in"][0]
    assert (store.changelog, store.changelog_topic_id) == (CHANGELOG, ids[CHANGELOG])
    assert (source.offset, source.topic_id) == (10, ids["in"])
    assert (found.epoch, found.sequence) == (1, 1)
    assert store.changelog_offset == 10


def test_what_is_not_committed_is_in_no_checkpoint(once: Rig) -> None:
    loop = saved(once)
    once.write("in", *records("k0", at=2))
    settle(loop)
    assert count_of(loop, "k0") == 2
    once.clock.now_ms += 999
    loop._taking._kept[TASK_0].due_s = 0
    loop._taking._next_s = 0
    settle(loop)
    assert [each.inputs["in"][0].offset for each in stored(once)] == [10]


def test_a_task_that_has_restored_more_than_was_committed_commits_before_its_first_checkpoint(
    once: Rig, tmp_path: Path
) -> None:
    """At least once, the changelog may have records of an attempt that has crashed."""
    once.stop(saved(once))
    producer = once.clients.producer()
    producer.send(CHANGELOG, b"ahead", (7).to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)
    loop = once.running(epoch=2)
    loop._taking._next_s = loop._commits._due_s = once.clock.monotonic_s() + 3600
    settle(loop)
    once.clock.now_ms += 5000
    loop._taking._next_s = 0
    settle(loop)
    assert len(stored(once)) == 1, "no commit yet"
    loop._commits._due_s = 0
    settle(loop)
    checkpoint(once, loop)
    newest = stored(once)[0]
    committed = once.broker.committed("app")[TopicPartition("in", 0)]
    assert newest.stores["counts"].changelog_offset == 11
    assert covered([committed], ["counts"]) == {"counts": 11}


def test_nothing_is_uploaded_if_nothing_has_changed(rig: Rig) -> None:
    loop = saved(rig)
    uploaded = metric(loop, "checkpoint-uploaded-bytes-total")
    for _ in range(3):
        checkpoint(rig, loop)
    assert len(stored(rig)) == 1
    assert metric(loop, "checkpoint-uploaded-bytes-total") == uploaded
    rig.write("in", *records("k0", at=2))
    checkpoint(rig, loop)
    assert len(stored(rig)) == 2


def test_a_task_that_begins_again_uploads_no_rows_again(once: Rig) -> None:
    once.stop(saved(once))
    again = once.running(epoch=2)
    checkpoint(once, again)
    newest, first = stored(once)
    tables = {name: file for name, file in newest.files.items() if name.endswith(".sst")}
    # The one new table has the offset of the commit that follows a start.
    assert len(tables) == 3
    assert len({file.object for file in tables.values()} - first.objects.keys()) == 1


def test_a_store_that_fails_is_reported_and_does_not_stop_the_stream(
    once: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ObjectLocation) -> Any:
        raise ObjectStoreError("the bucket is gone")

    loop = once.running()
    with monkeypatch.context() as patched:
        patched.setattr(ObjectLocation, "open", fail)
        once.write("in", *records(*KEYS))
        checkpoint(once, loop)
        assert status_of(loop).checkpoint_error == "the bucket is gone"
        assert metric(loop, "checkpoint-failed-total") == 1
        assert "checkpoint-age-ms" not in {name for _, name, *_ in status_of(loop).measured}
        assert count_of(loop, "k0") == 1
        assert list((once.spec.config.state_dir / "app" / "0_0").glob("checkpoint-*")) == []
    checkpoint(once, loop)
    assert status_of(loop).checkpoint_error is None
    assert metric(loop, "checkpoint-total") == 1
    assert metric(loop, "checkpoint-age-ms") >= 0
    assert len(stored(once)) == 1


def test_a_flush_that_fails_does_not_stop_the_stream(once: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: RocksDBTaskStores) -> None:
        raise RuntimeError("out of space")

    monkeypatch.setattr(RocksDBTaskStores, "flush", fail)
    loop = once.running()
    once.write("in", *records(*KEYS))
    checkpoint(once, loop)
    assert status_of(loop).checkpoint_error == "out of space"
    assert count_of(loop, "k0") == 1
    once.stop(loop)


def test_a_damaged_checkpoint_costs_an_older_one(once: Rig, tmp_path: Path) -> None:
    loop = saved(once)
    once.write("in", *records(*KEYS, at=2))
    checkpoint(once, loop)
    once.stop(loop)
    newest, first = stored(once)
    for name in newest.uploaded:
        (tmp_path / "objects" / "app" / name).write_bytes(b"damaged")
    begun = once.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [2] * 10
    assert metric(begun, "checkpoint-restored-bytes") == first.size
    assert status_of(begun).restore_total == 10


def test_if_all_are_damaged_the_changelog_has_everything(once: Rig, tmp_path: Path) -> None:
    once.stop(saved(once))
    for file in (tmp_path / "objects" / "app" / "files").iterdir():
        file.unlink()
    begun = once.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [1] * 10
    assert metric(begun, "checkpoint-restored-bytes") == 0
    assert sorted(it.name for it in (tmp_path / "node 2" / "app" / "0_0").iterdir()) == [
        "last-commit",
        "rocksdb",
        "task",
    ]


def test_storage_that_cannot_be_reached_costs_the_changelog(
    once: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once.stop(saved(once))
    uri = once.spec.config.model_copy(update={"state_checkpoint_uri": "s3://nowhere", "state_dir": tmp_path / "2"})
    monkeypatch.setattr(ObjectLocation, "open", lambda self: _unreachable())
    other = once.on_another_node(tmp_path / "2")
    other.spec = replace(other.spec, config=uri)
    begun = other.running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [1] * 10


def _unreachable() -> Any:
    raise ObjectStoreError("no answer")


def test_a_changelog_that_was_made_again_is_not_that_of_the_checkpoint(once: Rig, tmp_path: Path) -> None:
    once.stop(saved(once))
    admin = once.clients.admin()
    admin.delete_topics([CHANGELOG])
    admin.create_topics([NewTopic(CHANGELOG, 1)])
    producer = once.clients.producer()
    for number in range(20):
        producer.send(CHANGELOG, f"new{number}".encode(), (7).to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)
    begun = once.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in ("k0", "new0")] == [None, 7]
    assert metric(begun, "checkpoint-restored-bytes") == 0


def test_a_changelog_that_has_deleted_what_came_after_the_checkpoint_is_read_from_its_beginning(
    once: Rig, tmp_path: Path
) -> None:
    loop = saved(once)
    once.stop(loop)
    producer = once.clients.producer()
    for number in range(20):
        producer.send(CHANGELOG, f"new{number}".encode(), (7).to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)
    once.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): 15})
    begun = once.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in ("k0", "new0", "new19")] == [None, None, 7]


def test_a_checkpoint_older_than_deletions_are_kept_is_not_used(tmp_path: Path, threads: Threads) -> None:
    rig = checkpointed(tmp_path)
    admin = rig.clients.admin()
    admin.delete_topics([CHANGELOG])
    admin.create_topics([NewTopic(CHANGELOG, 1, config={"cleanup.policy": "compact", "delete.retention.ms": "5000"})])
    loop = saved(rig)
    rig.write("in", *records("k0", at=2))
    settle(loop)
    rig.stop(loop)
    rig.clock.now_ms += 5000
    begun = rig.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert count_of(begun, "k0") == 2
    assert metric(begun, "checkpoint-restored-bytes") == 0


def test_the_age_of_fetched_rows_is_that_of_their_commit(once: Rig, tmp_path: Path) -> None:
    once.stop(saved(once))
    (found,) = stored(once)
    once.clock.now_ms += 100_000
    other = once.on_another_node(tmp_path / "node 2")
    loop = other.loop(2)
    other.assign(loop, 2, TASK_0)
    while not loop._fetching._fetches:
        loop.step()
    fetched = loop._fetching.ended()
    assert fetched == [TASK_0]
    while loop._fetching._fetches:
        loop.step()
    while TASK_0 not in loop._tasks:
        loop.step()
    assert loop._tasks[TASK_0].directory.age_ms(once.clock.now_ms) == once.clock.now_ms - found.taken_at_ms
    settle(loop)
    assert states(loop) == {TASK_0: TaskState.RUNNING}


def test_local_state_that_lacks_little_asks_no_storage(once: Rig, threads: Threads) -> None:
    once.stop(saved(once))
    once.write("in", *records("k0", at=2))
    threads.hold = True
    again = once.running(epoch=2)
    assert count_of(again, "k0") == 2
    assert metric(again, "checkpoint-restored-bytes") == 0


def test_local_state_that_is_far_behind_is_replaced(once: Rig, tmp_path: Path) -> None:
    once.stop(saved(once))
    shutil.copytree(tmp_path / "node 1", tmp_path / "node 2")
    loop = once.running(epoch=2)
    for at in (2, 3):
        once.write("in", *records(*KEYS, at=at))
        checkpoint(once, loop)
    once.stop(loop)
    begun = once.on_another_node(tmp_path / "node 2").running(epoch=3, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [3] * 10
    assert metric(begun, "checkpoint-restored-bytes") > 0
    assert status_of(begun).restore_total == 0


def test_meanwhile_the_task_is_restoring_and_other_tasks_work(tmp_path: Path, threads: Threads) -> None:
    rig = checkpointed(tmp_path)
    rig.stop(saved(rig))
    threads.hold = True
    loop = rig.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert states(loop) == {TASK_0: TaskState.RESTORING}
    assert status_of(loop).restore_remaining == 10
    threads.work()
    settle(loop)
    assert states(loop) == {TASK_0: TaskState.RUNNING}


def test_a_task_that_leaves_while_its_checkpoint_is_downloaded_leaves_nothing_behind(
    once: Rig, tmp_path: Path, threads: Threads
) -> None:
    once.stop(saved(once))
    threads.hold = True
    other = once.on_another_node(tmp_path / "node 2")
    loop = other.running(epoch=2, slot=2)
    other.assign(loop, 3)
    settle(loop)
    assert states(loop) == {}
    threads.work()
    settle(loop)
    assert list((tmp_path / "node 2" / "app" / "0_0").glob("fetched-*")) == []
    other.assign(loop, 4, TASK_0)
    threads.hold = False
    settle(loop)
    assert [count_of(loop, key) for key in KEYS] == [1] * 10


def test_what_a_killed_process_left_is_removed_and_never_taken_for_state(once: Rig, tmp_path: Path) -> None:
    once.stop(saved(once))
    directory = tmp_path / "node 1" / "app" / "0_0"
    (directory / "fetched-1.partial" / "rocksdb").mkdir(parents=True)
    (directory / "checkpoint-7" / "rocksdb").mkdir(parents=True)
    loop = once.running(epoch=2)
    assert count_of(loop, "k0") == 1
    assert sorted(it.name for it in directory.iterdir()) == ["last-commit", "rocksdb", "task"]


def test_a_download_that_stalls_is_given_up(once: Rig, tmp_path: Path, threads: Threads) -> None:
    once.stop(saved(once))
    threads.hold = True
    loop = once.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    for _ in range(30):
        once.clock.now_ms += 5000
        settle(loop)
    assert states(loop) == {TASK_0: TaskState.RUNNING}
    assert [count_of(loop, key) for key in KEYS] == [1] * 10
    threads.hold = False
    threads.work()
    assert list((tmp_path / "node 2" / "app" / "0_0").glob("fetched-*")) == []


def test_a_task_that_leaves_while_it_is_flushed_is_closed_after_that(once: Rig, threads: Threads) -> None:
    loop = once.running()
    once.write("in", *records(*KEYS))
    settle(loop)
    once.commit(loop)
    taking = loop._taking
    once.clock.now_ms += 1001
    while taking._taking is None:
        loop.step()
    once.assign(loop, 2)
    settle(loop)
    assert states(loop) == {}
    assert taking._taking is None or taking._taking.upload is not None


def test_an_actor_that_has_the_task_after_all_goes_above_the_epoch_of_the_other(once: Rig) -> None:
    """As when the group gives a task back to the Ray cluster whose coordinator was started first."""
    loop = saved(once)
    (mine,) = stored(once)
    elsewhere = repository(once).writer("0_0", 1000)
    folder = once.spec.config.state_dir / "elsewhere"
    loop._tasks[TASK_0].state_manager.checkpoint(folder)
    elsewhere.save(folder, CheckpointDraft(mine.taken_at_ms, mine.stores, mine.inputs))
    once.write("in", *records("k0", at=2))
    checkpoint(once, loop)
    assert stored(once)[0].epoch == 1000
    assert status_of(loop).checkpoint_error is None
    checkpoint(once, loop)
    assert stored(once)[0].epoch == 1000, "no commit has shown yet that the task is here"
    once.write("in", *records("k0", at=3))
    checkpoint(once, loop)
    assert stored(once)[0].epoch == 1001
    assert stored(once)[0].inputs["in"][0].offset == 12
