"""Uploads that go wrong, and manifests that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from penstock.checkpoints.errors import (
    CheckpointDamagedError,
    CheckpointFormatError,
    CheckpointLateError,
    CheckpointSupersededError,
)
from penstock.checkpoints.fetching import fetch_newest
from penstock.checkpoints.fitness import ExpectedState, ExpectedStore
from penstock.checkpoints.limits import DELETION_DELAY_MS, LONGEST_UPLOAD_MS
from penstock.checkpoints.manifest import CheckpointDraft, CheckpointManifest, ManifestName, StoreInCheckpoint, decode
from penstock.checkpoints.repository import CheckpointRepository
from penstock.checkpoints.writer import CheckpointWriter
from penstock.common.errors import ObjectStoreError
from penstock.objects.memory import MemoryObjects
from penstock.objects.prefix import ObjectsBelow

DRAFT = CheckpointDraft(0, {"counts": StoreInCheckpoint("rows", "changelog", "id", 5)}, {})
EXPECTED = ExpectedState({"counts": ExpectedStore("rows", "changelog", "id")}, {})


class Objects(MemoryObjects):
    """Storage whose next ``create`` goes as ``on_create`` says."""

    on_create: Callable[[str, bytes], None] | None = None

    def create(self, name: str, content: bytes) -> None:
        planned, self.on_create = self.on_create, None
        if planned is not None:
            planned(name, content)
        super().create(name, content)


@pytest.fixture
def storage() -> Objects:
    return Objects()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    (made / "rocksdb").mkdir(parents=True)
    (made / "rocksdb" / "000001.sst").write_text("rows")
    return made


def repository(storage: Objects) -> CheckpointRepository:
    return CheckpointRepository(storage, "app")


def test_a_request_that_the_client_repeats_is_no_other_writer(storage: Objects, folder: Path) -> None:
    storage.on_create = storage.create  # the answer is lost: the client sends the request again
    saved = repository(storage).writer("0_0", 7).save(folder, DRAFT)
    assert list(repository(storage).newest_first("0_0")) == [saved]


def test_two_holders_under_one_epoch_are_an_error(storage: Objects, folder: Path) -> None:
    storage.on_create = lambda name, content: storage.create(name, b"of another one")
    with pytest.raises(CheckpointSupersededError, match="two actors hold the task under epoch 7"):
        repository(storage).writer("0_0", 7).save(folder, DRAFT)


def test_the_next_checkpoint_of_a_failed_one_has_another_number(storage: Objects, folder: Path) -> None:
    def fails(name: str, content: bytes) -> None:
        raise ObjectStoreError("no answer")

    writer = repository(storage).writer("0_0", 7)
    storage.on_create = fails
    with pytest.raises(ObjectStoreError):
        writer.save(folder, DRAFT)
    assert writer.save(folder, DRAFT).sequence == 2


def test_files_that_were_deleted_while_the_machine_was_paused_are_uploaded_again(folder: Path) -> None:
    now_ms = 0
    storage = Objects(lambda: now_ms)
    writer = CheckpointWriter(ObjectsBelow(storage, "app/"), "app", "0_0", 7, lambda: 0.0)  # its clock does not move

    def paused(name: str, content: bytes) -> None:
        nonlocal now_ms
        now_ms += 2 * DELETION_DELAY_MS
        assert len(repository(storage).delete_unneeded().files) == 1

    storage.on_create = paused
    writer.save(folder, DRAFT)
    (folder / "rocksdb" / "000002.sst").write_text("more")
    whole = writer.save(folder, DRAFT)
    fetched = fetch_newest(repository(storage), "0_0", EXPECTED, folder.with_name("fetched"))
    assert fetched is not None
    assert fetched.manifest == whole


@pytest.mark.parametrize("before_the_manifest", [True, False])
def test_an_upload_that_took_too_long_gives_up(
    before_the_manifest: bool, storage: Objects, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 0.0
    writer = CheckpointWriter(storage, "app", "0_0", 7, lambda: now_ms)

    def pass_time(*_: object) -> None:
        nonlocal now_ms
        now_ms += LONGEST_UPLOAD_MS + 1

    if before_the_manifest:
        monkeypatch.setattr(storage, "upload", pass_time)
    else:
        storage.on_create = pass_time
    with pytest.raises(CheckpointLateError, match=r"task 0_0 has taken 45 minutes, and may take 45 at most: memory://"):
        writer.save(folder, DRAFT)
    monkeypatch.undo()
    assert len(list(storage.list("tasks/"))) == (0 if before_the_manifest else 1)
    assert writer.save(folder, DRAFT).sequence == 2


def manifest_of(storage: Objects, saved: CheckpointManifest) -> str:
    return f"app/{saved.name}"


def test_a_manifest_of_a_newer_penstock_is_refused_with_words_and_left_alone(
    storage: Objects, folder: Path, tmp_path: Path
) -> None:
    writer = repository(storage).writer("0_0", 7)
    older, newer = writer.save(folder, DRAFT), writer.save(folder, DRAFT)
    name = manifest_of(storage, newer)
    storage.put(name, msgspec.json.encode({"format": 2, "contents": "of another form"}))
    with pytest.raises(CheckpointFormatError, match="has format 2, and this version of penstock reads formats up to 1"):
        decode(storage.read(name), newer.name, "app")
    assert list(repository(storage).newest_first("0_0")) == [older]
    found = fetch_newest(repository(storage), "0_0", EXPECTED, tmp_path / "fetched")
    assert found is not None
    assert found.manifest == older
    assert repository(storage).delete_unneeded().manifests == ()
    assert repository(storage).writer("0_0", 8).save(folder, DRAFT).sequence == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"format": 1}', b"\xff\xfe", b'{"format": 1, "digest": "", "body": {}}']
)
def test_a_damaged_manifest_is_passed_over(content: bytes, storage: Objects, folder: Path) -> None:
    writer = repository(storage).writer("0_0", 7)
    older, newer = writer.save(folder, DRAFT), writer.save(folder, DRAFT)
    storage.put(manifest_of(storage, newer), content)
    assert list(repository(storage).newest_first("0_0")) == [older]


def test_a_manifest_that_was_copied_to_another_name_is_damaged(storage: Objects, folder: Path) -> None:
    saved = repository(storage).writer("0_0", 7).save(folder, DRAFT)
    content = storage.read(manifest_of(storage, saved))
    for name, application_id in ((ManifestName("0_1", 7, 1), "app"), (saved.name, "other")):
        with pytest.raises(CheckpointDamagedError, match="the object has the manifest tasks/0_0/"):
            decode(content, name, application_id)


def test_a_file_outside_the_folder_is_refused(storage: Objects, folder: Path, tmp_path: Path) -> None:
    saved = repository(storage).writer("0_0", 7).save(folder, DRAFT)
    (file,) = saved.files.values()
    for name in ("../outside", "/tmp/outside"):
        with pytest.raises(CheckpointDamagedError, match="names a file outside its folder"):
            repository(storage).fetch(msgspec.structs.replace(saved, files={name: file}), tmp_path / "fetched")


def test_everything_is_deleted_by_a_reset(storage: Objects, folder: Path) -> None:
    repository(storage).writer("0_0", 7).save(folder, DRAFT)
    repository(storage).listing()
    CheckpointRepository(storage, "other").writer("0_0", 7).save(folder, DRAFT)
    repository(storage).delete_everything()
    assert {info.name.partition("/")[0] for info in storage.list()} == {"other"}
