"""Selects the next record of a task: that of the partition with the smallest head timestamp.

Mirrors ``PartitionGroup``.
"""

from __future__ import annotations

from operator import attrgetter

from penstock.common.errors import RetriableError
from penstock.common.ids import TopicPartition
from penstock.common.java_collections import JavaPriorityQueue
from penstock.common.records import RecordBatch
from penstock.tasks.record_queue import NO_LIMIT, RecordQueue


class PartitionGroup:
    """The queues of one task, and the time for which an empty one may hold the others back.

    The queues that have records form a binary heap sifted as ``java.util.PriorityQueue`` sifts, so that equal
    timestamps are served in Kafka Streams' order too.
    """

    def __init__(self, queues: dict[TopicPartition, RecordQueue], max_task_idle_ms: int) -> None:
        self.queues = queues
        self._max_task_idle_ms = max_task_idle_ms
        self._heap: JavaPriorityQueue[RecordQueue] = JavaPriorityQueue(attrgetter("head_timestamp"))
        self._caught_up: dict[TopicPartition, bool | None] = {}
        self._idle_until_ms: dict[TopicPartition, int] = {}
        self.waiting: set[RecordQueue] = set()
        """The queues with records that wait for a serde."""
        self.enforced = 0
        """Number of times that records were processed although a partition was still empty after a wait."""

    def raw(self, partition: TopicPartition, offset: int) -> tuple[bytes | None, bytes | None]:
        """Returns key and value of a record as they were read, if that is known: see :meth:`RecordQueue.raw`."""
        queue = self.queues.get(partition)
        return (None, None) if queue is None else queue.raw(offset)

    def set_caught_up(self, partition: TopicPartition, caught_up: bool | None) -> None:
        """Set whether all of ``partition`` that the broker has is fetched; None if that is not known."""
        self._caught_up[partition] = caught_up

    def processed_offsets(self) -> list[tuple[str, int]]:
        """Returns for each topic the offset of the last record that was processed; −1 if there was none."""
        return [(tp.topic, queue.processed_offset) for tp, queue in self.queues.items()]

    def busy_topics(self) -> list[str]:
        """Returns the topics of which records wait here, or may wait at the broker."""
        return [
            tp.topic for tp, queue in self.queues.items() if queue or queue.waits_for or not self._caught_up.get(tp)
        ]

    def add(self, queue: RecordQueue, batch: RecordBatch) -> None:
        """Add records to ``queue``."""
        waited = bool(queue)
        queue.add(batch)
        self._changed(queue, waited)

    def ask_serdes(self, wall_ms: int, at_once: bool = False) -> None:
        """Ask the serdes again for which records wait: those whose pause is over, or all if ``at_once``."""
        for queue in list(self.waiting):
            if at_once or queue.is_due(wall_ms):
                waited = bool(queue)
                queue.ask_again(wall_ms)
                self._changed(queue, waited)

    def _changed(self, queue: RecordQueue, waited: bool) -> None:
        if queue and not waited:
            self.offer(queue)
        if queue.waits_for is None:
            self.waiting.discard(queue)
        else:
            self.waiting.add(queue)

    def waits_for_serdes(self) -> dict[TopicPartition, tuple[int, RetriableError]]:
        """Returns for each partition that waits for a serde the offset of the next record, and the reason."""
        return {it.partition: (it.waiting_offset, it.waits_for) for it in self.waiting if it.waits_for is not None}

    def offer(self, queue: RecordQueue) -> None:
        """Add ``queue``, which has records and is not in the heap."""
        self._heap.add(queue)

    def poll(self) -> tuple[RecordQueue, int] | None:
        """Take out the queue to process from; returns it with the timestamp below which its records precede others."""
        heap = self._heap
        if not heap:
            return None
        first = heap.poll()
        return first, heap.peek().head_timestamp if heap else NO_LIMIT

    def only_other(self) -> RecordQueue | None:
        """Returns the other of two queues, one of which was taken out, if its next record is a good one; else None."""
        if len(self.queues) != 2 or len(self._heap) != 1:
            return None
        other = self._heap.peek()
        return other if other.head_timestamp >= 0 else None

    def exchange(self, queue: RecordQueue) -> tuple[RecordQueue, int] | None:
        """:meth:`offer` ``queue`` and :meth:`poll` in one, if every partition has records, ``queue`` included. Else
        only offer it, and return None."""
        heap = self._heap
        if len(heap) + 1 != len(self.queues):
            heap.add(queue)
            return None
        first = heap.add_and_poll(queue)
        return first, heap.peek().head_timestamp if heap else NO_LIMIT

    def ready(self, wall_ms: int) -> bool:
        """Returns True if a record may be processed: there is one, and no empty partition may yet have an earlier one.

        An empty partition holds the task back while the broker has records of it that are not here, or while that is
        not known (KIP-695), and then until ``max.task.idle.ms`` has passed; −1 means never.
        """
        if not self._heap:
            return False
        if len(self._heap) == len(self.queues) or self._max_task_idle_ms < 0:
            self._idle_until_ms.clear()  # a partition that runs empty later is waited for again
            return True
        ready = True
        for partition, queue in self.queues.items():
            # Records that wait for their serde are known to be there.
            if queue or queue.waits_for is not None or not self._caught_up.get(partition):
                self._idle_until_ms.pop(partition, None)
                ready = ready and bool(queue)
            else:
                deadline = self._idle_until_ms.setdefault(partition, wall_ms + self._max_task_idle_ms)
                ready = ready and wall_ms >= deadline
        self.enforced += ready
        return ready
