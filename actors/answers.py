"""Answers to questions about stores, given by the loop that owns the tasks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.actors.hosted_task import HostedTask
from penstock.actors.messages import QueryFailure, QueryKind, StoreAnswer, StoreQuery, TaskState
from penstock.common.ids import TaskId
from penstock.tasks.queries import Row, approximate_num_entries, look_up, scan

_UNCHANGEABLE = frozenset({int, str, bytes, float, bool, type(None)})


def answer(tasks: Mapping[TaskId, HostedTask], query: StoreQuery) -> StoreAnswer:
    """The answer to one question; it never raises."""
    hosted = tasks.get(query.task_id)
    if hosted is None:
        return StoreAnswer(failure=QueryFailure.NOT_PRESENT, detail=f"task {query.task_id} is not on this actor")
    if query.store not in hosted.task.store_names:
        known = ", ".join(hosted.task.store_names) or "none"
        detail = f"task {query.task_id} has no store {query.store!r}; it has: {known}"
        return StoreAnswer(failure=QueryFailure.DOES_NOT_EXIST, detail=detail)
    if hosted.state is not TaskState.RUNNING:
        return StoreAnswer(failure=QueryFailure.NOT_ACTIVE, detail=f"task {query.task_id} is {hosted.state.value}")
    try:
        return _read(hosted, query)
    except Exception as error:  # a store that cannot be read is the asker's answer, not the loop's end
        return StoreAnswer(failure=QueryFailure.STORE_EXCEPTION, detail=f"{type(error).__name__}: {error}")


def _read(hosted: HostedTask, query: StoreQuery) -> StoreAnswer:
    task = hosted.task
    if query.kind is QueryKind.COUNT:
        return StoreAnswer(count=approximate_num_entries(task, query.store))
    if query.kind is QueryKind.KEY:
        row = None if query.key is None else look_up(task, query.store, query.key, query.committed)
        rows: Iterable[Row] = () if row is None else (row,)
    else:
        rows = scan(task, query.store, query.from_key, query.to_key, query.limit, query.committed)
    return StoreAnswer(rows=tuple((key, _snapshot(value), timestamp) for key, value, timestamp in rows))


def _snapshot(value: Any) -> Any:
    # The answer is pickled in another thread while this one goes on processing: an aggregate that a user function
    # changes in place must not change on its way.
    return value if type(value) in _UNCHANGEABLE else copy.deepcopy(value)
