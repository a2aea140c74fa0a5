"""The bodies of the answers, for the OpenAPI document. Answers are not validated against them: tests do that."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RootBody(_Body):
    """The ways into the API. The last two are missing where the request lacks the token that it needs."""

    name: str
    version: str
    docs: str
    openapi: str
    health: str
    readiness: str
    metrics: str
    application: str | None = None
    stores: str | None = None


class PartitionBody(_Body):
    """A source partition of a task."""

    topic: str
    partition: int
    committed: int | None = Field(description="The next offset to read, as committed; null before the first commit.")
    lag: int | None = Field(description="Records between position and end; null while it is not known.")


class TaskBody(_Body):
    """A task. All figures are null while its actor has not reported it yet, or no actor has it; state and lag are null
    while its actor is silent."""

    task_id: str
    actor_id: str | None = Field(description="null while no actor has it: see ``waits_for``.")
    node_id: str | None
    state: Literal["created", "restoring", "running", "closed"] | None
    waits_for: str | None = Field(description="Why no actor has it; null where one has.")
    records_processed: int | None
    dropped_records: int | None
    lost_records: int | None = Field(description="Deleted by retention before they were read, counted in offsets.")
    restore_remaining: int | None = Field(description="How much its stores lack of their changelogs, in offsets.")
    restore_total: int | None = Field(description="Records restored since the task was opened.")
    restore_rate: float | None = Field(description="Records restored per second of late; 0 when nothing is restored.")
    restore_seconds_left: float | None = Field(description="About how long it will take; null when that is not known.")
    lag: int | None = Field(description="The sum over its partitions.")
    partitions: list[PartitionBody]


class StuckTaskBody(_Body):
    """A task that has processed nothing for minutes although it lags, and its position."""

    task_id: str
    actor_id: str
    topic: str
    partition: int
    offset: int | None = Field(description="Of the record that would be processed next.")
    lag: int
    for_s: float = Field(description="Seconds since it came any further.")


class StandbyBody(_Body):
    """A standby: the stores of a task that another actor processes."""

    task_id: str
    lag: int = Field(description="How many offsets of its changelogs it lacks.")


class ActorBody(_Body):
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


class ActorCountBody(_Body):
    """The effect of a number of stream actors."""

    actors: int
    tasks_each: int = Field(description="The most tasks that one hosts.")
    busiest: float = Field(description="The share of its time that the busiest one needs; above 1 it cannot keep up.")
    catch_up_s: float | None = Field(description="Seconds until there is no lag any more; null: never.")


class ScalingBody(_Body):
    """The number of stream actors that there are to be."""

    wanted: int
    advised: int = Field(description="What the load takes, as far as it is known; followed if ``automatic``.")
    reason: str
    automatic: bool = Field(description="By min.stream.actors or max.stream.actors.")
    minimum: int
    maximum: int
    counts: list[ActorCountBody]


class RolloutBody(_Body):
    """The progress of the application from one version of its program to the next."""

    generation: int = Field(description="The version that stream actors are to run; the application starts with 1.")
    proven: int = Field(description="The last version that has worked: it takes over again if a newer one fails.")
    last: int = Field(description="The highest number of a version so far.")
    phase: Literal["starting", "moving", "watching", "done", "rolling back", "rolled back"]
    reason: str = Field(description="Why a version was rolled back.")
    watch_s: float = Field(description="Seconds for which a new version is watched when all tasks run it.")


class ApplicationBody(_Body):
    """An application."""

    application_id: str
    state: Literal["CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"]
    epoch: int
    lag: int = Field(description="The sum over the tasks whose lag is known.")
    placement: dict[str, str] = Field(description="Task id to actor id, of every task that an actor has.")
    tasks: list[TaskBody]
    actors: list[ActorBody]
    http_address: str | None
    error: str | None
    waiting: str | None = Field(description="What it waits for: a broker, its session in the group, a CPU.")
    paused: bool = Field(description="Whether its tasks are kept from processing.")
    stuck: list[StuckTaskBody]
    partitioners: dict[str, Literal["crc32", "unknown"]] = Field(
        description="Source topics that another partitioner than Kafka's default is known to have written: `crc32`, "
        "librdkafka's default, or `unknown`."
    )
    parted_topics: list[list[str]] = Field(
        description="Topics that are joined, or merged, although different partitioners wrote them: results are "
        "missing."
    )
    rollout: RolloutBody
    scaling: ScalingBody | None = Field(description="null before it has tasks.")


class StoreBody(_Body):
    """A store; a key lies in one of the tasks ``<subtopology>_0`` to ``<subtopology>_<partitions - 1>``."""

    name: str
    kind: str
    subtopology: int
    partitions: int
    partitioner: str = Field(
        description="A key is looked for first in the task that this partitioner names: `murmur2`, Kafka's default, or "
        "`crc32`, librdkafka's. `unknown`: in all tasks at once."
    )
    certain: bool = Field(
        description="True if no other task can have the key. If false, a key is absent only if all tasks report that."
    )


class StoresBody(_Body):
    """The stores of an application, by name."""

    stores: list[StoreBody]


class EntryBody(_Body):
    """A row of a store."""

    key: Any
    value: Any
    timestamp: int | None = Field(description="Event time in ms; null where the store keeps none.")


Offsets = dict[str, dict[str, int]]
_POSITION = Field(description="Offset of the last record that was seen, by topic and partition.")
_STALE = Field(False, description="Whether a standby has answered, or a task that restores; left out where it is not.")


class FoundEntryBody(EntryBody):
    """A row that was looked up."""

    position: Offsets = _POSITION
    stale: bool = _STALE


class RowBody(EntryBody):
    """A row of a page."""

    problem: str | None = Field(None, description="Why key and value are shown as text: they have no JSON form.")


class _Page(_Body):
    cursor: str | None = Field(description="Goes into ``cursor`` to get the next page; null on the last one.")
    position: Offsets = _POSITION
    stale: bool = _STALE


class EntriesBody(_Page):
    """A page of a range."""

    entries: list[RowBody]


class WindowBody(_Body):
    """A window. In a session the end is part of it, in others it is not."""

    start: int = Field(description="ms since 1970.")
    end: int = Field(description="ms since 1970.")
    start_time: str | None = Field(description="The start in ISO 8601; null behind the year 9999.")
    end_time: str | None = Field(description="The end in ISO 8601; null behind the year 9999.")


class WindowedBody(RowBody):
    """A row of a window store or a session store."""

    window: WindowBody


class WindowsBody(_Page):
    """A page of windows."""

    entries: list[WindowedBody]


class VersionBody(RowBody):
    """A version of a key: valid from ``timestamp`` on."""

    valid_to: int | None = Field(description="Event time in ms until which it is valid; null for the latest.")


class FoundVersionBody(VersionBody):
    """A version that was looked up."""

    position: Offsets = _POSITION
    stale: bool = _STALE


class VersionsBody(_Page):
    """A page of versions."""

    entries: list[VersionBody]


class KeysBody(_Body):
    """Keys to look up."""

    keys: list[str] = Field(max_length=10_000, description="As text, each read by the store's key serde.")


class FoundBody(_Body):
    """The rows of the keys that were asked for, in their order."""

    entries: list[RowBody | None] = Field(description="null for a key that is absent.")
    position: Offsets = _POSITION
    stale: bool = _STALE


class CountBody(_Body):
    """About how many rows a store has."""

    approximate_count: int
    position: Offsets = _POSITION
    stale: bool = _STALE


class HealthBody(_Body):
    """The server answers."""

    status: Literal["ok", "ready"]
