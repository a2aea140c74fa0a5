"""Processing of two inputs whose records alternate, as those of a join do if many have the same timestamp."""

from __future__ import annotations

from penstock.tasks.context import TaskContext
from penstock.tasks.partition_group import PartitionGroup
from penstock.tasks.record_places import RunCursor
from penstock.tasks.record_queue import NO_LIMIT, RecordQueue

_SHORT_RUN = 8
_FEWEST_RECORDS = 32


class _Side:
    """The next records of ``queue``, at most ``most``, and the position up to which they are processed."""

    __slots__ = ("begin", "head", "queue", "records", "run", "timestamps", "upcoming")

    def __init__(self, queue: RecordQueue, most: int) -> None:
        batch, self.begin = queue.batch, queue.index
        end = min(self.begin + most, len(batch.keys))
        values = iter(batch.values[self.begin : end])
        self.queue = queue
        self.head = queue.source.head
        self.run = RunCursor(batch.offsets, end, values)
        self.timestamps = batch.timestamps[self.begin : end]
        self.records = zip(batch.keys[self.begin : end], values, strict=False)
        self.upcoming = iter((*self.timestamps, NO_LIMIT))
        """The records' times, each taken before its record is processed: the next one decides which side is next."""

    def advance(self, context: TaskContext) -> int:
        """Advance the queue past the records that are done; returns their number. Raises the error of a bad record."""
        done = len(self.timestamps) - self.run.left
        context.stream_time = max((context.stream_time, *self.timestamps[:done]))
        self.queue.advance(self.begin + done)
        return done


def take_turns(group: PartitionGroup, queue: RecordQueue, end: int, most: int, context: TaskContext) -> int:
    """Process records of ``queue``, which was polled from ``group`` for the run up to ``end``, and of the only other
    queue of the group, in the order of the group: at most ``most`` records. Afterwards each of the two that has records
    left is in the group again. Returns the number of records processed: 0, and nothing changes, if the records do not
    alternate, or have headers.

    It is one loop over both queues: a run for each record, and a heap, would cost 2 µs more per record.
    """
    if most < _FEWEST_RECORDS or not 0 < end - queue.index < _SHORT_RUN:
        return 0
    other = group.only_other()
    if other is None or queue.batch.headers is not None or other.batch.headers is not None:
        return 0
    group.poll()
    side, waiting = _Side(queue, most // 2), _Side(other, most // 2)
    time, limit = next(side.upcoming), next(waiting.upcoming)
    while True:
        context.enter_run(side.queue.partition, side.run)
        head, upcoming = side.head, side.upcoming
        for key, value in side.records:
            head(key, value, time)
            time = next(upcoming)
            if time >= limit:
                break
        if time == NO_LIMIT:
            break
        side, waiting, time, limit = waiting, side, limit, time
    context.leave()
    done = waiting.advance(context)
    group.offer(waiting.queue)
    done += side.advance(context)
    if side.queue:  # after the other one, as the heap has it when both are of one time
        group.offer(side.queue)
    return done
