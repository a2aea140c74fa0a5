"""A backfill hands over all tasks at once, unless a live application has written meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoints.errors import CheckpointSupersededError
from penstock.checkpoints.hand_overs import HandedOverTask, HandOverWriter, SinkPosition, upload_handed_over
from penstock.checkpoints.manifest import CheckpointDraft, InputInCheckpoint, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.objects.contracts import ObjectStore

SINKS = {"word-counts": {0: SinkPosition(12, "id-word-counts")}}


def draft(offset: int) -> CheckpointDraft:
    return CheckpointDraft(
        offset,
        {"counts": StoreInCheckpoint("rows", "changelog", "id", offset)},
        {"lines": {0: InputInCheckpoint(offset, "time", "id-lines")}},
    )


def folder(tmp_path: Path, content: str) -> Path:
    made = tmp_path / content.replace(" ", "-")
    (made / "rocksdb").mkdir(parents=True)
    (made / "rocksdb" / "CURRENT").write_text(content)
    return made


def uploaded(objects: ObjectStore, tmp_path: Path, content: str = "rows") -> dict[str, HandedOverTask]:
    return {
        task: upload_handed_over(objects, "app", folder(tmp_path, f"{content} of {task}"), draft(5))
        for task in ("0_0", "0_1")
    }


def begun(objects: ObjectStore, run: str, now_ms: int) -> HandOverWriter:
    return HandOverWriter(objects, "app", run, HandOverWriter.begin(objects, "app", now_ms))


def save(objects: ObjectStore, tmp_path: Path, epoch: int) -> None:
    CheckpointRepository(objects, "app").writer("0_0", epoch).save(folder(tmp_path, f"live {epoch}"), draft(epoch))


def test_all_tasks_are_handed_over_by_one_object(objects: ObjectStore, tmp_path: Path) -> None:
    repository, run = CheckpointRepository(objects, "app"), begun(objects, "run-1", 1000)
    tasks = uploaded(objects, tmp_path)
    assert run.committed() is None
    assert repository.newest_hand_over() is None
    assert list(repository.newest_first("0_0")) == []
    handed_over = run.commit(tasks, SINKS)
    assert (handed_over.number, handed_over.run, handed_over.sinks) == (1, "run-1", SINKS)
    assert repository.newest_hand_over() == run.committed() == handed_over
    for task in tasks:
        (found,) = repository.newest_first(task)
        assert found.inputs == {"lines": {0: InputInCheckpoint(5, "time", "id-lines")}}
        repository.fetch(found, tmp_path / f"fetched-{task}")
        assert (tmp_path / f"fetched-{task}" / "rocksdb" / "CURRENT").read_text() == f"rows of {task}"


def test_a_run_that_is_resumed_finds_that_it_has_handed_over(objects: ObjectStore, tmp_path: Path) -> None:
    first = begun(objects, "run-1", 1000).commit(uploaded(objects, tmp_path), SINKS)
    resumed = HandOverWriter(objects, "app", "run-1", first.epoch)
    assert resumed.committed() == first
    assert resumed.commit(uploaded(objects, tmp_path, "again"), {}) == first
    assert len(CheckpointRepository(objects, "app").hand_overs()) == 1


def test_nothing_is_handed_over_if_a_live_application_was_started_meanwhile(
    objects: ObjectStore, tmp_path: Path
) -> None:
    run, tasks = begun(objects, "run-1", 1000), uploaded(objects, tmp_path)
    save(objects, tmp_path, epoch=2000)
    with pytest.raises(CheckpointSupersededError, match="has written a checkpoint under epoch 2000 since"):
        run.commit(tasks, SINKS)
    assert CheckpointRepository(objects, "app").newest_hand_over() is None


def test_a_run_that_was_superseded_after_it_had_handed_over_must_not_commit_offsets(
    objects: ObjectStore, tmp_path: Path
) -> None:
    run = begun(objects, "run-1", 1000)
    run.commit(uploaded(objects, tmp_path), SINKS)
    save(objects, tmp_path, epoch=2000)
    with pytest.raises(CheckpointSupersededError):
        run.committed()


def test_of_two_runs_the_later_one_hands_over(objects: ObjectStore, tmp_path: Path) -> None:
    early, late = begun(objects, "run-1", 1000), begun(objects, "run-2", 2000)
    late.commit(uploaded(objects, tmp_path), SINKS)
    with pytest.raises(CheckpointSupersededError, match="a later backfill of app"):
        early.commit(uploaded(objects, tmp_path, "other"), SINKS)


def test_a_hand_over_comes_between_the_checkpoints_before_and_after_it(objects: ObjectStore, tmp_path: Path) -> None:
    save(objects, tmp_path, epoch=3000)
    # The clock of the backfill is behind that of the application.
    begun(objects, "run-1", 1000).commit(uploaded(objects, tmp_path), SINKS)
    repository = CheckpointRepository(objects, "app")
    assert [(it.epoch, it.sequence) for it in repository.newest_first("0_0")] == [(3001, 0), (3000, 1)]
    save(objects, tmp_path, epoch=4000)
    assert [it.epoch for it in repository.newest_first("0_0")] == [4000, 3001, 3000]
    assert [it.epoch for it in repository.newest_first("0_1")] == [3001]


def test_a_damaged_hand_over_stands_in_the_way_of_none(objects: ObjectStore, tmp_path: Path) -> None:
    begun(objects, "run-1", 1000).commit(uploaded(objects, tmp_path), SINKS)
    objects.put("app/hand-overs/" + "1".rjust(20, "0") + ".json", b"damaged")
    handed_over = begun(objects, "run-2", 2000).commit(uploaded(objects, tmp_path, "more"), SINKS)
    assert (handed_over.number, CheckpointRepository(objects, "app").hand_overs()) == (2, [handed_over])


def test_the_epoch_of_a_run_is_above_all_that_are_there(objects: ObjectStore, tmp_path: Path) -> None:
    begun(objects, "run-1", 5000).commit(uploaded(objects, tmp_path), SINKS)
    assert HandOverWriter.begin(objects, "app", now_ms=10) == 5001
