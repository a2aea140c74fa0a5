"""The task, which every host runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

from penstock.common.calls_at_once import CallsAtOnce
from penstock.common.errors import ProcessingError, RetriableError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.tasks.calls.order import holds_what_it_took, stores_behind_calls
from penstock.tasks.calls.processing import ProcessingWithCalls
from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.committing_task import CommittingTask
from penstock.tasks.compose import compose
from penstock.tasks.contracts import CallRunner, RecordCollector, SenderOf
from penstock.tasks.expiry import Expiry
from penstock.tasks.failures import is_explained, reads_source_bytes
from penstock.tasks.flush_isolation import flushed_during_processing, user_code_behind, written_by_flushes
from penstock.tasks.idle_time import IdleTime
from penstock.tasks.measuring.operator_meter import OperatorMeter
from penstock.tasks.partition_group import PartitionGroup
from penstock.tasks.program import source_topic
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.read_ahead import ReadAhead
from penstock.tasks.record_queue import RecordQueue, Source
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task_metrics import TaskMetrics
from penstock.tasks.task_offsets import TaskOffsets
from penstock.tasks.turns import take_turns
from penstock.tasks.wiring import Store
from penstock.topology.processor_api.processor import PunctuationType, Punctuator

_NONE_LEFT: Iterator[object] = iter(())


class Task(CommittingTask):
    """The half of a task that processes: one sub-topology × one partition, on whatever host, over its stores.

    The host restores the stores of ``state_manager``, and calls, in this order: ``resume`` with what the group has
    committed, ``init``; then, as often as needed, ``add``, ``process`` and ``punctuate``. One thread at a time. An
    error that leaves any of these calls, or a commit, ends the task: it must be closed without a commit, and nothing of
    what it did since the last one counts.

    A commit is ``take_snapshot`` and ``offsets``, then ``flush_snapshot``, and, once Kafka has taken the offsets,
    ``commit`` and ``release_flushed`` of ``state_manager``. Records may be processed between the steps that follow the
    snapshot, if the stores take changes meanwhile: they belong to the next commit. A host that lets records wait until
    the end may take several steps in one: ``prepare_commit`` is a snapshot that leaves nothing to flush,
    ``complete_commit`` the last two.

    ``global_stores`` are those of :class:`~penstock.tasks.global_state.GlobalStateTask` on the same thread.
    ``clock_is_frozen``: the host's wall clock does not move while records are processed, so no work is put off by it to
    save effort. ``sender_of``: returns the send function of each sink; None: all sinks send by ``collector``.
    ``call_runner`` runs the calls of operators that call out; None: each to its end, in :meth:`finish_calls`. ``meter``
    gets the edges of the task, so that the host can measure its operators.
    """

    def __init__(
        self,
        state_manager: StateManager,
        collector: RecordCollector,
        global_stores: Mapping[str, Store] = MappingProxyType({}),
        *,
        clock_is_frozen: bool = False,
        sender_of: SenderOf | None = None,
        call_runner: CallRunner | None = None,
        meter: OperatorMeter | None = None,
    ) -> None:
        program, task_id, config = state_manager.program, state_manager.task_id, state_manager.program.config
        self.task_id, self._processed = task_id, 0
        self.state_manager = state_manager
        self._context = state_manager.context
        if clock_is_frozen:
            self._context.emit_interval_ms = 0
        self._budget = state_manager.budget
        self._punctuations = {type: PunctuationQueue() for type in PunctuationType}
        idle = self._context.idle = IdleTime.of(config, clock_is_frozen=clock_is_frozen)
        wired = {name: Store(builder, state_manager.store(name)) for name, builder in program.stores.items()}
        expiry = Expiry(self._context)
        runner, timers = call_runner or CallsAtOnce(), self._punctuations
        calls = TaskCalls(self._context, runner, all_in_order=type(runner) is CallsAtOnce)
        composed = compose(
            program, wired, self._context, collector, timers, global_stores, expiry, sender_of, calls, meter
        )
        expiry.begin(wired.values())
        self._expiry = expiry if expiry else None
        self._processors = composed.processors
        self.has_processors = bool(composed.processors)
        """True if :meth:`init` calls user code."""
        forwarded_by = {name: store.forwarded_by for name, store in wired.items()}
        self._flushed_during_processing = flushed_during_processing(program.nodes, program.children, forwarded_by)
        self.written_by_flushes = written_by_flushes(program.children, forwarded_by)
        """The stores in which effects of records arrive only when the next snapshot begins."""
        self._meter, self._keeps_raw = meter, reads_source_bytes(config)
        queues = self._queues_of(composed.sources)
        self._read_ahead = {
            TopicPartition(topic, task_id.partition): ReadAhead(store.opened for store in reached)
            for topic, reached in composed.prefetched.items()
        }
        self._enter = composed.source
        self._group = PartitionGroup(queues, config.max_task_idle_ms)
        self._context.failures.send = collector.send
        if self._keeps_raw:
            self._context.failures.raw_of = self._group.raw
        self._offsets = TaskOffsets(task_id, self._group.queues, self._context, calls)
        entered_by = {topic: source.node for topic, source in program.sources.items()}
        self._idle = idle if idle is not None and idle.connect(program.nodes, program.children, entered_by) else None
        self._caches = [store.opened for store in wired.values() if store.opened.context.caching and store.forwarded_by]
        self._reads_time = bool(self._processors) or self._expiry is not None
        cached = {name: store.forwarded_by for name, store in wired.items() if store.opened in self._caches}
        named = self._keeps_raw and user_code_behind(program.children, cached)
        self._places_headers = bool(self._caches) and (named or program.reads_source)
        self.calls = calls if calls else None
        """The calls of its operators that call out; None if it has none."""
        if self.calls is not None:
            self._called = self._processing_with(self.calls)

    def _queues_of(self, sources: Mapping[str, Source]) -> dict[TopicPartition, RecordQueue]:
        partitions = {TopicPartition(topic, self.task_id.partition): source for topic, source in sources.items()}
        return {tp: RecordQueue(tp, source, self._context, self._keeps_raw) for tp, source in partitions.items()}

    def _processing_with(self, calls: TaskCalls) -> ProcessingWithCalls:
        program = self.state_manager.program
        self.stores_behind_calls = stores_behind_calls(program.nodes, program.children)
        exactly_once = program.config.processing_guarantee == "exactly_once_v2"
        holds = holds_what_it_took(program.nodes, program.children)
        self.drains_calls = calls.all_in_order or exactly_once or holds
        if self.drains_calls:
            calls.drain_before_commits([store for store in self._caches if isinstance(store, BufferedStateStore)])
        return ProcessingWithCalls(
            calls,
            self._group,
            self._context,
            self._expiry,
            self._punctuations[PunctuationType.STREAM_TIME],
            self._call_punctuator,
            places_headers=self._places_headers,
        )

    # ---- start ----

    def add_topic(self, topic: str) -> bool:
        """Read another topic; returns False if no pattern of a source matches it. For a host that does not know all
        topics before the task begins."""
        program = self.state_manager.program
        source, partition = source_topic(program, topic), TopicPartition(topic, self.task_id.partition)
        if source is None:
            return False
        self._group.queues[partition] = RecordQueue(partition, self._enter(source), self._context, self._keeps_raw)
        self._read_ahead[partition] = ReadAhead(())
        if self._idle is not None:
            self._idle.add_topic(topic, source.node)
        self.set_caught_up(partition, True)
        return True

    def resume(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Continue from what the group has committed for the source partitions: partition times, stream time, and what
        operators remember."""
        self._offsets.resume(committed)

    def init(self, wall_ms: int) -> None:
        """Initialise the processors; their stores are restored. Raises ProcessingError, and errors of a producer or a
        store about what they send."""
        self._context.wall_ms = wall_ms
        if self._idle is not None:
            self._idle.begin(self._group.processed_offsets(), wall_ms)
        if self._expiry is not None:
            self._expiry.resume()
        for hosted in self._processors:
            try:
                hosted.processor.init(hosted.context)
            except Exception as error:
                if is_explained(error):
                    raise
                what = f"the processor cannot be initialised: {type(error).__name__}: {error}"
                raise ProcessingError(what, operator=hosted.name) from error

    # ---- records ----

    def add(self, batch: RecordBatch) -> None:
        """Queue records of a source partition; offsets follow those that were added before."""
        queue = self._group.queues[batch.partition]
        self._read_ahead[batch.partition].add(batch.keys, len(queue))
        self._group.add(queue, batch)

    def set_caught_up(self, partition: TopicPartition, caught_up: bool | None) -> None:
        """Set whether everything the broker has of ``partition`` was added; None if that is not known.

        Only needed by tasks with several source partitions (``max.task.idle.ms``), and by those that watch idleness.
        """
        self._group.set_caught_up(partition, caught_up)

    def ask_serdes(self) -> None:
        """Ask the serdes again, at once, for which records wait; :meth:`process` does so after a pause."""
        self._group.ask_serdes(self._context.wall_ms, at_once=True)

    @property
    def waits_for_serdes(self) -> Mapping[TopicPartition, tuple[int, RetriableError]]:
        """By partition, the offset of a record that cannot be decoded now, but perhaps later, and the reason."""
        return self._group.waits_for_serdes()

    def queued(self, partition: TopicPartition) -> int:
        """Returns the number of records of ``partition`` that wait."""
        return len(self._group.queues[partition])

    def process(self, max_records: int, wall_ms: int) -> int:
        """Process at most ``max_records`` in the task's order; returns their number. 0: none may be processed. Raises
        RecordError when a record cannot be handled and the handlers do not drop it."""
        self._context.wall_ms = wall_ms
        if self._group.waiting:
            self._group.ask_serdes(wall_ms)
        failures, undecodable = self._context.failures, self._context.failures.undecodable_records
        process = self._process if self.calls is None else self._called.process
        done = process(max_records, wall_ms) + failures.undecodable_records - undecodable
        self._processed += done
        if done:
            self._budget.count_processed(done)
            if self._idle is not None:
                self._idle.note(self._group.processed_offsets(), wall_ms)
        return done

    def _process(self, most: int, wall_ms: int) -> int:
        group, done, plain = self._group, 0, not self._reads_time and not self._places_headers
        while done < most and group.ready(wall_ms):
            chosen = group.poll()
            while chosen is not None:
                queue, limit = chosen
                chosen, end = None, queue.run_end(limit, most - done)
                if plain and (taken := take_turns(group, queue, end, most - done, self._context)):
                    done += taken
                    break
                done += end - queue.index
                self._run(queue, end)
                if queue and done < most:
                    chosen = group.exchange(queue)
                elif queue:
                    group.offer(queue)
        return done

    def _run(self, queue: RecordQueue, end: int) -> None:
        batch, begin, context = queue.batch, queue.index, self._context
        plain = batch.headers is None and not self._reads_time and not self._places_headers
        if plain and end == begin + 1:
            self._run_one(queue, begin)
            return
        whole = begin == 0 and end == len(batch.keys)
        values = iter(batch.values if whole else batch.values[begin:end])
        keys = batch.keys if whole else batch.keys[begin:end]
        timestamps = batch.timestamps if whole else batch.timestamps[begin:end]
        context.enter(queue.partition, batch.offsets, end, values)
        head, expiry = queue.source.head, self._expiry
        if plain:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                head(key, value, timestamp)
            if timestamps:
                context.stream_time = max(context.stream_time, max(timestamps))
        else:
            headers: Sequence[Headers | None] = (
                batch.headers[begin:end] if batch.headers is not None else [None] * (end - begin)
            )
            if self._places_headers:
                headers = queue.placed(begin, end, headers)
            # The values come first, so that their iterator has always moved to the current record.
            for value, key, timestamp, context.headers in zip(values, keys, timestamps, headers, strict=True):
                if timestamp > context.stream_time:
                    context.stream_time = timestamp
                    if expiry is not None:
                        expiry.observe(timestamp)
                context.timestamp = timestamp
                head(key, value, timestamp)
                self._punctuate_stream_time(queue, batch.offsets, end, values)
        context.leave()
        queue.advance(end)

    def process_alone(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        offset: int,
        wall_ms: int,
    ) -> bool:
        """``add`` and ``process`` one record without headers, past the queues, while none is queued and no partition is
        waited for.

        Returns False if it needs a closer look, and nothing was done. ``add`` it then.
        """
        if self._reads_time or self._places_headers or self._idle is not None or self.calls is not None:
            return False
        queue = self._group.queues[partition]
        decoded = queue.decode_alone(key, value, timestamp, offset)
        if decoded is None:
            return False
        context = self._context
        context.wall_ms = wall_ms
        context.enter(partition, (offset,), 1, _NONE_LEFT)
        queue.source.head(*decoded, timestamp)
        if timestamp > context.stream_time:
            context.stream_time = timestamp
        context.leave()
        queue.skip(offset, timestamp)
        self._processed += 1
        self._budget.count_processed(1)
        return True

    def _run_one(self, queue: RecordQueue, index: int) -> None:
        """Process a run of a single record: records of two topics alternate if many have the same timestamp."""
        batch, context = queue.batch, self._context
        context.enter(queue.partition, batch.offsets, index + 1, iter(()))
        timestamp = batch.timestamps[index]
        queue.source.head(batch.keys[index], batch.values[index], timestamp)
        if timestamp > context.stream_time:
            context.stream_time = timestamp
        context.leave()
        queue.advance(index + 1)

    def _punctuate_stream_time(
        self, queue: RecordQueue, offsets: Sequence[int], end: int, values: Iterator[object]
    ) -> None:
        punctuations = self._punctuations[PunctuationType.STREAM_TIME]
        if self._context.stream_time >= punctuations.next_ms:
            self._context.leave()
            punctuations.punctuate(self._context.stream_time, self._call_punctuator)
            self._context.enter(queue.partition, offsets, end, values)

    # ---- time ----

    def punctuate(self, wall_ms: int) -> bool:
        """Let the time of idle operators advance, and call the wall-clock punctuators that are due; returns True if
        there were any of either."""
        self._context.wall_ms = self._context.punctuated_ms = wall_ms
        advanced = self._idle is not None and self._idle.advance(wall_ms, self._group.busy_topics(), self._is_flushed)
        return self._punctuations[PunctuationType.WALL_CLOCK_TIME].punctuate(wall_ms, self._call_punctuator) or advanced

    def may_punctuate(self, wall_ms: int) -> bool:
        """Returns True if :meth:`punctuate` may find something to do."""
        return self._idle is not None or self._punctuations[PunctuationType.WALL_CLOCK_TIME].next_ms <= wall_ms

    @property
    def checks_idleness(self) -> bool:
        """True if the host must call :meth:`set_caught_up` for each source partition."""
        return self._idle is not None

    def _is_flushed(self) -> bool:
        """Returns True if no cache holds updates back. If one does, requests a commit, which releases them."""
        if any(store.has_changes for store in self._caches):
            self._context.commit_requested = True
            return False
        self._context.leave()
        return True

    def _call_punctuator(self, node: str, punctuator: Punctuator, now_ms: int) -> None:
        self._context.timestamp = self._context.punctuated_ms = now_ms
        if self._meter is not None and self._meter.running:
            punctuator = self._meter.within(node, punctuator)
        try:
            punctuator(now_ms)
        except Exception as error:
            self._context.failures.in_punctuator(error, node, now_ms)

    def between_records(self, now_ms: int) -> None:
        """Set the context's time to ``now_ms`` until the next record: the time of what the host itself puts into
        stores."""
        self._context.timestamp = now_ms

    def metrics(self) -> TaskMetrics:
        """Returns the counters so far."""
        counted = self._processed, self._context.dropped_records, self._context.stream_time
        punctuated = sum(queue.called for queue in self._punctuations.values())
        return TaskMetrics(*counted, punctuated, self._group.enforced, self._context.failures.counts())

    def close(self) -> None:
        """Close all processors and stores, even if some raise. What is not committed is lost."""
        with ExitStack() as closing:
            closing.callback(self.state_manager.close)
            if self.calls is not None:
                closing.callback(self.calls.close)
            for hosted in reversed(self._processors):
                closing.callback(hosted.processor.close)
