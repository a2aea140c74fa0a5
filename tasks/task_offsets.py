"""The positions of a task in its source partitions: what it commits, and continues from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.context import TaskContext
from penstock.tasks.offsets import (
    decode_partition_time,
    decode_remembered,
    encode_partition_time,
    fitting,
    short_name,
    warn_left_out,
)
from penstock.tasks.record_queue import RecordQueue


class TaskOffsets:
    """The offsets of ``queues``, with what operators remember. A record whose ``calls`` have not ended counts as not
    processed, and so do those after it."""

    def __init__(
        self, task_id: TaskId, queues: Mapping[TopicPartition, RecordQueue], context: TaskContext, calls: TaskCalls
    ) -> None:
        self._task_id = task_id
        self._queues = queues
        self._context = context
        self._calls = calls
        self._warned_left_out = False

    def resume(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Continue from what the group has committed."""
        context = self._context
        for partition, offset in committed.items():
            queue = self._queues.get(partition)
            if queue is not None:  # an empty queue is false
                queue.processed_offset = offset.offset - 1
                queue.partition_time = decode_partition_time(offset.metadata)
                context.stream_time = max(context.stream_time, queue.partition_time)
                found = decode_remembered(offset.metadata)
                for name, slot in context.remembered.items():
                    slot.ms = max(slot.ms, found.get(name, -1), found.get(short_name(name), -1))

    def pass_over(self, partition: TopicPartition, position: int) -> None:
        """Skip from the last record of an empty queue to ``position``: between them are only markers of transactions,
        and aborted records. If nothing was processed yet, reading begins with the first record again."""
        queue = self._queues[partition]
        if 0 <= queue.processed_offset < position - 1:
            queue.processed_offset = position - 1

    def to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        """Returns the offsets of the next records, with the partitions' times and what operators remember."""
        remembered, left_out = fitting({key: slot.ms for key, slot in self._context.remembered.items() if slot.ms >= 0})
        if left_out and not self._warned_left_out:
            self._warned_left_out = True
            warn_left_out(self._task_id, left_out)
        unfinished = self._calls.unfinished_from()
        found = {}
        for partition, queue in self._queues.items():
            if queue.processed_offset >= 0:
                offset, time = unfinished.get(partition, (queue.processed_offset + 1, queue.partition_time))
                found[partition] = CommittedOffset(offset, encode_partition_time(time, remembered))
        return found

    def processed_offsets(self, *, with_unfinished: bool = False) -> Iterator[tuple[TopicPartition, int]]:
        """Yields per partition the offset of the last record that was processed; none if none was. ``with_unfinished``:
        records whose calls have not ended count, too."""
        unfinished = {} if with_unfinished else self._calls.unfinished_from()
        for partition, queue in self._queues.items():
            if queue.processed_offset >= 0:
                found = unfinished.get(partition)
                yield partition, queue.processed_offset if found is None else found[0] - 1
