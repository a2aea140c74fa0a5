"""Assigns tasks to actors: sticky first, then balanced within one task, then stateful sub-topologies spread.

Pure and deterministic. Mirrors the aims of ``StickyTaskAssignor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from penstock.common.ids import TaskId


def assign(
    tasks: Collection[TaskId],
    actors: Sequence[str],
    current: Mapping[TaskId, str],
    stateful: Set[int] = frozenset(),
) -> dict[TaskId, str]:
    """Returns the actor of each task; empty without actors. As many tasks as balance permits stay on their
    actors in ``current``."""
    if not actors:
        return {}
    placement = _Placement(len(tasks), actors)
    by_actor: dict[str, list[TaskId]] = {actor: [] for actor in actors}
    for task in sorted(tasks):
        if current.get(task) in by_actor:
            by_actor[current[task]].append(task)
    # The actors with most tasks may keep the odd ones, so that the fewest move.
    for actor in sorted(actors, key=lambda name: -len(by_actor[name])):
        for task in _interleaved(by_actor[actor]):
            if placement.has_room(actor):
                placement.put(task, actor)
    left = [task for task in sorted(tasks) if task not in placement.actor_of]
    for task in sorted(left, key=lambda task: (task.subtopology not in stateful, task)):
        placement.put(task, placement.best_for(task))
    return placement.actor_of


def _interleaved(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Returns the tasks, one of each sub-topology in turn, so that an actor gives away those that it has most of."""
    seen: Counter[int] = Counter()
    ranked = []
    for task in tasks:
        ranked.append((seen[task.subtopology], task))
        seen[task.subtopology] += 1
    return [task for _, task in sorted(ranked)]


class _Placement:
    """The tasks placed so far, and the room on each actor: the average, rounded up for as few actors as possible."""

    def __init__(self, tasks: int, actors: Sequence[str]) -> None:
        self.actor_of: dict[TaskId, str] = {}
        self._actors = actors
        self._base, self._odd = divmod(tasks, len(actors))
        self._load: Counter[str] = Counter()
        self._kinds: Counter[tuple[str, int]] = Counter()

    def has_room(self, actor: str) -> bool:
        return self._load[actor] < self._base or (self._load[actor] == self._base and self._odd > 0)

    def put(self, task: TaskId, actor: str) -> None:
        if self._load[actor] == self._base:
            self._odd -= 1
        self.actor_of[task] = actor
        self._load[actor] += 1
        self._kinds[actor, task.subtopology] += 1

    def best_for(self, task: TaskId) -> str:
        free = [actor for actor in self._actors if self.has_room(actor)]
        return min(free, key=lambda actor: (self._kinds[actor, task.subtopology], self._load[actor]))
