"""The last hour of an application as the JSON that the page draws."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.api.status import findings_body
from penstock.cluster.read_side import (
    BUSY_STEPS,
    BUSY_UNKNOWN,
    NO_ACTOR,
    TASK_STATES,
    ApplicationHistory,
    HistoryEvent,
    Sample,
    Totals,
)
from penstock.common.explained import section_of
from penstock.common.ids import TaskId

N = TypeVar("N", TaskId, str)
_Reader = Callable[[int], float | None]
"""Returns the figure at a place of a column."""
_Readers = Mapping[str, _Reader]


def history_json(history: ApplicationHistory, tasks: Collection[TaskId] | None, details: bool) -> dict[str, Any]:
    """Returns the samples as series, and the events. ``tasks``: those whose series are wanted; None: all. ``details``:
    the series of operators and topics, and the findings, are wanted too.

    Value *i* of each series is that of the step which begins at ``from_ms + i * step_ms``. A step without a sample, and
    a figure that was not known, is null.
    """
    step_ms, samples = history.step_ms, history.samples
    slots = {sample.at_ms // step_ms: sample for sample in samples}
    first, last = (min(slots), max(slots)) if slots else (0, -1)
    steps = [slots.get(slot) for slot in range(first, last + 1)]
    names = sorted({name for sample in samples for name in sample.actors})
    chosen = None if tasks is None else set(tasks)
    of_tasks = _series(steps, lambda it: it.tasks, _readers_of_tasks(names), chosen)
    return {
        "step_ms": step_ms,
        "from_ms": first * step_ms if steps else None,
        "began_ms": history.began_ms,
        "samples": {
            "application": _application(steps),
            "actors": names,
            "states": list(TASK_STATES),
            "tasks": {str(task): series for task, series in sorted(of_tasks.items())},
            "operators": _series(steps, lambda it: it.flow.operators, _readers_of_operators) if details else {},
            "topics": _series(steps, lambda it: it.flow.topics, _readers_of_topics) if details else {},
            "findings": [_finding(sample) for sample in steps] if details else [],
        },
        "events": [_event(event) for event in history.events],
    }


def _application(steps: Iterable[Sample | None]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {name: [] for name in Totals._fields}
    for sample in steps:
        for place, series in enumerate(found.values()):
            series.append(None if sample is None else _rounded(sample.totals[place]))
    return found


def _series(
    steps: Sequence[Sample | None],
    names_of: Callable[[Sample], tuple[N, ...]],
    readers_of: Callable[[Sample], _Readers],
    wanted: set[N] | None = None,
) -> dict[N, dict[str, list[float | None]]]:
    """Returns the series of each name that a sample has; ``wanted``: only of these."""
    known = [sample for sample in steps if sample is not None]
    if not known or wanted == set():
        return {}
    lists = {id(names_of(sample)): names_of(sample) for sample in known}
    listed = {name for names in lists.values() for name in names}
    figures = list(readers_of(known[0]))
    found: dict[N, dict[str, list[float | None]]] = {
        name: {figure: [] for figure in figures} for name in (listed if wanted is None else listed & wanted)
    }
    places = {of: {name: place for place, name in enumerate(names)} for of, names in lists.items()}
    for sample in steps:
        readers = {} if sample is None else readers_of(sample)
        place_of = {} if sample is None else places[id(names_of(sample))]
        for name, series in found.items():
            place = place_of.get(name)
            for figure, values in series.items():
                values.append(None if place is None else readers[figure](place))
    return found


def _readers_of_tasks(names: list[str]) -> Callable[[Sample], _Readers]:
    index = {name: place for place, name in enumerate(names)}
    return lambda sample: {
        "records_per_s": _reader(sample.records_per_s),
        "behind_s": _reader(sample.behind_s),
        "busy": _busy_reader(sample.busy),
        "actor": _actor_reader(sample.actor, [index[name] for name in sample.actors]),
        "state": sample.state.__getitem__,
    }


def _readers_of_operators(sample: Sample) -> _Readers:
    return {"records_per_s": _reader(sample.flow.entered_per_s), "busy": _busy_reader(sample.flow.busy)}


def _readers_of_topics(sample: Sample) -> _Readers:
    flow = sample.flow
    return {"records_in_per_s": _reader(flow.read_per_s), "records_out_per_s": _reader(flow.written_per_s)}


def _reader(column: array[float]) -> _Reader:
    return lambda place: _rounded(column[place])


def _busy_reader(column: array[int]) -> _Reader:
    return lambda place: None if column[place] == BUSY_UNKNOWN else column[place] / BUSY_STEPS


def _actor_reader(column: array[int], actors: list[int]) -> _Reader:
    return lambda place: None if column[place] == NO_ACTOR else actors[column[place]]


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)


def _finding(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None or sample.finding is None:
        return None
    (body,) = findings_body([sample.finding])
    return body


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
