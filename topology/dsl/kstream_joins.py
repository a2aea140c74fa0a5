"""The joins of ``KStream``: with a table, and with another stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.topology.arity import takes_key
from penstock.topology.dsl.joins import join_table, partitioned_by_key
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import StreamHead, checked_option
from penstock.topology.dsl.stream_stream_joins import join_streams
from penstock.topology.join_windows import JoinWindows
from penstock.topology.logical.graph import Repartition, require_same_graph
from penstock.topology.options import Joined
from penstock.topology.stream_joined import StreamJoined

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
VR = TypeVar("VR")
VT = TypeVar("VT")


class KStreamJoins(Generic[K, V]):
    """What joins add to ``KStream``."""

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
    def join(self, other: Any, joiner: Callable[..., VR], *how: Any, **named_how: Any) -> KStream[K, VR]:
        """Each pair of records that have the same key, as ``joiner(value, other value)``, or with the key in front.

        **With a table**, each record whose key the table has. Only the stream triggers; what the table holds is what
        it held when the record was processed, so records of both are taken in the order of their timestamps. The joiner
        must not change the table's value: it is the store's own. A null key or value is dropped and counted.

        **With a stream**, each pair whose timestamps are as near as ``windows`` says. Both streams trigger: a record is
        joined with those of the other that came before it, in the order of their timestamps, at the larger timestamp of
        the two, with the headers of the one that came last. A record is kept to be joined for the windows' size and
        grace period, in stream time; one that is late is joined with what is still kept. A null key or value is dropped
        and counted in ``dropped-records-total``. Values of both streams stand in stores until their windows have
        passed, each in a changelog: neither may be changed.

        The topics of both sides must have equally many partitions; a stream whose key may have changed is
        repartitioned. Mirrors ``join(KTable, …)`` and ``join(KStream, …)``.

        >>> from penstock.topology.dsl.streams_builder import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> orders, payments = builder.stream("orders"), builder.stream("payments")
        >>> hour = JoinWindows.of_time_difference_with_no_grace(3_600_000)
        >>> paid = orders.join(payments, lambda order, payment: (order, payment), hour)
        """
        return self._joined("join", other, joiner, how, named_how)

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
    def left_join(self, other: Any, joiner: Callable[..., VR], *how: Any, **named_how: Any) -> KStream[K, VR]:
        """As :meth:`join`, but a record of this stream without a match is joined with None.

        **With a table** at once. A record with a null key has no match; one with a null value is dropped and counted.

        **With a stream** once its window and the grace period have passed in stream time: with the next record of
        either stream at or behind that time, at its own timestamp, and before that record is joined. One that is so
        late that its window has passed is joined at once. Until then it waits in a store that both sides share. A
        record of this stream with a null key is joined with None at once; null values, and null keys of the other
        stream, are dropped and counted.

        Mirrors ``leftJoin(KTable, …)`` and ``leftJoin(KStream, …)``.
        """
        return self._joined("left_join", other, joiner, how, named_how)

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
    def outer_join(self, other: Any, joiner: Callable[..., VR], *how: Any, **named_how: Any) -> KStream[K, VR]:
        """As :meth:`left_join` with a stream, but records of both are joined with None where they have no match.

        Null keys of either are joined with None at once, null values dropped and counted. Mirrors
        ``outerJoin(KStream, …)``.
        """
        if isinstance(other, KTable):
            raise TopologyError("outer_join needs a KStream, not a KTable: only streams, or tables, join so")
        return self._joined("outer_join", other, joiner, how, named_how)

    def _joined(
        self, call: str, other: object, joiner: Callable[..., Any], how: tuple[Any, ...], named_how: dict[str, Any]
    ) -> KStream[K, Any]:
        if isinstance(other, KTable):
            (joined,) = _given(f"{call} with a KTable", ("joined",), how, named_how)
            return self._at(self._with_table(call, other, joiner, joined))
        if isinstance(other, KStreamJoins):
            windows, joined = _given(f"{call} with a KStream", ("windows", "stream_joined"), how, named_how)
            return self._at(self._with_stream(call, other, joiner, windows, joined))
        kinds = "a KStream" if call == "outer_join" else "a KTable or a KStream"
        raise TopologyError(f"{call} needs {kinds}, not {other!r} ({type(other).__name__})")

    def _with_table(
        self, call: str, table: KTable[Any, Any], joiner: Callable[..., Any], joined: Joined[Any, Any, Any] | None
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
        windows: JoinWindows | None,
        joined: StreamJoined[Any, Any, Any] | None,
    ) -> StreamHead:
        with_key = takes_key(joiner, f"{call}: joiner", "value", "other")
        if not isinstance(windows, JoinWindows):
            raise TopologyError(
                f"{call} with a KStream needs JoinWindows, not {shown_with_type(windows)}: pass "
                "JoinWindows.of_time_difference_with_no_grace(...)"
            )
        checked_option(joined, StreamJoined, call)
        require_same_graph(self._head.graph, other._head.graph, call)
        how = joined or StreamJoined()
        here = self._partitioned("left", how, how.value_serde)
        there = other._partitioned("right", how, how.other_value_serde)
        return join_streams(here, there, joiner, with_key, windows, how, call)

    def _partitioned(self, side: str, how: StreamJoined[Any, Any, Any], value_serde: Any) -> StreamHead:
        name = None if how.name is None else f"{how.name}-{side}"
        by = Joined[Any, Any, Any](how.key_serde, value_serde, name=name)
        head, self._repartitioned = partitioned_by_key(self._head, by, self._repartitioned)
        return head

    def _at(self, head: StreamHead) -> KStream[K, Any]:
        return cast("KStream[K, Any]", type(self)(head))


def _given(call: str, names: tuple[str, ...], how: tuple[Any, ...], named_how: dict[str, Any]) -> list[Any]:
    """What was given for the parameters ``names``, None where nothing was. Raises TypeError as a call does."""
    takes = f"{call} takes (other, joiner, {', '.join(names)})"
    if len(how) > len(names):
        raise TypeError(f"{takes}: {len(how) + 2} arguments were given")
    given = dict(zip(names, how, strict=False))
    for name, value in named_how.items():
        if name not in names or name in given:
            raise TypeError(f"{takes}: {name!r} is {'given twice' if name in given else 'none of them'}")
        given[name] = value
    return [given.get(name) for name in names]
