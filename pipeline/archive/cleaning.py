"""Chooses the objects of an archive that nothing needs any more. Pure, except the function that deletes them.

All times are those of the storage, and that of its newest object counts as the present. The clocks of the machines that
archive do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.common.errors import ObjectMissingError
from penstock.objects.contracts import ObjectInfo, ObjectStore
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.catalog import Archive

KEPT_MS = 86_400_000
"""Time for which files that compaction has replaced, and manifests that a base covers, are kept for readers that have
read older manifests."""
_SUFFIX = ".parquet"


@dataclass(frozen=True)
class Cleaning:
    """``orphans``: files that no manifest names. ``outdated``: what readers of older manifests may have read."""

    orphans: tuple[str, ...]
    outdated: tuple[str, ...]


def plan_cleaning(listing: Iterable[ObjectInfo], archived: ArchivedTopic, opened_ms: int = 0) -> Cleaning:
    """Returns the objects to delete, of all those in the folder of a generation.

    Only a run that has begun, at ``opened_ms`` by the storage's clock, may delete orphans: what is older was written by
    earlier runs, or beside them, and can never be committed. What is not older may be of a compaction beside this run.
    """
    objects = list(listing)
    now_ms = max((info.modified_ms for info in objects), default=0)
    files = {info.name: info.modified_ms for info in objects if info.name.endswith(_SUFFIX)}
    named = {file.name for file in archived.all_files()}
    known = named | archived.replaced.keys()
    orphans = [name for name, modified_ms in files.items() if name not in known and modified_ms < opened_ms]
    # An entry that is not listed was deleted, long after it was written.
    entries = {_number(info): info.modified_ms for info in _manifests(objects, archived.folder)}
    late = [
        name
        for name, number in archived.replaced.items()
        if name in files and name not in named and now_ms - entries.get(number, 0) >= KEPT_MS
    ]
    return Cleaning(tuple(orphans), (*late, *_covered(objects, archived.folder, now_ms)))


def clean(objects: ObjectStore, archived: ArchivedTopic, opened: str, outdated: bool = True) -> Cleaning:
    """Delete what nothing needs, in the folder of a generation whose run has begun; returns what was deleted: nothing
    if a later run has begun meanwhile, which may use the names again. ``opened``: the entry that began this run.
    ``outdated``: also delete what readers of older manifests may have read."""
    run, entry = archived.run, objects.info(opened)
    if entry is None:
        raise ObjectMissingError(f"{opened} was deleted from {objects.url} while the run began: run this again")
    plan = _planned(objects, archived, entry.modified_ms)
    Archive(objects).follow(archived)
    if archived.run != run:
        return Cleaning((), ())
    objects.delete(plan.orphans)
    if not outdated:
        return Cleaning(plan.orphans, ())
    objects.delete(plan.outdated)
    return plan


def clean_outdated(objects: ObjectStore, archived: ArchivedTopic) -> tuple[str, ...]:
    """Delete, during a run, the objects that only readers of older manifests need, if they are old enough. Returns
    their names."""
    plan = _planned(objects, archived)
    objects.delete(plan.outdated)
    return plan.outdated


def _planned(objects: ObjectStore, archived: ArchivedTopic, opened_ms: int = 0) -> Cleaning:
    """Returns what to delete now. Makes ``archived`` forget the replaced files that the listing no longer has."""
    listing = list(objects.list(f"{archived.folder}/"))
    archived.forget_deleted({info.name for info in listing})
    return plan_cleaning(listing, archived, opened_ms)


def _covered(objects: list[ObjectInfo], folder: str, now_ms: int) -> list[str]:
    """Returns the manifests and bases that the newest base covers, as soon as no reader can be busy with them."""
    bases = sorted((info for info in objects if info.name.startswith(f"{folder}/bases/")), key=lambda info: info.name)
    aged = [info for info in bases if now_ms - info.modified_ms >= KEPT_MS]
    if not aged:
        return []
    # The newest base that is old enough: readers that began before there was a newer one find what they need.
    newest = _number(aged[-1])
    older = [info.name for info in aged[:-1]]
    return [*older, *(info.name for info in _manifests(objects, folder) if _number(info) <= newest)]


def _manifests(objects: list[ObjectInfo], folder: str) -> list[ObjectInfo]:
    return [info for info in objects if info.name.startswith(f"{folder}/manifests/")]


def _number(info: ObjectInfo) -> int:
    return int(info.name.rpartition("/")[2].removesuffix(".json"))
