"""Steps that join tables, and that group and aggregate them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.topology.dsl.ktable import KTable
from tests.parity import functions

if TYPE_CHECKING:
    from tests.parity.build import Step, _Result


class TableOps:
    """The calls on tables that the steps of a case make."""

    _results: dict[str, _Result]

    def _materialized(self, step: Step, key: str, value: str) -> Any:
        raise NotImplementedError

    def _table_table(self, step: Step, source: _Result) -> _Result:
        table, other = _table(source), _table(self._results[step["with"]])
        join = {"inner": table.join, "left": table.left_join, "outer": table.outer_join}[step["kind"]]
        materialized = self._materialized(step, source.key, "string")
        return replace(
            source, stream=join(other, functions.pair, materialized, named=step.get("named")), value="string"
        )


def _table(result: _Result) -> KTable[Any, Any]:
    if not isinstance(result.stream, KTable):
        raise ValueError(f"cannot be called on a {type(result.stream).__name__}, only on a KTable")
    return result.stream
