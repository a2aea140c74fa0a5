"""An application's status as the JSON that clients see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from penstock.cluster.findings import Finding, findings
from penstock.cluster.found_partitioners import parted_topics, partitioners_of
from penstock.cluster.read_side import ActorStatus, ApplicationStatus, Rollout, ScalingStatus, StuckTask, TaskStatus
from penstock.common.ids import TaskId


def application_body(status: ApplicationStatus) -> dict[str, Any]:
    """The body of ``GET /v1/applications/{app}``: each task is listed once, even if no actor has it, or has reported
    it."""
    reported = {task.task_id: (actor, task) for actor in status.actors for task in actor.tasks}
    unreported = [_unreported(task_id, status.placement[task_id]) for task_id in status.placement.keys() - reported]
    unhosted = [_unreported(task, None, why) for task, why in status.unhosted.items() if task not in reported]
    silent = status.silent
    tasks = [_task(actor, task, actor.actor_id in silent) for actor, task in reported.values()] + unreported + unhosted
    return {
        "application_id": status.application_id,
        "state": status.state.value,
        "epoch": status.epoch,
        "lag": sum(task.lag for actor, task in reported.values() if actor.actor_id not in silent),
        "placement": {str(task_id): actor_id for task_id, actor_id in sorted(status.placement.items())},
        "tasks": sorted(tasks, key=lambda task: TaskId.parse(task["task_id"])),
        "actors": [_actor(actor, actor.actor_id in silent) for actor in status.actors],
        "http_address": status.http_address,
        "error": status.error,
        "waiting": status.waiting,
        "paused": status.paused,
        "findings": findings_body(findings(status)),
        "stuck": [_stuck(task) for task in status.stuck],
        "partitioners": {topic: found.value for topic, found in partitioners_of(status.actors).items()},
        "parted_topics": [list(topics) for topics in parted_topics(status.actors)],
        "rollout": rollout_body(status.rollout),
        "scaling": None if status.scaling is None else scaling_body(status.scaling),
    }


def findings_body(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Returns sentences on what is wrong, the worst first."""
    return [
        {
            "level": each.level.value,
            "sentence": each.sentence,
            "since_ms": each.since_ms,
            "view": each.view,
            "subject": each.subject,
        }
        for each in found
    ]


def _stuck(task: StuckTask) -> dict[str, Any]:
    where = {"topic": task.topic, "partition": task.partition, "offset": task.offset, "lag": task.lag}
    return {"task_id": str(task.task_id), "actor_id": task.actor_id, **where, "for_s": round(task.for_s, 1)}


def rollout_body(rollout: Rollout) -> dict[str, Any]:
    """Returns the last roll-out."""
    return {**asdict(rollout), "phase": rollout.phase.value}


def scaling_body(scaling: ScalingStatus) -> dict[str, Any]:
    """Returns how many stream actors are wanted and advised; a ``catch_up_s`` of null is never."""
    counts = [{**asdict(count), "busiest": round(count.busiest, 3)} for count in scaling.counts]
    return {**asdict(scaling), "counts": counts}


def _task(actor: ActorStatus, task: TaskStatus, silent: bool) -> dict[str, Any]:
    left = task.restore_seconds_left
    return {
        "task_id": str(task.task_id),
        "actor_id": actor.actor_id,
        "node_id": actor.node_id,
        "state": None if silent else task.state.value,
        "waits_for": task.waits_for,
        "records_processed": task.records_processed,
        "dropped_records": task.dropped_records,
        "lost_records": task.lost_records,
        "restore_remaining": task.restore_remaining,
        "restore_total": task.restore_total,
        "restore_rate": round(task.restore_rate, 1),
        "restore_seconds_left": None if left is None else round(left, 1),
        "checkpoint_error": task.checkpoint_error,
        "lag": None if silent else task.lag,
        "behind_s": None if silent or task.behind_s is None else round(task.behind_s, 1),
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": task.committed.get(partition),
                "lag": None if silent else task.lags.get(partition),
            }
            for partition in sorted({*task.lags, *task.committed})
        ],
    }


def _unreported(task_id: TaskId, actor_id: str | None, waits_for: str | None = None) -> dict[str, Any]:
    figures = ("records_processed", "dropped_records", "lost_records", "lag", "behind_s")
    restore = ("restore_remaining", "restore_total", "restore_rate", "restore_seconds_left")
    unknown = ("node_id", "state", *figures, *restore, "checkpoint_error")
    known = {"task_id": str(task_id), "actor_id": actor_id, "waits_for": waits_for}
    return {**known, **dict.fromkeys(unknown), "partitions": []}


def _actor(actor: ActorStatus, silent: bool) -> dict[str, Any]:
    return {
        "actor_id": actor.actor_id,
        "node_id": actor.node_id,
        "pid": actor.pid,
        "epoch": actor.epoch,
        "generation": actor.generation,
        "commits": actor.commits,
        "tasks": [str(task.task_id) for task in actor.tasks],
        "standbys": [{"task_id": str(standby.task_id), "lag": standby.lag} for standby in actor.standbys],
        "error": actor.error,
        "silent": silent,
        "without_lease": actor.without_lease,
        "lease_expirations": actor.lease_expirations,
    }
