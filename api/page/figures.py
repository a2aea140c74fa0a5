"""Figures of operators, topics and stores, added up over the tasks that report them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from penstock.api.page.deltas import Row
from penstock.cluster.read_side import TaskState, TaskStatus
from penstock.common.metric_names import NODE, STATE, TOPIC

_BREAKER = {0: "closed", 1: "trying one call", 2: "open"}
TOPIC_COUNTS = ("records-consumed-total", "bytes-consumed-total", "records-produced-total", "bytes-produced-total")
"""The counts of a topic whose rates the page shows."""
TopicCount = tuple[str, str]
"""A topic, and one of ``TOPIC_COUNTS``."""


def operators_of(tasks: Iterable[TaskStatus]) -> dict[str, Row]:
    """Returns the row of each operator (processor node) that has figures."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    subtopologies: dict[str, int] = {}
    for task in tasks:
        for key, value in task.measured.items():
            if key[0] == NODE and isinstance(value, int | float):
                found[key[2]][key[1]].append(value)
                subtopologies[key[2]] = task.task_id.subtopology
    return {name: _operator(subtopologies[name], figures) for name, figures in found.items()}


def _operator(subtopology: int, figures: Mapping[str, list[float]]) -> Row:
    breaker = _of(figures, "calls-breaker-state", max)
    entered = "records-rate" if "records-rate" in figures else "process-rate"  # sources have the second one
    return {
        "subtopology": subtopology,
        "records_per_s": rounded(_of(figures, entered, sum)),
        "busy": rounded(_of(figures, "busy-ratio", max), 3),
        "busy_sum": rounded(_of(figures, "busy-ratio", sum), 3),
        "calls_in_flight": _of(figures, "calls-in-flight", sum),
        "calls_waiting": _of(figures, "calls-waiting", sum),
        "breaker": None if breaker is None else _BREAKER.get(int(breaker)),
    }


def topic_counts_of(tasks: Iterable[TaskStatus]) -> dict[tuple[object, ...], int]:
    """Returns the counts of topics that each task reports. The key is the task, the operator, the topic and the name
    of the count."""
    return {
        (task.task_id, key[2], key[3], key[1]): int(value)
        for task in tasks
        for key, value in task.measured.items()
        if key[0] == TOPIC and key[1] in TOPIC_COUNTS and isinstance(value, int | float)
    }


def topics_of(tasks: Iterable[TaskStatus], rates: Mapping[TopicCount, float] | None) -> dict[str, Row]:
    """Returns the row of each topic that tasks read or write. ``rates``: those of its counts per second, None while
    they are not known."""
    lags: dict[str, int | None] = {topic: None for topic, _ in rates or ()}
    for task in tasks:
        for partition, lag in task.lags.items():
            lags[partition.topic] = (lags.get(partition.topic) or 0) + lag
    known = rates or {}
    names = ("records_in_per_s", "bytes_in_per_s", "records_out_per_s", "bytes_out_per_s")
    return {
        topic: {
            **{
                name: rounded(known.get((topic, count)))
                for name, count in zip(names, TOPIC_COUNTS, strict=True)
            },
            "lag": lag,
        }
        for topic, lag in lags.items()
    }  # fmt: skip


def stores_of(tasks: Iterable[TaskStatus]) -> dict[str, Row]:
    """Returns the row of each store that tasks report."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    restoring: defaultdict[str, int] = defaultdict(int)
    subtopologies: dict[str, int] = {}
    for task in tasks:
        stores = {key[2] for key in task.measured if key[0] == STATE}
        for store in stores:
            subtopologies[store] = task.task_id.subtopology
            restoring[store] += task.state is TaskState.RESTORING
        for key, value in task.measured.items():
            if key[0] == STATE and isinstance(value, int | float):
                found[key[2]][key[1]].append(value)
    return {name: _store(subtopologies[name], found[name], restoring[name]) for name in subtopologies}


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
