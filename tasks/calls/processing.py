"""The loop over records of a task that calls out: it stops when an operator is full, and keeps stream time back."""

from __future__ import annotations

from collections.abc import Callable

from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.context import TaskContext
from penstock.tasks.expiry import Expiry
from penstock.tasks.partition_group import PartitionGroup
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.record_queue import RecordQueue

CallPunctuator = Callable[..., None]


class ProcessingWithCalls:
    """Processes the records of ``group``, one by one.

    Of the records whose results keep the order of the input, take the oldest whose result is not forwarded yet.
    Operators see the stream time before that record.
    """

    def __init__(
        self,
        calls: TaskCalls,
        group: PartitionGroup,
        context: TaskContext,
        expiry: Expiry | None,
        punctuations: PunctuationQueue,
        punctuate: CallPunctuator,
        *,
        places_headers: bool,
    ) -> None:
        self._calls = calls
        self._group = group
        self._context = context
        self._expiry = expiry
        self._punctuations = punctuations
        self._punctuate = punctuate
        self._places_headers = places_headers
        calls.observe, calls.after_emission = self._observe, self._punctuate_if_due

    def process(self, most: int, wall_ms: int) -> int:
        """Process at most ``most`` records, while the operators have room; returns their number."""
        done, group, calls = 0, self._group, self._calls
        calls.time = max(calls.time, self._context.stream_time)
        while done < most and (room := calls.room) > 0 and group.ready(wall_ms):
            chosen = group.poll()
            assert chosen is not None
            queue, limit = chosen
            begin = queue.index
            end = self._run(queue, queue.run_end(limit, min(most - done, room)))
            done += end - begin
            queue.advance(end)
            if queue:
                group.offer(queue)
        if done and calls.must_commit:
            self._context.commit_requested = True
        return done

    def _run(self, queue: RecordQueue, end: int) -> int:
        """Process the next records of ``queue``, up to the index ``end`` of its batch; returns the index after the last
        one. There is room for the first."""
        batch, context, calls, head = queue.batch, self._context, self._calls, queue.source.head
        index, offsets = queue.index, batch.offsets
        values = iter(batch.values[index:end])
        context.enter(queue.partition, offsets, end, values)
        for value, key, timestamp in zip(values, batch.keys[index:end], batch.timestamps[index:end], strict=True):
            headers = batch.headers[index] if batch.headers is not None else None
            if self._places_headers:
                (headers,) = queue.placed(index, index + 1, [headers])
            context.headers = headers
            context.timestamp = timestamp
            calls.time = max(calls.time, timestamp)
            calls.partition_time = queue.partition_time
            if not calls.holds_time:
                self._observe(calls.time)
            head(key, value, timestamp)
            queue.partition_time = max(queue.partition_time, timestamp)
            if context.stream_time >= self._punctuations.next_ms:
                self._punctuate_if_due()
                context.enter(queue.partition, offsets, end, values)
            index += 1
            if calls.room <= 0:
                break
        context.leave()
        return index

    def _observe(self, time: int) -> None:
        if time > self._context.stream_time:
            self._context.stream_time = time
            if self._expiry is not None:
                self._expiry.observe(time)

    def _punctuate_if_due(self) -> None:
        stream_time = self._context.stream_time
        if stream_time >= self._punctuations.next_ms:
            self._context.leave()
            self._punctuations.punctuate(stream_time, self._punctuate)
