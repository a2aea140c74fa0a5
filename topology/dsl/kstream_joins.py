"""The joins of ``KStream``: with a table, with another stream, with a global table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.topology.arity import takes_key
from penstock.topology.dsl.global_ktable import GlobalKTable, join_global_table
from penstock.topology.dsl.joins import join_table, partitioned_by_key
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option
from penstock.topology.dsl.stream_stream_joins import join_streams
from penstock.topology.logical.graph import Repartition, require_same_graph
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.options import Joined
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.physical.operators.global_tables import KeySelector

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
VR = TypeVar("VR")
VT = TypeVar("VT")
KG = TypeVar("KG")
VG = TypeVar("VG")


class KStreamJoins(Generic[K, V]):
    """The joins of ``KStream``."""

    def __init__(self, head: StreamHead) -> None:
        self._head = head
        self._repartitioned: Repartition | None = None

    @overload
    def join(
        self, other: KTable[K, VT], joiner: Callable[[V, VT], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self, other: KTable[K, VT], joiner: Callable[[K, V, VT], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[K, V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VG], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    def join(self, other: Any, *given: Any, **options: Any) -> KStream[K, Any]:
        """Joins records that have the same key by ``joiner(value, other value)`` or ``joiner(key, value, other
        value)``.

        **With a table**, the result has each record whose key the table has. Only records of the stream cause results.
        The table's value is that at the time of processing; records of both sides are processed in the order of their
        timestamps. The joiner must not change the table's value: it is the store's own. A null key or value is dropped
        and counted.

        **With a stream**, the result has each pair whose timestamps are near enough for ``windows``. Records of both
        streams cause results: a record is joined with those of the other stream that came before it, in the order of
        their timestamps. A result has the larger timestamp of the two, and the headers of the record that came last.
        Records are kept for the size of the windows and the grace period, in stream time; a late record is joined with
        those that are still kept. A null key or value is dropped and counted in ``dropped-records-total``. Values of
        both streams are kept in stores until their windows have passed, each in a changelog: neither may be changed.

        The topics of both sides must have equally many partitions; a stream whose key may have changed is
        repartitioned.

        **With a global table** the record's key does not have to be the table's: ``key_selector(value)``, or
        ``key_selector(key, value)``, returns the key that is looked up, or None for no key. Nothing is repartitioned,
        the topics may have any number of partitions, and the result keeps the stream's key and timestamp. The joiner's
        key is the stream's. A null value, or a selected key that is null, is dropped and counted; a null key of the
        stream is not. The two are not synchronised in time: a record finds the rows that its host has read from the
        table's topic by then.

        Mirrors ``join(KTable, …)``, ``join(KStream, …)`` and ``join(GlobalKTable, …)``.

        >>> import penstock as ps
        >>> builder = ps.StreamsBuilder()
        >>> orders, payments = builder.stream("orders"), builder.stream("payments")
        >>> hour = ps.JoinWindows.of_time_difference_with_no_grace(3_600_000)
        >>> paid = orders.join(payments, lambda order, payment: (order, payment), hour)
        """
        return self._joined("join", other, given, options)

    @overload
    def left_join(
        self, other: KTable[K, VT], joiner: Callable[[V, VT | None], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self, other: KTable[K, VT], joiner: Callable[[K, V, VT | None], VR], joined: Joined[K, V, VT] | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[V], KG | None],
        joiner: Callable[[K, V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KG, VG],
        key_selector: Callable[[K, V], KG | None],
        joiner: Callable[[K, V, VG | None], VR],
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    def left_join(self, other: Any, *given: Any, **options: Any) -> KStream[K, Any]:
        """Like :meth:`join`, but a record of this stream without a match is joined with None.

        **With a table**, global or not, it is joined at once. A record with a null key, or whose selected key is null,
        has no match; one with a null value is dropped and counted.

        **With a stream**, it is joined once its window and the grace period have passed in stream time: when the next
        record of either stream at or after that time comes, before that record is joined, and with its own timestamp.
        If ``window.idle.advance.ms`` is set, it does not need such a record. A record that is so late that its window
        has passed is joined at once. Until then a record waits in a store that both sides share. A record of this
        stream with a null key is joined with None at once; null values, and null keys of the other stream, are dropped
        and counted.

        Mirrors ``leftJoin(KTable, …)``, ``leftJoin(KStream, …)`` and ``leftJoin(GlobalKTable, …)``.
        """
        return self._joined("left_join", other, given, options)

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
    ) -> KStream[K, VR]: ...
    def outer_join(self, other: Any, *given: Any, **options: Any) -> KStream[K, Any]:
        """Like :meth:`left_join` with a stream, but records of both are joined with None if they have no match.

        Null keys of either are joined with None at once, null values dropped and counted. Mirrors
        ``outerJoin(KStream, …)``.
        """
        if isinstance(other, KTable | GlobalKTable):
            kind = type(other).__name__
            raise TopologyError(
                f"outer_join of a KStream needs a KStream, not a {kind}: a stream and a table have no outer join"
            )
        return self._joined("outer_join", other, given, options)

    def _joined(self, call: str, other: Any, given: tuple[Any, ...], options: dict[str, Any]) -> KStream[K, Any]:
        method: Callable[..., StreamHead]
        if isinstance(other, KTable):
            method, takes = self._with_table, "joiner[, joined]"
        elif isinstance(other, GlobalKTable):
            method, takes = self._with_global_table, "key_selector, joiner[, named=...]"
        elif isinstance(other, KStreamJoins):
            method, takes = self._with_stream, "joiner, windows[, stream_joined]"
        else:
            kinds = "a KStream" if call == "outer_join" else "a KTable, a KStream or a GlobalKTable"
            raise TopologyError(f"{call} needs {kinds}, not {other!r} ({type(other).__name__})")
        try:
            inspect.signature(method).bind(call, other, *given, **options)
        except TypeError as error:
            raise TopologyError(f"{call} with a {type(other).__name__} takes (other, {takes}): {error}") from None
        return cast("KStream[K, Any]", type(self)(method(call, other, *given, **options)))

    def _with_table(
        self,
        call: str,
        table: KTable[Any, Any],
        joiner: Callable[..., Any],
        joined: Joined[Any, Any, Any] | None = None,
    ) -> StreamHead:
        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        checked_option(joined, Joined, call)
        how = joined or Joined()
        head, self._repartitioned = partitioned_by_key(self._head, how, self._repartitioned)
        return join_table(head, table._head, table._table, joiner, with_key, how, left=call == "left_join")

    def _with_stream(
        self,
        call: str,
        other: KStreamJoins[Any, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
        stream_joined: StreamJoined[Any, Any, Any] | None = None,
    ) -> StreamHead:
        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        if not isinstance(windows, JoinWindows):
            raise TopologyError(
                f"{call} with a KStream needs JoinWindows, not {shown_with_type(windows)}: pass "
                "JoinWindows.of_time_difference_with_no_grace(...)"
            )
        checked_option(stream_joined, StreamJoined, call)
        require_same_graph(self._head.graph, other._head.graph, call)
        how = stream_joined or StreamJoined()
        here = self._partitioned("left", how, how.value_serde)
        there = other._partitioned("right", how, how.other_value_serde)
        return join_streams(here, there, joiner, with_key, windows, how, call)

    def _partitioned(self, side: str, how: StreamJoined[Any, Any, Any], value_serde: Any) -> StreamHead:
        name = None if how.name is None else f"{how.name}-{side}"
        by = Joined[Any, Any, Any](how.key_serde, value_serde, name=name)
        head, self._repartitioned = partitioned_by_key(self._head, by, self._repartitioned)
        return head

    def _with_global_table(
        self,
        call: str,
        table: GlobalKTable[Any, Any],
        key_selector: Callable[..., Any],
        joiner: Callable[..., Any],
        *,
        named: NameLike | None = None,
    ) -> StreamHead:
        by_key = takes_key(key_selector, f"{call}: key_selector", "value", key_if_any_number=True)
        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        selector = KeySelector(key_selector, by_key)
        return join_global_table(self._head, table, selector, joiner, with_key, named, left=call == "left_join")
