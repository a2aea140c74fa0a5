"""What a reader must know to ask an application's stores, from what its coordinator knows."""

from __future__ import annotations

from collections.abc import Mapping

from ray import cloudpickle

from penstock.actors.messages import ApplicationMetadata, ApplicationSpec, StoreMetadata
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.dispatch import ActorHandle
from penstock.common.ids import TaskId
from penstock.topology.physical.topology import internal_topic, serde_topic


def metadata_of(spec: ApplicationSpec, machine: Coordinator, handles: Mapping[str, ActorHandle]) -> ApplicationMetadata:
    """Where each store's keys live."""
    plans = {plan.id: plan for plan in machine.plan.subtopologies}
    stores = {
        store.name: StoreMetadata(
            store.name,
            store.kind,
            sub.id,
            plans[sub.id].tasks,
            serde_topic(spec.application_id, store),
            plans[sub.id].widest_topic,
        )
        for sub in spec.topology.subtopologies
        for store in sub.stores
    }
    placement = machine.placement
    for sub in spec.topology.global_subtopologies:
        (topic,) = sub.sources[0].topics
        stores |= {store.name: StoreMetadata(store.name, store.kind, sub.id, 1, topic, topic) for store in sub.stores}
        if placement:  # every actor has all of it
            placement[TaskId(sub.id, 0)] = min(placement.values())
    named = set(placement.values()).union(*machine.standbys.values())
    actors = {name: handles[name].ray_handle for name in named if name in handles}
    return ApplicationMetadata(spec.application_id, machine.epoch, stores, placement, actors, machine.standbys)


def pickled_key_serdes(spec: ApplicationSpec, store: str, source_topic: str) -> bytes:
    """The pickled serdes (None: there is none) of the keys of a store and of a topic that its sub-topology reads, to be
    bound by who reads: a bound one may hold what does not travel; and the form of the store's rows. Alone: the whole
    program can only be unpickled where all of its code is, and a reader need not have it."""
    topology, default = spec.topology, spec.config.default_key_serde
    produced = default
    for source in (source for sub in topology.every_subtopology for source in sub.sources):
        names = [internal_topic(spec.application_id, name) if source.internal else name for name in source.topics]
        if source_topic in names or (source.pattern is not None and source.pattern.fullmatch(source_topic)):
            produced = source.key_serde or default
    builder = topology.store_builders[store]
    serdes = builder.key_serde or default, produced, builder.entries
    pickled: bytes = cloudpickle.dumps(serdes)  # type: ignore[no-untyped-call]  # untyped in Ray
    return pickled
