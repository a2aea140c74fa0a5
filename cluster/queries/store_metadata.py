"""The stream actors that have each part of a store, for programs that want to know. Queries do not need this."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.cluster.application_metadata import ApplicationMetadata, StoreMetadata
from penstock.cluster.queries.key_serdes import KeyHome
from penstock.common.ids import TaskId


@dataclass(frozen=True)
class KeyQueryMetadata:
    """The place of a key. Mirrors ``KeyQueryMetadata``, with stream actors in place of hosts.

    ``partition`` is the partition of the store's task, and ``active_actor`` the actor that has the task, None while it
    moves. ``standby_actors`` keep standbys of it. ``certain`` is False if another program may have placed the key by
    another partitioner than the one that is known: then the key is looked for there first, and in the other tasks after
    that.
    """

    partition: int
    active_actor: str | None
    standby_actors: tuple[str, ...]
    certain: bool


@dataclass(frozen=True)
class StreamsMetadata:
    """The parts of an application's state that a stream actor has. Mirrors ``StreamsMetadata``, with a stream actor in
    place of a host, and tasks in place of their topic partitions."""

    actor_id: str
    state_store_names: frozenset[str]
    task_ids: frozenset[TaskId]
    standby_state_store_names: frozenset[str]
    standby_task_ids: frozenset[TaskId]


def place_of(metadata: ApplicationMetadata, home: KeyHome) -> KeyQueryMetadata:
    """Returns the place of a key from its ``home``: the tasks that may have it."""
    task = home.first[0]
    certain = len(home.first) == 1 and not home.others
    return KeyQueryMetadata(
        task.partition, metadata.placement.get(task), metadata.standbys.get(task, ()), certain=certain
    )


def actors_with(metadata: ApplicationMetadata, store: StoreMetadata) -> tuple[StreamsMetadata, ...]:
    """Every actor that has a part of ``store``, or a standby of one, by its id."""
    tasks = {TaskId(store.subtopology, partition) for partition in range(store.partitions)}
    all_of_them = tuple(_of_actor(metadata, actor_id) for actor_id in sorted(metadata.actors))
    return tuple(it for it in all_of_them if tasks & (it.task_ids | it.standby_task_ids))


def _of_actor(metadata: ApplicationMetadata, actor_id: str) -> StreamsMetadata:
    active = frozenset(task for task, name in metadata.placement.items() if name == actor_id)
    standby = frozenset(task for task, names in metadata.standbys.items() if actor_id in names)
    return StreamsMetadata(actor_id, _stores_of(metadata, active), active, _stores_of(metadata, standby), standby)


def _stores_of(metadata: ApplicationMetadata, tasks: frozenset[TaskId]) -> frozenset[str]:
    subtopologies = {task.subtopology for task in tasks}
    return frozenset(store.name for store in metadata.stores.values() if store.subtopology in subtopologies)
