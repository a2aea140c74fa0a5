"""The steps of an audit point, as an auditor asks stream actors for them, and their answers.

An *audit point* is a moment at which the input offsets and the stores of all tasks belong together, also those behind
repartition topics (docs/decisions/0034-the-audit-point.md). Not orders: the coordinator knows nothing of them, and
an actor continues by itself if the auditor ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.common.ids import CommittedOffset, TaskId, TopicPartition


@dataclass(frozen=True)
class HoldIntake:
    """Fetch no more records of these source partitions until :class:`EndHold`, the next assignment, or the end of
    ``for_s`` seconds. Later ones with the same ``point`` add to it and do not prolong it. Done at once.

    ``epoch``: that of the assignment under which the tasks are expected here.
    """

    point: str
    epoch: int
    partitions: frozenset[TopicPartition]
    for_s: float


@dataclass(frozen=True)
class TakeImages:
    """Commit these tasks, and keep an image of the committed rows of each. A later one with the same ``point`` replaces
    the images.

    Done when the tasks have processed all records before the offsets in ``reach``, and all that were fetched of
    partitions on hold. Refused if that takes longer than ``within_s`` seconds.
    """

    point: str
    epoch: int
    tasks: frozenset[TaskId]
    reach: Mapping[TopicPartition, int]
    within_s: float


@dataclass(frozen=True)
class EndHold:
    """Fetch records again. Refused if the hold had ended before: then the images need not belong together."""

    point: str


AuditStep = HoldIntake | TakeImages | EndHold


@dataclass(frozen=True)
class TaskImage:
    """The committed rows of one task at the audit point, in ``folder`` on its node, and the offsets up to which its
    sources are committed with them. ``layouts``: the form of the rows of each store that has rows."""

    task_id: TaskId
    folder: str
    layouts: Mapping[str, str]
    offsets: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True)
class AuditAnswer:
    """``refused``: the reason for which the step was not done, None if it was."""

    refused: str | None = None
    node_id: str = ""
    images: tuple[TaskImage, ...] = field(default=())
