"""One task on its actor: the task, the positions of its sources, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from typing_extensions import override

from penstock.actors.status import RestoreFigures, TaskState, TaskStatus
from penstock.actors.task_host.call_figures import call_figures
from penstock.actors.task_host.operator_figures import COMMIT, MOST_RECORDS, PUNCTUATORS, RECORDS
from penstock.actors.task_host.positions import Start, log_loss
from penstock.actors.task_host.serde_waits import SerdeWaits
from penstock.actors.task_host.stored_task import StoredTask
from penstock.actors.task_host.task_directory import TaskDirectory
from penstock.actors.task_host.task_meters import TaskMeters
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.metric_names import Measured
from penstock.common.position import Position
from penstock.common.records import RecordBatch
from penstock.kafka.contracts import RecordConsumer
from penstock.tasks.commit_coverage import covered, covering, warn_not_covered, without_coverage
from penstock.tasks.task import Task
from penstock.tasks.task_metrics import TaskMetrics

_MOVES = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.CLOSED},
    TaskState.RUNNING: {TaskState.CLOSED},
    TaskState.CLOSED: set(),
}
_FIRST_BATCH = 100
_LARGEST_BATCH = 2000
_SLICE_S = 0.002


class HostedTask(StoredTask):
    """An active task with the data that its actor keeps about it."""

    def __init__(
        self, task: Task, directory: TaskDirectory, sources: frozenset[TopicPartition], meters: TaskMeters
    ) -> None:
        super().__init__(task.state_manager, directory, sources)
        self.task = task
        self.meters = meters
        self._exactly_once = task.state_manager.program.config.processing_guarantee == "exactly_once_v2"
        self.state = TaskState.CREATED
        self.starts: Mapping[TopicPartition, Start] = {}
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.commits, self.committed_ms = 0, 0
        """Number of commits that its stores have taken, and the time of the last."""
        self.touched = False
        self.more = False
        self.batch_size = _FIRST_BATCH
        self.snapshot: dict[TopicPartition, CommittedOffset] = {}
        """Offsets that the commit under way commits."""
        self._logged: dict[TopicPartition, int] = {}
        self._own_changelogs = self.changelogs.keys() - self.source_changelogs
        self._covered: Mapping[str, int] = {}
        """The offset after the last changelog record of each store that the commit under way covers."""
        self._covered_at_start: Mapping[str, int] = {}
        """Changelog offsets of the commit from which the task continues, if it names them for standbys."""
        self._warned_not_covered = False
        self._read_on_at: dict[TopicPartition, int] = {}
        self._serde_waits = SerdeWaits()

    @property
    def has_several_inputs(self) -> bool:
        """True if the task must know what was fetched of each source partition: it waits for one while it has records
        of another, or checks for idle ones."""
        return len(self.sources) > 1 or self.task.checks_idleness

    @property
    @override
    def limits(self) -> Mapping[TopicPartition, int]:
        # Later records of a source topic are still to be processed as input.
        return {tp: self.starts[tp].offset for store, tp in self.changelogs.items() if store in self.source_changelogs}

    def position_of(self, store: str, committed: bool) -> Position:
        """Returns the records of its sources that ``store`` has seen; if ``committed``, as of the last commit."""
        if not committed and store not in self.task.written_by_flushes:
            return Position.of(self.task.processed_offsets(store))
        # A store downstream of a cache has seen what the last snapshot flushed.
        offsets = self.committed if committed or not self.snapshot else self.snapshot
        return Position.of((tp, found.offset - 1) for tp, found in offsets.items() if found.offset > 0)

    def lacks(self, store: str, bound: Position, seen: Position) -> bool:
        """Returns True if ``seen`` has not reached ``bound`` in the task's own partition."""
        number = self.id.partition
        return any(
            seen.get_partition_positions(topic).get(partition, -1) < offset
            for topic, partition, offset in bound
            if partition == number
        )

    def become(self, state: TaskState) -> None:
        """Set the next state of the task. Raises ValueError for one that may not follow."""
        if state not in _MOVES[self.state]:
            raise ValueError(f"task {self.id} cannot go from {self.state.value} to {state.value}")
        self.state = state

    def begin(self, starts: Mapping[TopicPartition, Start], exactly_once: bool) -> None:
        """Set the positions at which its sources begin; next is the restore. May be called again before that.

        ``exactly_once``: all records in a changelog are committed, perhaps by an actor of another Ray cluster after
        these starts were found. So none of them may be left out, since the stores outlive this task. The exception is
        a last commit that was made at least once: only such a commit records how far changelogs were written. Then
        records after it come again, as they do at least once."""
        self.starts = starts
        found = {tp: start.committed for tp, start in starts.items() if start.committed is not None}
        self._covered_at_start = covered(found.values(), self._own_changelogs)
        self.committed = {tp: without_coverage(each, self._own_changelogs) for tp, each in found.items()}
        for tp, start in starts.items():
            if start.lost is not None:
                self.meters.count_lost(tp, start.lost.offset, start.offset - start.lost.offset)
        if self._covered_at_start or not exactly_once:
            self.state_manager.continue_from(self._resume_from())

    def read_on_at(self, partition: TopicPartition, end: int) -> None:
        """Set the position at which a source begins to the ``end`` of its partition, if the partition has become
        shorter than that position since the restore began."""
        was = self.starts[partition]
        log_loss("position", partition, was.offset, 0, end, None, end)
        self.meters.count_lost(partition, was.offset, end - was.offset)
        self.starts = {**self.starts, partition: Start(end, end, lost=was.resume_from)}
        self.committed = {tp: offset for tp, offset in self.committed.items() if tp != partition}

    def _resume_from(self) -> Mapping[TopicPartition, CommittedOffset]:
        return {tp: known for tp, start in self.starts.items() if (known := start.resume_from) is not None}

    def run(self, wall_ms: int) -> None:
        """Initialise the processors, after the stores are restored."""
        self.task.resume(self._resume_from())
        for tp in self.missing:
            self.task.set_caught_up(tp, True)
        self.task.init(wall_ms)
        # They may have sent or stored something already. If it is not committed, the broker aborts that transaction.
        self.touched = self.task.has_processors or self._knows_what_standbys_do_not
        self.become(TaskState.RUNNING)

    @property
    def _knows_what_standbys_do_not(self) -> bool:
        """True if the last commit, perhaps of a process that crashed or of Kafka Streams, covers less of the changelogs
        than was restored from them."""
        if self._exactly_once:
            return False
        restored = {store: self.state_manager.changelog_offset(store) for store in self._own_changelogs}
        return any(end is not None and end != self._covered_at_start.get(store) for store, end in restored.items())

    def add(self, batch: RecordBatch) -> None:
        """Queue records of one of its sources. Raises PartitionerMismatchError if so configured."""
        self.meters.partitioners.look(batch)
        if self._read_on_at:
            self._read_on_at.pop(batch.partition, None)  # these records come after the lost position
        operators = self.meters.operators
        begun_s = operators.now_s()
        self.task.add(batch)
        operators.decoded(batch.partition.topic, operators.now_s() - begun_s)

    def process(self, wall_ms: int, clock: Callable[[], float]) -> int:
        """Process records for about 2 ms; returns their number, and that of records whose calls have ended. ``more`` is
        set if the batch was full."""
        size, operators = self.batch_size, self.meters.operators
        begun = clock()
        if operators.begin(RECORDS, self._has_work):
            size = min(size, MOST_RECORDS)
        try:
            gone = self._step_calls(wall_ms, clock)
            done = self.task.process(size, wall_ms)
            self.more = done >= size
            self._serde_waits.note(self.task.waits_for_serdes, begun)
            if done:
                gone += self._step_calls(wall_ms, clock)  # those that begin with these records
        except BaseException:
            operators.fail()
            raise
        spent = operators.end(RECORDS, clock() - begun, done + gone, idle=not done and not gone)
        if self._read_on_at:
            self._leave_lost_positions()
        if not done:
            return gone
        self.touched = True
        self.meters.process.add(done, spent)
        if done * 2 >= size:
            size = self.batch_size
            # Approaches a batch of 2 ms, but one slow or fast batch changes it by a factor of 2 at most.
            wanted = size * 2 if spent <= 0 else int(done * _SLICE_S / spent)
            self.batch_size = max(1, min(max(wanted, size // 2), size * 2, _LARGEST_BATCH))
        return done + gone

    def _has_work(self) -> bool:
        return any(map(self.task.queued, self.sources)) or self.has_calls

    def step_calls(self, wall_ms: int, clock: Callable[[], float]) -> int:
        """Like :meth:`Task.step_calls`. Returns the number of records whose calls have ended."""
        if self.task.calls is None:
            return 0
        operators, begun = self.meters.operators, clock()
        operators.begin(COMMIT)
        try:
            gone = self._step_calls(wall_ms, clock)
        except BaseException:
            operators.fail()
            raise
        operators.end(COMMIT, clock() - begun, idle=not gone)
        return gone

    def _step_calls(self, wall_ms: int, clock: Callable[[], float]) -> int:
        if self.task.calls is None:
            return 0
        gone = self.task.step_calls(clock() * 1000, wall_ms)
        self.touched = self.touched or gone > 0
        return gone

    @property
    def may_leave_records(self) -> bool:
        """True if it may have queued records although the last batch was not full."""
        waits = self.task.calls is not None or self._serde_waits.reason is not None
        return waits or (self.has_several_inputs and not self.more)

    @property
    def has_calls(self) -> bool:
        """True if a record waits for the end of a call."""
        return self.task.calls is not None and self.task.calls.unfinished

    def punctuate(self, wall_ms: int, clock: Callable[[], float]) -> None:
        """Like :meth:`Task.punctuate`."""
        operators, begun = self.meters.operators, clock()
        if self.task.may_punctuate(wall_ms):
            operators.begin(PUNCTUATORS)
        try:
            called = self.task.punctuate(wall_ms)
        except BaseException:
            operators.fail()
            raise
        spent = operators.end(PUNCTUATORS, clock() - begun if called else 0.0, idle=not called)
        if called:
            self.touched = True
            self.meters.punctuate.add(spent)

    def skip(self, tp: TopicPartition, position: int, to: int) -> None:
        """Continue ``tp`` at ``to``, because its records from ``position`` on are gone."""
        self.meters.count_lost(tp, position, to - position)
        self._read_on_at[tp] = to
        self._leave_lost_positions()

    def _leave_lost_positions(self) -> None:
        # The next record may be far away, and the next start must not find the lost position again.
        for tp in [tp for tp in self._read_on_at if not self.task.queued(tp)]:
            before = self.task.offsets().get(tp) or self.committed.get(tp)
            to = self._read_on_at.pop(tp)
            self.task.resume({tp: CommittedOffset(to, before.metadata if before is not None else "")})

    @property
    def needs_commit(self) -> bool:
        """True if anything has happened since the last commit."""
        if self.state is not TaskState.RUNNING:
            return False
        if self.touched or self.task.commit_requested:
            return True
        return any(self.committed.get(tp) != offset for tp, offset in self.task.offsets().items())

    def has_logged(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note that the broker has the records of the task's changelogs before ``ends``; other partitions are ignored.

        An end that is lower than an earlier one (:meth:`~penstock.kafka.contracts.Mark.ends`) changes nothing.
        """
        logged = self._logged
        logged.update((tp, max(ends[tp], logged.get(tp, 0))) for tp in self.changelogs.values() if tp in ends)

    def take_snapshot(self) -> Iterator[None]:
        """Begin a commit of everything up to now. Exhaust it; meanwhile no record may be processed."""
        yield from self.meters.operators.steps(self.task.take_snapshot())
        self.snapshot = self.task.offsets()
        if self._exactly_once:
            # For a transaction without offsets the group would not check the member that commits it.
            for tp, start in self.starts.items():
                self.snapshot.setdefault(tp, CommittedOffset(start.offset, ""))
        self.touched = False

    def flush_snapshot(self) -> Iterator[None]:
        """Like :meth:`Task.flush_snapshot`."""
        return self.meters.operators.steps(self.task.flush_snapshot())

    def to_commit(self, flushed: Mapping[TopicPartition, int]) -> Offsets:
        """Returns the offsets of the snapshot, once the broker has all records that were sent before. At least once,
        their metadata has the covered part of the changelogs. ``flushed``: as for :meth:`has_logged`, for records sent
        since the snapshot."""
        logged = {store: self._restored_from(store, tp, flushed) for store, tp in self.changelogs.items()}
        self._covered = {store: offset for store, offset in logged.items() if offset is not None}
        own = {store: offset for store, offset in self._covered.items() if store in self._own_changelogs}
        if self._exactly_once or not own:
            return self.snapshot
        if not self.snapshot:
            # No record was processed, but a processor has changed its stores: standbys must learn of it.
            self.snapshot = {tp: CommittedOffset(start.offset) for tp, start in self.starts.items()}
        offsets, left_out = covering(self.snapshot, own, self._own_changelogs)
        if left_out and not self._warned_not_covered:
            self._warned_not_covered = True
            warn_not_covered(self.id, left_out)
        return offsets

    def has_committed(self, wall_ms: int) -> Iterator[None]:
        """Write the snapshot, whose offsets Kafka has taken, in the first step. Exhaust it.

        A store whose changelog was not written keeps the offset that it has.
        """
        self.state_manager.commit(self._covered)
        self.committed.update(self.snapshot)
        self.commits, self.committed_ms = self.commits + 1, wall_ms
        self.directory.is_new = False
        self.directory.note_commit(wall_ms)
        if self.task.calls is not None:
            self.task.calls.committed()
        yield from self.state_manager.release_flushed()

    def _restored_from(self, store: str, tp: TopicPartition, flushed: Mapping[TopicPartition, int]) -> int | None:
        """Returns the offset after the last record of changelog ``tp`` that is among the rows of this commit."""
        if store in self.source_changelogs:
            return self.snapshot[tp].offset if tp in self.snapshot else None
        ends = [self._logged.get(tp), self.state_manager.changelog_offset(store)]
        # Other records that were logged since the snapshot belong to the next commit, and so do their rows.
        if store in self.state_manager.logged_by_flush:
            ends.append(flushed.get(tp))
        return max((end for end in ends if end is not None), default=None)

    def close(self) -> None:
        """Close the task; uncommitted changes are lost."""
        if self.state is not TaskState.CLOSED:
            self.become(TaskState.CLOSED)
            try:
                self.directory.note_close()
            finally:
                self.task.close()

    def queued(self) -> dict[str, int]:
        """Returns the number of queued records of each topic."""
        return {tp.topic: self.task.queued(tp) for tp in self.sources}

    def counted(self) -> TaskMetrics:
        """Returns the task's counters, which continue when the task begins again after an aborted transaction."""
        return self.meters.totals(self.task.metrics())

    def status(self, consumer: RecordConsumer, restore: RestoreFigures, now_s: float, wall_ms: int) -> TaskStatus:
        """Returns the status of the task for the coordinator and users."""
        counted = self.counted()
        positions = {tp: start.offset for tp, start in self.starts.items()}
        positions.update((tp, offset + 1) for tp, offset in self.task.processed_offsets())
        lags = {tp: self._lag(tp, start, consumer) for tp, start in self.starts.items()}
        running = self.state is TaskState.RUNNING
        return TaskStatus(
            task_id=self.id,
            state=self.state,
            records_processed=counted.process_total,
            dropped_records=counted.dropped_records_total,
            restore_remaining=restore.remaining,
            lags=lags,
            committed={tp: committed.offset for tp, committed in self.committed.items()},
            lost_records=self.meters.lost_records,
            restore_total=self.meters.restored(restore.total),
            restore_rate=restore.rate,
            positions=positions,
            measured=self._measured(counted, now_s) if self.state is not TaskState.CLOSED else {},
            busy_s=self.meters.process.spent_s,
            partitioners=self.meters.partitioners.partitioners,
            parted=self.meters.partitioners.parted,
            dropped_by_handlers=counted.dropped_by_handlers,
            behind_s=self.meters.behind.look(lags, positions, now_s, wall_ms) if running else None,
            waits_for=self._serde_waits.reason,
        )

    def _measured(self, counted: TaskMetrics, now_s: float) -> Measured:
        measured = self.meters.measured(counted, self.state_manager, self.queued(), now_s)
        return measured | self.meters.operators.measured(now_s) | call_figures(self.task.calls)

    def _lag(self, tp: TopicPartition, start: Start, consumer: RecordConsumer) -> int:
        if self.state is not TaskState.RUNNING:
            return start.end - start.offset
        end = consumer.end_offset(tp)
        return max(0, (start.end if end is None else end) - consumer.position(tp)) + self.task.queued(tp)
