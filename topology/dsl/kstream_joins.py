"""The joins of a ``KStream`` with tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.common.errors import TopologyError
from penstock.topology.arity import takes_key
from penstock.topology.dsl.global_ktable import GlobalKTable, join_global_table
from penstock.topology.dsl.joins import join_table, partitioned_by_key
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option
from penstock.topology.logical.graph import Repartition
from penstock.topology.options import Joined
from penstock.topology.physical.global_operators import KeySelector

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")
VT = TypeVar("VT")
KG = TypeVar("KG")
VG = TypeVar("VG")


class KStreamJoins(Generic[K, V]):
    """What :class:`KStream` inherits."""

    _head: StreamHead
    _repartitioned: Repartition | None

    @overload
    def join(
        self, table: KTable[K, VT], joiner: Callable[[V, VT], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self, table: KTable[K, VT], joiner: Callable[[K, V, VT], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[K, V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    def join(self, table: Any, *given: Any, **options: Any) -> KStream[K, Any]:
        """``joiner(value, table value)``, or with the key in front, for each record whose key the table has.

        Only the stream triggers; what the table holds is what it held when the record was processed, so records of both
        are taken in the order of their timestamps. The joiner must not change the table's value: it is the store's own.
        A null key or value is dropped and counted. The topics of both must have equally many partitions.

        With a :class:`GlobalKTable` the record's key need not be the table's: ``key_selector(value)``, or
        ``key_selector(key, value)``, says which key is looked up, and may return None for none. Nothing is
        repartitioned, the topics may have any number of partitions, and the result keeps the stream's key and
        timestamp. The joiner's key is the stream's. A null value, or a selected key that is null, is dropped and
        counted; a null key of the stream is not. Nothing aligns the two in time: a record finds what its host has read
        of the table's topic by then.

        Mirrors ``join(KTable, …)`` and ``join(GlobalKTable, …)``.
        """
        return self._joined_with("join", table, given, options)

    @overload
    def left_join(
        self, table: KTable[K, VT], joiner: Callable[[V, VT | None], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self, table: KTable[K, VT], joiner: Callable[[K, V, VT | None], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[K, V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        table: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    def left_join(self, table: Any, *given: Any, **options: Any) -> KStream[K, Any]:
        """As :meth:`join`, but a record without a match is joined with None.

        A record with a null key, or whose selected key is null, has no match; one with a null value is dropped and
        counted. Mirrors ``leftJoin(KTable, …)`` and ``leftJoin(GlobalKTable, …)``.
        """
        return self._joined_with("left_join", table, given, options)

    def _joined_with(self, call: str, table: Any, given: tuple[Any, ...], options: dict[str, Any]) -> KStream[K, Any]:
        if isinstance(table, GlobalKTable):
            method: Callable[..., KStream[K, Any]] = self._with_global_table
        elif isinstance(table, KTable):
            method = self._with_table
        else:
            raise TopologyError(f"{call} needs a KTable or a GlobalKTable, not {table!r} ({type(table).__name__})")
        try:
            inspect.signature(method).bind(call, table, *given, **options)
        except TypeError as error:
            takes = "joiner[, joined]" if isinstance(table, KTable) else "key_selector, joiner[, named=...]"
            raise TopologyError(f"{call} with a {type(table).__name__} takes (table, {takes}): {error}") from None
        return method(call, table, *given, **options)

    def _with_table(
        self,
        call: str,
        table: KTable[Any, Any],
        joiner: Callable[..., Any],
        joined: Joined[Any, Any, Any] | None = None,
    ) -> KStream[K, Any]:
        from penstock.topology.dsl.kstream import KStream

        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        checked_option(joined, Joined, call)
        how = joined or Joined()
        head, self._repartitioned = partitioned_by_key(self._head, how, self._repartitioned)
        left = call == "left_join"
        return KStream(join_table(head, table._head, table._table, joiner, with_key, how, left=left))

    def _with_global_table(
        self,
        call: str,
        table: GlobalKTable[Any, Any],
        key_selector: Callable[..., Any],
        joiner: Callable[..., Any],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, Any]:
        from penstock.topology.dsl.kstream import KStream

        by_key = takes_key(key_selector, f"{call}: key_selector", "value", key_if_any_number=True)
        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        selector = KeySelector(key_selector, by_key)
        left = call == "left_join"
        return KStream(join_global_table(self._head, table, selector, joiner, with_key, named, left=left))
