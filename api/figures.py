"""Figures of actors, operators, topics and stores, as tasks report them: for the page and ``penstock top``. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.cluster.missing_brokers import BrokerLosses
from penstock.cluster.operator_figures import busiest, entered
from penstock.cluster.read_side import ActorStatus, TaskState, TaskStatus
from penstock.common.ids import TaskId
from penstock.common.metric_names import NODE, STATE, THREAD, TOPIC

Row = dict[str, Any]

_ROCKSDB_SUMS = {
    "background-errors": "background_errors",
    "compaction-pending": "compaction_pending",
    "cur-size-all-mem-tables": "cur_size_all_mem_tables_bytes",
    "estimate-pending-compaction-bytes": "estimate_pending_compaction_bytes",
    "live-sst-files-size": "live_sst_files_size_bytes",
    "mem-table-flush-pending": "mem_table_flush_pending",
    "num-running-compactions": "num_running_compactions",
    "num-running-flushes": "num_running_flushes",
}
"""Figures of RocksDB by their metrics. Their names end with the unit, by which the page writes them."""
_ROCKSDB_OF_ACTOR = {
    "block-cache-capacity": "block_cache_capacity_bytes",
    "block-cache-usage": "block_cache_usage_bytes",
}
"""Each store reports that of the whole actor."""
_STALLS = {
    "write-stall-duration-total": "write_stall_ms",
    "actual-delayed-write-rate": "delayed_write_bytes_per_s",
    "is-write-stopped": "tasks_with_writes_stopped",
}
"""Each store reports that of its task's database."""
_RATIO = "-ratio"
_GC = {"gc-total": "total", "gc-full-total": "full_total", "gc-latency-max": "latency_max_ms"}
_BREAKER = {0: "closed", 1: "trying one call", 2: "open"}
TOPIC_COUNTS = ("records-consumed-total", "bytes-consumed-total", "records-produced-total", "bytes-produced-total")
"""The counts of a topic whose rates the page shows."""
TopicCount = tuple[str, str]
"""A topic, and one of ``TOPIC_COUNTS``."""


Measured = tuple[TaskStatus, tuple[str, ...], float]
"""A figure with its key, and the task that has measured it."""
_NUMBERS = frozenset({int, float})


def measured_of(tasks: Iterable[TaskStatus]) -> dict[str, list[Measured]]:
    """Returns the figures of operators, topics and stores by their groups; distributions are left out. There may be
    hundreds for each task, so they are looked through once."""
    found: dict[str, list[Measured]] = {NODE: [], TOPIC: [], STATE: []}
    for task in tasks:
        for key, value in task.measured.items():
            if (rows := found.get(key[0])) is not None and type(value) in _NUMBERS:
                rows.append((task, key, value))  # type: ignore[arg-type]  # a call of cast() would take as long
    return found


def operators_of(measured: Iterable[Measured], actors: Iterable[ActorStatus]) -> dict[str, Row]:
    """Returns the row of each operator (processor node) that has figures. ``actors``: those that have the tasks."""
    found: dict[str, dict[str, list[float]]] = {}
    subtopologies: dict[str, int] = {}
    # While a task moves, two actors may report it.
    where = {id(task): actor.actor_id for actor in actors for task in actor.tasks}
    busy: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for task, (_, name, node), value in measured:
        if node not in found:
            found[node], subtopologies[node] = {}, task.task_id.subtopology
        if name == "busy-ratio":
            busy[node][where[id(task)]] += value
        else:
            found[node].setdefault(name, []).append(value)
    for node, shares in busy.items():  # the tasks of an actor take turns
        found[node]["busy-ratio"] = [min(1.0, share) for share in shares.values()]
    return {name: _operator(subtopologies[name], figures) for name, figures in found.items()}


def _operator(subtopology: int, figures: Mapping[str, list[float]]) -> Row:
    breaker = _of(figures, "calls-breaker-state", max)
    return {
        "subtopology": subtopology,
        "records_per_s": rounded(entered(figures)),
        "busy": rounded(busiest(figures), 3),
        "busy_sum": rounded(_of(figures, "busy-ratio", sum), 3),
        "calls_in_flight": _of(figures, "calls-in-flight", sum),
        "calls_waiting": _of(figures, "calls-waiting", sum),
        "breaker": None if breaker is None else _BREAKER.get(int(breaker)),
    }


def topic_counts_of(measured: Iterable[Measured]) -> dict[tuple[object, ...], int]:
    """Returns the counts of topics that each task reports. The key is the task, the operator, the topic and the name
    of the count."""
    return {
        (task.task_id, key[2], key[3], key[1]): int(value) for task, key, value in measured if key[1] in TOPIC_COUNTS
    }


def topics_of(
    tasks: Iterable[TaskStatus], rates: Mapping[TopicCount, float] | None, losses: BrokerLosses
) -> dict[str, Row]:
    """Returns the row of each topic that tasks read or write, or that misses a broker. ``rates``: those of its counts
    per second, None while they are not known."""
    lags: dict[str, int | None] = {topic: None for topic, _ in (*(rates or ()), *losses.counts)}
    for task in tasks:
        for partition, lag in task.lags.items():
            lags[partition.topic] = (lags.get(partition.topic) or 0) + lag
    known = rates or {}
    missing = {topic: [each.named for each in losses.missing if topic in each.topics] for topic, _ in losses.counts}
    leaderless: defaultdict[str, list[int]] = defaultdict(list)
    for at in sorted(losses.without_leader):
        leaderless[at.topic].append(at.partition)
    names = ("records_in_per_s", "bytes_in_per_s", "records_out_per_s", "bytes_out_per_s")
    return {
        topic: {
            **{
                name: rounded(known.get((topic, count)))
                for name, count in zip(names, TOPIC_COUNTS, strict=True)
            },
            "lag": lag,
            "without_leader": leaderless.get(topic, []),
            "missing_brokers": missing.get(topic, []),
        }
        for topic, lag in lags.items()
    }  # fmt: skip


def stores_of(measured: Iterable[Measured]) -> dict[str, Row]:
    """Returns the row of each store that tasks report."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    restoring: defaultdict[str, set[TaskId]] = defaultdict(set)
    subtopologies: dict[str, int] = {}
    for task, key, value in measured:
        found[key[2]][key[1]].append(value)
        subtopologies[key[2]] = task.task_id.subtopology
        if task.state is TaskState.RESTORING:
            restoring[key[2]].add(task.task_id)
    return {name: _store(subtopologies[name], found[name], len(restoring[name])) for name in subtopologies}


def rocksdb_of(measured: Iterable[Measured]) -> dict[TaskId, dict[str, float]]:
    """Returns the figures of RocksDB of each task, all its stores together. Of write stalls: the ms for which writes
    have waited, the bytes per second to which they are slowed down now (0: they are not), and 1 if there are none
    now."""
    found: defaultdict[TaskId, dict[str, float]] = defaultdict(dict)
    for task, (_, name, *_), value in measured:
        if name in _ROCKSDB_SUMS:
            _add(found[task.task_id], _ROCKSDB_SUMS[name], value, together=True)
        elif (shared := _STALLS.get(name) or _ROCKSDB_OF_ACTOR.get(name)) is not None:
            _add(found[task.task_id], shared, value, together=False)
    return found


def rocksdb_of_actor(tasks: Iterable[TaskId], of_tasks: Mapping[TaskId, Mapping[str, float]]) -> dict[str, float]:
    """Returns the figures of RocksDB of all tasks of an actor together."""
    found: dict[str, float] = {}
    for task in tasks:
        for name, value in of_tasks.get(task, {}).items():
            _add(found, name, value, together=name not in _ROCKSDB_OF_ACTOR.values())
    return found


def thread_figures_of(actor: ActorStatus) -> dict[str, float]:
    """Returns the figures of an actor's thread; distributions are left out."""
    return {
        key[1]: value for key, value in actor.measured.items() if key[0] == THREAD and isinstance(value, int | float)
    }


def shares_of(figures: Mapping[str, float]) -> dict[str, float]:
    """Returns the shares of the time of an actor's thread, such as ``process`` and ``broker_wait``. Some overlap: the
    garbage collector is at work during others, and a commit waits for a broker."""
    return {
        name.removesuffix(_RATIO).replace("-", "_"): round(value, 3)
        for name, value in figures.items()
        if name.endswith(_RATIO)
    }


def gc_of(figures: Mapping[str, float]) -> dict[str, float]:
    """Returns the figures of Python's garbage collection in an actor, by names that end with the unit."""
    return {_GC[name]: round(value, 3) for name, value in figures.items() if name in _GC}


def _add(to: dict[str, float], name: str, value: float, together: bool) -> None:
    before = to.get(name, 0)
    to[name] = before + value if together else max(before, value)


def _store(subtopology: int, figures: Mapping[str, list[float]], restoring: int) -> Row:
    rows = [each for name in ("num-keys", "estimate-num-keys") for each in figures.get(name, ())]
    sizes = [each for name in ("live-sst-files-size", "cur-size-all-mem-tables") for each in figures.get(name, ())]
    return {
        "subtopology": subtopology,
        "rows": int(sum(rows)) if rows else None,
        "bytes": int(sum(sizes)) if sizes else None,
        "restoring": restoring,
    }


def _of(figures: Mapping[str, list[float]], name: str, together: Callable[[list[float]], float]) -> float | None:
    return together(figures[name]) if name in figures else None


def rounded(value: float | None, digits: int = 1) -> float | None:
    """Returns ``value`` with few digits, so that a row changes only if people would see it."""
    return None if value is None else round(value, digits)
