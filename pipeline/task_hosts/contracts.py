"""The contract between the hosts of tasks and what gives them their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.common.ids import TaskId
from penstock.common.records import RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommittedStore


class RestoredRows(NamedTuple):
    """Rows of the changelog of ``store`` for task ``task``, in order. ``unfinished``: an unfinished backfill wrote
    them, and they are superseded, not restored."""

    task: int
    store: str
    rows: RecordBatch
    unfinished: bool


class TaskInput(Protocol):
    """The records of some tasks of a stage, each read once. For one thread."""

    def restored(self) -> Iterator[RestoredRows]:
        """Yields what the stores of the tasks are restored from: of each store the rows of an unfinished backfill
        last."""

    def chunks(self) -> Iterator[Chunk]:
        """Yields the records of the tasks in the order in which live tasks would take them, chunk by chunk. The chunks
        depend on the records alone."""

    def close(self) -> None:
        """Close what is open. Idempotent."""


class StageInput(Protocol):
    """Opens the input of tasks in an executor. Picklable."""

    def open(self, tasks: Sequence[int]) -> TaskInput:
        """Returns the input of the tasks of these numbers (their partitions)."""


class EndRow(NamedTuple):
    """A row that the end of a task yields about one of its stores. ``number``: what the row is about, as the end of the
    task and its reader agree."""

    store: str
    number: int
    key: bytes
    row: bytes


TaskEndStores = Mapping[str, tuple[AnyStoreBuilder, CommittedStore]]
"""The stores of a task by name: their builders and their committed rows."""


class TaskEnd(Protocol):
    """Takes the stores of tasks at their ends, in place of the changelogs. Picklable."""

    def rows(self, task: TaskId, stores: TaskEndStores) -> Iterator[EndRow]:
        """Yields what is to be known of the stores of ``task``, after its last commit."""
