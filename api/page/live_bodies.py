"""The bodies of the live document. Answers are not validated against them: tests do that."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.schemas import BodyModel, FindingBody, RolloutBody


class LiveApplication(BodyModel):
    """The application as a whole."""

    application_id: str
    state: str | None = Field(None, description="Its state. Left out before the coordinator has answered once.")
    paused: bool = False
    penstock_version: str
    at_ms: int | None = Field(None, description="Time of the last answer of the coordinator, in ms since 1970.")
    silent_since_ms: int | None = Field(
        description="Time since which the coordinator does not answer; null if it does. Rows are those of its last "
        "answer."
    )
    started_ms: int | None = Field(None, description="Time at which its oldest stream actor began.")
    task_count: int = 0
    records_per_s: float | None = None
    lag: int = Field(0, description="Records to read, of all tasks whose lag is known.")
    lag_is_known: bool = Field(False, description="True if the lag of every task is known.")
    behind_s: float | None = Field(None, description="That of the task that is furthest behind.")
    waiting: str | None = None
    error: str | None = None
    generation: int = Field(1, description="The version of the program that stream actors are to run.")
    advised_actors: int | None = Field(None, description="Number of stream actors that the measured load needs.")
    may_operate: bool = Field(description="True if this request may also pause, resume and change the application.")


class LiveRestore(BodyModel):
    """The progress of a restore."""

    restored: int = Field(description="Records.")
    remaining: int = Field(description="Offsets of the changelogs.")
    records_per_s: float | None
    seconds_left: float | None


class LiveStandby(BodyModel):
    """A standby of a task."""

    actor_id: str
    node_id: str | None
    lag: int = Field(description="Offsets of the changelogs that it lacks.")


class LivePartition(BodyModel):
    """A source partition of a task."""

    topic: str
    partition: int
    lag: int | None
    committed: int | None = Field(description="The next offset to read, as committed.")
    has_leader: bool = Field(description="False if no broker leads it: nothing reads or writes it then.")


class LiveTask(BodyModel):
    """A task. Figures are null while they are not known."""

    subtopology: int
    partition: int
    actor_id: str | None
    node_id: str | None
    state: Literal["created", "restoring", "running", "closed", "waiting", "silent"]
    behind_s: float | None
    lag: int | None
    records_per_s: float | None
    busy: float | None = Field(description="Share of its actor's time, of the last half minute.")
    dropped_records: int | None
    restore: LiveRestore | None
    standbys: list[LiveStandby]
    moving_to: str | None = Field(description="The actor to which it moves when its stores have caught up there.")
    waits_for: str | None
    topics: list[LivePartition]


class LiveActor(BodyModel):
    """A stream actor."""

    node_id: str
    pid: int
    state: Literal["running", "paused", "stopping", "without lease", "silent", "failed"]
    generation: int
    tasks: list[str]
    standbys: list[str]
    busy: float | None = Field(description="Share of its time with records, punctuators, commits and polls.")
    shares: dict[str, float] = Field(
        description="Shares of its time, of the last half minute: process, punctuate, commit, poll and others that are "
        "measured."
    )
    commit_pause_p50_ms: float = Field(description="Of the last minute: records waited as long for a commit.")
    commit_pause_max_ms: float
    commits: int
    error: str | None
    rocksdb: dict[str, float] = Field(
        description="Figures of all its stores on disk together. Names end with the unit: `_bytes`, `_bytes_per_s` or "
        "`_ms`; others are numbers."
    )
    gc: dict[str, float] = Field(description="Those of Python's garbage collection that are measured, with such names.")


class LiveOperator(BodyModel):
    """An operator (processor node), over all tasks. Figures are null while they are not measured."""

    subtopology: int
    records_per_s: float | None = Field(description="Records that enter it.")
    busy: float | None = Field(description="Share of an actor's time, the largest of all actors.")
    busy_sum: float | None = Field(description="The sum of these shares.")
    calls_in_flight: float | None
    calls_waiting: float | None
    breaker: Literal["closed", "trying one call", "open"] | None


class LiveTopic(BodyModel):
    """A topic that tasks read or write."""

    records_in_per_s: float | None = Field(description="Records that tasks read from it.")
    bytes_in_per_s: float | None
    records_out_per_s: float | None = Field(description="Records that tasks write to it.")
    bytes_out_per_s: float | None
    lag: int | None = Field(description="Records to read; null if no task reads it.")
    without_leader: list[int] = Field(description="The partitions that no broker leads.")
    missing_brokers: list[str] = Field(description="Brokers with replicas of it that are away, with host and port.")


class LiveStore(BodyModel):
    """A store, over all tasks."""

    subtopology: int
    rows: int | None = Field(description="Approximate number of its rows.")
    bytes: int | None = Field(description="Bytes on disk and in RocksDB's memory. Null for a store in memory.")
    restoring: int = Field(description="Number of its tasks that restore.")


class LiveRollout(RolloutBody):
    """The last roll-out, and the actors of each version."""

    actors: dict[str, list[str]] = Field(description="The ids of the actors that run each version.")


class LiveDocument(BodyModel):
    """Everything that the page shows live: rows by section and id. In ``changes`` sections may be missing, and a row
    may be null."""

    application: dict[Literal["it"], LiveApplication]
    findings: dict[str, FindingBody] = Field(description="By 0, 1 …: the worst first.")
    tasks: dict[str, LiveTask] = Field({})
    actors: dict[str, LiveActor] = Field({})
    operators: dict[str, LiveOperator] = Field({})
    topics: dict[str, LiveTopic] = Field({})
    stores: dict[str, LiveStore] = Field({})
    rollout: dict[Literal["it"], LiveRollout] = Field({})
