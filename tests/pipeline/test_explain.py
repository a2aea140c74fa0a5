"""``--explain``: the plan in words."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial

from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.backfill.explain import explained
from penstock.pipeline.backfill.plan import plan_backfill
from penstock.testing.fake_broker import FakeRecord
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology
from tests.pipeline.test_bounds import Planned
from tests.pipeline.topologies import described, foreign_key_join, foreign_key_join_of_rows_that_expire


def test_each_stage_shows_sources_ranges_skew_and_what_is_shuffled() -> None:
    planned = Planned()
    planned.commit(4, 9)
    planned.plan()  # creates the internal topics
    planned.clients.broker.append("app-counts-changelog", FakeRecord(b"k", b"1", 1, None), 1)
    lines = list(explained(planned.plan(), planned.config, lambda at: "Kafka"))
    assert lines == [
        "2 stages, 7 offsets of source topics",
        "",
        "stage 1: sub-topology 0, 2 tasks",
        "  reads     lines: 7 offsets, from Kafka: 4 to 9, 9 to 9",
        "  per task  1 to 6 offsets",
        "  longest   task 0_0: 6 offsets (1.7 × the mean): this is the least time of the stage",
        "  shuffles  app-counts-repartition: 2 partitions, never written to Kafka",
        "",
        "stage 2: sub-topology 1, 2 tasks",
        "  reads     app-counts-repartition: what stage 1 shuffles to it",
        "  restores  counts: 1 offset of app-counts-changelog",
        "  writes    out",
    ]


def test_notes_come_first_and_a_bound_changes_the_ranges() -> None:
    planned = Planned()
    planned.commit(4, 4)
    lines = list(explained(planned.plan("lines:0:6", "lines:1:5"), planned.config, lambda at: "Kafka"))
    assert "note: partition 0 of topic 'lines': the offsets 4 to 5 are skipped" in lines[1]
    assert "  reads     lines: 5 offsets, from Kafka: 6 to 9, 4 to 4" in lines


def explanation(topology: Topology, *names: str) -> str:
    """Returns the explanation for topics of two partitions, each with one record."""
    planned = Planned()
    planned.admin.create_topics([NewTopic(name, 2) for name in names])
    for name in names:
        planned.clients.broker.append(name, FakeRecord(b"k", b"v", 1, None), 0)
    topics = ensure_topics(planned.admin, partial(plan_topics, topology, planned.config))
    with closing(planned.clients.consumer()) as consumer:
        plan = plan_backfill(topology, planned.config, topics, planned.admin, consumer)
    return "\n".join(explained(plan, planned.config, lambda at: "Kafka"))


def test_global_stores_are_read_by_each_executor() -> None:
    text = explanation(described("lines", "users", "words", "out"), "users", "words")
    assert "global stores: 2 offsets of users, words, read by each executor" in text


def test_each_pass_over_a_cycle_is_a_stage_with_parallel_tasks() -> None:
    text = explanation(foreign_key_join(), "left", "right")
    assert "3 stages, 2 offsets" in text
    for number, sub in enumerate((1, 0, 1), 1):
        assert f"stage {number}: sub-topology {sub} (pass {number} of 3 over its cycle), 2 tasks" in text


def test_a_cycle_that_cannot_run_in_passes_has_no_parallel_tasks() -> None:
    text = explanation(foreign_key_join_of_rows_that_expire(), "left", "right", "views", "viewed")
    assert "stage 1: sub-topologies 0 and 1, 4 tasks, in one Spark partition" in text
    assert "longest   all 3 offsets, one after the other: this is the least time of the stage" in text
    assert "inside    app-" in text


def test_a_stage_without_state_is_split_and_one_with_state_says_that_it_is_not() -> None:
    planned = Planned()
    plan = planned.plan()
    (at, _), *_ = plan.stages[0].records.items()
    long = replace(plan.stages[0], records={at: OffsetRange(4, 1_000_005)})
    lines = list(explained(replace(plan, stages=(long,)), planned.config, lambda at: "Kafka"))
    assert "  longest   task 0_0: 1,000,001 offsets (2.0 × the mean)" in lines
    assert "  split     5 parts of at most 250,000 offsets: all cores share a task" in lines
    assert "  whole     no task is split: it has state" in explanation(foreign_key_join(), "left", "right").split("\n")
