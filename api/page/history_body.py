"""The last hour of an application as the JSON that the page draws."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable
from typing import Any

from penstock.cluster.read_side import (
    BUSY_STEPS,
    BUSY_UNKNOWN,
    NO_ACTOR,
    ApplicationHistory,
    HistoryEvent,
    Sample,
    Totals,
)
from penstock.common.explained import section_of
from penstock.common.ids import TaskId

_TASK_SERIES = ("records_per_s", "behind_s", "busy", "actor")


def history_body(history: ApplicationHistory, tasks: Collection[TaskId] | None) -> dict[str, Any]:
    """Returns the samples as series, and the events. ``tasks``: those whose series are wanted; None: all.

    Value *i* of each series is that of the step which begins at ``from_ms + i * step_ms``. A step without a sample, and
    a figure that was not known, is null.
    """
    step_ms, samples = history.step_ms, history.samples
    slots = {sample.at_ms // step_ms: sample for sample in samples}
    first, last = (min(slots), max(slots)) if slots else (0, -1)
    steps = [slots.get(slot) for slot in range(first, last + 1)]
    names = sorted({name for sample in samples for name in sample.actors})
    listed = {task for each in {id(it.tasks): it.tasks for it in samples}.values() for task in each}
    wanted = sorted(listed if tasks is None else listed & set(tasks))
    return {
        "step_ms": step_ms,
        "from_ms": first * step_ms if steps else None,
        "began_ms": history.began_ms,
        "samples": {
            "application": _application(steps),
            "actors": names,
            "tasks": _tasks(steps, wanted, {name: place for place, name in enumerate(names)}),
        },
        "events": [_event(event) for event in history.events],
    }


def _application(steps: Iterable[Sample | None]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {name: [] for name in Totals._fields}
    for sample in steps:
        for place, series in enumerate(found.values()):
            series.append(None if sample is None else _rounded(sample.totals[place]))
    return found


def _tasks(
    steps: Iterable[Sample | None], wanted: Iterable[TaskId], index: dict[str, int]
) -> dict[str, dict[str, list[float | None]]]:
    found: dict[TaskId, dict[str, list[float | None]]] = {task: {name: [] for name in _TASK_SERIES} for task in wanted}
    places: dict[int, dict[TaskId, int]] = {}
    for sample in steps:
        if sample is None:
            for series in found.values():
                for values in series.values():
                    values.append(None)
            continue
        if id(sample.tasks) not in places:
            places[id(sample.tasks)] = {task: place for place, task in enumerate(sample.tasks)}
        place_of, actors = places[id(sample.tasks)], [index[name] for name in sample.actors]
        read = {
            "records_per_s": _reader(sample.records_per_s),
            "behind_s": _reader(sample.behind_s),
            "busy": _busy_reader(sample.busy),
            "actor": _actor_reader(sample.actor, actors),
        }
        for task, series in found.items():
            place = place_of.get(task)
            for name, values in series.items():
                values.append(None if place is None else read[name](place))
    return {str(task): series for task, series in found.items()}


def _reader(column: array[float]) -> Callable[[int], float | None]:
    return lambda place: _rounded(column[place])


def _busy_reader(column: array[int]) -> Callable[[int], float | None]:
    return lambda place: None if column[place] == BUSY_UNKNOWN else column[place] / BUSY_STEPS


def _actor_reader(column: array[int], actors: list[int]) -> Callable[[int], int | None]:
    return lambda place: None if column[place] == NO_ACTOR else actors[column[place]]


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)


def _event(event: HistoryEvent) -> dict[str, Any]:
    return {
        "at_ms": event.at_ms,
        "until_ms": event.until_ms,
        "times": event.times,
        "kind": event.kind.value,
        "level": event.level.value,
        "actor_id": event.actor_id,
        "task_id": None if event.task_id is None else str(event.task_id),
        "sentence": event.sentence,
        "page": None if event.message is None else section_of(event.message),
    }
