"""The topics that each stage of a backfill reads and writes, worked out without Spark."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.backfill.plan import plan_backfill
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from tests.pipeline.topologies import STRING


def counted_by_value() -> ps.Topology:
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(STRING, STRING))
    by_value = lines.group_by(lambda _, line: line, ps.Grouped.with_(STRING, STRING))
    by_value.count(ps.Materialized.as_("counts")).to_stream().to("out")
    return builder.build()


def test_a_stage_lists_the_repartition_topics_that_it_reads_and_those_that_it_writes() -> None:
    topology, clients = counted_by_value(), FakeClients("app")
    config = StreamsConfig.of({"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING})
    admin = clients.admin()
    admin.create_topics([NewTopic("lines", 2), NewTopic("out", 1)])
    topics = ensure_topics(admin, partial(plan_topics, topology, config))
    with closing(clients.consumer()) as consumer:
        plan = plan_backfill(topology, config, topics, admin, consumer)
    first, second = plan.stages
    assert [stage.repartition_topics for stage in (first, second)] == [
        frozenset(),
        frozenset({"app-counts-repartition"}),
    ]
    assert [stage.shuffles for stage in (first, second)] == [frozenset({"app-counts-repartition"}), frozenset()]
