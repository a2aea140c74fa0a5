"""The newest readable checkpoint always restores to a state that once was committed; and the machine that shows it
finds planted mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.checkpoints import deletion, repository, sealed, transfers, writer
from penstock.checkpoints.deletion import DeletionPlan
from penstock.checkpoints.file_digests import LocalFile
from penstock.checkpoints.limits import DELETION_DELAY_MS
from penstock.checkpoints.listing import Listing
from penstock.checkpoints.manifest import CheckpointManifest, FileInCheckpoint, ManifestName
from penstock.checkpoints.repository import CheckpointRepository
from penstock.checkpoints.writer import CheckpointWriter
from penstock.objects.contracts import ObjectStore
from tests.checkpoints.machine import CheckpointMachine
from tests.tiers import examples

TestCheckpoints = CheckpointMachine.TestCase
TestCheckpoints.settings = settings(max_examples=examples(60), stateful_step_count=30)

Plant = Callable[[pytest.MonkeyPatch], None]


def delete_by_age_alone(patch: pytest.MonkeyPatch) -> None:
    def plan(listing: Listing) -> DeletionPlan:
        old = [file.name for file in listing.files if file.created_ms <= listing.now_ms - DELETION_DELAY_MS]
        return DeletionPlan(deletion.plan_deletion(listing).manifests, tuple(old))

    patch.setattr(repository, "plan_deletion", plan)


def delete_files_that_are_young(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "DELETION_DELAY_MS", 0)


def delete_files_together_with_their_manifest(patch: pytest.MonkeyPatch) -> None:
    def plan(listing: Listing) -> DeletionPlan:
        right = deletion.plan_deletion(listing)
        staying = [it for it in listing.manifests if it.name not in right.manifests]
        reached = {name for it in staying for name in it.objects or ()}
        going = [file.name for file in listing.files if file.name not in reached and file.name not in right.files]
        old = [it.name for it in listing.files if it.created_ms <= listing.now_ms - DELETION_DELAY_MS]
        return DeletionPlan(right.manifests, (*right.files, *(name for name in going if name in old)))

    patch.setattr(repository, "plan_deletion", plan)
    delete = CheckpointRepository.carry_out
    patch.setattr(
        CheckpointRepository, "carry_out", lambda self, it: delete(self, DeletionPlan(it.files, it.manifests))
    )


def keep_no_checkpoint_for_those_who_read_it(patch: pytest.MonkeyPatch) -> None:
    def plan(listing: Listing) -> DeletionPlan:
        newest = max(listing.manifests, key=lambda it: it.name, default=None)
        return DeletionPlan(
            tuple(it.name for it in listing.manifests if it is not newest), deletion.plan_deletion(listing).files
        )

    patch.setattr(repository, "plan_deletion", plan)


def write_the_manifest_before_the_files(patch: pytest.MonkeyPatch) -> None:
    waiting: list[tuple[ObjectStore, str, LocalFile]] = []
    create = CheckpointWriter._create

    def upload(objects: ObjectStore, prefix: str, file: LocalFile) -> FileInCheckpoint:
        name = f"{prefix}{file.digest}-{len(waiting)}-{file.path.parent.parent.name}{file.path.parent.name}"
        waiting.append((objects, name, file))
        return FileInCheckpoint(file.digest, file.size, name)

    def create_first(self: CheckpointWriter, manifest: CheckpointManifest) -> None:
        create(self, manifest)
        while waiting:
            objects, name, file = waiting.pop()
            objects.upload(name, file.path)

    patch.setattr(writer, "upload", upload)
    patch.setattr(CheckpointWriter, "_create", create_first)


def take_no_second_look_at_the_epoch(patch: pytest.MonkeyPatch) -> None:
    look, create = CheckpointWriter._newest, CheckpointWriter._create
    created: set[int] = set()

    def create_and_note(self: CheckpointWriter, manifest: CheckpointManifest) -> None:
        create(self, manifest)
        created.add(id(self))

    def look_once(self: CheckpointWriter) -> ManifestName | None:
        if id(self) in created:
            created.remove(id(self))
            return None
        return look(self)

    patch.setattr(CheckpointWriter, "_create", create_and_note)
    patch.setattr(CheckpointWriter, "_newest", look_once)


def use_the_same_name_for_the_same_content(patch: pytest.MonkeyPatch) -> None:
    def upload(objects: ObjectStore, prefix: str, file: LocalFile) -> FileInCheckpoint:
        objects.upload(f"{prefix}{file.digest}", file.path)
        return FileInCheckpoint(file.digest, file.size, f"{prefix}{file.digest}")

    patch.setattr(writer, "upload", upload)


def use_any_object_that_was_ever_uploaded(patch: pytest.MonkeyPatch) -> None:
    usable = CheckpointWriter._usable
    known: dict[int, dict[str, FileInCheckpoint]] = {}

    def remembered(self: CheckpointWriter, *arguments: Any) -> dict[str, FileInCheckpoint]:
        mine = known.setdefault(id(self), {})
        mine.update(usable(self, *arguments))
        return {**mine}

    def upload(objects: ObjectStore, prefix: str, file: LocalFile) -> FileInCheckpoint:
        done = transfers.upload(objects, prefix, file)
        for mine in known.values():
            mine[file.digest] = done
        return done

    patch.setattr(writer, "upload", upload)
    patch.setattr(CheckpointWriter, "_usable", remembered)


def trust_an_upload_that_took_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckpointWriter, "_require_in_time", lambda self, began: None)


def trust_the_content_of_files(patch: pytest.MonkeyPatch) -> None:
    def download(self: CheckpointRepository, manifest: object, file: FileInCheckpoint, path: Path) -> None:
        self._objects.download(file.object, path)

    patch.setattr(CheckpointRepository, "_download", download)


def trust_the_content_of_manifests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealed, "digest_of", lambda content: "0")


PLANTS: list[Plant] = [
    delete_by_age_alone,
    write_the_manifest_before_the_files,
    take_no_second_look_at_the_epoch,
    delete_files_that_are_young,
    delete_files_together_with_their_manifest,
    keep_no_checkpoint_for_those_who_read_it,
    use_the_same_name_for_the_same_content,
    use_any_object_that_was_ever_uploaded,
    trust_an_upload_that_took_too_long,
    trust_the_content_of_files,
    trust_the_content_of_manifests,
]


@pytest.mark.parametrize("plant", [*PLANTS[:2], *(pytest.param(plant, marks=pytest.mark.long) for plant in PLANTS[2:])])
def test_the_machine_finds_a_planted_mistake(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    thorough = settings(
        max_examples=2000,
        stateful_step_count=20,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(CheckpointMachine, settings=thorough)
