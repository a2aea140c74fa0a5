"""The last hour of an application as its coordinator remembers it: samples of its figures, and events. Values alone."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.actors.status import TaskState
from penstock.cluster.findings import Finding
from penstock.cluster.status import SILENT, WAITING
from penstock.common.ids import TaskId

HOUR_MS = 3_600_000
FINEST_STEP_MS = 5000
BUSY_STEPS = 200
"""The parts of one in which the busy share of a task is kept."""
BUSY_UNKNOWN = 255
NO_ACTOR = 65_535
TASK_STATES = (WAITING, SILENT, *(state.value for state in TaskState))


class Totals(NamedTuple):
    """The figures of an application at one sample; NaN: not known."""

    records_per_s: float
    lag: float
    behind_s: float
    """The largest of all tasks."""
    commits_per_s: float
    restoring: float
    """Number of tasks that restore."""
    dead_letters: float
    """Number of dead letters since the sample before."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of all tasks at one moment, in columns: index *i* of each is that of task *i*."""

    at_ms: int
    totals: array[float]
    """As :class:`Totals`."""
    tasks: tuple[TaskId, ...]
    """Shared by samples of the same tasks."""
    actors: tuple[str, ...]
    """The names to which ``actor`` refers. Shared by samples of the same actors."""
    records_per_s: array[float]
    """NaN: not known."""
    behind_s: array[float]
    """NaN: not known."""
    busy: array[int]
    """The share of its actor's time, in parts of BUSY_STEPS; BUSY_UNKNOWN: not known."""
    actor: array[int]
    """Index of its actor; NO_ACTOR without one."""
    state: array[int]
    """Index of its state in TASK_STATES."""
    flow: Flow
    finding: Finding | None = None
    """The worst finding."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The figures of operators (processor nodes) and topics at one moment, all tasks together, in columns."""

    operators: tuple[str, ...] = ()
    """Shared by samples of the same operators."""
    topics: tuple[str, ...] = ()
    """Shared by samples of the same topics."""
    entered_per_s: array[float] = field(default_factory=lambda: array("f"))
    """Records per second that enter each operator; NaN: not known."""
    busy: array[int] = field(default_factory=lambda: array("B"))
    """The share that each operator takes of the time of the actor where it takes most, in parts of BUSY_STEPS;
    BUSY_UNKNOWN: not known."""
    read_per_s: array[float] = field(default_factory=lambda: array("f"))
    """Records per second that the application reads from each topic; NaN: not known."""
    written_per_s: array[float] = field(default_factory=lambda: array("f"))
    """Records per second that it writes to each topic; NaN: not known."""


class EventKind(Enum):
    """The subject of an event."""

    STATE = "state"
    GROUP = "group"
    MOVE = "move"
    RESTORE = "restore"
    ACTOR = "actor"
    ROLLOUT = "rollout"
    PAUSE = "pause"
    SCALE = "scale"
    LOG = "log"
    """A warning or an error that the coordinator or a stream actor has logged."""


class EventLevel(Enum):
    """The severity of an event."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event, or ``times`` equal ones between ``at_ms`` and ``until_ms``."""

    at_ms: int
    kind: EventKind
    level: EventLevel
    sentence: str
    actor_id: str | None = None
    task_id: TaskId | None = None
    message: str | None = None
    """The constant text of a log line, by which ``docs/messages`` explains it; None for other events."""
    until_ms: int = 0
    times: int = 1


@dataclass(frozen=True)
class ApplicationHistory:
    """A part of the history. A sample belongs to the step that ``at_ms // step_ms`` counts, of which it is the only
    one. ``began_ms``: when the history began; it is lost when the coordinator restarts."""

    began_ms: int
    step_ms: int = FINEST_STEP_MS
    samples: tuple[Sample, ...] = ()
    events: tuple[HistoryEvent, ...] = ()
