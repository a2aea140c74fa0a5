"""Placements of tasks that users have asked for."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from penstock.common.ids import TaskId


@dataclass(frozen=True)
class Wishes:
    """The actor that a user wants for some tasks. A wish holds while the stream actors that take tasks are those of
    ``among``. When one comes or goes, all tasks are balanced again, and stay where they are as far as balance permits.
    """

    by_task: Mapping[TaskId, str] = field(default_factory=dict)
    among: frozenset[str] = frozenset()

    def with_task(self, task: TaskId, to: str, among: frozenset[str]) -> Wishes:
        """Returns these wishes with one more; alone, if the others do not hold among the actors of now."""
        return Wishes({**(self.by_task if among == self.among else {}), task: to}, among)

    def holding(self, among: frozenset[str], tasks: Set[TaskId]) -> Wishes:
        """Returns the wishes that still hold, with these actors and for these tasks."""
        if not self.by_task or among != self.among:
            return NO_WISHES
        return Wishes({task: to for task, to in self.by_task.items() if task in tasks}, among)


NO_WISHES = Wishes()
