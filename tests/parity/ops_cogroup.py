"""The step ``cogroup`` of parity cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.topology.options.materialized import Materialized
from tests.parity import functions
from tests.parity.ops_sessions import merged, session_windows
from tests.parity.ops_windows import sliding_windows, time_windows, unlimited_windows

if TYPE_CHECKING:
    from tests.parity.build import Step, _Result


_WINDOWS: dict[str, Callable[[Step], Any]] = {
    "time_window": time_windows,
    "unlimited_window": unlimited_windows,
    "sliding_window": sliding_windows,
    "session_window": session_windows,
}


def _aggregator(fn: str) -> Callable[[Any, Any, Any], Any]:
    return lambda key, value, aggregate: functions.fold(fn, value, aggregate)


class CogroupSteps:
    """The steps of ``_Steps`` that concern cogroups."""

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
        window, mergers = step.get("window"), []
        if window is not None:
            together = together.windowed_by(_WINDOWS[window["op"]](window))
            mergers = [merged] if window["op"] == "session_window" else []
        initializer = partial(functions.initial, step["init"])
        table = together.aggregate(initializer, *mergers, materialized, named=step.get("named"))
        return replace(grouped, stream=table, value=value)
