"""The standbys of each task, as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.cluster.read_side import ApplicationStatus
from penstock.common.ids import TaskId


@dataclass(frozen=True)
class StandbyRow:
    """A standby: its actor, and the offsets of its changelogs that it lacks."""

    actor_id: str
    lag: int


def standbys_of(status: ApplicationStatus) -> Mapping[TaskId, tuple[StandbyRow, ...]]:
    """Returns the standbys of each task that has any."""
    found: dict[TaskId, tuple[StandbyRow, ...]] = {}
    for actor in status.actors:
        for each in actor.standbys:
            found[each.task_id] = (*found.get(each.task_id, ()), StandbyRow(actor.actor_id, each.lag))
    return found


def standbys_text(rows: Iterable[StandbyRow]) -> str:
    """Returns standbys as a cell of a table: ``stream/1, stream/2 (1,200 behind)``."""
    return ", ".join(f"{each.actor_id} ({each.lag:,} behind)" if each.lag else each.actor_id for each in rows)
