"""What each processor node does, as a value. ``tasks/operators`` turns each into a closure when a task starts.

Stream edges carry (key, value, timestamp); table edges carry (key, new value, old value, timestamp), where the old
value is only filled when ``send_old_values`` of the node says so (Kafka Streams' ``Change``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.topology.processor import ProcessorSupplier

# ---- stateless operators on streams ----


@dataclass(frozen=True)
class Filter:
    """Forward a record iff ``predicate(key, value)`` is true (false when ``negate``)."""

    predicate: Callable[[Any, Any], bool]
    negate: bool = False


@dataclass(frozen=True)
class DropNullKeys:
    """The filter in front of a repartition sink: a null key is dropped silently, unless ``keep`` (left join below)."""

    keep: bool = False


@dataclass(frozen=True)
class MapValues:
    """``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    mapper: Callable[..., Any]
    with_key: bool = False


@dataclass(frozen=True)
class Map:
    """``mapper(key, value)`` gives the new (key, value); anything but a pair is an error."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class SelectKey:
    """``mapper(key, value)`` gives the new key."""

    mapper: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class FlatMap:
    """``mapper(key, value)`` gives any number of (key, value) pairs."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]


@dataclass(frozen=True)
class FlatMapValues:
    """``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, gives any number of values."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False


@dataclass(frozen=True)
class Peek:
    """``action(key, value)``, then forward."""

    action: Callable[[Any, Any], object]


@dataclass(frozen=True)
class ForEach:
    """``action(key, value)``; nothing is forwarded."""

    action: Callable[[Any, Any], object]


@dataclass(frozen=True)
class PassThrough:
    """Forward to every child: merge, and the node of a branch (its predicate lies in :class:`Branch`)."""


@dataclass(frozen=True)
class Branch:
    """Forward to the child named like the first predicate that holds; ``children`` names them in order.

    ``children`` has one name more than ``predicates`` when there is a default branch.
    """

    predicates: tuple[Callable[[Any, Any], bool], ...]
    children: tuple[str, ...]


# ---- aggregates of streams: null key or value is dropped and counted ----


@dataclass(frozen=True)
class StreamCount:
    """Count per key in ``store``. Values that are null are dropped, as in every aggregate of a stream."""

    store: str
    send_old_values: bool = False


@dataclass(frozen=True)
class StreamAggregate:
    """``aggregator(key, value, aggregate)`` per key in ``store``, beginning with ``initializer()``; None deletes."""

    store: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    send_old_values: bool = False


@dataclass(frozen=True)
class StreamReduce:
    """``reducer(aggregate, value)`` per key in ``store``, beginning with the first value; None deletes."""

    store: str
    reducer: Callable[[Any, Any], Any]
    send_old_values: bool = False


# ---- tables ----


@dataclass(frozen=True)
class TableSource:
    """A stream read as a changelog (``table``, ``to_table``): a null key is dropped and counted, a null value deletes.

    ``store`` is None while nothing needs the table's content; then updates are only forwarded.
    """

    store: str | None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableFilter:
    """Forward the value where ``predicate(key, value)`` holds (fails, when ``negate``), else a tombstone."""

    predicate: Callable[[Any, Any], bool]
    negate: bool = False
    store: str | None = None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableMapValues:
    """``mapper(value)`` or ``mapper(key, value)``; null stays null without a call."""

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableToStream:
    """Each update becomes a record: the old value is dropped, a null value is a record with a null value."""


# ---- looking into a table from elsewhere ----


@dataclass(frozen=True)
class StoreGetter:
    """The table's own store holds the value."""

    store: str


@dataclass(frozen=True)
class FilterGetter:
    """The value of ``source`` where the predicate holds, else absent: a filtered table that is not materialised."""

    source: ValueGetter
    predicate: Callable[[Any, Any], bool]
    negate: bool


@dataclass(frozen=True)
class MapValuesGetter:
    """The mapped value of ``source``: a mapped table that is not materialised."""

    source: ValueGetter
    mapper: Callable[..., Any]
    with_key: bool


ValueGetter = StoreGetter | FilterGetter | MapValuesGetter


@dataclass(frozen=True)
class StreamTableJoin:
    """``joiner(left, right)``, with the key in front when ``with_key``; ``left`` keeps stream records without a match.

    A null value is dropped and counted; a null key too, unless ``left``.
    """

    table: ValueGetter
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False


@dataclass(frozen=True)
class Process:
    """A user's :class:`~penstock.topology.processor.Processor`; ``supplier()`` makes a new one for each task."""

    supplier: ProcessorSupplier[Any, Any, Any, Any]


Operator = (
    Filter
    | DropNullKeys
    | MapValues
    | Map
    | SelectKey
    | FlatMap
    | FlatMapValues
    | Peek
    | ForEach
    | PassThrough
    | Branch
    | StreamCount
    | StreamAggregate
    | StreamReduce
    | TableSource
    | TableFilter
    | TableMapValues
    | TableToStream
    | StreamTableJoin
    | Process
)
