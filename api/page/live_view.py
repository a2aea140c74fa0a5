"""The live document of the page: an application's status as rows, by section and id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from penstock.api.figures import (
    Measured,
    TopicCount,
    gc_of,
    measured_of,
    operators_of,
    rocksdb_of,
    rocksdb_of_actor,
    rounded,
    shares_of,
    stores_of,
    thread_figures_of,
    topic_counts_of,
    topics_of,
)
from penstock.api.page.deltas import Document, Row
from penstock.api.processed import Ascending, Processed, Rates
from penstock.api.status import findings_body, rollout_body
from penstock.api.top_rows import TaskRow, Top, top_of
from penstock.cluster.findings import Finding, share_of
from penstock.cluster.read_side import ActorStatus, ApplicationStatus, TaskStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, STATE, THREAD, TOPIC
from penstock.common.version import version

VERSION = version()  # it takes milliseconds


class LiveView:
    """Makes the live document of one application out of its statuses, one after the other: rates are of the time
    between them."""

    def __init__(self) -> None:
        self._processed = Processed()
        self._task_rates: Rates[TaskId] = Rates()
        self._topic_counts: Ascending[tuple[Any, ...]] = Ascending()
        self._topic_rates: Rates[TopicCount] = Rates()

    def document(self, status: ApplicationStatus, now_s: float, at_ms: int) -> Document:
        """Returns the document of ``status``, which was given at ``at_ms`` (ms since 1970). ``now_s`` is any clock that
        only goes forward."""
        actors = [actor for actor in status.actors if actor.actor_id not in status.silent]
        heard = [task for actor in actors for task in actor.tasks]
        top = top_of(status, self._task_rates.of(dict(self._processed.of(heard)), now_s))
        measured = measured_of(heard)
        topic_rates = self._topic_rates.of(self._counted(measured[TOPIC]), now_s)
        return {
            "application": {"it": _application(status, top, at_ms)},
            "findings": findings_rows(top.findings),
            "tasks": _tasks(status, top),
            "actors": _actors(status, top, rocksdb_of(measured[STATE])),
            "operators": operators_of(measured[NODE], actors),
            "topics": topics_of(heard, topic_rates, status.health.brokers),
            "stores": stores_of(measured[STATE]),
            "rollout": {"it": _rollout(status)},
        }

    def _counted(self, measured: Iterable[Measured]) -> Mapping[TopicCount, int]:
        for key, count in topic_counts_of(measured).items():
            self._topic_counts.take(key, count)
        found: dict[TopicCount, int] = {}
        for (_, _, topic, name), count in self._topic_counts.counts.items():
            found[topic, name] = found.get((topic, name), 0) + count
        return found


def findings_rows(found: Iterable[Finding]) -> dict[str, Row]:
    """Returns the rows of findings, the worst first."""
    return {str(number): row for number, row in enumerate(findings_body(found))}


def _application(status: ApplicationStatus, top: Top, at_ms: int) -> Row:
    begun = [actor.measured.get((THREAD, "thread-start-time")) for actor in status.actors]
    starts = [int(each) for each in begun if isinstance(each, int | float)]
    rates = [row.records_per_s for row in top.tasks if row.records_per_s is not None]
    return {
        "application_id": status.application_id,
        "state": status.state.value,
        "paused": status.paused,
        "penstock_version": VERSION,
        "at_ms": at_ms,
        "silent_since_ms": None,
        "started_ms": min(starts, default=None),
        "task_count": status.task_count,
        "records_per_s": rounded(sum(rates)) if rates else None,
        "lag": top.lag,
        "lag_is_known": top.lag_is_known,
        "behind_s": rounded(top.behind_s),
        "waiting": status.waiting,
        "error": status.error,
        "generation": status.rollout.generation,
        # Before the load is measured, the advice is the wanted number, and there are no counts.
        "advised_actors": status.scaling.advised if status.scaling is not None and status.scaling.counts else None,
    }


def _tasks(status: ApplicationStatus, top: Top) -> dict[str, Row]:
    nodes = {actor.actor_id: actor.node_id for actor in status.actors}
    reported = {task.task_id: task for task in status.tasks}
    without = status.health.brokers.without_leader
    return {str(row.task_id): _task(row, reported.get(row.task_id), nodes, status.moving, without) for row in top.tasks}


def _task(
    row: TaskRow,
    task: TaskStatus | None,
    nodes: Mapping[str, str],
    moving: Mapping[TaskId, str],
    without_leader: Collection[TopicPartition],
) -> Row:
    restore = row.restore and {
        "restored": row.restore.restored,
        "remaining": row.restore.remaining,
        "records_per_s": rounded(task.restore_rate) if task is not None else None,
        "seconds_left": rounded(row.restore.seconds_left),
    }
    # What a silent actor has last reported may not hold any more; offsets that are committed are.
    lags = task.lags if task is not None and row.lag is not None else {}
    committed = task.committed if task is not None else {}
    return {
        "subtopology": row.task_id.subtopology,
        "partition": row.task_id.partition,
        "actor_id": row.actor_id,
        "node_id": None if row.actor_id is None else nodes.get(row.actor_id),
        "state": row.state,
        "behind_s": rounded(row.behind_s),
        "lag": row.lag,
        "records_per_s": rounded(row.records_per_s),
        "busy": rounded(row.busy, 3),
        "dropped_records": None if task is None else task.dropped_records,
        "restore": restore,
        "standbys": [{**asdict(each), "node_id": nodes.get(each.actor_id)} for each in row.standbys],
        "moving_to": moving.get(row.task_id),
        "waits_for": row.waits_for or (None if task is None else _waits_for(task, without_leader)),
        "topics": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "lag": lags.get(at),
                "committed": committed.get(at),
                "has_leader": at not in without_leader,
            }
            for at in sorted({*lags, *committed})
        ],
    }


def _waits_for(task: TaskStatus, without_leader: Collection[TopicPartition]) -> str | None:
    missed = sorted({*task.lags, *task.committed}.intersection(without_leader))
    return task.waits_for or (
        f"partition {missed[0].partition} of topic {missed[0].topic} has no leader" if missed else None
    )


def _actors(status: ApplicationStatus, top: Top, rocksdb: Mapping[TaskId, Mapping[str, float]]) -> dict[str, Row]:
    states = {row.actor_id: row.state for row in top.actors}
    return {
        actor.actor_id: {
            **_actor(actor, states[actor.actor_id], actor.actor_id in status.silent),
            "rocksdb": rocksdb_of_actor((task.task_id for task in actor.tasks), rocksdb),
        }
        for actor in status.actors
    }


def _actor(actor: ActorStatus, state: str, silent: bool) -> Row:
    figures = {} if silent else thread_figures_of(actor)
    stops = actor.commit_stops
    return {
        "node_id": actor.node_id,
        "pid": actor.pid,
        "state": state,
        "generation": actor.generation,
        "tasks": [str(task.task_id) for task in actor.tasks],
        "standbys": [str(standby.task_id) for standby in actor.standbys],
        "busy": None if silent else rounded(share_of(actor), 3),
        "shares": shares_of(figures),
        "commit_pause_p50_ms": rounded(stops.minute_p50_ms, 2),
        "commit_pause_max_ms": rounded(stops.minute_max_ms, 2),
        "commits": actor.commits,
        "error": actor.error,
        "gc": gc_of(figures),
    }


def _rollout(status: ApplicationStatus) -> Row:
    actors: dict[str, list[str]] = {}
    for actor in status.actors:
        actors.setdefault(str(actor.generation), []).append(actor.actor_id)
    return {**rollout_body(status.rollout), "actors": actors}
