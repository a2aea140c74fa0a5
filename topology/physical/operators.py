"""Every operator of the DSL as a value, from which its closure in ``tasks/operators`` is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from typing_extensions import override

from penstock.topology.physical.operator import (
    AGGREGATE,
    KEY,
    TABLE_VALUE,
    VALUE,
    Operator,
    TableOperator,
    ValueGetter,
    WithFunctions,
    called_with,
)
from penstock.topology.processor_api.processor import ProcessorSupplier

# ---- stateless operators on streams ----


@dataclass(frozen=True)
class Filter(Operator):
    """Forward a record if, and only if, the predicate is true (false if ``negate``).

    It is called with (value), or with (key, value) when ``with_key``: so are all functions with such a flag.
    """

    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool = False
    with_key: bool = True

    keeps_key = keeps_value = True

    @property
    @override
    def call(self) -> str:
        return "filter_not" if self.negate else "filter"


@dataclass(frozen=True)
class DropNullKeys(Operator):
    """The filter in front of a repartition sink: a null key is dropped silently, unless ``keep`` (left join below)."""

    keep: bool = False

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class MapValues(Operator):
    """``mapper`` gives the new value."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = False

    call = "map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class Map(Operator):
    """``mapper(key, value)`` gives the new (key, value); anything but a pair is an error."""

    mapper: Callable[[Any, Any], tuple[Any, Any]] = field(metadata=called_with(KEY, VALUE))

    call = "map"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class SelectKey(Operator):
    """``mapper`` gives the new key."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "select_key"
    keeps_key, keeps_value = False, True


@dataclass(frozen=True)
class FlatMap(Operator):
    """``mapper(key, value)`` gives any number of (key, value) pairs."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]] = field(metadata=called_with(KEY, VALUE, many=True))

    call = "flat_map"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class FlatMapValues(Operator):
    """``mapper`` gives any number of values."""

    mapper: Callable[..., Iterable[Any]] = field(metadata=called_with(KEY, VALUE, many=True))
    with_key: bool = False

    call = "flat_map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class Peek(Operator):
    """Call ``action``, then forward."""

    action: Callable[..., object] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "peek"
    keeps_key = keeps_value = True


@dataclass(frozen=True)
class ForEach(Operator):
    """Call ``action``; nothing is forwarded."""

    action: Callable[..., object] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "for_each"
    keeps_key = keeps_value = True


@dataclass(frozen=True)
class PassThrough(Operator):
    """Forward to every child: merge, and the node of a branch (its predicate is in :class:`Branch`)."""

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class BranchCase(WithFunctions):
    """The records for which the predicate holds go to ``child``."""

    child: str
    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "branch"


@dataclass(frozen=True)
class Branch(Operator):
    """Forward to the child of the first case that holds, else to the child ``default``, if there is one."""

    cases: tuple[BranchCase, ...]
    default: str | None = None

    keeps_key = keeps_value = True


# ---- aggregates of streams: null key or value is dropped and counted ----


@dataclass(frozen=True)
class StreamCount(TableOperator):
    """Count per key in ``store``. Values that are null are dropped, as in every aggregate of a stream."""

    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class StreamAggregate(TableOperator):
    """``aggregator(key, value, aggregate)`` per key in ``store``, beginning with ``initializer()``; None deletes."""

    initializer: Callable[[], Any] = field(metadata=called_with())
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, VALUE, AGGREGATE))

    call = "aggregate"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class StreamReduce(TableOperator):
    """``reducer(aggregate, value)`` per key in ``store``, beginning with the first value; None deletes."""

    reducer: Callable[[Any, Any], Any] = field(metadata=called_with(AGGREGATE, VALUE))

    call = "reduce"
    keeps_key, keeps_value = True, False


# ---- tables ----


@dataclass(frozen=True)
class TableSource(TableOperator):
    """A stream read as a changelog (``table``, ``to_table``): a null key is dropped and counted, a null value deletes.

    ``store`` is None while nothing needs the table's content; then updates are only forwarded.
    """

    keeps_key = keeps_value = True

    @property
    @override
    def sees_value(self) -> bool:
        # A store holds objects.
        return self.store is not None


@dataclass(frozen=True)
class TableFilter(TableOperator):
    """Forward the value if the predicate holds (fails, when ``negate``), else a tombstone."""

    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool = False
    with_key: bool = True
    of_versions: bool = False
    """True if its source is versioned: then a change from nothing to nothing is forwarded, too."""

    keeps_key = keeps_value = True

    @property
    @override
    def call(self) -> str:
        return "filter_not" if self.negate else "filter"


@dataclass(frozen=True)
class TableMapValues(TableOperator):
    """``mapper`` gives the new value; null stays null without a call."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = False

    call = "map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class TableToStream(Operator):
    """Each update becomes a record: the old value is dropped, a null value is a record with a null value."""

    keeps_key = keeps_value = True


# ---- looking into a table from elsewhere ----


@dataclass(frozen=True)
class StoreGetter(ValueGetter):
    """The table's own store holds the value."""

    store: str
    versioned: bool = False

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class FilterGetter(ValueGetter):
    """The value of ``source`` if the predicate holds, else absent: a filtered table that is not materialised."""

    source: ValueGetter
    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool
    with_key: bool = True

    call = "filter"

    @property
    @override
    def versioned(self) -> bool:
        return self.source.versioned

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.source.stores


@dataclass(frozen=True)
class MapValuesGetter(ValueGetter):
    """The mapped value of ``source``: a mapped table that is not materialised."""

    source: ValueGetter
    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool

    call = "map_values"

    @property
    @override
    def versioned(self) -> bool:
        return self.source.versioned

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.source.stores


@dataclass(frozen=True)
class StreamTableJoin(Operator):
    """``joiner(left, right)``, with the key in front when ``with_key``; ``left`` keeps stream records without a match.

    A null value is dropped and counted; a null key too, unless ``left``.
    """

    table: ValueGetter
    joiner: Callable[..., Any] = field(metadata=called_with(KEY, VALUE, TABLE_VALUE))
    with_key: bool = False
    left: bool = False

    keeps_key, keeps_value = True, False

    @property
    @override
    def call(self) -> str:
        return "left_join" if self.left else "join"

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.table.stores


@dataclass(frozen=True)
class Process(Operator):
    """A user's :class:`~penstock.topology.processor_api.processor.Processor`; each task has one of ``supplier()``."""

    supplier: ProcessorSupplier[Any, Any, Any, Any] = field(metadata=called_with())
    store_names: tuple[str, ...] = ()
    by_wrapper: bool = False
    """True if the supplier is one that a wrapper has returned."""

    call = "process"
    keeps_key = keeps_value = False
    sees_key = sees_value = True
    runs_user_objects = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.store_names

    @property
    @override
    def wrapped(self) -> bool:
        return self.by_wrapper

    def with_stores(self, names: Iterable[str]) -> Self:
        """Returns a copy with more stores."""
        return replace(self, store_names=tuple(dict.fromkeys((*self.store_names, *names))))
