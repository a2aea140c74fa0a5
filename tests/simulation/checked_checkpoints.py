"""Checks that the newest checkpoint of each task is whole, and that its rows are those of its changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.checkpoints.errors import CheckpointDamagedError
from penstock.checkpoints.manifest import TASKS, parse_name
from penstock.checkpoints.repository import CheckpointRepository
from tests.simulation.programs import APPLICATION

if TYPE_CHECKING:
    from tests.simulation.world import World


def damaged_checkpoints(world: World, folder: Path) -> Iterator[str]:
    """Yields the tasks whose newest checkpoint cannot be downloaded: its files were deleted, or are others."""
    repository = CheckpointRepository(world.objects, APPLICATION)
    prefix = f"{APPLICATION}/"
    names = [parse_name(info.name.removeprefix(prefix)) for info in world.objects.list(f"{prefix}{TASKS}")]
    for task in sorted({name.task for name in names if name is not None}):
        newest = next(repository.newest_first(task), None)
        if newest is None:
            yield f"task {task}: no checkpoint can be read, although there are manifests"
            continue
        try:
            repository.fetch(newest, folder / task)
        except CheckpointDamagedError as error:
            yield f"task {task}: {error}"
