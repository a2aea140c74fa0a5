"""A standby: the stores of a task whose records another actor processes, kept up to their changelogs."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from penstock.actors.messages import TaskState
from penstock.actors.stored_task import StoredTask
from penstock.actors.task_directory import open_task_directory
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.position import NOWHERE, Position
from penstock.kafka.contracts import RecordProducer
from penstock.state.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager


class StandbyTask(StoredTask):
    """Mirrors ``StandbyTask``. ``processed``: how far the active task has processed those source topics that a store
    has for its changelog; what follows is not in the store of the active one, either."""

    processed: Mapping[TopicPartition, int] = {}
    state = TaskState.RUNNING
    """It answers whoever takes a stale answer."""

    @property
    @override
    def source_ends(self) -> Mapping[TopicPartition, int]:
        return {tp: self.processed.get(tp, 0) for tp in self.sources}

    def take_committed(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """What the active task has committed."""
        self.processed = {tp: committed[tp].offset for tp in self.sources if tp in committed}

    def seen(self, store: str, committed: bool) -> Position:
        """Nobody has told it: changelogs do not name the records that their own were made of."""
        return NOWHERE

    def lacks(self, store: str, bound: Position, seen: Position) -> bool:
        """It cannot say that it has come to any position."""
        return True

    def close(self) -> None:
        """Close the stores; what was restored is in them."""
        try:
            self.directory.note_close()
        finally:
            self.state_manager.close()


def open_standby_task(
    program: TaskProgram,
    task_id: TaskId,
    producer: RecordProducer,
    budget: MemoryBudget,
    sources: frozenset[TopicPartition],
) -> StandbyTask:
    """Open a copy of the stores of ``task_id`` below the state directory. ``producer`` gets nothing. Raises as
    :func:`~penstock.actors.task_directory.open_task_directory`."""
    root = program.config.state_dir / program.config.application_id
    directory, stores = open_task_directory(root, task_id, tuple(program.stores.values()), standby=True)
    try:
        return StandbyTask(StateManager(task_id, program, stores, producer, budget), directory, sources)
    except BaseException:
        stores.close()
        raise
