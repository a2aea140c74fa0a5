"""The step ``cogroup`` of parity cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.topology.materialized import Materialized
from tests.parity import functions

if TYPE_CHECKING:
    from tests.parity.build import Step, _Result


def _aggregator(fn: str) -> Callable[[Any, Any, Any], Any]:
    return lambda key, value, aggregate: functions.fold(fn, value, aggregate)


class CogroupSteps:
    """What ``_Steps`` has of cogroups."""

    _results: dict[str, _Result]
    _materialized: Callable[[Step, str, str], Materialized[Any, Any]]

    def _cogroup(self, step: Step, _: _Result) -> _Result:
        first, *others = step["parts"]
        grouped = self._results[first["in"]]
        together = grouped.stream.cogroup(_aggregator(first["fn"]))
        for part in others:
            together = together.cogroup(self._results[part["in"]].stream, _aggregator(part["fn"]))
        value = "long" if step["init"] == "zero" else "string"
        materialized = self._materialized(step, grouped.key, value)
        table = together.aggregate(partial(functions.initial, step["init"]), materialized, named=step.get("named"))
        return replace(grouped, stream=table, value=value)
