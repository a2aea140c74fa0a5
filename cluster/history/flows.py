"""Adds up the figures of operators and topics over the tasks of an application, for samples."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.actors.status import ActorStatus
from penstock.cluster.application_history import BUSY_STEPS, BUSY_UNKNOWN, Flow
from penstock.cluster.operator_figures import busiest, entered
from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId
from penstock.common.metric_names import NODE, TOPIC

MOST_NAMES = 2000
"""Most operators, and most topics, whose names are kept after they are gone."""
_READ, _WRITTEN = "records-consumed-total", "records-produced-total"
_NUMBERS = frozenset({int, float})


class _Key(NamedTuple):
    """A count of a task: of the records that one of its operators reads from a topic, or writes to it."""

    task: TaskId
    figure: str
    operator: str
    topic: str


class Flows:
    """Counts of the sample before. The lists of names rarely change: a name that is known stays, with gaps."""

    def __init__(self) -> None:
        self._counts: dict[_Key, tuple[str, float]] = {}  # with the actor that has counted
        self._operators: tuple[str, ...] = ()
        self._topics: tuple[str, ...] = ()

    def take(self, status: ApplicationStatus, seconds: Mapping[str, float]) -> Flow:
        """Returns the figures now. ``seconds``: since the sample before, by the clock of each actor; 0: it has given no
        status since, so that its figures are not known."""
        operators: dict[str, dict[str, list[float]]] = {}
        counts: dict[_Key, tuple[str, float]] = {}
        for actor in status.actors:
            if seconds.get(actor.actor_id) and actor.actor_id not in status.silent:
                _add_operators(actor, operators)
                _add_counts(actor, counts)
        rates = self._rates(counts, seconds)
        self._counts = counts
        self._operators = _with(self._operators, operators)
        self._topics = _with(self._topics, (topic for topic, _ in rates))
        figures = [operators.get(name, {}) for name in self._operators]
        return Flow(
            self._operators,
            self._topics,
            array("f", (_or_nan(entered(each)) for each in figures)),
            array("B", (_steps(busiest(each)) for each in figures)),
            array("f", (rates.get((topic, _READ), math.nan) for topic in self._topics)),
            array("f", (rates.get((topic, _WRITTEN), math.nan) for topic in self._topics)),
        )

    def _rates(
        self, counts: Mapping[_Key, tuple[str, float]], seconds: Mapping[str, float]
    ) -> dict[tuple[str, str], float]:
        """Records per second by topic and figure. A count that was never seen may be of days: it has no rate."""
        found: dict[tuple[str, str], float] = {}
        for key, (actor, count) in counts.items():
            before_actor, before = self._counts.get(key, (actor, count))
            gained = count - before if actor == before_actor and count >= before else count
            rate = gained / seconds[actor] if key in self._counts else math.nan
            known = found.get((key.topic, key.figure), math.nan)
            found[key.topic, key.figure] = rate if math.isnan(known) else known if math.isnan(rate) else known + rate
        return found


def _add_operators(actor: ActorStatus, to: dict[str, dict[str, list[float]]]) -> None:
    busy: dict[str, float] = {}
    for task in actor.tasks:
        for key, value in task.measured.items():
            if key[0] != NODE or type(value) not in _NUMBERS:
                continue
            if key[1] == "busy-ratio":
                busy[key[2]] = busy.get(key[2], 0.0) + value  # type: ignore[operator]
            else:
                to.setdefault(key[2], {}).setdefault(key[1], []).append(value)  # type: ignore[arg-type]
    for name, share in busy.items():  # the tasks of an actor take turns
        to.setdefault(name, {}).setdefault("busy-ratio", []).append(min(1.0, share))


def _add_counts(actor: ActorStatus, to: dict[_Key, tuple[str, float]]) -> None:
    for task in actor.tasks:
        for key, value in task.measured.items():
            if key[0] == TOPIC and key[1] in (_READ, _WRITTEN) and type(value) in _NUMBERS:
                to[_Key(task.task_id, key[1], key[2], key[3])] = actor.actor_id, value  # type: ignore[assignment]


def _with(known: tuple[str, ...], names: Iterable[str]) -> tuple[str, ...]:
    """Returns the known names and these, sorted; ``known`` itself if it has them all."""
    found = set(names)
    if found <= set(known):
        return known
    together = found.union(known)
    # Each status comes from another process, with names of its own.
    return tuple(sorted(map(sys.intern, together if len(together) <= MOST_NAMES else found)))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _steps(share: float | None) -> int:
    return BUSY_UNKNOWN if share is None else round(min(1.0, max(0.0, share)) * BUSY_STEPS)
