"""What the factory of an operator's closure is given: its name, its successors, the stores, the task's context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import StateStore
from penstock.state.key_value.store import KeyValueStateStore
from penstock.state.versioned.store import VersionedStateStore
from penstock.state.write_buffer import OnFlush, WriteBuffer
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.punctuation import PunctuationQueue
from penstock.topology.processor import PunctuationType

if TYPE_CHECKING:
    from penstock.tasks.operators.process import TaskProcessor

StreamEdge = Callable[[Any, Any, int], None]
"""(key, value, timestamp)"""
TableEdge = Callable[[Any, Any, Any, int], None]
"""(key, new value, old value or None, timestamp)"""
Edge = Callable[..., None]


@dataclass(frozen=True)
class Store:
    """A store as operators use it. ``forwarded_by``: the nodes that forward what its flush tells them."""

    builder: AnyStoreBuilder
    opened: StateStore
    forwarded_by: list[str] = field(default_factory=list)

    @property
    def buffer(self) -> WriteBuffer:
        """Where the changes of a store of keys and values are, which is what the operators of tables and aggregates
        write: of a versioned store the latest version of each key."""
        assert isinstance(self.opened, KeyValueStateStore | VersionedStateStore)
        return self.opened.buffer

    def listen(self, node: str, on_flush: OnFlush, old_values: bool) -> None:
        """Have ``on_flush`` hear of each update that a cached store flushes, and ``node`` forward them.

        Operators have no other way: where a flush is forwarded to decides whether records may run beside it
        (:mod:`~penstock.tasks.flush_isolation`).
        """
        self.buffer.listen(on_flush, old_values)
        self.forwarded_by.append(node)

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of its keys, which the task has made sure is there."""
        serde = self.builder.key_serde
        assert serde is not None
        return serde


@dataclass(frozen=True)
class Wiring:
    """All that the closure of node ``name`` is made from.

    ``forward`` hands on to all children; ``children`` has them one by one. ``undecoded_key`` is the serde of keys that
    it receives as bytes, None when it receives them decoded; ``undecoded_value`` that of values. A processor of the
    user's adds itself to ``processors`` and its schedules to ``punctuations``.
    """

    name: str
    context: TaskContext
    children: Mapping[str, Edge]
    stores: Mapping[str, Store]
    collector: RecordCollector
    processors: list[TaskProcessor]
    punctuations: Mapping[PunctuationType, PunctuationQueue]
    undecoded_key: Serde[Any] | None
    undecoded_value: Serde[Any] | None

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
        """The same for a node whose children take table edges."""
        return fan_out_changes(list(self.children.values()))

    @property
    def failed(self) -> Callable[[Exception, str, Any], None]:
        """:meth:`TaskContext.failed`, told the key as users know it."""
        failed, readable_key = self.context.failed, self.readable_key
        return failed if self.undecoded_key is None else lambda error, name, key: failed(error, name, readable_key(key))

    def failed_at(self, store: Store) -> Callable[[Exception, str, Any], None]:
        """:meth:`failed`, which first finds out whether it was the store's serde that refused the key."""
        failed, serde = self.failed, store.key_serde
        if self.undecoded_key is not None:
            return failed

        def run(error: Exception, name: str, key: Any) -> None:
            try:
                if key is not None:
                    serde.serialize(key)
            except Exception as refused:
                error = SerializationError(
                    f"store {store.builder.name}: {why_refused(serde, key, refused)}. Give the store the serde of the "
                    "stream's keys (Consumed, Grouped, Materialized), or the stream keys of that type"
                )
                error.__cause__ = refused
            failed(error, name, key)

        return run

    def readable_key(self, key: Any) -> Any:
        """``key`` as users know it, for an error; bytes that cannot be decoded stay bytes."""
        if key is None or self.undecoded_key is None:
            return key
        try:
            return self.undecoded_key.deserialize(key)
        except Exception:  # the error is another one, and the key only says where
            return key

    def key_to_bytes(self, store: Store) -> Callable[[Any], bytes] | None:
        """How a key becomes a key of ``store``; None when it is bytes already."""
        return store.key_serde.serialize if self.undecoded_key is None else None

    def bytes_to_key(self, store: Store) -> Callable[[bytes], Any]:
        """How a key of ``store`` becomes what the children of this node expect."""
        return store.key_serde.deserialize if self.undecoded_key is None else _same


def _same(data: bytes) -> Any:
    return data


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
