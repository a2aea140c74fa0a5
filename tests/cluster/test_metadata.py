"""Metadata by which readers find the keys of a store: the partitioner follows from the topics that feed it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.application_metadata import StoreMetadata
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.metadata import metadata_of
from penstock.common.config import StreamsConfig
from penstock.common.partitioners import Partitioner
from penstock.topology.physical.topic_plan import plan_topics

TEXT = ps.Serdes.string()
CONSUMED = ps.Consumed.with_(TEXT, TEXT)
MURMUR2, CRC32, UNKNOWN = Partitioner.MURMUR2, Partitioner.CRC32, Partitioner.UNKNOWN


def stores_of(builder: ps.StreamsBuilder, partitioners: Mapping[str, Partitioner]) -> Mapping[str, StoreMetadata]:
    spec = ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "app"}))
    planned = plan_topics(spec.topology, spec.config, {"users": 2, "clicks": 4, "views": 4, "out": 1})
    return metadata_of(spec, Coordinator(planned.tasks, None, first_epoch=1), {}, partitioners).stores


@pytest.mark.parametrize(
    ("partitioners", "shown"),
    [({}, MURMUR2), ({"clicks": CRC32}, MURMUR2), ({"users": CRC32}, CRC32), ({"users": UNKNOWN}, UNKNOWN)],
)
def test_the_partitioner_of_a_store_is_that_of_its_topic_and_not_of_the_widest_one(
    partitioners: Mapping[str, Partitioner], shown: Partitioner
) -> None:
    builder = ps.StreamsBuilder()
    users = builder.table("users", CONSUMED, ps.Materialized.as_("users"))
    builder.stream("clicks", CONSUMED).merge(users.to_stream()).to("out", ps.Produced.with_(TEXT, TEXT))
    store = stores_of(builder, partitioners)["users"]
    assert (store.source_topic, store.partitioner) == ("users", shown)


@pytest.mark.parametrize(
    ("partitioners", "shown"),
    [
        ({"users": CRC32}, MURMUR2),
        ({"clicks": CRC32}, UNKNOWN),
        ({"clicks": CRC32, "views": CRC32}, CRC32),
    ],
)
def test_a_store_of_several_topics_has_their_partitioner_if_it_is_the_same(
    partitioners: Mapping[str, Partitioner], shown: Partitioner
) -> None:
    builder = ps.StreamsBuilder()
    merged = builder.stream("clicks", CONSUMED).merge(builder.stream("views", CONSUMED))
    merged.group_by_key().count(ps.Materialized.as_("counts"))
    store = stores_of(builder, partitioners)["counts"]
    assert (store.source_topic, store.partitioner) == ("clicks", shown)
