"""Decides which checkpoints, and which files, may be deleted: a pure function over a listing.

Three processes may work at once, and each may be stopped at any moment for any time:

- An *uploader* uploads files, then writes the manifest that names them. Young files stay, so those of an upload that is
  under way stay. It uses objects of earlier checkpoints only if the newest manifest of its task names them: that
  manifest stays whatever else happens.
- A *reader* looks for the newest checkpoints, then downloads one. A checkpoint stays for a delay after it has ceased to
  be one of those that are kept, and its files stay as long as its manifest is there.
- Another *deleter*, or one that was stopped between listing and deleting. No object's name is used twice, and a file
  without a manifest that is old gets none any more: what could be deleted once can be deleted later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.checkpoints.limits import DELETION_DELAY_MS, HAND_OVER_DELAY_MS, KEPT
from penstock.checkpoints.listing import ListedFile, ListedManifest, Listing
from penstock.checkpoints.manifest import HAND_OVER_FILES


@dataclass(frozen=True)
class DeletionPlan:
    """The names of objects that may be deleted: first the manifests, then the files."""

    manifests: tuple[str, ...]
    files: tuple[str, ...]


def plan_deletion(listing: Listing, kept: int = KEPT) -> DeletionPlan:
    """Returns what may be deleted.

    A file may go if it is old and no manifest of the listing names it, not even one that may go: that one's files
    follow when its manifest is gone. No file goes while the content of some manifest is unknown: the checkpoint that
    follows a damaged one may need its files.
    """
    of_tasks: defaultdict[str, list[ListedManifest]] = defaultdict(list)
    for manifest in listing.manifests:
        if manifest.place is not None:
            of_tasks[manifest.place.task].append(manifest)
    files_by_name = {file.name: file for file in listing.files}
    manifests = [
        gone.name for of_task in of_tasks.values() for gone in _superseded(of_task, files_by_name, listing, kept)
    ]
    manifests += [gone.name for gone in _unneeded_hand_overs(listing)]
    known = not listing.unknown and all(it.objects is not None for it in (*listing.manifests, *listing.hand_overs))
    files = [file.name for file in _unreached(listing)] if known else []
    return DeletionPlan(tuple(manifests), tuple(files))


def _superseded(
    manifests: list[ListedManifest], files: dict[str, ListedFile], listing: Listing, kept: int
) -> Iterator[ListedManifest]:
    """Yields those of a task's manifests that may go."""
    newest_first = sorted(manifests, key=lambda manifest: manifest.place or (), reverse=True)
    complete: list[ListedManifest] = []
    for manifest in newest_first:
        if _is_complete(manifest, files):
            complete.append(manifest)
            # It ceased to be kept when this one was created.
            pushed_out_by = complete[-1 - kept] if len(complete) > kept else None
            may_go = pushed_out_by is not None and _is_old(pushed_out_by, listing)
        else:
            # Nothing can be restored from it. Yet the next uploader may use those of its files that are there.
            may_go = manifest is not newest_first[0]
        if may_go and _is_old(manifest, listing):
            yield manifest


def _is_complete(manifest: ListedManifest, files: dict[str, ListedFile]) -> bool:
    """Returns True if all files are there, and were uploaded so shortly before the manifest that no deleter, however
    late, takes them for files without one."""
    if manifest.objects is None:
        return False
    found = [(files.get(name), size) for name, size in manifest.objects.items()]
    in_time = manifest.created_ms - DELETION_DELAY_MS
    return all(
        file is not None and file.size == size and (file.name not in manifest.uploaded or file.created_ms > in_time)
        for file, size in found
    )


def _unneeded_hand_overs(listing: Listing) -> Iterator[ListedManifest]:
    """Yields the hand-overs that are damaged, and those before the last one that is not."""
    last = max((it.name for it in listing.hand_overs if it.objects is not None), default="")
    replaced = any(it.name == last and _is_old(it, listing) for it in listing.hand_overs)
    for hand_over in listing.hand_overs:
        if _is_old(hand_over, listing) and (hand_over.objects is None or (replaced and hand_over.name < last)):
            yield hand_over


def _unreached(listing: Listing) -> Iterator[ListedFile]:
    reached = {name for manifest in (*listing.manifests, *listing.hand_overs) for name in manifest.objects or ()}
    for file in listing.files:
        delay = HAND_OVER_DELAY_MS if file.name.startswith(HAND_OVER_FILES) else DELETION_DELAY_MS
        if file.name not in reached and file.created_ms <= listing.now_ms - delay:
            yield file


def _is_old(manifest: ListedManifest, listing: Listing) -> bool:
    return manifest.created_ms <= listing.now_ms - DELETION_DELAY_MS
