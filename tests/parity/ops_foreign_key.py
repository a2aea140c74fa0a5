"""The steps of parity cases that join tables by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.topology.dsl.ktable import KTable
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.table_joined import TableJoined
from tests.parity import functions

_KEPT = {"store", "caching", "in_memory", "logging"}


class ForeignKeyOps:
    """The call of ``foreign_key``; a step's result has the types of its keys and values beside it."""

    _results: dict[str, Any]
    _materialized: Callable[[dict[str, Any], str, str], Materialized[Any, Any]]

    def _foreign_key(self, step: dict[str, Any], source: Any) -> Any:
        table, other = source.stream, self._results[step["with"]].stream
        if not isinstance(table, KTable) or not isinstance(other, KTable):
            raise ValueError("both sides must be tables")
        join = table.join if step["kind"] == "inner" else table.left_join
        fn = step["fn"]
        options: dict[str, Any] = {"table_joined": TableJoined.as_(step["name"])} if "name" in step else {}
        if _KEPT.intersection(step):
            options["materialized"] = self._materialized(step, source.key, "string")
        # The foreign key is made of the value alone.
        joined = join(other, lambda value: functions.key_of(fn, None, value), functions.pair, **options)
        return replace(source, stream=joined, value="string")
