"""Assigns standbys to actors: far from the active task, where they were before, evenly.

Pure and deterministic. Mirrors the aims of ``StandbyTaskAssignor`` (KIP-708).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId


@dataclass(frozen=True)
class StandbyPolicy:
    """The settings of standbys. ``replicas``: number for each task (``num.standby.replicas``). ``max_warmups``: number
    of tasks that may have a warm-up, a standby to which they are to move, at a time (``max.warmup.replicas``).
    ``acceptable_lag``: number of offsets that a standby may lack to count as caught up (``acceptable.recovery.lag``).
    ``tags``: labels of nodes; a task and its standbys belong on nodes that differ in their values of these
    (``rack.aware.assignment.tags``)."""

    replicas: int = 0
    max_warmups: int = 2
    acceptable_lag: int = 10_000
    tags: tuple[str, ...] = ()


NO_STANDBYS = StandbyPolicy()


def standby_policy(config: StreamsConfig) -> StandbyPolicy:
    """Returns the policy that the configuration sets."""
    return StandbyPolicy(
        config.num_standby_replicas,
        config.max_warmup_replicas,
        config.acceptable_recovery_lag,
        config.rack_aware_assignment_tags,
    )


@dataclass(frozen=True)
class Place:
    """The node of an actor, and its values for the tags of the policy."""

    node: str
    tags: tuple[str | None, ...] = ()


def assign_standbys(
    active: Mapping[TaskId, str],
    replicas: int,
    places: Mapping[str, Place],
    current: Mapping[TaskId, Collection[str]],
) -> dict[TaskId, tuple[str, ...]]:
    """Returns the actors that keep a standby of each task of ``active``, which maps a task to the actor that runs it.

    None is the actor that runs the task, and no two are the same: with too few actors there are fewer standbys. Other
    nodes go first, then nodes with other tags than those that have the task already, then, while none has more than its
    share, the actors that have the standby now. As far as that leaves a choice, no actor has two more than another; and
    nothing moves for a placement that is no better than the current one.
    """
    chosen = _Standbys(active, places, _one_after_the_other(active, replicas, places, current))
    chosen.spread(current)
    there = {task: [it for it in current.get(task, ()) if it in places and it != name] for task, name in active.items()}
    now = _Standbys(active, places, {task: tuple(names) for task, names in there.items()})
    return now.of_task if now.is_as_good_as(chosen) else chosen.of_task


def _one_after_the_other(
    active: Mapping[TaskId, str],
    replicas: int,
    places: Mapping[str, Place],
    current: Mapping[TaskId, Collection[str]],
) -> dict[TaskId, tuple[str, ...]]:
    """Returns the best actors for each task, by what is placed already. The last tasks find only what is left."""
    load: Counter[str] = Counter()
    share = -(-len(active) * replicas // max(1, len(places)))
    chosen: dict[TaskId, tuple[str, ...]] = {}
    for task in sorted(active):
        taken = [active[task]]
        for _ in range(replicas):
            free = [name for name in places if name not in taken]
            if not free:
                break
            there = [places[name] for name in taken if name in places]

            def cost(name: str, task: TaskId = task, there: list[Place] = there) -> tuple[object, ...]:
                place = places[name]
                same_node = any(place.node == other.node for other in there)
                same_tags = sum(tag == each.tags[at] for each in there for at, tag in enumerate(place.tags))
                moves = name not in current.get(task, ())
                return same_node, same_tags, load[name] >= share, moves, load[name], name

            best = min(free, key=cost)
            load[best] += 1
            taken.append(best)
        chosen[task] = tuple(taken[1:])
    return chosen


class _Standbys:
    """The actors that keep a standby of each task: ``of_task``, which may be moved; ``active`` stays where it is."""

    def __init__(
        self, active: Mapping[TaskId, str], places: Mapping[str, Place], standbys: dict[TaskId, tuple[str, ...]]
    ) -> None:
        self.of_task = standbys
        self._active = active
        self._places = places
        self._load = Counter(name for names in standbys.values() for name in names)

    def is_as_good_as(self, other: _Standbys) -> bool:
        """Returns True if each task has as many standbys, no nearer to each other, and they are spread as evenly."""
        if any(
            len(self.of_task[task]) != len(names) or self._nearness(task) > other._nearness(task)
            for task, names in other.of_task.items()
        ):
            return False
        return self._unevenness <= other._unevenness

    @property
    def _unevenness(self) -> int:
        return sum(self._load[name] ** 2 for name in self._places)

    def _nearness(self, task: TaskId, instead: str = "", there: str = "") -> tuple[int, int]:
        """Returns how many pairs of actors that have the task share a node, and how many values of tags they share;
        with the actor ``there`` in place of ``instead``."""
        names = [self._active[task], *(there if name == instead else name for name in self.of_task[task])]
        found = [self._places[name] for name in names if name in self._places]
        pairs = list(combinations(found, 2))
        same_tags = sum(one == other for a, b in pairs for one, other in zip(a.tags, b.tags, strict=True))
        return sum(a.node == b.node for a, b in pairs), same_tags

    def spread(self, current: Mapping[TaskId, Collection[str]]) -> None:
        """Move standbys from the fullest actor to one with two less, via others if needed, none nearer to the rest."""
        of_actor: dict[str, set[TaskId]] = {name: set() for name in self._places}
        for task, names in self.of_task.items():
            for name in names:
                of_actor[name].add(task)
        while any(self._relieve(name, of_actor, current) for name in sorted(self._places, key=self._by_load)):
            pass

    def _by_load(self, name: str) -> tuple[int, str]:
        return -self._load[name], name

    def _relieve(self, most: str, of_actor: dict[str, set[TaskId]], current: Mapping[TaskId, Collection[str]]) -> bool:
        """Move a standby away from the actor ``most``, over others if need be; returns False if none can leave it."""
        least = min((self._load[name] for name in self._places), default=0)
        if self._load[most] - least < 2:
            return False
        came: dict[str, tuple[str, TaskId]] = {}
        reached = [most]
        for name in reached:
            for task in sorted(of_actor[name]):
                held, has = {self._active[task], *self.of_task[task]}, current.get(task, ())
                near = self._nearness(task)
                # An actor that has the standby now has nothing to restore.
                choice = sorted((it not in has, self._load[it], it) for it in self._places if it not in held)
                for _, _, there in choice:
                    if there in came or there == most:
                        continue
                    if self._nearness(task, name, there) > near:
                        continue
                    came[there] = name, task
                    if self._load[there] <= self._load[most] - 2:
                        self._move(there, came, of_actor)
                        return True
                    reached.append(there)
        return False

    def _move(self, to: str, came: Mapping[str, tuple[str, TaskId]], of_actor: dict[str, set[TaskId]]) -> None:
        self._load[to] += 1
        while to in came:
            origin, task = came[to]
            self.of_task[task] = tuple(to if name == origin else name for name in self.of_task[task])
            of_actor[origin].remove(task)
            of_actor[to].add(task)
            to = origin
        self._load[to] -= 1
