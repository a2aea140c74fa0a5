"""Which actors keep a standby of which task: far from the active one, where they were before, evenly.

Pure and deterministic. Mirrors the aims of ``StandbyTaskAssignor`` (KIP-708).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId


@dataclass(frozen=True)
class StandbyPolicy:
    """``replicas``: copies of each store beside the active one (``num.standby.replicas``). ``max_warmups``: of how many
    tasks a copy is made at a time because they are to move there (``max.warmup.replicas``). ``acceptable_lag``: how
    many offsets a copy may lack to count as caught up (``acceptable.recovery.lag``). ``tags``: labels of nodes, copies
    of one task belong on nodes whose values differ (``rack.aware.assignment.tags``)."""

    replicas: int = 0
    max_warmups: int = 2
    acceptable_lag: int = 10_000
    tags: tuple[str, ...] = ()


NO_STANDBYS = StandbyPolicy()


def standby_policy(config: StreamsConfig) -> StandbyPolicy:
    """What the configuration says."""
    return StandbyPolicy(
        config.num_standby_replicas,
        config.max_warmup_replicas,
        config.acceptable_recovery_lag,
        config.rack_aware_assignment_tags,
    )


@dataclass(frozen=True)
class Place:
    """Where an actor is: its node, and the values of this for the tags of the policy."""

    node: str
    tags: tuple[str | None, ...] = ()


def assign_standbys(
    active: Mapping[TaskId, str],
    replicas: int,
    places: Mapping[str, Place],
    current: Mapping[TaskId, Collection[str]],
) -> dict[TaskId, tuple[str, ...]]:
    """The actors that keep a standby of each task of ``active``, which names its active one.

    None is that of the active task, and no two are the same: where there are too few actors there are fewer standbys.
    Other nodes go first, then nodes with other tags than all copies that are placed already, then, while none has more
    than its share, the actors that have the standby now.
    """
    load: Counter[str] = Counter()
    share = -(-len(active) * replicas // max(1, len(places)))
    chosen: dict[TaskId, tuple[str, ...]] = {}
    for task in sorted(active):
        copies = [active[task]]
        for _ in range(replicas):
            free = [name for name in places if name not in copies]
            if not free:
                break
            there = [places[name] for name in copies if name in places]

            def cost(name: str, task: TaskId = task, there: list[Place] = there) -> tuple[object, ...]:
                place = places[name]
                same_node = any(place.node == other.node for other in there)
                same_tags = sum(tag == each.tags[at] for each in there for at, tag in enumerate(place.tags))
                moves = name not in current.get(task, ())
                return same_node, same_tags, load[name] >= share, moves, load[name], name

            best = min(free, key=cost)
            load[best] += 1
            copies.append(best)
        chosen[task] = tuple(copies[1:])
    return chosen
