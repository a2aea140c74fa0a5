"""The part of a task that commits, and that waits for calls."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.context import TaskContext
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task_offsets import TaskOffsets


class CommittingTask:
    """The commits and the calls of a :class:`~penstock.tasks.task.Task`, which describes in which order they come."""

    state_manager: StateManager
    calls: TaskCalls | None
    drains_calls: bool
    """True if a commit must wait for the end of all calls."""
    stores_behind_calls: frozenset[str]
    """The stores that a record reaches only when a call has ended."""
    _context: TaskContext
    _offsets: TaskOffsets
    _flushed_during_processing: frozenset[str]

    # ---- calls ----

    def step_calls(self, now_ms: float, wall_ms: int) -> int:
        """Take the calls that have ended by ``now_ms``, a time that never runs backwards, forward their results, and
        begin others. Returns the number of records that were forwarded or have failed. Raises as :meth:`process`."""
        if self.calls is None:
            return 0
        self._context.wall_ms = wall_ms
        gone = self.calls.step(now_ms)
        self._context.leave()
        return gone

    def finish_calls(self) -> int:
        """Wait for the end of all calls, if the host's runner can wait. Returns and raises as :meth:`step_calls`."""
        if self.calls is None or not self.calls.unfinished:
            return 0
        gone = self.calls.finish()
        self._context.leave()
        return gone

    # ---- commit ----

    @property
    def commit_requested(self) -> bool:
        """True if a commit was requested since the last one: by a processor, or to flush caches for idle operators."""
        return self._context.commit_requested

    def prepare_commit(self) -> Iterator[None]:
        """Take a snapshot, and flush all of it at once. Exhaust it like :meth:`take_snapshot`; no record may be
        processed before ``complete_commit``."""
        yield from self._take_snapshot(frozenset())

    def take_snapshot(self) -> Iterator[None]:
        """Begin a commit of what was done until now. Exhaust it; between two steps the stores may be queried, but no
        record processed."""
        yield from self._take_snapshot(self._flushed_during_processing)

    def _take_snapshot(self, flushed_later: frozenset[str]) -> Iterator[None]:
        self._context.leave()
        if self.calls is not None and self.drains_calls:
            yield from self.state_manager.take_snapshot(frozenset(), self._calls_end)
        else:
            yield from self.state_manager.take_snapshot(flushed_later)
        self._context.headers = None
        self._context.commit_requested = False

    def _calls_end(self) -> Generator[None, None, bool]:
        """Wait for the end of all calls; returns True if there were any. If the host's runner cannot wait, the host
        calls :meth:`step_calls` between two steps."""
        assert self.calls is not None
        if not self.calls.unfinished:
            return False
        if self.calls.all_in_order:
            self.finish_calls()
        while self.calls.unfinished:
            yield
        self._context.leave()
        return True

    def flush_snapshot(self) -> Iterator[None]:
        """Flush what the snapshot has left. Exhaust it; between two steps records may be processed."""
        self._context.leave()
        for _ in self.state_manager.flush_snapshot():
            self._context.headers = None
            yield
            self._context.leave()
        self._context.headers = None

    def pass_over(self, partition: TopicPartition, position: int) -> None:
        """Skip to ``position``, from which the host will fetch next. All records of ``partition`` that it has fetched
        are processed, and there are no other records before ``position``."""
        self._offsets.pass_over(partition, position)

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """Returns what to commit: per source partition the offset of the next record to process, the partition's time,
        and what operators remember."""
        return self._offsets.to_commit()

    def processed_offsets(self, store: str | None = None) -> Iterator[tuple[TopicPartition, int]]:
        """Yields per source partition the offset of the last record that was processed; none if there was none. A
        record whose calls have not ended is not processed, except for a ``store`` that it reaches without a call."""
        ahead = self.calls is not None and store is not None and store not in self.stores_behind_calls
        return self._offsets.processed_offsets(with_unfinished=ahead)

    def commit_at_once(self) -> None:
        """Do ``prepare_commit`` and ``complete_commit`` in one, for a host that does nothing in between."""
        self._context.leave()
        self.state_manager.commit_at_once()
        self._context.headers = None
        self._context.commit_requested = False

    def complete_commit(self, changelog_offsets: Mapping[str, int]) -> None:
        """Write all stores at once, now that Kafka has the offsets: each with the offset after its last changelog
        record."""
        self.state_manager.commit(changelog_offsets)
        for _ in self.state_manager.release_flushed():
            pass
