"""A standby: the stores of a task whose records another actor processes, kept up to date with their changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from typing_extensions import override

from penstock.actors.status import TaskState
from penstock.actors.task_host.stored_task import StoredTask
from penstock.actors.task_host.task_directory import TaskDirectory, open_task_directory
from penstock.common.ids import Offsets, TaskId, TopicPartition
from penstock.common.position import NOWHERE, Position
from penstock.kafka.contracts import RecordProducer
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.commit_coverage import covered
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager


class Asked(NamedTuple):
    """The time of a request, by the clocks of its actor."""

    wall_ms: int
    monotonic_s: float


class StandbyTask(StoredTask):
    """Mirrors ``StandbyTask``. Its stores have no more than the last commit of the active task covers: the processed
    records of a source topic, and at least once the records of a changelog that belong to that commit. Exactly once a
    changelog shows no others (docs/decisions/0026-standbys-behind-commits.md)."""

    state = TaskState.RUNNING
    """It answers queries that accept a stale answer."""

    def __init__(
        self, state_manager: StateManager, directory: TaskDirectory, sources: frozenset[TopicPartition]
    ) -> None:
        super().__init__(state_manager, directory, sources)
        exactly_once = state_manager.program.config.processing_guarantee == "exactly_once_v2"
        own = self.changelogs.keys() - self.source_changelogs
        self.held = self.source_changelogs & self.changelogs.keys() if exactly_once else set(self.changelogs)
        """The stores that are followed only as far as commits report."""
        self._reported_by_metadata = self.held & own
        self.heard: Asked | None = None
        """The time of the last answered request about commits."""
        self._committed: Offsets = {}
        self._limits: dict[TopicPartition, int] = {}

    @property
    @override
    def limits(self) -> Mapping[TopicPartition, int]:
        of_sources = {self.changelogs[store] for store in self.source_changelogs & self.changelogs.keys()}
        return dict.fromkeys(of_sources, 0) | self._limits

    @property
    def unreported(self) -> set[TopicPartition]:
        """The changelogs of which no commit reports how much belongs to it."""
        return {self.changelogs[store] for store in self._reported_by_metadata} - self._limits.keys()

    def take_committed(self, committed: Offsets, asked: Asked) -> bool:
        """Take the answer to a request that was ``asked`` then: the offsets that the group, and so the active task, has
        committed. Returns False if nothing is new."""
        if self.heard is not None and asked.monotonic_s < self.heard.monotonic_s:
            return False  # a later request of the loop was answered first
        self.heard = asked
        own = {tp: committed[tp] for tp in self.sources if tp in committed}
        if own == self._committed:
            return False
        self._committed = own
        for store in self.source_changelogs & self.changelogs.keys():
            tp = self.changelogs[store]
            if tp in own:
                self._limits[tp] = own[tp].offset
        reported = covered(own.values(), self._reported_by_metadata)
        self._limits.update((self.changelogs[store], end) for store, end in reported.items())
        if self._reported_by_metadata:
            # Records that a crashed attempt has logged after the last commit may be part of this one, and have later
            # times.
            self.state_manager.continue_from(own)
        return True

    def position_of(self, store: str, committed: bool) -> Position:
        """Returns NOWHERE: changelog records do not name the input records from which they were made."""
        return NOWHERE

    def lacks(self, store: str, bound: Position, seen: Position) -> bool:
        """Returns True: a standby cannot show that it has reached any position."""
        return True

    def close(self) -> None:
        """Close the stores, with all restored rows."""
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
    """Open a standby of ``task_id``, with its stores below the state directory. ``producer`` gets no records. Raises as
    :func:`~penstock.actors.task_host.task_directory.open_task_directory`."""
    root = program.config.state_dir / program.config.application_id
    directory, stores = open_task_directory(root, task_id, tuple(program.stores.values()), standby=True)
    try:
        return StandbyTask(StateManager(task_id, program, stores, producer, budget), directory, sources)
    except BaseException:
        stores.close()
        raise
