"""The reasons why an application is slow, as values: operators, and the time of its actors. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.api.figures import (
    Row,
    gc_of,
    measured_of,
    operators_of,
    rocksdb_of,
    rocksdb_of_actor,
    rounded,
    shares_of,
    thread_figures_of,
)
from penstock.cluster.findings import share_of
from penstock.cluster.read_side import ApplicationStatus, FunctionView
from penstock.common.metric_names import NODE, STATE

_MOST_OPERATORS = 20


@dataclass(frozen=True)
class OperatorRow:
    """An operator. ``busy``: its share of an actor's time, the largest of all actors; ``busy_sum``: the sum of these
    shares. ``function``: the first of the program's functions in it, None if there is none or if it is not known."""

    operator: str
    subtopology: int
    busy: float
    busy_sum: float
    records_per_s: float | None
    calls_in_flight: float | None
    function: FunctionView | None


@dataclass(frozen=True)
class ActorTime:
    """The time of a stream actor: shares of the last half minute, empty while they are not known. ``rocksdb`` and
    ``gc`` have the names that the live document of the page has."""

    actor_id: str
    busy: float | None
    shares: Mapping[str, float]
    rocksdb: Mapping[str, float]
    gc: Mapping[str, float]


@dataclass(frozen=True)
class Slow:
    """The operators that take most of an actor's time and the actors, the busiest first. ``is_known``: True if the
    share of an operator is known."""

    operators: tuple[OperatorRow, ...] = ()
    actors: tuple[ActorTime, ...] = ()
    is_known: bool = False

    def body(self) -> dict[str, Any]:
        """Returns the part of ``penstock top --json`` that is about it."""
        return {
            "operators": [asdict(row) for row in self.operators],
            "actor_times": [asdict(row) for row in self.actors],
        }


def slow_of(status: ApplicationStatus, functions: Mapping[str, FunctionView]) -> Slow:
    """Returns what is known of ``status``. ``functions``: the first function of each operator that has any."""
    heard = [actor for actor in status.actors if actor.actor_id not in status.silent]
    measured = measured_of(task for actor in heard for task in actor.tasks)
    operators = operators_of(measured[NODE], heard)
    busy = [(name, row) for name, row in operators.items() if row["busy"]]
    busy.sort(key=lambda each: (-each[1]["busy"], each[0]))
    rocksdb = rocksdb_of(measured[STATE])
    actors = []
    for actor in status.actors:
        silent = actor.actor_id in status.silent
        figures = {} if silent else thread_figures_of(actor)
        actors.append(
            ActorTime(
                actor.actor_id,
                None if silent else rounded(share_of(actor), 3),
                shares_of(figures),
                rocksdb_of_actor((task.task_id for task in actor.tasks), rocksdb),
                gc_of(figures),
            )
        )
    actors.sort(key=lambda each: -1.0 if each.busy is None else each.busy, reverse=True)
    rows = tuple(_operator(name, row, functions.get(name)) for name, row in busy[:_MOST_OPERATORS])
    return Slow(rows, tuple(actors), any(row["busy"] is not None for row in operators.values()))


def _operator(name: str, row: Row, function: FunctionView | None) -> OperatorRow:
    figures = row["busy"], row["busy_sum"], row["records_per_s"], row["calls_in_flight"]
    return OperatorRow(name, row["subtopology"], *figures, function)
