"""Decides what a run of an ingest does: pure, from the files that there are and the progress of earlier runs."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.common.errors import ConfigError
from penstock.common.shown import counted
from penstock.pipeline.ingest.contracts import SourceFile
from penstock.pipeline.ingest.progress import FileProgress, Progress

LANES = 32
"""Most files that are written at once. A lane is one ``transactional.id`` and writes its files one after the other."""


@dataclass(frozen=True)
class Lane:
    """The files that one writer takes, in the order of their names."""

    number: int
    files: tuple[SourceFile, ...]


@dataclass(frozen=True)
class IngestPlan:
    """The lanes that have files to write; the progress of files that are new; names of files that were not finished
    and are gone."""

    lanes: tuple[Lane, ...]
    new: Mapping[str, FileProgress]
    gone: tuple[str, ...]

    @property
    def files(self) -> int:
        """Number of files to write."""
        return sum(len(lane.files) for lane in self.lanes)


def plan_ingest(files: Sequence[SourceFile], progress: Progress, settings: Mapping[str, str]) -> IngestPlan:
    """Returns the plan. A file keeps its lane in all runs, so that two writers of one file have the same
    ``transactional.id``. New files go to the lanes with the fewest bytes.

    Raises ConfigError if the ingest was begun with other ``settings``, or if a file has changed since some of its rows
    were written.
    """
    _refuse_other_settings(progress, settings)
    _refuse_changed(files, progress)
    names = {file.name for file in files}
    to_do = [file for file in files if not is_done(file, progress)]
    new = [file for file in to_do if file.name not in progress.files]
    lanes = {file.name: progress.files[file.name].lane for file in to_do if file.name in progress.files}
    lanes.update(_assigned(new, to_do, lanes))
    by_lane: defaultdict[int, list[SourceFile]] = defaultdict(list)
    for file in sorted(to_do, key=lambda file: file.name):
        by_lane[lanes[file.name]].append(file)
    return IngestPlan(
        tuple(Lane(number, tuple(by_lane[number])) for number in sorted(by_lane)),
        {file.name: FileProgress(lanes[file.name], file.size, file.modified_ms) for file in new},
        tuple(
            sorted(name for name, each in progress.files.items() if each.rows and not each.done and name not in names)
        ),
    )


def is_done(file: SourceFile, progress: Progress) -> bool:
    """Returns True if all rows of a file are written, and it was not stored again since: then it is looked into."""
    known = progress.files.get(file.name)
    return known is not None and known.done and known.modified_ms == file.modified_ms


def _assigned(new: list[SourceFile], to_do: list[SourceFile], lanes: Mapping[str, int]) -> dict[str, int]:
    loads = [0] * min(LANES, max([len(to_do), *(lane + 1 for lane in lanes.values())]))
    for file in to_do:
        if file.name in lanes:
            loads[lanes[file.name]] += file.size
    heap = [(load, number) for number, load in enumerate(loads)]
    heapq.heapify(heap)
    assigned = {}
    for file in sorted(new, key=lambda file: (-file.size, file.name)):
        load, number = heap[0]
        heapq.heapreplace(heap, (load + file.size + 1, number))
        assigned[file.name] = number
    return assigned


def _refuse_other_settings(progress: Progress, settings: Mapping[str, str]) -> None:
    if progress.run is None:
        return
    before = progress.run.settings
    different = [
        f"{name} was {before.get(name, 'not set')}, and is {settings.get(name, 'not set')}"
        for name in sorted({*before, *settings})
        if before.get(name) != settings.get(name)
    ]
    if different:
        raise ConfigError(
            f"an ingest of this id has begun with other settings: {'; '.join(different)}. Continue it with the same "
            "settings, or give another --id. That begins another ingest, which writes all rows, also those that this "
            f"one has done ({counted(progress.rows, 'row')})"
        )


def _refuse_changed(files: Sequence[SourceFile], progress: Progress) -> None:
    for file in files:
        known = progress.files.get(file.name)
        if known is not None and known.rows and known.size != file.size:
            raise ConfigError(
                f"{file.name!r}: " + changed(known, f"it had {known.size:,} bytes, and has {file.size:,}")
            )


def changed(known: FileProgress, how: str) -> str:
    """Returns the message about a file that has changed since some of its rows were written."""
    return (
        f"it has changed since {known.rows:,} of its rows were written: {how}. Nothing more of it was written. Put "
        "the earlier file back, and put new rows into a file of another name"
    )
