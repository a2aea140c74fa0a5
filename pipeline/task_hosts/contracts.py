"""The contract between the hosts of tasks and what gives them their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.common.records import RecordBatch


class RestoredRows(NamedTuple):
    """Rows of the changelog of ``store`` for task ``task``, in order. ``unfinished``: an unfinished backfill wrote
    them, and they are superseded, not restored."""

    task: int
    store: str
    rows: RecordBatch
    unfinished: bool


class Chunk(NamedTuple):
    """The next records of tasks: of each partition those that are due, in one list of batches. ``order`` has for each
    record of the chunk the index of its partition, in the order in which the records are due."""

    partitions: Sequence[Sequence[RecordBatch]]
    order: Sequence[int]


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
