"""Continues a backfill that was interrupted: its plan, if nothing has changed since that plan was made."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TopicPartition
from penstock.kafka.backfill_note import fingerprint
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.objects.digests import digest_of
from penstock.pipeline.backfill.offsets_now import topic_counts
from penstock.pipeline.backfill.plan import BackfillPlan, stage_shapes
from penstock.pipeline.backfill.work import Run
from penstock.topology.physical.topic_plan import TopicPlan
from penstock.topology.physical.topology import Topology

_AGAIN = "Run the backfill without --resume: it begins again"


def program_hash(topology: Topology, plan: BackfillPlan) -> str:
    """Returns a hash of what the results of a stage depend on: operators, stores, topics and their partitions."""
    counts = plan.topics
    used = sorted({*counts.repartition, *counts.changelogs, *(at.topic for at in plan.until)})
    partitions = [(topic, counts.partitions.get(topic)) for topic in used]
    return digest_of(f"{topology.describe()}\n{partitions}".encode())


def plan_of_unfinished(
    run: Run,
    options: Mapping[str, str],
    topology: Topology,
    config: StreamsConfig,
    topics: TopicPlan,
    admin: Admin,
    consumer: RecordConsumer,
) -> BackfillPlan | None:
    """Returns the plan of ``run``; None if its hand-over is complete, and only its work was left.

    Raises ApplicationStateError if the program, the application's offsets or its changelogs are not those that the plan
    was made for, and ConfigError for other options.
    """
    counts = topic_counts(topology, config, topics, admin.topics())
    shapes = stage_shapes(topology, config, topics, counts)
    manifest = run.manifest
    if len(shapes) != len(manifest.offsets.stages):
        raise _program_changed(config)
    plan = manifest.offsets.plan(shapes, counts)
    if program_hash(topology, plan) != manifest.program:
        raise _program_changed(config)
    if options != manifest.options:
        raise ConfigError(
            f"--resume: the unfinished backfill of {config.application_id!r} was begun with "
            f"{_in_words(manifest.options)}, not with {_in_words(options)}: give the same options. {_AGAIN}"
        )
    refuse_other_topics(admin, manifest.topic_ids)
    committed = admin.committed(config.application_id)
    if fingerprint(plan.until, committed) != plan.fingerprint:
        if all(at in committed and committed[at].offset == offset for at, offset in plan.until.items()):
            run.delete()
            return None
        raise ApplicationStateError(
            f"--resume: application {config.application_id!r} has committed offsets since the unfinished backfill "
            f"began. {_AGAIN}"
        )
    if not run.hand_over_begun():
        _refuse_other_rows(plan, consumer)
    return plan


def refuse_other_topics(admin: Admin, topic_ids: Mapping[str, str]) -> None:
    """Raise ApplicationStateError if a topic has not the id any more with which the run began."""
    ids = admin.topic_ids(topic_ids)
    for topic in sorted(topic_ids):
        if ids.get(topic) != topic_ids[topic]:
            raise ApplicationStateError(
                f"topic {topic!r} was deleted, and perhaps created again, since the backfill began: what was computed "
                f"is not of its records, and nothing more is handed over. {_AGAIN}"
            )


def _refuse_other_rows(plan: BackfillPlan, consumer: RecordConsumer) -> None:
    planned: dict[TopicPartition, int] = {}
    for stage in plan.stages:
        for store in stage.changelogs:
            planned |= {at: offsets.end for at, offsets in stage.unfinished[store].items()}
    ends = consumer.fetch_end_offsets(planned)
    for at in sorted(planned):
        if ends[at] != planned[at]:
            raise ApplicationStateError(
                f"--resume: changelog {at.topic!r}, partition {at.partition}, ended at offset {planned[at]} when the "
                f"unfinished backfill began, and ends at {ends[at]} now: another process has written to it. {_AGAIN}"
            )


def _program_changed(config: StreamsConfig) -> ApplicationStateError:
    return ApplicationStateError(
        f"--resume: the topology of {config.application_id!r}, or a topic that it uses, has changed since the "
        f"unfinished backfill began. {_AGAIN}"
    )


def _in_words(options: Mapping[str, str]) -> str:
    return " ".join(f"--{name} {value}" for name, value in sorted(options.items())) or "no options"
