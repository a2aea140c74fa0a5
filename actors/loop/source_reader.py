"""Reads the sources of running tasks: decides when to fetch, what to pause, and where to continue after a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.actors.clock import Clock
from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.positions import log_loss, position_after_loss, reset_positions
from penstock.common.ids import TopicPartition
from penstock.common.measures import Meter
from penstock.common.offset_resets import OffsetReset
from penstock.common.records import RecordBatch
from penstock.kafka.contracts import Admin, RecordConsumer

_PAUSE_FACTOR = 10  # a pause drops the records that librdkafka has fetched, so it must be rare
_STARVING_S = 0.02
_LOOK_EACH_S = 0.05
_Offsets = Mapping[TopicPartition, int]
_Ends = tuple[_Offsets, _Offsets, _Offsets, _Offsets]


class SourceReader:
    """Reads for the tasks of an actor through one consumer. ``limit``: ``buffered.records.per.partition``."""

    def __init__(self, consumer: RecordConsumer, admin: Admin, clock: Clock, limit: int) -> None:
        self.consumer = self._consumer = consumer
        self.polls = Meter()
        """Seconds that each poll took."""
        self.polled = Meter()
        """Number of records of each poll."""
        self._admin = admin
        self._clock = clock
        self._limit = limit
        self._owner: dict[TopicPartition, HostedTask] = {}
        self._paused: set[TopicPartition] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._lost: dict[TopicPartition, int] = {}
        self._fetched_s = self._look_again_s = 0.0
        self._behind = False

    def assign(self, running: Sequence[HostedTask]) -> None:
        """Read the sources of these tasks and no others."""
        owner = {tp: hosted for hosted in running for tp in hosted.sources}
        # A client may remember that a partition is paused, and the task may return.
        if gone := (self._paused | self._held) - owner.keys():
            self._consumer.resume(gone)
            self._paused -= gone
            self._held -= gone
        self._owner = owner
        self._lost = {tp: at for tp, at in self._lost.items() if tp in owner}
        self._consumer.assign({tp: hosted.starts[tp].offset for tp, hosted in owner.items()})

    def is_due(self, running: Sequence[HostedTask]) -> bool:
        """Returns True if it is time to fetch: no task has records left, or one that has none has waited for others.

        A fetch may bring records of any task. So the loop fetches rarely while tasks have records, and pauses
        partitions that have enough.
        """
        waiting = working = False
        for hosted in running:
            if not hosted.more:
                waiting = True
            elif self._paused.isdisjoint(hosted.sources):
                working = True
        return waiting and (not working or self._clock.monotonic_s() - self._fetched_s >= _STARVING_S)

    @property
    def is_behind(self) -> bool:
        """True if a broker has records that are not here yet, of a partition that is not paused."""
        if self._clock.monotonic_s() >= self._look_again_s:
            self._look_again_s = self._clock.monotonic_s() + _LOOK_EACH_S
            self._behind = any(map(self._has_more, self._owner.keys() - self._paused - self._held))
        return self._behind

    def _has_more(self, partition: TopicPartition) -> bool:
        end = self._consumer.end_offset(partition)
        return end is not None and self._consumer.position(partition) < end

    def fetch(self, running: Sequence[HostedTask]) -> Iterator[tuple[HostedTask, RecordBatch]]:
        """Yields the available records, about as many as the tasks process in 2 ms."""
        self._fetched_s = self._clock.monotonic_s()
        batches = self._consumer.poll(max(hosted.batch_size for hosted in running), 0)
        self.polls.add(self._clock.monotonic_s() - self._fetched_s)
        self.polled.add(sum(map(len, batches)))
        now_ms = self._clock.wall_ms() if batches else 0
        for batch in batches:
            hosted = self._owner[batch.partition]
            hosted.meters.consumed(batch, now_ms)
            yield hosted, batch

    # ---- hold ----

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset(self._owner)

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Fetch no more records of these partitions, in addition to those on hold, until :meth:`end_hold`. To their
        tasks they look as if there were no more, so that records of other partitions need not wait for them."""
        self._consumer.pause(partitions - self._held - self._paused)
        self._held |= partitions

    def holds(self, partition: TopicPartition) -> bool:
        """Returns True if ``partition`` is on hold."""
        return partition in self._held

    def end_hold(self) -> None:
        """Fetch records of all partitions again."""
        held, self._held = self._held, frozenset()
        self._consumer.resume((held & self._owner.keys()) - self._paused)

    @property
    def pauses(self) -> bool:
        """True if partitions are paused, which only :meth:`throttle` resumes."""
        return bool(self._paused)

    def throttle(self, hosted: HostedTask) -> bool:
        """Pause partitions with many queued records, resume those with few. Returns True if any was resumed."""
        resumed = False
        for tp in hosted.sources:
            queued = hosted.task.queued(tp)
            if queued > self._limit * _PAUSE_FACTOR and tp not in self._paused:
                if tp not in self._held:
                    self._consumer.pause([tp])
                self._paused.add(tp)
            elif queued <= self._limit and tp in self._paused:
                self._resume(tp)
                resumed = True
        return resumed

    def _resume(self, tp: TopicPartition) -> None:
        if tp not in self._held:
            self._consumer.resume([tp])
        self._paused.discard(tp)

    def pass_over_markers(self, running: Sequence[HostedTask]) -> None:
        """If all records are processed, also treat the markers after them as processed. So a consumer's lag is zero at
        the end of a topic that is written in transactions, as in Kafka Streams."""
        for hosted in running:
            for tp in hosted.sources:
                if not hosted.task.queued(tp):
                    hosted.task.pass_over(tp, self._consumer.position(tp))

    def processed(self, hosted: HostedTask, partition: TopicPartition) -> int:
        """Returns the offset before which ``hosted`` has processed all records of its source ``partition``."""
        if hosted.task.queued(partition) or hosted.has_calls:
            return hosted.task.offsets().get(partition, hosted.starts[partition]).offset
        return max(self._consumer.position(partition), hosted.starts[partition].offset)

    # ---- ends ----

    def update_caught_up(self, hosted: HostedTask) -> None:
        """Report to the task, for each source, if all records of the broker are fetched."""
        for tp in hosted.sources:
            end = self._consumer.end_offset(tp)
            caught_up = None if end is None else self._consumer.position(tp) >= end
            hosted.task.set_caught_up(tp, True if tp in self._held else caught_up)

    # ---- lost positions ----

    def lost_positions(self) -> dict[TopicPartition, int]:
        """Returns the positions whose records were deleted before they were read: see :meth:`reset`."""
        lost, self._lost = {**self._lost, **self._consumer.lost_positions()}, {}
        return lost

    def reset(self, lost: Mapping[TopicPartition, int], is_superseded: Callable[[], bool]) -> Steps[None]:
        """Continue after ``lost`` positions, see :func:`~penstock.actors.task_host.positions.position_after_loss`. If
        it ``is_superseded`` while no broker answers, the next call of :meth:`lost_positions` returns them again."""
        policies = {tp: self._owner[tp].resets[tp] for tp in lost if tp in self._owner}

        found = yield from retry_while_unavailable(lambda: self._ask(policies, lost), self._clock, is_superseded)
        if found is None:
            self._lost.update({tp: lost[tp] for tp in policies})
            return
        beginnings, ends, log_ends, reset_to = found
        for tp, policy in policies.items():
            was, beginning, end = lost[tp], beginnings[tp], ends[tp]
            to = position_after_loss(tp, was, beginning, log_ends.get(tp, end), reset_to.get(tp))
            log_loss("position", tp, was, beginning, end, policy, to)
            self._owner[tp].skip(tp, was, to)
            if tp in self._paused:
                self._resume(tp)
            self._consumer.seek(tp, to)

    def _ask(self, policies: Mapping[TopicPartition, OffsetReset], lost: Mapping[TopicPartition, int]) -> _Ends:
        """Returns beginnings, ends, the ends of the logs of partitions whose position is beyond the last record that
        may be read, and the positions by the reset policies."""
        beginnings = self._consumer.fetch_beginning_offsets(policies)
        ends = self._consumer.fetch_end_offsets(policies)
        beyond = [tp for tp, end in ends.items() if lost[tp] > end]
        log_ends = self._admin.high_watermarks(beyond) if beyond else {}
        reset_to = reset_positions(self._consumer, policies, beginnings, ends, self._clock.wall_ms())
        return beginnings, ends, log_ends, reset_to
