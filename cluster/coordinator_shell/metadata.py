"""Computes the metadata that a reader needs to query an application's stores, from the coordinator's knowledge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.application_metadata import ApplicationMetadata, StoreMetadata
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.environment import ActorHandle
from penstock.cluster.queries.queryable import views_of
from penstock.common.ids import TaskId
from penstock.common.partitioners import Partitioner
from penstock.topology.physical.key_placement import topics_by_placed_store, topics_that_feed
from penstock.topology.physical.task_plan import SubtopologyTasks
from penstock.topology.physical.topology import Subtopology, changelog_topic, internal_topic, serde_topic


def metadata_of(
    spec: ApplicationSpec,
    machine: Coordinator,
    handles: Mapping[str, ActorHandle],
    partitioners: Mapping[str, Partitioner],
) -> ApplicationMetadata:
    """The tasks that have each store's keys. ``partitioners``: those of topics not written by Kafka's default one."""
    plans = {plan.id: plan for plan in machine.plan.subtopologies}
    placed = _placed_stores(spec, plans)
    stores = {}
    for sub in spec.topology.subtopologies:
        plan = plans[sub.id]
        for store in sub.stores:
            topics = _topics_with_its_keys(store.name, sub, plan, placed, internal_topic(spec.application_id, ""))
            stores[store.name] = StoreMetadata(
                store.name,
                store.kind,
                sub.id,
                plan.tasks,
                serde_topic(spec.application_id, store),
                min(topics, key=lambda topic: (-plan.topics.get(topic, 0), topic)),
                certain=store.name in placed or plan.tasks == 1,
                partitioner=_of_all(partitioners.get(topic, Partitioner.MURMUR2) for topic in topics),
                views=views_of(store),
                changelog=changelog_topic(spec.application_id, store),
                persistent=store.persistent,
            )
    placement = machine.placement
    for sub in spec.topology.global_subtopologies:
        (topic,) = sub.sources[0].topics
        stores |= {
            store.name: StoreMetadata(
                store.name,
                store.kind,
                sub.id,
                1,
                topic,
                topic,
                certain=True,
                views=views_of(store),
                changelog=topic,
                persistent=store.persistent,
                is_global=True,
            )
            for store in sub.stores
        }
        if placement:  # every actor has all of it
            placement[TaskId(sub.id, 0)] = min(placement.values())
    named = set(placement.values()).union(*machine.standbys.values())
    actors = {name: handles[name].ray_handle for name in named if name in handles}
    return ApplicationMetadata(
        spec.application_id, machine.epoch, stores, placement, actors, machine.standbys, machine.rollout.generation
    )


def _topics_with_its_keys(
    store: str, sub: Subtopology, plan: SubtopologyTasks, placed: Mapping[str, str], prefix: str
) -> Collection[str]:
    """Returns the topics whose partitions decide in which task a key of the store is. If its keys may be others than
    those of a topic, the widest topic of the tasks is taken."""
    if store in placed:
        return (placed[store],)
    return topics_that_feed(store, sub, prefix) & plan.topics.keys() or (plan.widest_topic,)


def _of_all(partitioners: Iterable[Partitioner]) -> Partitioner:
    found = set(partitioners)
    return found.pop() if len(found) == 1 else Partitioner.UNKNOWN


def _placed_stores(spec: ApplicationSpec, plans: Mapping[int, SubtopologyTasks]) -> dict[str, str]:
    counts = {topic: count for plan in plans.values() for topic, count in plan.topics.items()}
    prefix = internal_topic(spec.application_id, "")
    return topics_by_placed_store(spec.topology, spec.config.default_key_serde, lambda it: counts.get(it, 0), prefix)
