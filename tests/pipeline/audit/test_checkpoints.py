"""Audits of checkpoints: the application is not asked, and each task is computed again up to its own checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.checkpoints.errors import CheckpointDamagedError
from penstock.checkpoints.manifest import CheckpointDraft, CheckpointManifest, InputInCheckpoint, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.audit.audit import AuditReport
from penstock.pipeline.audit.checkpoint_offsets import inputs_of, unsettled
from penstock.pipeline.audit.checkpoint_stores import NewestCheckpoints
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskPrograms
from tests.actors.checkpointed import threads
from tests.pipeline.audit.rig import APPLICATION, PARTITIONS, Application
from tests.pipeline.audit.test_audit import LONG, STRING, consumed, word_count
from tests.waiting import eventually

__all__ = ["threads"]
pytestmark = pytest.mark.usefixtures("threads")


class Checkpointed(Application):
    """An application whose tasks take checkpoints when :meth:`checkpoint` is called."""

    def __init__(self, topology: ps.Topology, folder: Path, topics: list[str], **config: object) -> None:
        self.objects = ObjectLocation(str(folder / "objects"))
        more = {"state_checkpoint_uri": self.objects.url, "state_checkpoint_interval_ms": 1000, **config}
        super().__init__(topology, folder / "node", topics, **more)

    @property
    def repository(self) -> CheckpointRepository:
        return CheckpointRepository(self.objects.open(), APPLICATION)

    def newest(self, task: TaskId) -> CheckpointManifest | None:
        return next(self.repository.newest_first(str(task)), None)

    def checkpoint_all(self, subtopology: int) -> None:
        """Work until all tasks of a sub-topology have a checkpoint."""

        def there() -> bool:
            self.settle()
            return all(self.newest(TaskId(subtopology, number)) is not None for number in range(PARTITIONS))

        eventually(there, "the checkpoints are taken")

    def checkpoint(self, *offsets: tuple[TaskId, TopicPartition, int]) -> None:
        """Work until the newest checkpoints of these tasks have these input offsets."""

        def there() -> bool:
            self.settle()
            for task, at, offset in offsets:
                found = self.newest(task)
                if found is None or inputs_of(found).get(at, 0) < offset:
                    return False
            return True

        eventually(there, "the checkpoints are taken")

    def audit_checkpoints(self, patched: pytest.MonkeyPatch) -> AuditReport:
        return self.audited(patched, NewestCheckpoints(self.config))

    def corrupt(self, task: TaskId, change: Callable[[dict[bytes, bytes]], dict[bytes, bytes]], scratch: Path) -> None:
        """Replace the newest checkpoint of a task by one with other rows."""
        found = self.newest(task)
        assert found is not None
        self.repository.fetch(found, scratch)
        builders = list(TaskPrograms(self.topology, self.config).of(task.subtopology).stores.values())
        stores = open_task_stores(scratch, builders)
        for builder in builders:
            batch = stores.new_batch()
            rows = dict(stores.store(builder.name).scan(None, None))
            for key, row in change(rows).items():
                batch.put(builder.name, key, row)
            stores.write(batch, {})
        stores.close()
        draft = CheckpointDraft(found.taken_at_ms, found.stores, found.inputs)
        self.repository.writer(str(task), found.epoch + 1).save(scratch, draft)
        shutil.rmtree(scratch)


def counts() -> ps.Topology:
    builder = ps.StreamsBuilder()
    builder.stream("in", consumed()).group_by_key().count(ps.Materialized.as_("counts"))
    return builder.build()


def counted(tmp_path: Path, **config: object) -> Checkpointed:
    """An application that has counted 40 records on each partition, and 20 more on partition 1 after its checkpoint."""
    app = Checkpointed(counts(), tmp_path, ["in"], **config)
    for number in range(80):
        app.send("in", "abc"[number % 3], b"x", number, number % 2)
    app.checkpoint((TaskId(0, 0), TopicPartition("in", 0), 40), (TaskId(0, 1), TopicPartition("in", 1), 40))
    return app


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_each_task_is_computed_up_to_its_own_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    app = counted(tmp_path, processing_guarantee=guarantee)
    for number in range(20):
        app.send("in", "a", b"later", number, 1)
    app.checkpoint((TaskId(0, 1), TopicPartition("in", 1), 60))
    app.send("in", "b", b"after all checkpoints", 99, 0)
    report = app.audit_checkpoints(monkeypatch)
    assert report.is_clean, report.differences
    assert report.offsets == {TopicPartition("in", 0): 40, TopicPartition("in", 1): 60}
    assert [(it.store, it.expected, it.found) for it in report.stores] == [("counts", 6, 6)]


def test_a_wrong_row_of_a_checkpoint_is_found_with_the_offsets_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = counted(tmp_path)
    wrong = b"\0\0\0\0\0\0\0\5" + LONG.serialize(99)
    app.corrupt(TaskId(0, 0), lambda rows: {b"a": wrong}, tmp_path / "scratch")
    report = app.audit_checkpoints(monkeypatch)
    (found,) = report.differences
    assert (found.task, found.key, found.expected, found.found) == (TaskId(0, 0), "'a'", "14 at 78", "99 at 5")
    assert found.origins[0].last == (27, 30, 33, 36, 39)


def test_behind_repartition_topics_settled_checkpoints_are_compared_and_others_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    lines = builder.table("lines", consumed(), materialized=ps.Materialized.as_("lines-store"))
    lines.group_by(lambda key, line: (line, line), ps.Grouped.with_(STRING, STRING)).count(
        ps.Materialized.as_("counts")
    )
    app = Checkpointed(builder.build(), tmp_path, ["lines"])
    for number in range(60):
        app.send("lines", f"k{number}", f"line {number % 7}".encode(), number, number % 2)
    app.checkpoint(*((TaskId(0, number), TopicPartition("lines", number), 30) for number in range(2)))
    app.checkpoint_all(1)
    settled = app.audited(monkeypatch, NewestCheckpoints(app.config))
    assert settled.is_clean, settled.differences
    assert [(it.store, it.found) for it in settled.stores] == [("counts", 7), ("lines-store", 60)]

    app.send("lines", "new", b"line 9", 99, 0)
    report = app.audit_checkpoints(monkeypatch)
    assert report.is_clean
    assert [it.store for it in report.stores] == ["lines-store"]
    assert report.not_compared == {
        "counts": "its tasks are behind a repartition topic, and the checkpoints do not belong together: lines-0 has "
        "records that are not processed yet"
    }


def test_if_all_stores_are_behind_repartition_topics_unsettled_checkpoints_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Checkpointed(word_count(), tmp_path, ["lines"])
    app.send("lines", None, b"the fox", 1)
    app.checkpoint_all(1)
    app.send("lines", None, b"more", 2)
    with pytest.raises(ApplicationStateError, match="no store can be audited by the checkpoints"):
        app.audit_checkpoints(monkeypatch)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Application(counts(), tmp_path, ["in"])
    with pytest.raises(ConfigError, match=r"state\.checkpoint\.uri is not set"):
        plain.audited(monkeypatch, NewestCheckpoints(plain.config))


def test_damage_and_tasks_without_a_checkpoint_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = counted(tmp_path)
    newest = app.newest(TaskId(0, 1))
    assert newest is not None
    file = max(newest.objects, key=lambda name: newest.objects[name])
    objects = app.objects.open()
    content = objects.read(f"{APPLICATION}/{file}")
    objects.put(f"{APPLICATION}/{file}", b"?" * len(content))
    with pytest.raises(CheckpointDamagedError, match="does not fit its hash"):
        app.audited(monkeypatch, NewestCheckpoints(app.config))
    objects.delete([f"{APPLICATION}/{newest.name}"])
    older = app.newest(TaskId(0, 1))
    while older is not None:
        objects.delete([f"{APPLICATION}/{older.name}"])
        older = app.newest(TaskId(0, 1))
    with pytest.raises(ApplicationStateError, match="task 0_1 has no checkpoint"):
        app.audited(monkeypatch, NewestCheckpoints(app.config))


def test_a_checkpoint_with_records_of_a_topic_that_was_made_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = counted(tmp_path)
    admin = app.clients.admin()
    admin.delete_topics(["in"])
    admin.create_topics([NewTopic("in", PARTITIONS)])
    with pytest.raises(ApplicationStateError, match="topic 'in' was deleted and made again"):
        app.audited(monkeypatch, NewestCheckpoints(app.config))


def manifest(task: TaskId, offset: int, changelog: str | None = "log", changelog_offset: int = 5) -> CheckpointManifest:
    return CheckpointManifest(
        application_id="a", task=str(task), epoch=1, sequence=1, taken_at_ms=0, files={},
        stores={"s": StoreInCheckpoint("form", changelog, None, changelog_offset)},
        inputs={"in": {task.partition: InputInCheckpoint(offset, "", None)}},
    )  # fmt: skip


IN = TopicPartition("in", 0)
TASK = TaskId(0, 0)


def settled(checkpoint: CheckpointManifest, ends: dict[TopicPartition, int], committed: int) -> bool:
    return unsettled({TASK: {IN}}, {TASK: checkpoint}, {IN: committed}, lambda at, from_: ends[at] > from_) is None


def test_a_checkpoint_is_settled_if_nothing_is_left_and_its_rows_are_those_of_now() -> None:
    log = TopicPartition("log", 0)
    assert settled(manifest(TASK, 10), {IN: 10, log: 5}, 10)
    assert not settled(manifest(TASK, 10), {IN: 11, log: 5}, 10), "a record waits"
    assert settled(manifest(TASK, 8), {IN: 10, log: 5}, 10), "two records that changed no row"
    assert not settled(manifest(TASK, 8), {IN: 10, log: 6}, 10), "a row has changed since"
    assert not settled(manifest(TASK, 8, changelog=None), {IN: 10}, 10), "nothing says if a row has changed"
