"""A backfill hands its state over as checkpoints, too; the application starts from these. Without Spark and Ray."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.checkpoints.errors import CheckpointSupersededError
from penstock.checkpoints.hand_overs import HandOver, HandOverWriter
from penstock.checkpoints.manifest import CheckpointDraft
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.checkpoint_hand_over import (
    begun_checkpoints,
    checkpoint_location,
    refuse_other_checkpoints,
)
from penstock.state.disk.rocksdb import RocksDBTaskStores
from tests.actors.checkpointed import TASK_0, Threads, checkpointed, metric, repository, status_of, stored, threads
from tests.actors.rig import APPLICATION, CHANGELOG, Rig, count_of, settle
from tests.pipeline.topologies import IN_MEMORY, LOGGED, every_kind_of_store, foreign_key_join
from tests.pipeline.without_spark import backfill_without_spark

__all__ = ["threads"]
KEYS = [f"k{number}" for number in range(10)]


def lines(*keys: str, at: int) -> Iterator[tuple[str, str, int]]:
    return ((key, f"{key} at {at}", at) for key in keys)


@pytest.fixture
def counting(tmp_path: Path, threads: Threads) -> Rig:
    return checkpointed(tmp_path)


def backfill(rig: Rig) -> None:
    backfill_without_spark(rig.spec.topology, rig.spec.config, rig.clients, 7)


def handed_over(rig: Rig) -> HandOver:
    found = repository(rig).newest_hand_over()
    assert found is not None
    return found


def test_the_application_starts_from_the_hand_over_and_reads_only_what_came_since(counting: Rig) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    counting.write("in", *lines("k0", "k1", at=2))
    loop = counting.running(epoch=2_000_000_000_000)
    assert status_of(loop).restore_total == 0
    (found,) = stored(counting)
    assert metric(loop, "checkpoint-restored-bytes") == found.size > 0
    assert [count_of(loop, key) for key in ("k0", "k1", "k2", "k9")] == [2, 2, 1, 1]


def test_the_manifest_has_state_input_offsets_and_sink_positions(counting: Rig) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    it, ids = handed_over(counting), counting.clients.admin().topic_ids(["in", "out", CHANGELOG])
    task = it.tasks["0_0"]
    store, source = task.stores["counts"], task.inputs["in"][0]
    assert (store.changelog, store.changelog_topic_id, store.changelog_offset) == (CHANGELOG, ids[CHANGELOG], 10)
    committed = counting.broker.committed(APPLICATION)[TopicPartition("in", 0)]
    assert (source.offset, source.metadata, source.topic_id) == (10, committed.metadata, ids["in"])
    assert (it.sinks["out"][0].offset, it.sinks["out"][0].topic_id) == (10, ids["out"])


def test_a_second_backfill_continues_where_the_application_stopped_and_its_hand_over_is_the_newest(
    counting: Rig, tmp_path: Path
) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    loop = counting.running(epoch=handed_over(counting).epoch + 1)
    counting.write("in", *lines(*KEYS, at=2))
    settle(loop)
    counting.stop(loop)
    counting.write("in", *lines("k0", at=3))
    backfill(counting)
    assert [it.number for it in repository(counting).hand_overs()] == [1, 2]
    # On the node where it ran, which lacks what the backfill has written.
    again = counting.running(epoch=handed_over(counting).epoch + 1)
    assert [count_of(again, key) for key in ("k0", "k1")] == [3, 2]
    counting.stop(again)
    elsewhere = counting.on_another_node(tmp_path / "other").running(epoch=handed_over(counting).epoch + 2, slot=2)
    assert [count_of(elsewhere, key) for key in ("k0", "k1")] == [3, 2]
    assert metric(elsewhere, "checkpoint-restored-bytes") == stored(counting)[0].size
    assert stored(counting)[0].epoch == handed_over(counting).epoch


def test_a_backfill_with_nothing_to_read_leaves_the_last_hand_over(counting: Rig) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    backfill(counting)
    assert [it.number for it in repository(counting).hand_overs()] == [1]


# ---- every kind of store ----


@pytest.fixture
def every(tmp_path: Path, threads: Threads) -> Rig:
    rig = checkpointed(tmp_path)
    rig.spec = replace(rig.spec, topology=every_kind_of_store())
    admin = rig.clients.admin()
    admin.create_topics([NewTopic(name, 1) for name in ("lines", "table", "users")])
    return rig


def rows(loop: StreamLoop) -> dict[str, list[tuple[bytes, bytes]]]:
    """Returns the committed rows of each store."""
    manager = loop._tasks[TASK_0].state_manager
    found = {name: list(manager.store(name).context.committed.scan(None, None)) for name in manager.store_names}
    # The notes of when keys may expire may be too early: a restore makes them again.
    return {**found, "fleeting": [row for row in found["fleeting"] if row[0].startswith(b"r")]}


def test_every_kind_of_store_is_handed_over_as_the_changelog_has_it(every: Rig, tmp_path: Path) -> None:
    """Stores in memory by the changelog alone, stores without a changelog by the checkpoint alone."""
    every.write("users", *lines("k0", "k1", at=0))
    for time in range(0, 200_000, 20_000):
        every.write("table", *lines(*KEYS, at=time))
        every.write("lines", *lines(*KEYS, at=time + 1))
    backfill(every)
    epoch = handed_over(every).epoch + 1
    assert set(handed_over(every).tasks["0_0"].stores) == {*LOGGED, "unlogged"} - set(IN_MEMORY)
    elsewhere = every.on_another_node(tmp_path / "by the changelog")
    config = elsewhere.spec.config.model_copy(update={"state_checkpoint_uri": None})
    elsewhere.spec = replace(elsewhere.spec, config=config)
    by_changelog = rows(elsewhere.running(epoch=epoch))
    loop = every.running(epoch=epoch, slot=2)
    by_checkpoint = rows(loop)
    assert metric(loop, "checkpoint-restored-bytes") > 0
    assert {name: by_checkpoint[name] for name in LOGGED} == {name: by_changelog[name] for name in LOGGED}
    assert all(by_checkpoint[name] for name in {*LOGGED} - {"held-store"})
    assert by_changelog["unlogged"] == []
    assert by_checkpoint["unlogged"] == by_checkpoint["counts"]
    assert status_of(loop).restore_total == sum(len(by_changelog["in-memory"]) for _ in IN_MEMORY)


def test_a_cycle_hands_over_all_of_its_tasks(tmp_path: Path, threads: Threads) -> None:
    rig = checkpointed(tmp_path)
    rig.spec = replace(rig.spec, topology=foreign_key_join())
    rig.clients.admin().create_topics([NewTopic(name, 2) for name in ("left", "right")])
    rig.write("right", *lines(*KEYS, at=1))
    rig.write("left", *((key, f"{key}/x", 2) for key in KEYS))
    backfill(rig)
    tasks = handed_over(rig).tasks
    assert len(tasks) == 4
    for task, part in tasks.items():
        assert {number for found in part.inputs.values() for number in found} == {TaskId.parse(task).partition}


# ---- what must not be trusted ----


def test_a_hand_over_without_committed_offsets_is_not_used(counting: Rig) -> None:
    """The backfill has died in between: the records would be counted twice."""
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    counting.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(0)})
    loop = counting.loop()
    assigned = counting.assign(loop, 2_000_000_000_000, TASK_0)
    settle(loop)
    assert assigned.done()
    assert metric(loop, "checkpoint-restored-bytes") == 0


def test_nothing_is_handed_over_after_the_application_has_run(counting: Rig, tmp_path: Path) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    flush = RocksDBTaskStores.flush
    draft = CheckpointDraft(0, {}, {})
    made = tmp_path / "folder"
    made.mkdir()

    def flush_late(self: RocksDBTaskStores) -> None:
        repository(counting).writer("0_0", 3_000_000_000_000).save(made, draft)
        flush(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RocksDBTaskStores, "flush", flush_late)
        with pytest.raises(CheckpointSupersededError, match="it must not run while a backfill does"):
            backfill(counting)
    assert repository(counting).newest_hand_over() is None
    assert counting.broker.committed(APPLICATION) == {}


# ---- the place ----


def test_an_unfinished_run_is_continued_with_the_same_place(tmp_path: Path) -> None:
    one, other = (ObjectLocation(str(tmp_path / name)) for name in ("one", "other"))
    begun = begun_checkpoints(one, "app")
    refuse_other_checkpoints(begun, one)
    refuse_other_checkpoints(None, None)
    with pytest.raises(ConfigError, match=r"state.checkpoint.uri was file://.*/one .* and is file://.*/other now"):
        refuse_other_checkpoints(begun, other)
    with pytest.raises(ConfigError, match=r"and is not set now: set it as it was, or .* without --resume"):
        refuse_other_checkpoints(begun, None)
    assert begun_checkpoints(None, "app") is None


def test_there_is_no_place_without_the_setting(tmp_path: Path) -> None:
    assert checkpoint_location(StreamsConfig.of({"application.id": "app"})) is None


def test_the_epoch_of_a_run_is_above_all_that_are_there(counting: Rig) -> None:
    counting.write("in", *lines(*KEYS, at=1))
    backfill(counting)
    location = checkpoint_location(counting.spec.config)
    assert location is not None
    before = handed_over(counting).epoch
    assert HandOverWriter.begin(location.open(), APPLICATION, now_ms=5) == before + 1
