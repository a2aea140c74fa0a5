"""Grouped streams that are aggregated together per window of time or per session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.common.serdes import Serde
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.common.windows import Windowed
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.cogroup import AGGREGATE, Aggregator, Cogroup
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, checked_option
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.session_stores import session_store
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.window_stores import window_store
from penstock.topology.options.windows import SlidingWindows, TimeWindows, UnlimitedWindows
from penstock.topology.physical.operators.folds import Aggregate
from penstock.topology.physical.operators.operator import TableOperator
from penstock.topology.physical.operators.sessions import MergingAggregate, SessionWindowAggregate
from penstock.topology.physical.operators.windows import SlidingWindowAggregate, TimeWindowAggregate

K = TypeVar("K")
A = TypeVar("A")


class TimeWindowedCogroupedKStream(Generic[K, A]):
    """Grouped streams, each with its aggregator, per window of time. Mirrors ``TimeWindowedCogroupedKStream``.

    Made by :meth:`CogroupedKStream.windowed_by`. Each stream has an observed stream time of its own: only records of
    the same stream decide if a record is late. For the rest see :class:`TimeWindowedKStream`; results are emitted on
    each update.
    """

    def __init__(self, cogroup: Cogroup, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> None:
        self._cogroup = cogroup
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], A]:
        """Returns a table with one aggregate per key and window of all the streams, beginning with ``initializer()``.
        Mirrors ``aggregate``. Serdes and names as in :meth:`CogroupedKStream.aggregate`.

        >>> import penstock as ps
        >>> builder = ps.StreamsBuilder()
        >>> clicks, orders = builder.stream("clicks").group_by_key(), builder.stream("orders").group_by_key()
        >>> together = clicks.cogroup(lambda user, click, seen: [*seen, "click"])
        >>> together = together.cogroup(orders, lambda user, order, seen: [*seen, "order"])
        >>> windowed = together.windowed_by(ps.TimeWindows.of_size_and_grace(60_000, 5_000))
        >>> windowed.aggregate(list, ps.Materialized.as_("by-minute")).queryable_store_name
        'by-minute'
        """
        checked_function(initializer, "aggregate: initializer")
        windows = self._windows

        def store(how: Materialized[Any, Any], name: str, key_serde: Serde[Any] | None) -> AnyStoreBuilder:
            return window_store(how, windows, False, name, key_serde, None)

        if isinstance(windows, SlidingWindows):
            size_ms, operator = windows.time_difference_ms, _sliding(windows, initializer)
        else:
            size_ms, operator = windows.size_ms, _fixed(windows, initializer)
        return _aggregated(
            self._cogroup,
            materialized,
            named,
            store,
            operator,
            lambda inner: WindowedSerdes.time_windowed_serde_from(inner, size_ms),
        )


class SessionWindowedCogroupedKStream(Generic[K, A]):
    """Grouped streams, each with its aggregator, per session. Mirrors ``SessionWindowedCogroupedKStream``.

    Made by :meth:`CogroupedKStream.windowed_by`. The records of all streams make the sessions. But each stream has an
    observed stream time of its own: only records of the same stream decide if a record is late. For the rest see
    :class:`SessionWindowedKStream`; results are emitted on each update.
    """

    def __init__(self, cogroup: Cogroup, windows: SessionWindows) -> None:
        self._cogroup = cogroup
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], A]:
        """Returns a table with one aggregate per key and session of all the streams. Mirrors ``aggregate``. For the
        rules for ``initializer`` and ``merger`` see :meth:`SessionWindowedKStream.aggregate`. Serdes and names as in
        :meth:`CogroupedKStream.aggregate`.
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(merger, "aggregate: merger", "key", "aggregate", "other")
        windows = self._windows
        return _aggregated(
            self._cogroup,
            materialized,
            named,
            lambda how, name, key_serde: session_store(how, windows, False, name, key_serde, None),
            lambda aggregator: SessionWindowAggregate(windows, MergingAggregate(initializer, aggregator, merger)),
            WindowedSerdes.session_windowed_serde_from,
        )


def _fixed(
    windows: TimeWindows | UnlimitedWindows, initializer: Callable[[], Any]
) -> Callable[[Aggregator], TableOperator]:
    return lambda aggregator: TimeWindowAggregate(windows, Aggregate(initializer, aggregator), shares_store=True)


def _sliding(windows: SlidingWindows, initializer: Callable[[], Any]) -> Callable[[Aggregator], TableOperator]:
    return lambda aggregator: SlidingWindowAggregate(windows, Aggregate(initializer, aggregator))


def _aggregated(
    cogroup: Cogroup,
    materialized: Materialized[Any, Any] | None,
    named: NameLike | None,
    store_of: Callable[[Materialized[Any, Any], str, Serde[Any] | None], AnyStoreBuilder],
    operator: Callable[[Aggregator], TableOperator],
    key_serde_of: Callable[[Serde[Any]], Serde[Any]],
) -> KTable[Any, Any]:
    checked_option(materialized, Materialized, "aggregate")
    how = materialized or Materialized()
    store = store_of(how, how.name or cogroup.graph.names.store(AGGREGATE), cogroup.key_serde)
    head, table = cogroup.aggregated(store, named, operator)
    inner = store.key_serde
    return KTable(head.moved(head.node, key_serde=None if inner is None else key_serde_of(inner)), table, how.name)
