"""The metrics that actors measure: Kafka Streams' groups and names, with descriptions.

A group has the same tags everywhere. Every metric has the tag ``application-id``, and those of an actor have
``thread-id`` and, except in the first two groups, ``task-id`` before the tags that are named here.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.measures import Distribution

THREAD = "stream-thread-metrics"
UPDATER = "stream-state-updater-metrics"
TASK = "stream-task-metrics"
NODE = "stream-processor-node-metrics"
TOPIC = "stream-topic-metrics"
STATE = "stream-state-metrics"

TAGS = {
    THREAD: (),
    UPDATER: (),
    TASK: ("task-id",),
    NODE: ("task-id", "processor-node-id"),
    TOPIC: ("task-id", "processor-node-id", "topic-name"),
    STATE: ("task-id", "state-id"),
}
"""The tags of each group after ``application-id`` and ``thread-id``. In Kafka Streams the name of the last one includes
the kind of store (``rocksdb-state-id``); here it is the same for all."""

Measured = dict[tuple[str, ...], "float | Distribution"]
"""(group, name, tags after ``task-id``) -> value."""


@dataclass(frozen=True)
class MetricKind:
    """A metric: one name of a group, with its description."""

    group: str
    name: str
    description: str

    @property
    def counter(self) -> bool:
        """True if the metric only grows."""
        return self.name.endswith("-total") and self.name not in _NO_COUNTERS


_NO_COUNTERS = {"cache-size-bytes-total"}
_OF_LATE = ", of the last half minute"


def _kinds(group: str, *metrics: tuple[str, str]) -> list[MetricKind]:
    return [MetricKind(group, name, what) for name, what in metrics]


def _timed(group: str, name: str, what: str) -> list[MetricKind]:
    return _kinds(
        group,
        (f"{name}-rate", f"{what} per second{_OF_LATE}"),
        (f"{name}-total", what),
        (f"{name}-latency-avg", f"How long one of them took on average, in ms{_OF_LATE}: {what}"),
        (f"{name}-latency-max", f"How long one of them took at most, in ms{_OF_LATE}: {what}"),
    )


def _ratio(name: str, what: str) -> MetricKind:
    return MetricKind(THREAD, f"{name}-ratio", f"Share of the time that the thread spent {what}{_OF_LATE}")


_POLLED = "Records that a poll brought"
_PROCESSED = "Records that were processed between two polls of one task's turn"
_PROPERTIES = (
    ("num-immutable-mem-table", "RocksDB: memtables that are full and not flushed"),
    ("cur-size-active-mem-table", "RocksDB: bytes of the memtable that is written to"),
    ("cur-size-all-mem-tables", "RocksDB: bytes of memtables that are not flushed"),
    ("size-all-mem-tables", "RocksDB: bytes of all memtables, those that are still read included"),
    ("num-entries-active-mem-table", "RocksDB: entries of the memtable that is written to"),
    ("num-entries-imm-mem-tables", "RocksDB: entries of memtables that are full"),
    ("num-deletes-active-mem-table", "RocksDB: deletions in the memtable that is written to"),
    ("num-deletes-imm-mem-tables", "RocksDB: deletions in memtables that are full"),
    ("mem-table-flush-pending", "RocksDB: 1 while a flush of a memtable waits"),
    ("num-running-flushes", "RocksDB: flushes under way"),
    ("compaction-pending", "RocksDB: 1 while a compaction waits"),
    ("num-running-compactions", "RocksDB: compactions under way"),
    ("estimate-pending-compaction-bytes", "RocksDB: about how many bytes compactions will rewrite"),
    ("total-sst-files-size", "RocksDB: bytes of all table files"),
    ("live-sst-files-size", "RocksDB: bytes of the table files of the latest version"),
    ("num-live-versions", "RocksDB: versions of the set of files that are in use"),
    ("block-cache-capacity", "RocksDB: bytes that the block cache may take, of the whole actor"),
    ("block-cache-usage", "RocksDB: bytes that the block cache takes, of the whole actor"),
    ("block-cache-pinned-usage", "RocksDB: bytes of the block cache that cannot be evicted, of the whole actor"),
    ("estimate-num-keys", "RocksDB: about how many keys there are"),
    ("estimate-table-readers-mem", "RocksDB: bytes of indexes and filters outside of the block cache"),
    ("actual-delayed-write-rate", "RocksDB: bytes per second to which it slows writes down; 0: it does not"),
    ("is-write-stopped", "RocksDB: 1 while it takes no writes, because too much waits to be flushed or compacted"),
    ("background-errors", "RocksDB: errors of flushes and compactions"),
)
_AGE = "of a record when a sink sent it, or a source read it: wall clock less the record's timestamp, in ms"

KINDS: tuple[MetricKind, ...] = (
    *_timed(THREAD, "poll", "Polls of the consumer"),
    *_timed(THREAD, "process", "Records processed"),
    *_timed(THREAD, "punctuate", "Calls of punctuators"),
    *_kinds(
        THREAD,
        ("poll-records-avg", f"{_POLLED} on average{_OF_LATE}"),
        ("poll-records-max", f"{_POLLED} at most{_OF_LATE}"),
        ("process-records-avg", f"{_PROCESSED} on average{_OF_LATE}"),
        ("process-records-max", f"{_PROCESSED} at most{_OF_LATE}"),
        ("commit-rate", f"Commits per second{_OF_LATE}"),
        ("task-created-rate", f"Tasks opened per second{_OF_LATE}"),
        ("task-created-total", "Tasks opened"),
        ("task-closed-rate", f"Tasks closed per second{_OF_LATE}"),
        ("task-closed-total", "Tasks closed"),
        ("thread-start-time", "When the thread was started, in ms since 1970"),
        ("thread-state", "State: 3 PARTITIONS_ASSIGNED, tasks restore; 4 RUNNING; 5 PENDING_SHUTDOWN; 6 DEAD"),
    ),
    _ratio("poll", "polling"),
    _ratio("process", "processing records"),
    _ratio("punctuate", "in punctuators by the wall clock"),
    _ratio("commit", "in commits while records waited"),
    _ratio("idle", "without anything to do, while no broker had more records"),
    _ratio("fetch-wait", "without anything to do, while a broker had records that were not here yet"),
    _ratio("broker-wait", "waiting for a broker or the coordinator, in a commit or a change of tasks"),
    _ratio("restore", "restoring, and keeping standbys and global stores up to date"),
    _ratio("query", "answering queries and other requests"),
    _ratio("gc", "in Python's garbage collector, which stops the whole process"),
    *_kinds(
        THREAD,
        ("gc-total", "Collections of Python's garbage collector"),
        ("gc-full-total", "Of these, collections of all objects"),
        ("gc-latency-max", f"How long a collection took at most, in ms{_OF_LATE}"),
    ),
    *_kinds(UPDATER, ("restore-records-rate", "Changelog records restored per second of late, all tasks together")),
    *_kinds(
        TASK,
        ("process-rate", f"Records processed per second{_OF_LATE}"),
        ("process-latency-avg", f"How long a record took on average, in ms{_OF_LATE}"),
        ("process-latency-max", f"How long a record took in the slowest batch, in ms{_OF_LATE}"),
        ("process-ratio", f"Share of the time that the task was processing records{_OF_LATE}"),
        ("active-process-ratio", f"The task's share of the time that its thread spent processing{_OF_LATE}"),
        ("punctuate-rate", f"Calls of punctuators per second{_OF_LATE}"),
        ("punctuate-total", "Calls of punctuators, by either clock"),
        ("punctuate-latency-avg", f"How long the punctuators took that were due at once, on average, in ms{_OF_LATE}"),
        ("punctuate-latency-max", f"How long the punctuators took that were due at once, at most, in ms{_OF_LATE}"),
        ("dropped-records-rate", f"Records dropped per second{_OF_LATE}"),
        ("deserialization-handler-dropped-total", "Dropped records that deserialization.exception.handler has dropped"),
        ("processing-handler-dropped-total", "Dropped records that processing.exception.handler has dropped"),
        ("production-handler-dropped-total", "Dropped results that production.exception.handler has dropped"),
        ("dead-letters-total", "Dead letters written"),
        ("enforced-processing-rate", f"How often per second records were processed without waiting longer{_OF_LATE}"),
        ("enforced-processing-total", "How often an empty partition was waited for in vain"),
        ("active-buffer-count", "Records that are fetched and not yet processed"),
        ("parted-joins", "Joins and merges of topics that different partitioners wrote: their results are incomplete"),
        ("cache-size-bytes-total", "Bytes of updates that wait for the commit, as the cache counts them"),
        ("checkpoint-total", "Checkpoints of the task that were stored"),
        ("checkpoint-failed-total", "Attempts to store a checkpoint of the task that failed"),
        ("checkpoint-uploaded-bytes-total", "Bytes uploaded for checkpoints of the task"),
        ("checkpoint-size-bytes", "Bytes of all files of the newest checkpoint that was stored here"),
        ("checkpoint-age-ms", "Time since the commit that the newest checkpoint stored here holds, in ms"),
        ("checkpoint-time-ms", "How long the newest checkpoint took, from its flush to its manifest, in ms"),
        ("checkpoint-pause-max", "Longest time for which records waited for a checkpoint, in ms"),
        ("checkpoint-restored-bytes", "Bytes of the checkpoint with which the task began here; 0 without one"),
    ),
    *_kinds(
        NODE,
        ("process-total", "Records processed, of sources"),
        ("process-rate", f"Records processed per second, of sources{_OF_LATE}"),
        ("records-rate", f"Records per second that entered the operator, estimated{_OF_LATE}"),
        ("busy-ratio", f"Share of its actor's time that the operator took itself, estimated{_OF_LATE}"),
        ("record-e2e-latency-avg", f"Average age {_AGE}{_OF_LATE}"),
        ("record-e2e-latency-min", f"Smallest age {_AGE}{_OF_LATE}"),
        ("record-e2e-latency-max", f"Largest age {_AGE}{_OF_LATE}"),
        ("record-e2e-latency", "Ages of all records that a sink has sent: wall clock less timestamp, in ms"),
        ("calls-in-flight", "Calls out that run"),
        ("calls-waiting", "Records that wait for their call, for another try, or for their turn to be forwarded"),
        ("calls-total", "Tries of calls out that were begun"),
        ("calls-retried-total", "Tries of calls out after a failure"),
        ("calls-timed-out-total", "Records whose call had no result in time"),
        ("calls-failed-total", "Records whose call has finally failed, including time-outs"),
        ("calls-shared-total", "Records that got the result of another call with the same value, or from the cache"),
        ("calls-breaker-state", "Circuit breaker of the calls: 0 closed, 1 trying one call, 2 open"),
        ("calls-latency-p50", "Median time from the first try of a record to its end, in ms, of the last 1000"),
        ("calls-latency-p99", "99th percentile of that time, in ms, of the last 1000"),
    ),
    *_kinds(
        TOPIC,
        ("records-consumed-total", "Records read from the topic"),
        ("bytes-consumed-total", "Bytes read from the topic"),
        ("misplaced-keys-total", "Of the keys looked at, those that Kafka's default partitioner puts elsewhere"),
        ("records-produced-total", "Records sent to the topic"),
        ("bytes-produced-total", "Bytes sent to the topic"),
    ),
    *_kinds(
        STATE,
        ("num-keys", "Keys of a store in memory"),
        ("num-open-iterators", "Scans of the store on disk that are under way"),
        ("cache-misses-total", "Committed rows that were needed and not in memory"),
        ("suppression-buffer-count-avg", f"Updates that wait in suppress, on average{_OF_LATE}"),
        ("suppression-buffer-count-max", f"Updates that wait in suppress, at most{_OF_LATE}"),
        ("suppression-buffer-size-avg", f"Bytes of the updates that wait in suppress, on average{_OF_LATE}"),
        ("suppression-buffer-size-max", f"Bytes of the updates that wait in suppress, at most{_OF_LATE}"),
        ("write-stall-duration-total", "RocksDB: ms for which writes of the task's stores on disk have waited"),
        *_PROPERTIES,
    ),
)  # fmt: skip
"""Every metric that is measured where tasks run, in the order in which they are shown."""
