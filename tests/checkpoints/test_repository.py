"""Checkpoints go to object storage of each kind and come back, each file once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointSupersededError
from penstock.checkpoints.manifest import CheckpointDraft, CheckpointManifest, InputInCheckpoint, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.objects.contracts import ObjectStore
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from tests.state.test_task_stores import builders, write


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[TaskStores]:
    opened = open_task_stores(tmp_path / "task", builders("rocksdb"))
    yield opened
    opened.close()


@pytest.fixture
def repository(objects: ObjectStore) -> CheckpointRepository:
    return CheckpointRepository(objects, "word-count")


def draft_of(stores: TaskStores, folder: Path, offset: int = 0) -> CheckpointDraft:
    found = stores.checkpoint(folder)
    in_checkpoint = {
        name: StoreInCheckpoint(store.layout, f"word-count-{name}-changelog", f"id-{name}", store.changelog_offset)
        for name, store in found.items()
    }
    return CheckpointDraft(offset * 1000, in_checkpoint, {"lines": {3: InputInCheckpoint(offset, "time", "id-lines")}})


def objects_below(objects: ObjectStore, prefix: str) -> list[str]:
    return [info.name for info in objects.list(f"word-count/{prefix}")]


def test_a_checkpoint_comes_back_as_it_was_taken(
    stores: TaskStores, repository: CheckpointRepository, objects: ObjectStore, tmp_path: Path
) -> None:
    write(stores, {"a": {b"k": b"v"}, "b": {b"l": b"w"}}, a=5, b=6)
    saved = repository.writer("0_3", 7).save(tmp_path / "checkpoint", draft_of(stores, tmp_path / "checkpoint", 4))
    assert (saved.task, saved.epoch, saved.sequence, saved.taken_at_ms) == ("0_3", 7, 1, 4000)
    assert saved.inputs == {"lines": {3: InputInCheckpoint(4, "time", "id-lines")}}
    assert objects_below(objects, "tasks/") == [f"word-count/tasks/0_3/{7:020}-{1:020}.json"]
    assert sorted(objects_below(objects, "files/")) == sorted(
        {f"word-count/{file.object}" for file in saved.files.values()}
    )

    elsewhere = CheckpointRepository(objects, "word-count")
    assert list(elsewhere.newest_first("0_3")) == [saved]
    assert list(elsewhere.newest_first("0_4")) == []
    assert list(CheckpointRepository(objects, "other").newest_first("0_3")) == []
    elsewhere.fetch(saved, tmp_path / "fetched")
    again = open_task_stores(tmp_path / "fetched", builders("rocksdb"))
    assert (again.store("a").get(b"k"), again.store("b").get(b"l")) == (b"v", b"w")
    assert (again.changelog_offset("a"), again.changelog_offset("b")) == (5, 6)
    again.close()


def test_a_table_is_uploaded_once_also_by_the_next_holder_of_the_task(
    stores: TaskStores, repository: CheckpointRepository, objects: ObjectStore, tmp_path: Path
) -> None:
    saved: list[CheckpointManifest] = []
    for number, epoch in enumerate((7, 7, 9)):
        write(stores, {"a": {b"%d" % number: b"v"}}, a=number)
        stores.flush()
        folder = tmp_path / str(number)
        saved.append(repository.writer("0_3", epoch).save(folder, draft_of(stores, folder)))
    assert [(it.epoch, it.sequence) for it in saved] == [(7, 1), (7, 2), (9, 1)]
    assert list(repository.newest_first("0_3")) == saved[::-1]
    tables = [{file.object for name, file in it.files.items() if name.endswith(".sst")} for it in saved]
    assert tables[0] < tables[1] < tables[2]
    digests = [name.rpartition("/")[2].partition("-")[0] for name in objects_below(objects, "files/")]
    assert len(digests) == len(set(digests))


def test_an_earlier_holder_of_the_task_writes_no_further_checkpoint(
    stores: TaskStores, repository: CheckpointRepository, objects: ObjectStore, tmp_path: Path
) -> None:
    early, late = repository.writer("0_3", 7), repository.writer("0_3", 8)
    newest = late.save(tmp_path / "1", draft_of(stores, tmp_path / "1"))
    before = [info.name for info in objects.list()]
    with pytest.raises(CheckpointSupersededError, match=r"task 0_3 .* of a newer epoch than 7"):
        early.save(tmp_path / "2", draft_of(stores, tmp_path / "2"))
    assert [info.name for info in objects.list()] == before
    assert list(repository.newest_first("0_3")) == [newest]


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_damaged_file_is_found_and_the_folder_does_not_appear(
    damage: str, stores: TaskStores, repository: CheckpointRepository, objects: ObjectStore, tmp_path: Path
) -> None:
    write(stores, {"a": {b"k": b"v"}})
    stores.flush()
    saved = repository.writer("0_3", 7).save(tmp_path / "1", draft_of(stores, tmp_path / "1"))
    table = next(file for name, file in saved.files.items() if name.endswith(".sst"))
    name = f"word-count/{table.object}"
    content = objects.read(name)
    objects.delete([name])
    if damage != "missing":
        objects.put(name, content[:-1] if damage == "short" else b"?" + content[1:])
    with pytest.raises(CheckpointDamagedError, match=table.object):
        repository.fetch(saved, tmp_path / "fetched")
    assert not list(tmp_path.glob("fetched*"))
