"""Measurements of one task on its actor. They outlive the task's renewal after an aborted transaction.

Processing records costs one call per batch here; rates, averages and maxima are computed on request. The producer
counts the records that sinks send (:class:`~penstock.kafka.contracts.CountingSender`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.actors.task_host.operator_figures import OperatorFigures
from penstock.actors.task_host.partitioner_check import PartitionerCheck
from penstock.actors.task_host.state_meters import StateMeters
from penstock.actors.task_host.time_lag import TimeLag
from penstock.common.ids import TopicPartition
from penstock.common.measures import LatencyCounts, Meter, Sent, Window
from penstock.common.metric_names import NODE, TASK, TOPIC, Measured
from penstock.common.records import RecordBatch
from penstock.kafka.contracts import CountingSender, Sending
from penstock.kafka.counting import RECORD_OVERHEAD
from penstock.tasks.contracts import Send, SenderOf
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task_metrics import TaskMetrics


class ProcessMeter:
    """Number of processed batches, of their records, and their times."""

    __slots__ = ("batches", "largest", "records", "slowest_s", "spent_s")

    def __init__(self) -> None:
        self.batches = self.records = self.largest = 0
        self.spent_s = self.slowest_s = 0.0

    def add(self, records: int, spent_s: float) -> None:
        """Counts a batch of at least one record."""
        self.batches += 1
        self.records += records
        self.spent_s += spent_s
        if records > self.largest:
            self.largest = records
        if spent_s > self.slowest_s * records:
            self.slowest_s = spent_s / records


class _Consumed:
    """Records that were fetched from one topic."""

    def __init__(self) -> None:
        self.records = self.bytes = self.given_up = 0
        self.latencies = LatencyCounts()


class TaskMeters:
    """``sources``: the node that reads each topic. ``partitioners``: the check of the topics' keys. ``operators``: the
    figures of the operators."""

    def __init__(self, sources: Mapping[str, str], partitioners: PartitionerCheck, operators: OperatorFigures) -> None:
        self.partitioners = partitioners
        self.operators = operators
        self.process = ProcessMeter()
        self.punctuate = Meter()
        self.lost_records = 0
        self.stores = StateMeters()
        self.behind = TimeLag()
        self._source_of = sources
        self._lost_at: set[tuple[TopicPartition, int]] = set()
        self._before = TaskMetrics(0, 0, -1)
        self._restored_before = self._restored = 0
        self._consumed: dict[str, _Consumed] = {}
        self._senders: dict[tuple[str, str], CountingSender] = {}
        self._sent: dict[tuple[str, str], Sent] = {}
        self._windows: dict[str, Window] = {}

    # ---- while it works ----

    def consumed(self, batch: RecordBatch, now_ms: int) -> None:
        """Counts the records of ``batch``, which was fetched."""
        self.behind.fetched(batch)
        topic = batch.partition.topic
        consumed = self._consumed.get(topic)
        if consumed is None:
            consumed = self._consumed[topic] = _Consumed()
        consumed.records += len(batch.keys)
        consumed.bytes += batch.size + len(batch.keys) * (len(topic) + RECORD_OVERHEAD)
        latencies, timestamps = consumed.latencies, batch.timestamps
        latencies.add(now_ms - timestamps[0])
        if len(timestamps) > 1:
            latencies.add(now_ms - timestamps[-1])

    def count_lost(self, tp: TopicPartition, position: int, records: int) -> None:
        """Counts records from ``position`` on, deleted before they were read. A repeated call has no effect."""
        if records > 0 and (tp, position) not in self._lost_at:
            self._lost_at.add((tp, position))
            self.lost_records += records

    def sender_of(self, producer: Sending) -> SenderOf:
        """Returns the factory of the sinks' senders, which send through ``producer``."""

        def make(node: str, topic: str) -> Send:
            self._fold(node, topic)
            sender = self._senders[node, topic] = producer.counting()
            return sender.send

        return make

    def _fold(self, node: str, topic: str) -> None:
        if (sender := self._senders.pop((node, topic), None)) is not None:
            self._sent[node, topic] = self._sent.get((node, topic), Sent()) + sender.take()

    def renewed(self, counted: TaskMetrics, queued: Mapping[str, int]) -> None:
        """Note that the task was made again, after it had ``counted`` this much. Its ``queued`` records come again."""
        self._before = self.totals(counted)
        for topic, consumed in self._consumed.items():
            consumed.given_up += queued.get(topic, 0)

    # ---- on request ----

    def totals(self, counted: TaskMetrics) -> TaskMetrics:
        """Returns the counters of all instances of the task, with those of the current one."""
        before = self._before
        return replace(
            counted,
            process_total=before.process_total + counted.process_total,
            dropped_records_total=before.dropped_records_total + counted.dropped_records_total,
            punctuate_total=before.punctuate_total + counted.punctuate_total,
            enforced_processing_total=before.enforced_processing_total + counted.enforced_processing_total,
            handled=before.handled.plus(counted.handled),
        )

    def restored(self, total: int) -> int:
        """Returns the number of all restored records; ``total``: those since the last renewal."""
        if total < self._restored:
            self._restored_before += self._restored
        self._restored = total
        return self._restored_before + total

    def measured(self, counted: TaskMetrics, stores: StateManager, queued: Mapping[str, int], now_s: float) -> Measured:
        """Returns all measurements. ``counted``: totals; ``queued``: queued records per topic."""
        return {
            **self._of_task(counted, stores, sum(queued.values()), now_s),
            **self._of_sources(queued, now_s),
            **self._of_sinks(now_s),
            **self.stores.measured(stores, now_s),
        }

    def _window(self, name: str) -> Window:
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = Window()
        return window

    def _of_task(self, counted: TaskMetrics, stores: StateManager, queued: int, now_s: float) -> Measured:
        process = self.process
        slowest_s, process.slowest_s = process.slowest_s, 0.0
        processing = self._window("process").look(now_s, process.records, process.spent_s, slowest_s)
        punctuating = self._window("punctuate").look_at(self.punctuate, now_s)
        punctuated = self._window("punctuate-total").look(now_s, counted.punctuate_total)
        dropped = self._window("dropped").look(now_s, counted.dropped_records_total)
        enforced = self._window("enforced").look(now_s, counted.enforced_processing_total)
        return {
            (TASK, "process-rate"): processing.rate,
            (TASK, "process-latency-avg"): 1000 * processing.average,
            (TASK, "process-latency-max"): 1000 * processing.highest,
            (TASK, "process-ratio"): processing.per_second,
            (TASK, "punctuate-rate"): punctuated.rate,
            (TASK, "punctuate-total"): counted.punctuate_total,
            (TASK, "punctuate-latency-avg"): 1000 * punctuating.average,
            (TASK, "punctuate-latency-max"): 1000 * punctuating.highest,
            (TASK, "dropped-records-rate"): dropped.rate,
            (TASK, "deserialization-handler-dropped-total"): counted.handled.deserialization,
            (TASK, "processing-handler-dropped-total"): counted.handled.processing,
            (TASK, "production-handler-dropped-total"): counted.handled.production,
            (TASK, "dead-letters-total"): counted.handled.dead_letters,
            (TASK, "enforced-processing-rate"): enforced.rate,
            (TASK, "enforced-processing-total"): counted.enforced_processing_total,
            (TASK, "active-buffer-count"): queued,
            (TASK, "parted-joins"): len(self.partitioners.parted),
            (TASK, "cache-size-bytes-total"): stores.cache_bytes(),
        }

    def _of_sources(self, queued: Mapping[str, int], now_s: float) -> Measured:
        measured: Measured = {}
        processed: dict[str, int] = {}
        ages: dict[str, Sent] = {}
        for topic, consumed in self._consumed.items():
            node = self._source_of.get(topic, topic)
            measured[TOPIC, "records-consumed-total", node, topic] = consumed.records
            measured[TOPIC, "bytes-consumed-total", node, topic] = consumed.bytes
            processed[node] = processed.get(node, 0) + consumed.records - consumed.given_up - queued.get(topic, 0)
            ages[node] = _together(ages.get(node), consumed.latencies.take(0, 0))
        for topic, misplaced in self.partitioners.misplaced.items():
            measured[TOPIC, "misplaced-keys-total", self._source_of.get(topic, topic), topic] = misplaced
        for node, records in processed.items():
            measured[NODE, "process-total", node] = records
            measured[NODE, "process-rate", node] = self._window(f"process {node}").look(now_s, records).rate
            measured |= self._ages(node, ages[node], now_s)
        return measured

    def _of_sinks(self, now_s: float) -> Measured:
        measured: Measured = {}
        nodes: dict[str, Sent] = {}
        for (node, topic), sender in self._senders.items():
            sent = self._sent.get((node, topic), Sent()) + sender.take()
            measured[TOPIC, "records-produced-total", node, topic] = sent.records
            measured[TOPIC, "bytes-produced-total", node, topic] = sent.bytes
            nodes[node] = _together(nodes.get(node), sent)
        for node, sent in nodes.items():
            measured[NODE, "record-e2e-latency", node] = sent.latency
            measured |= self._ages(node, sent, now_s)
        return measured

    def _ages(self, node: str, seen: Sent, now_s: float) -> Measured:
        aged, total = sum(seen.latency.counts), seen.latency.total_ms
        extremes = seen.latency_max_ms or 0, seen.latency_min_ms
        ages = self._window(f"age {node}").look(now_s, aged, total, *extremes)
        return {
            (NODE, "record-e2e-latency-avg", node): ages.average,
            (NODE, "record-e2e-latency-min", node): ages.lowest,
            (NODE, "record-e2e-latency-max", node): ages.highest,
        }


def _together(one: Sent | None, other: Sent) -> Sent:
    """Returns the figures of two topics of a node together."""
    if one is None:
        return other
    both = one + other
    lowest = [each for each in (one.latency_min_ms, other.latency_min_ms) if each is not None]
    highest = [each for each in (one.latency_max_ms, other.latency_max_ms) if each is not None]
    return replace(both, latency_min_ms=min(lowest, default=None), latency_max_ms=max(highest, default=None))
