"""A whole backfill in one process. The plan, the hosts and the offsets are the real ones; Spark, Kafka, and what writes
there at the end (``pipeline/backfill/hand_over.py``), are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import json

from penstock.checkpoints.hand_overs import HandedOverTask, HandOverWriter
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import Ranges
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.backfill.checkpoint_hand_over import (
    CheckpointHandOver,
    begun_checkpoints,
    checkpoint_location,
)
from penstock.pipeline.backfill.plan import BackfillPlan, Stage, plan_backfill
from penstock.pipeline.rows import CHANGELOG, CHECKPOINT, OFFSET, REPARTITION, SINK, headers_row
from penstock.pipeline.task_hosts.checkpoints import CheckpointUpload
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.global_topics import GlobalTopics
from penstock.pipeline.task_hosts.pass_host import PassHost
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology
from tests.pipeline.passes import run_pass
from tests.pipeline.rows import PROCESS, RESTORE, Row, output, records_in, run

Results = dict[str, list[dict[str, Any]]]


def backfill_without_spark(topology: Topology, config: StreamsConfig, clients: FakeClients, at_once: int) -> None:
    """Process all that the fake broker's topics hold past the committed offsets, in batches of ``at_once`` rows. With
    ``state.checkpoint.uri`` the state is handed over there, too."""
    location = checkpoint_location(config)
    admin = clients.admin()
    topics = ensure_topics(admin, partial(plan_topics, topology, config))
    plan = plan_backfill(topology, config, topics, admin, clients.consumer())
    results: Results = defaultdict(list)
    upload = None if location is None else CheckpointUpload(location, config.application_id)
    begun = begun_checkpoints(location, config.application_id)
    for stage in plan.stages:
        found = _run(stage, plan, topology, config, clients, results[REPARTITION], at_once, upload)
        for kind, rows in found.items():
            results[kind] += rows
    for row in (*results[SINK], *results[CHANGELOG]):
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()] or None
        record = FakeRecord(row["key"], row["value"], row["timestamp"], headers)
        clients.broker.append(row["topic"], record, row["partition"])
    reported = {TopicPartition(row["topic"], row["partition"]): row["value"].decode() for row in results[OFFSET]}
    offsets = plan.offsets(reported)
    if location is not None and begun is not None:
        parts = {row["topic"]: json.decode(row["value"], type=HandedOverTask) for row in results[CHECKPOINT]}
        writer = HandOverWriter(location.open(), config.application_id, f"run {begun.epoch}", begun.epoch)
        CheckpointHandOver(config, admin, plan.stages, writer).commit(
            parts, offsets, {row["topic"] for row in results[SINK]}
        )
    admin.commit(config.application_id, offsets)


def _run(
    stage: Stage,
    plan: BackfillPlan,
    topology: Topology,
    config: StreamsConfig,
    clients: FakeClients,
    shuffled: Sequence[dict[str, Any]],
    at_once: int,
    checkpoints: CheckpointUpload | None,
) -> Results:
    rows = list(_rows(clients, stage.records, PROCESS))
    for row in shuffled:
        if row["topic"] in stage.repartition_topics:
            to = (row["partition"], PROCESS, row["topic"], row["task"], row["sequence"])
            rows.append((*to, row["key"], row["value"], row["timestamp"], row["headers"]))
    if not rows:
        return {}
    for source, changelogs in enumerate((stage.changelogs, stage.unfinished)):
        for store, ranges in changelogs.items():
            rows += _rows(clients, ranges, RESTORE, source, store)
    settings = HostSettings(
        config,
        plan.topics,
        plan.committed,
        GlobalTopics(topology.global_subtopologies, plan.global_records, partial(records_in, clients)),
        checkpoints=checkpoints,
    )
    if stage.inner_topics:
        return output(run(CycleHost(stage.subtopologies, stage.inner_topics, settings), rows, at_once))
    (subtopology,) = stage.subtopologies
    if stage.cycle is not None:
        passing = PassHost(subtopology, settings, stage.cycle)
        written = [row for row in shuffled if row["topic"] in stage.cycle.written_before(stage.repartition_topics)]
        return run_pass(passing, [row for row in rows if row[2] not in stage.cycle.inner], written, at_once)
    return output(run(TaskHost(subtopology, settings), rows, at_once))


def _rows(clients: FakeClients, ranges: Ranges, phase: int, source: int = 0, store: str | None = None) -> Iterator[Row]:
    for (topic, number), offsets in ranges.items():
        log = clients.broker.log(TopicPartition(topic, number))
        for offset in range(offsets.begin, offsets.end):
            it = log.records[offset - log.beginning]
            if it.is_marker or (clients.read_committed and not it.is_committed):
                continue
            place = (number, phase, store or topic, source, offset)
            yield (*place, it.key, it.value, it.timestamp, headers_row(it.headers))
