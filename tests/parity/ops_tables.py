"""Steps that join tables, and that group and aggregate them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from penstock.common.serdes import Serde, Serdes
from penstock.topology.dsl.ktable import KTable
from penstock.topology.options.options import Grouped
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKey
from tests.parity import functions

if TYPE_CHECKING:
    from tests.parity.build import Step, _Result


_SERDES: dict[str, Serde[Any]] = {"string": Serdes.string(), "long": Serdes.long()}


class _Transformer(ValueTransformerWithKey[Any, Any, Any]):
    """A mapper that is also called for deletions, or ``with_key``."""

    def __init__(self, fn: str) -> None:
        self._fn = fn

    @override
    def transform(self, read_only_key: Any, value: Any) -> Any:
        if self._fn == "with_key":
            return f"{functions.text(read_only_key)}={functions.text(value)}"
        return functions.mapped_value(self._fn, value)


class TableOps:
    """The calls on tables that the steps of a case make."""

    _results: dict[str, _Result]

    def _materialized(self, step: Step, key: str, value: str) -> Any:
        raise NotImplementedError

    def _table_table(self, step: Step, source: _Result) -> _Result:
        table, other = _table(source), _table(self._results[step["with"]])
        joins: dict[str, Any] = {"inner": table.join, "left": table.left_join, "outer": table.outer_join}
        join = joins[step["kind"]]
        materialized = self._materialized(step, source.key, "string")
        return replace(
            source, stream=join(other, functions.pair, materialized, named=step.get("named")), value="string"
        )

    def _transform_values(self, step: Step, source: _Result) -> _Result:
        value = step.get("value", source.value)
        materialized = self._materialized(step, source.key, value) if "store" in step else None
        supplier = partial(_Transformer, step["fn"])
        table = _table(source).transform_values(supplier, materialized=materialized, named=step.get("named"))
        return replace(source, stream=table, value=value)

    def _table_group_by(self, step: Step, source: _Result) -> _Result:
        fn, how = step["fn"], Grouped.with_(_SERDES["string"], _SERDES[source.value])
        how = how.with_name(step["name"]) if "name" in step else how
        grouped = _table(source).group_by(lambda key, value: (functions.key_of(fn, key, value), value), how)
        return replace(source, stream=grouped, key="string")

    def _table_reduce(self, step: Step, source: _Result) -> _Result:
        fn, sub = step["fn"], step["sub"]
        table = source.stream.reduce(
            lambda aggregate, value: functions.fold(fn, value, aggregate),
            lambda aggregate, value: functions.fold(sub, value, aggregate),
            self._materialized(step, source.key, source.value),
            named=step.get("named"),
        )
        return replace(source, stream=table)

    def _table_aggregate(self, step: Step, source: _Result) -> _Result:
        fn, sub, init = step["fn"], step["sub"], step["init"]
        value_type = "long" if init == "zero" else "string"
        table = source.stream.aggregate(
            partial(functions.initial, init),
            lambda key, value, aggregate: functions.fold(fn, value, aggregate),
            lambda key, value, aggregate: functions.fold(sub, value, aggregate),
            self._materialized(step, source.key, value_type),
            named=step.get("named"),
        )
        return replace(source, stream=table, value=value_type)


def _table(result: _Result) -> KTable[Any, Any]:
    if not isinstance(result.stream, KTable):
        raise ValueError(f"cannot be called on a {type(result.stream).__name__}, only on a KTable")
    return result.stream
