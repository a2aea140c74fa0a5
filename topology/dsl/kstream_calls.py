"""The methods of ``KStream`` that call out: to services, to other actors, to models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

from penstock.common.errors import TopologyError
from penstock.common.records import Record
from penstock.topology.arity import called_out
from penstock.topology.dsl.kstream_processors import KStreamProcessors
from penstock.topology.dsl.stream_base import NameLike, checked_option
from penstock.topology.options.calls import Calls, check_number
from penstock.topology.physical.operators.calls import MapBatch, MapValuesAsync, ProcessAsync
from penstock.topology.processor_api.call_context import CallContext

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class RemoteMethod(Protocol):
    """A method of a Ray actor: ``handle.method``."""

    remote: Any
    """The function that begins a call and returns a reference to its result."""


class KStreamCalls(KStreamProcessors[K, V]):
    """The methods of ``KStream`` that call out. Kafka Streams has no such methods."""

    # Async and plain functions have overloads of their own: mypy infers nothing from Awaitable[VR] | VR.

    @overload
    def map_values_async(
        self, mapper: Callable[[V], Awaitable[VR]], calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def map_values_async(
        self,
        mapper: Callable[[V, CallContext], Awaitable[VR]],
        calls: Calls | None = None,
        *,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def map_values_async(
        self, mapper: Callable[[V], VR], calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def map_values_async(
        self, mapper: Callable[[V, CallContext], VR], calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def map_values_async(
        self, mapper: RemoteMethod, calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[K, Any]: ...
    def map_values_async(
        self, mapper: Any, calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[K, Any]:
        """Replaces each value by the result of ``mapper(value)``, or ``mapper(value, context)`` with a
        :class:`CallContext`. Many calls run at the same time, and the task continues meanwhile.

        ``mapper`` is a coroutine function, which runs in the event loop of the actor's process; a plain function, which
        runs in a thread; or a method of a Ray actor (``handle.method``), which runs there. ``calls`` has the limits,
        the retries and the order. If a call fails, or lasts too long, ``processing.exception.handler`` is asked. A call
        that has not ended when the actor crashes is made again; docs/CALLS.md has the consequences under both
        guarantees.
        """
        with_context = called_out(mapper, "map_values_async: mapper", "value")
        made = _checked(calls, "map_values_async")
        if made.shares and with_context:
            raise TopologyError(
                "map_values_async: calls with a CallContext are those of one record, and no two are equal: leave "
                "collapse and cache out, or let the mapper take the value alone"
            )
        operator = MapValuesAsync(remote_method(mapper), calls=made, with_context=with_context)
        name = self._head.name(named, "KSTREAM-MAPVALUESASYNC-")
        return cast("KStream[K, Any]", type(self)(self._head.then(name, operator)))

    @overload
    def process_async(
        self,
        function: Callable[[Record[K, V]], Awaitable[Iterable[Record[KR, VR]]] | Iterable[Record[KR, VR]]],
        calls: Calls | None = None,
        *,
        named: NameLike | None = None,
    ) -> KStream[KR, VR]: ...
    @overload
    def process_async(
        self,
        function: Callable[[Record[K, V], CallContext], Awaitable[Iterable[Record[KR, VR]]] | Iterable[Record[KR, VR]]],
        calls: Calls | None = None,
        *,
        named: NameLike | None = None,
    ) -> KStream[KR, VR]: ...
    @overload
    def process_async(
        self, function: RemoteMethod, calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[Any, Any]: ...
    def process_async(
        self, function: Any, calls: Calls | None = None, *, named: NameLike | None = None
    ) -> KStream[Any, Any]:
        """Replaces each record by those that ``function(record)``, or ``function(record, context)``, returns: any
        number, with keys, timestamps and headers of their own. ``[]`` drops the record.

        The function, ``calls`` and failures are as for :meth:`map_values_async`. Because keys may change, the stream is
        repartitioned before operators that depend on them. The result does not inherit the stream's serdes.
        """
        with_context = called_out(function, "process_async: function", "record")
        made = _checked(calls, "process_async")
        _refuse_sharing(made, "process_async")
        operator = ProcessAsync(remote_method(function), calls=made, with_context=with_context)
        name = self._head.name(named, "KSTREAM-PROCESSASYNC-")
        return cast("KStream[Any, Any]", type(self)(self._head.then(name, operator)))

    @overload
    def map_batch(
        self,
        function: Callable[[list[V]], Awaitable[Sequence[VR]] | Sequence[VR]],
        *,
        max_records: int = 100,
        max_wait_ms: int = 20,
        arrow: Literal[False] = False,
        calls: Calls | None = None,
        named: NameLike | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def map_batch(
        self,
        function: Any,
        *,
        max_records: int = 100,
        max_wait_ms: int = 20,
        arrow: bool = False,
        calls: Calls | None = None,
        named: NameLike | None = None,
    ) -> KStream[K, Any]: ...
    def map_batch(
        self,
        function: Any,
        *,
        max_records: int = 100,
        max_wait_ms: int = 20,
        arrow: bool = False,
        calls: Calls | None = None,
        named: NameLike | None = None,
    ) -> KStream[K, Any]:
        """Replaces the values of a batch by the results of ``function(values)``, a list with one result for each value,
        in the same order. For vectorised functions and models.

        A batch has at most ``max_records`` values. It waits for more values for at most ``max_wait_ms``, and for a
        shorter time if calls are fast. With ``arrow`` the function gets an Arrow table, whose columns are the fields of
        values that are dicts (else one column ``value``), and may return one; that needs pyarrow. Results may also be
        an Arrow or a NumPy array. The function and failures are as for :meth:`map_values_async`. If a batch fails as a
        whole, each of its values is tried again alone. ``calls.max_in_flight``, by default 2, is the number of batches
        at the same time. Results are forwarded in the order of the records, unless ``calls.order`` is ``"none"``.
        """
        if called_out(function, "map_batch: function", "values"):
            raise TopologyError("map_batch takes f(values): a call for many records has no CallContext")
        made = _checked(calls, "map_batch") if calls is not None else Calls(max_in_flight=2)
        _refuse_sharing(made, "map_batch")
        check_number("map_batch: max_records", max_records, 1)
        check_number("map_batch: max_wait_ms", max_wait_ms, 0)
        if arrow and find_spec("pyarrow") is None:
            raise TopologyError("map_batch: arrow=True needs pyarrow: pip install pyarrow")
        operator = MapBatch(remote_method(function), max_records, max_wait_ms, bool(arrow), calls=made)
        name = self._head.name(named, "KSTREAM-MAPBATCH-")
        return cast("KStream[K, Any]", type(self)(self._head.then(name, operator)))


def _checked(calls: Calls | None, call: str) -> Calls:
    checked_option(calls, Calls, call)
    return calls or Calls()


def _refuse_sharing(calls: Calls, call: str) -> None:
    if calls.shares:
        raise TopologyError(f"{call}: no two of its calls are equal; collapse and cache are for map_values_async")


def remote_method(function: Any) -> Callable[..., Any]:
    """Returns the function to call; for a method of a Ray actor that is its ``remote``."""
    remote = getattr(function, "remote", None)
    return cast("Callable[..., Any]", remote if callable(remote) else function)
