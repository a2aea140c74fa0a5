"""The bodies of requests and answers, for the OpenAPI document. Tests validate answers against them; the server does
not."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.cluster.findings import View


class BodyModel(BaseModel):
    """A body of a request or an answer. It has no other fields than its own."""

    model_config = ConfigDict(extra="forbid")


class RootBody(BodyModel):
    """Links into the API. The last two are left out if the request lacks the token that it needs."""

    name: str
    version: str
    docs: str
    openapi: str
    health: str
    readiness: str
    metrics: str
    application: str | None = None
    stores: str | None = None


class PartitionBody(BodyModel):
    """A source partition of a task."""

    topic: str
    partition: int
    committed: int | None = Field(description="The next offset to read, as committed; null before the first commit.")
    lag: int | None = Field(description="Records between position and end; null while it is not known.")


class TaskBody(BodyModel):
    """A task. All figures are null while its actor has not reported it yet, or no actor has it; state and lag are null
    while its actor is silent."""

    task_id: str
    actor_id: str | None = Field(description="Null while no actor has it: see ``waits_for``.")
    node_id: str | None
    state: Literal["created", "restoring", "running", "closed"] | None
    waits_for: str | None = Field(
        description="Why no actor has it, or why it cannot decode a record now. Null if it waits for nothing."
    )
    records_processed: int | None
    dropped_records: int | None
    lost_records: int | None = Field(description="Deleted by retention before they were read, counted in offsets.")
    restore_remaining: int | None = Field(description="Changelog offsets that its stores still have to read.")
    restore_total: int | None = Field(description="Records restored since the task was opened.")
    restore_rate: float | None = Field(description="Records restored per second, recently. 0 when nothing is restored.")
    restore_seconds_left: float | None = Field(description="Estimated seconds until it is restored. Null if unknown.")
    checkpoint_error: str | None = Field(description="Why its last checkpoint was not stored. Null if it was.")
    lag: int | None = Field(description="The sum over its partitions.")
    behind_s: float | None = Field(
        description="Seconds since the oldest record was written that it has not processed. Null while not known."
    )
    partitions: list[PartitionBody]


class FindingBody(BodyModel):
    """One sentence on what is wrong, or that all is well."""

    level: Literal["ok", "warning", "fault"]
    sentence: str
    since_ms: int | None = Field(
        description="Time at which the coordinator has first seen it. Null if it may be older than the coordinator."
    )
    view: View = Field(description="The view of the page that shows more.")
    subject: str | None = Field(
        description="A task id, an actor id, an operator or a topic in that view; for records also topic/partition."
    )


class StuckTaskBody(BodyModel):
    """A task that has processed nothing for minutes although it lags, and its position."""

    task_id: str
    actor_id: str
    topic: str
    partition: int
    offset: int | None = Field(description="The offset of the record that would be processed next.")
    lag: int
    for_s: float = Field(description="Seconds since it made progress.")


class StandbyBody(BodyModel):
    """A standby: the stores of a task that another actor processes."""

    task_id: str
    lag: int = Field(description="Number of offsets of its changelogs that it lacks.")


class ActorBody(BodyModel):
    """A stream actor."""

    actor_id: str
    node_id: str
    pid: int
    epoch: int
    generation: int = Field(description="The version of the program that it runs.")
    commits: int
    tasks: list[str]
    standbys: list[StandbyBody]
    error: str | None
    silent: bool = Field(
        description="Its process has given no sign of life for seconds: state and lag of its tasks are not known."
    )
    without_lease: bool = Field(
        description="At least once: its lease is over, and it processes nothing until the coordinator answers."
    )
    lease_expirations: int = Field(description="Number of its leases that have ended so far.")


class ActorCountBody(BodyModel):
    """The effect of a number of stream actors."""

    actors: int
    tasks_each: int = Field(description="The largest number of tasks on one actor.")
    busiest: float = Field(description="The share of its time that the busiest actor needs. Above 1 it cannot keep up.")
    catch_up_s: float | None = Field(description="Seconds until there is no lag. Null: never.")


class ScalingBody(BodyModel):
    """The wanted number of stream actors."""

    wanted: int
    advised: int = Field(description="Number of actors that the measured load needs. Applied if ``automatic`` is true.")
    reason: str
    automatic: bool = Field(description="True if min.stream.actors or max.stream.actors is set.")
    minimum: int
    maximum: int
    counts: list[ActorCountBody]


class RolloutBody(BodyModel):
    """The progress of the application from one version of its program to the next."""

    generation: int = Field(description="The version that stream actors are to run; the application starts with 1.")
    proven: int = Field(description="The last version that has worked: it takes over again if a newer one fails.")
    last: int = Field(description="The highest number of a version so far.")
    phase: Literal["starting", "moving", "watching", "done", "rolling back", "rolled back"]
    reason: str = Field(description="Why a version was rolled back.")
    watch_s: float = Field(description="Seconds for which a new version is watched when all tasks run it.")


class ApplicationBody(BodyModel):
    """An application."""

    application_id: str
    state: Literal["CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"]
    epoch: int
    lag: int = Field(description="The sum over the tasks whose lag is known.")
    placement: dict[str, str] = Field(description="The id of the actor that has each task, by task id.")
    tasks: list[TaskBody]
    actors: list[ActorBody]
    http_address: str | None
    error: str | None
    waiting: str | None = Field(
        description="Reason for its waiting: a broker, its session in the group, a CPU. Null if it does not wait."
    )
    paused: bool = Field(description="True if the application is paused.")
    findings: list[FindingBody] = Field(description="Sentences on what is wrong, the worst first. Never empty.")
    stuck: list[StuckTaskBody]
    partitioners: dict[str, Literal["crc32", "unknown"]] = Field(
        description="Source topics written by a partitioner other than Kafka's default: `crc32`, librdkafka's default, "
        "or `unknown`."
    )
    parted_topics: list[list[str]] = Field(
        description="Topics that are joined, or merged, although different partitioners wrote them: results are "
        "missing."
    )
    rollout: RolloutBody
    scaling: ScalingBody | None = Field(description="Null before it has tasks.")


class StoreBody(BodyModel):
    """A store; a key lies in one of the tasks ``<subtopology>_0`` to ``<subtopology>_<partitions - 1>``."""

    name: str
    kind: str
    subtopology: int
    partitions: int
    partitioner: str = Field(
        description="The partitioner that determines which task to ask first: `murmur2`, Kafka's default, or `crc32`, "
        "librdkafka's. `unknown`: all tasks are asked at once."
    )
    certain: bool = Field(
        description="True if no other task can have the key. If false, a key is absent only if no task has it."
    )


class StoresBody(BodyModel):
    """The stores of an application, by name."""

    stores: list[StoreBody]


class EntryBody(BodyModel):
    """A row of a store."""

    key: Any
    value: Any
    timestamp: int | None = Field(description="Event time in ms. Null if the store keeps no timestamps.")


Offsets = dict[str, dict[str, int]]
_POSITION = Field(description="Offset of the last record that the store has seen, by topic and partition.")
_STALE = Field(False, description="True if a standby, or a task that restores, has answered. Left out otherwise.")


class FoundEntryBody(EntryBody):
    """A row that was looked up."""

    position: Offsets = _POSITION
    stale: bool = _STALE


class RowBody(EntryBody):
    """A row of a page."""

    problem: str | None = Field(
        None, description="The reason why key and value are shown as text: they have no JSON form."
    )


class _Page(BodyModel):
    cursor: str | None = Field(description="The value of ``cursor`` that gets the next page. Null on the last page.")
    position: Offsets = _POSITION
    stale: bool = _STALE


class EntriesBody(_Page):
    """A page of a range."""

    entries: list[RowBody]


class WindowBody(BodyModel):
    """A window. In a session the end is part of it, in others it is not."""

    start: int = Field(description="ms since 1970.")
    end: int = Field(description="ms since 1970.")
    start_time: str | None = Field(description="The start in ISO 8601. Null after the year 9999.")
    end_time: str | None = Field(description="The end in ISO 8601. Null after the year 9999.")


class WindowedBody(RowBody):
    """A row of a window store or a session store."""

    window: WindowBody


class WindowsBody(_Page):
    """A page of windows."""

    entries: list[WindowedBody]


class VersionBody(RowBody):
    """A version of a key: valid from ``timestamp`` on."""

    valid_to: int | None = Field(description="Event time in ms until which it is valid. Null for the latest.")


class FoundVersionBody(VersionBody):
    """A version that was looked up."""

    position: Offsets = _POSITION
    stale: bool = _STALE


class VersionsBody(_Page):
    """A page of versions."""

    entries: list[VersionBody]


class ScaleBody(BodyModel):
    """The number of stream actors that is wanted."""

    count: int = Field(ge=1, le=100_000)


class MoveBody(BodyModel):
    """The stream actor to which a task is to move."""

    to: str = Field(max_length=200, description="Its id, such as stream/2.")


class KeysBody(BodyModel):
    """Keys to look up."""

    keys: list[str] = Field(max_length=10_000, description="As text, each read by the store's key serde.")


class FoundBody(BodyModel):
    """The rows of the keys that were asked for, in their order."""

    entries: list[RowBody | None] = Field(description="Null for a key that is absent.")
    position: Offsets = _POSITION
    stale: bool = _STALE


class CountBody(BodyModel):
    """The approximate number of rows of a store."""

    approximate_count: int
    position: Offsets = _POSITION
    stale: bool = _STALE


class HealthBody(BodyModel):
    """The server answers."""

    status: Literal["ok", "ready"]
