"""The partitioners of source topics, as all tasks together find them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.actors.status import ActorStatus
from penstock.common.partitioners import Partitioner


def partitioners_of(actors: Iterable[ActorStatus]) -> dict[str, Partitioner]:
    """Returns the partitioner of each topic that was written by another one than Kafka's default."""
    found: dict[str, Partitioner] = {}
    for task in (task for actor in actors for task in actor.tasks):
        for topic, partitioner in task.partitioners.items():
            same = found.setdefault(topic, partitioner) is partitioner
            found[topic] = partitioner if same else Partitioner.UNKNOWN
    return dict(sorted(found.items()))


def parted_topics(actors: Iterable[ActorStatus]) -> list[tuple[str, ...]]:
    """Returns topics that are joined, or merged, although different partitioners wrote them: results are missing."""
    return sorted({topics for actor in actors for task in actor.tasks for topics in task.parted})
