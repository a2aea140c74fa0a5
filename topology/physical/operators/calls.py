"""Operators that call out, as values: a record enters, and leaves when its call has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.options.calls import Calls
from penstock.topology.physical.operators.operator import KEY, VALUE, Operator, called_with


@dataclass(frozen=True)
class CallOperator(Operator):
    """An operator that calls out. ``with_context``: its function gets a
    :class:`~penstock.topology.processor_api.call_context.CallContext`, too."""

    calls: Calls = field(default_factory=Calls, kw_only=True)
    with_context: bool = field(default=False, kw_only=True)

    runs_user_objects = True  # like a processor that keeps records: they must come in their own order

    @property
    def sees_key(self) -> bool:
        """True if the function may look at the key."""
        return self.gives_keys or self.with_context

    @property
    def keeps_source(self) -> bool:
        """True if its function is given the source of a record."""
        return self.with_context


@dataclass(frozen=True)
class MapValuesAsync(CallOperator):
    """``mapper(value)`` gives the new value, or an awaitable of it."""

    mapper: Callable[..., Any] = field(metadata=called_with(VALUE, awaited=True))

    call = "map_values_async"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class ProcessAsync(CallOperator):
    """``function(record)`` gives any number of records, or an awaitable of them."""

    function: Callable[..., Any] = field(metadata=called_with(KEY, VALUE, awaited=True))

    call = "process_async"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class MapBatch(CallOperator):
    """``function(values)`` gives as many new values, or an awaitable of them. ``arrow``: both are Arrow tables."""

    function: Callable[..., Any] = field(metadata=called_with(VALUE, awaited=True))
    max_records: int
    max_wait_ms: int
    arrow: bool = False

    call = "map_batch"
    keeps_key, keeps_value = True, False
