"""The read-only stores of a driver: a restart must take from their topics what their processors have kept."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common.errors import RuleBrokenError
from penstock.state.contracts import TaskStores
from penstock.state.key_value.store import KeyValueStateStore
from penstock.tasks.state_manager import StateManager
from penstock.topology.physical.operators.process import ReadOnlyStoreProcess
from penstock.topology.physical.topology import ProcessorNode, SourceNode, Topology

Rows = dict[bytes, bytes | None]


class ReadOnlyStores:
    """The read-only key-value stores of ``topology``, each with the records that have come from its topic."""

    def __init__(self, topology: Topology) -> None:
        nodes = {node.name: node for sub in topology.subtopologies for node in sub.nodes}
        self._store_of: dict[str, str] = {}
        for node in nodes.values():
            if isinstance(node, ProcessorNode) and isinstance(node.operator, ReadOnlyStoreProcess):
                source = nodes[node.parents[0]]
                assert isinstance(source, SourceNode)
                self._store_of[source.topics[0]] = node.operator.store_names[0]
        self._records: dict[str, list[tuple[bytes, bytes | None, int]]] = {}
        self._dropped = 0

    def piped(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int) -> None:
        """Called before a record of ``topic`` is processed."""
        if topic in self._store_of and key is not None:
            self._records.setdefault(self._store_of[topic], []).append((key, value, timestamp))

    def check(self, manager: StateManager, rows: TaskStores) -> None:
        """After a commit. Raises RuleBrokenError for a row that a restart would make another one; but not where a
        record was dropped, which a restart takes in (KAFKA-8037)."""
        records_of, self._records = self._records, {}
        dropped, self._dropped = self._dropped, manager.context.dropped_records
        if dropped != self._dropped:
            return
        for name, records in records_of.items():
            store = manager.store(name)
            if isinstance(store, KeyValueStateStore):
                keys, values, timestamps = zip(*records, strict=True)
                restored = _Restored()
                store.restore(restored, keys, values, timestamps)
                for key, row in restored.rows.items():
                    _compare(name, key, row, rows.store(name).get(key))


def _compare(store: str, key: bytes, restored: bytes | None, kept: bytes | None) -> None:
    if restored != kept:
        raise RuleBrokenError(
            f"read-only store {store}: its processor keeps {kept!r} under key {key!r}, and a restart would restore "
            f"{restored!r}, as the store's topic has it. Put each record as it is; data in another form "
            "belongs in a store with a changelog of its own (docs/PROCESSORS.md, Stores)"
        )


class _Restored:
    """A batch that is not written."""

    def __init__(self) -> None:
        self.rows: Rows = {}

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self.rows[key] = row

    def put_all(self, store: str, rows: Rows) -> Iterator[None]:
        self.rows.update(rows)
        return iter(())

    def delete(self, store: str, key: bytes) -> None:
        self.rows[key] = None

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        raise AssertionError("a key-value store restores key by key")
