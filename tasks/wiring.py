"""Arguments of the factory of an operator's closure: its name, its successors, the stores, the task's context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.common.config import StreamsConfig
from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.common.windows import Window, Windowed
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import StateStore
from penstock.state.windowed.expiring_store import ExpiringStateStore
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.flush_listeners import OnFlush
from penstock.state.write_buffer.write_buffer import WriteBuffer
from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.context import Remembered, TaskContext
from penstock.tasks.contracts import RecordCollector, Send, SenderOf
from penstock.tasks.offsets import STREAM_TIME
from penstock.tasks.punctuation import PunctuationQueue
from penstock.topology.processor_api.processor import PunctuationType
from penstock.topology.processor_api.processor_wrapper import Change

StreamEdge = Callable[[Any, Any, int], None]
"""(key, value, timestamp)"""
TableEdge = Callable[[Any, Any, Any, int], None]
"""(key, new value, old value or None, timestamp)"""
Edge = Callable[..., None]
Failed = Callable[[Exception, str, Any, Any, int], None]
"""(what user code has raised, name of the node, key, value, timestamp); returns if the record is dropped."""


@dataclass(frozen=True)
class Store:
    """A store as operators use it. ``forwarded_by``: the nodes that forward the updates that it flushes, each by one of
    ``forwards``."""

    builder: AnyStoreBuilder
    opened: StateStore
    forwarded_by: list[str] = field(default_factory=list)
    forwards: list[OnFlush] = field(default_factory=list)
    _listeners: set[tuple[str, ...]] = field(default_factory=set)

    @property
    def buffer(self) -> WriteBuffer:
        """The buffer with the changes of a store of the DSL: of a key-value store by key, of a windowed one by row."""
        assert isinstance(self.opened, BufferedStateStore)
        return self.opened.buffer

    @property
    def windowed(self) -> ExpiringStateStore:
        """The window or session store itself."""
        assert isinstance(self.opened, ExpiringStateStore)
        return self.opened

    def listen(self, node: str, on_flush: OnFlush, old_values: bool, children: Iterable[str] = ()) -> None:
        """Call ``on_flush`` with each update that a cached store flushes, and have ``node`` forward them to
        ``children``. If several nodes that write the store have the same ones (cogroup), one forwards for all.

        Operators have no other way: the nodes that a flush is forwarded to decide if records may be processed meanwhile
        (:mod:`~penstock.tasks.flush_isolation`).
        """
        self.forwarded_by.append(node)
        self.forwards.append(on_flush)
        names = tuple(children)
        if names not in self._listeners or not names:
            assert isinstance(self.opened, BufferedStateStore)
            self.opened.listen(on_flush, old_values)
        self._listeners.add(names)

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of its keys, which the task has made sure is there."""
        serde = self.builder.key_serde
        assert serde is not None
        return serde


class UserObject(Protocol):
    """Object that begins and ends with its task: a processor, a transformer."""

    def init(self, context: Any, /) -> None:
        """Called when the task begins."""

    def close(self) -> None:
        """Called when the task ends."""


class Hosted(Protocol):
    """An object of the user's in its task, with the context it is given; ``name`` is that of its node."""

    name: str

    @property
    def processor(self) -> UserObject:
        """The object."""

    @property
    def context(self) -> Any:
        """The context that its ``init`` is called with."""


@dataclass(frozen=True)
class Wiring:
    """All that the closure of node ``name`` is made from.

    Every node may read ``global_stores``. ``forward`` forwards to all children; ``children`` has them one by one.
    ``undecoded_key`` is the serde of keys that it receives as bytes, None if it receives them decoded;
    ``undecoded_value`` that of values. ``hands_on_bytes``: its children receive keys as bytes. ``sink_key_serdes``: the
    key serdes of the sinks among its children. A processor of the user's adds itself to ``processors`` and its
    schedules to ``punctuations``. ``looks_behind_caches``: a look-up finds the value forwarded last, not the update
    that waits in a cache. ``cached_stores``: the stores of the task that hold updates back until they are flushed.
    ``calls``: those of the task; None where nothing may call out. ``emits_in_order``: True if the results of calls are
    forwarded in the order of the input.
    """

    name: str
    context: TaskContext
    config: StreamsConfig
    children: Mapping[str, Edge]
    stores: Mapping[str, Store]
    global_stores: Mapping[str, Store]
    collector: RecordCollector
    processors: list[Hosted]
    punctuations: Mapping[PunctuationType, PunctuationQueue]
    undecoded_key: Serde[Any] | None
    undecoded_value: Serde[Any] | None
    hands_on_bytes: bool
    sink_key_serdes: tuple[Serde[Any], ...] = ()
    sender_of: SenderOf | None = None
    looks_behind_caches: bool = False
    cached_stores: frozenset[str] = frozenset()
    calls: TaskCalls | None = None
    emits_in_order: bool = False

    def sender(self, topic: str) -> Send:
        """Returns the function by which this node, a sink, sends to ``topic``."""
        return self.collector.send if self.sender_of is None else self.sender_of(self.name, topic)

    @property
    def store(self) -> Store:
        """The store of a node that uses a single one."""
        (store,) = self.stores.values()
        return store

    @property
    def forward(self) -> StreamEdge:
        """One closure for all children, in their order."""
        return fan_out(list(self.children.values()))

    @property
    def forward_change(self) -> TableEdge:
        """One closure for all children, in their order, of a node whose children take table edges."""
        return fan_out_changes(list(self.children.values()))

    def observed_time(self) -> Remembered:
        """Returns the stream time that this node has observed: the largest timestamp that reached it, before a restart
        too.

        Kafka Streams begins again after a restart, and takes records that are too late.
        """
        return self.context.remembered.setdefault(self.name + STREAM_TIME, Remembered())

    def shared_observed_time(self, store: Store) -> Remembered:
        """Returns the :meth:`observed_time` of all nodes together that share ``store``."""
        return self.context.remembered.setdefault(store.builder.name + STREAM_TIME, Remembered())

    def advances_when_idle(
        self,
        observed: Remembered,
        advance: Callable[[int], None],
        now: Callable[[], int] | None = None,
        holds: Callable[[], bool] | None = None,
        resume: Callable[[int], None] | None = None,
    ) -> None:
        """Let this node's time advance by the wall clock while no records come (``window.idle.advance.ms``): see
        :class:`~penstock.tasks.idle_time.Advancing`. Without that setting, nothing happens."""
        if self.context.idle is not None:
            self.context.idle.add(self.name, observed, advance, now, holds, resume)

    def close_time(self, store: Store) -> Remembered:
        """Returns the close time of the last emission of windows of ``store``: the stream time then, less the grace
        period. As in Kafka Streams, it is remembered under the name of the store."""
        return self.context.remembered.setdefault(store.builder.name, Remembered())

    @property
    def failed(self) -> Failed:
        """:meth:`Failures.in_operator`, called with key and value as users know them."""
        return self._readable(self.context.failures.in_operator)

    @property
    def failed_call(self) -> Failed:
        """:meth:`Failures.in_call`, called with key and value as users know them."""
        return self._readable(self.context.failures.in_call)

    def _readable(self, failed: Failed) -> Failed:
        readable_key, readable_value = self.readable_key, self.readable_value
        if self.undecoded_key is None and self.undecoded_value is None:
            return failed

        def run(error: Exception, name: str, key: Any, value: Any, timestamp: int) -> None:
            failed(error, name, readable_key(key), readable_value(value), timestamp)

        return run

    def failed_at(self, *stores: Store) -> Failed:
        """Returns :meth:`failed`, which first finds out if the serde of one of ``stores`` has refused the key."""
        failed = self.failed
        if self.undecoded_key is not None:
            return failed

        def run(error: Exception, name: str, key: Any, value: Any, timestamp: int) -> None:
            refused = None if key is None else next(filter(None, (_refusal(store, key) for store in stores)), None)
            failed(refused or error, name, key, value, timestamp)

        return run

    def readable_key(self, key: Any) -> Any:
        """Returns ``key`` as users know it, for an error; bytes that cannot be decoded stay bytes."""
        if key is None or self.undecoded_key is None:
            return key
        try:
            return self.undecoded_key.deserialize(key)
        except Exception:  # the error is another one, and the key only says where
            return key

    def readable_value(self, value: Any) -> Any:
        """Returns ``value`` as users know it, for an error; bytes that cannot be decoded stay bytes."""
        if value is None or self.undecoded_value is None:
            return value
        if isinstance(value, Change):
            return Change(self.readable_value(value.new_value), self.readable_value(value.old_value))
        try:
            return self.undecoded_value.deserialize(value)
        except Exception:  # as in readable_key
            return value

    def key_to_bytes(self, store: Store) -> Callable[[Any], bytes] | None:
        """Returns the function that turns a key into a key of ``store``; None when it is bytes already."""
        return store.key_serde.serialize if self.undecoded_key is None else None

    def to_windowed_key(self, store: Store) -> Callable[[Any, Window], Any]:
        """Returns the function that turns a key that this node receives, and a window, into the windowed key that its
        children expect."""
        if self.hands_on_bytes:
            key_bytes, suffix = self.key_to_bytes(store) or _same, store.windowed.rows.schema.topic_suffix
            return lambda key, window: key_bytes(key) + suffix(window)
        if self.undecoded_key is None:
            return Windowed
        decode = store.key_serde.deserialize
        return lambda key, window: Windowed(decode(key), window)

    def row_to_windowed_key(self, store: Store) -> Callable[[bytes], Any]:
        """Returns the function that turns the key of a row of ``store`` into the windowed key that the children of this
        node expect."""
        rows = store.windowed.rows
        return rows.schema.topic_key if self.hands_on_bytes else rows.windowed_keys(store.key_serde.deserialize)

    def bytes_to_key(self, store: Store) -> Callable[[bytes], Any]:
        """Returns the function that turns a key of ``store`` into the form that the children of this node expect."""
        return store.key_serde.deserialize if self.undecoded_key is None else _same


def _same(data: Any) -> Any:
    return data


def _refusal(store: Store, key: Any) -> SerializationError | None:
    """Returns the error with which the serde of ``store`` refuses ``key``; None if it takes it."""
    serde = store.key_serde
    try:
        serde.serialize(key)
    except Exception as refused:
        error = SerializationError(
            f"store {store.builder.name}: {why_refused(serde, key, refused)}. Give the store the serde of the "
            "stream's keys (Consumed, Grouped, Materialized), or the stream keys of that type"
        )
        error.__cause__ = refused
        return error
    return None


def fan_out(edges: Sequence[StreamEdge]) -> StreamEdge:
    """One closure that calls ``edges`` in order."""
    if len(edges) == 1:
        return edges[0]

    def run(key: Any, value: Any, timestamp: int) -> None:
        for edge in edges:
            edge(key, value, timestamp)

    return run


def fan_out_changes(edges: Sequence[TableEdge]) -> TableEdge:
    """One closure that calls ``edges`` in order."""
    if len(edges) == 1:
        return edges[0]

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        for edge in edges:
            edge(key, new, old, timestamp)

    return run
