"""What a reader must know to ask an application's stores, from what its coordinator knows."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.actors.messages import ApplicationMetadata, ApplicationSpec, StoreMetadata
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.environment import ActorHandle
from penstock.cluster.queryable import views_of
from penstock.common.ids import TaskId
from penstock.common.partitioners import Partitioner
from penstock.topology.physical.key_placement import topics_by_placed_store
from penstock.topology.physical.task_plan import SubtopologyTasks
from penstock.topology.physical.topology import internal_topic, serde_topic


def metadata_of(
    spec: ApplicationSpec,
    machine: Coordinator,
    handles: Mapping[str, ActorHandle],
    partitioners: Mapping[str, Partitioner],
) -> ApplicationMetadata:
    """The tasks that have each store's keys. ``partitioners``: those of topics not written by Kafka's default one."""
    plans = {plan.id: plan for plan in machine.plan.subtopologies}
    placed = _placed_stores(spec, plans)
    stores = {
        store.name: StoreMetadata(
            store.name,
            store.kind,
            sub.id,
            plans[sub.id].tasks,
            serde_topic(spec.application_id, store),
            placed.get(store.name, plans[sub.id].widest_topic),
            certain=store.name in placed or plans[sub.id].tasks == 1,
            partitioner=partitioners.get(placed.get(store.name, plans[sub.id].widest_topic), Partitioner.MURMUR2),
            views=views_of(store),
        )
        for sub in spec.topology.subtopologies
        for store in sub.stores
    }
    placement = machine.placement
    for sub in spec.topology.global_subtopologies:
        (topic,) = sub.sources[0].topics
        stores |= {
            store.name: StoreMetadata(
                store.name, store.kind, sub.id, 1, topic, topic, certain=True, views=views_of(store)
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


def _placed_stores(spec: ApplicationSpec, plans: Mapping[int, SubtopologyTasks]) -> dict[str, str]:
    counts = {topic: count for plan in plans.values() for topic, count in plan.topics.items()}
    prefix = internal_topic(spec.application_id, "")
    return topics_by_placed_store(spec.topology, spec.config.default_key_serde, lambda it: counts.get(it, 0), prefix)
