"""The contexts and buffers that a task would give a store, for tests that play the task themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from penstock.common.serdes import Serde, Serdes
from penstock.state.contracts import CommittedStore, Log, StateStore, StateStoreContext
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.rows.row_formats import VALUE, RowFormat
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.write_buffer import WriteBuffer


def a_context(
    committed: CommittedStore, log: Log | None = None, caching: bool = False, now: Callable[[], int] = lambda: 0
) -> StateStoreContext:
    """Returns the context of a store with these rows; records that it drops are not counted."""
    return StateStoreContext(committed, log, caching, now, lambda: None)


def a_buffer(
    committed: CommittedStore,
    value_serde: Serde[Any],
    log: Log | None = None,
    caching: bool = False,
    row_format: RowFormat = VALUE,
    name: str = "store",
) -> WriteBuffer:
    """Returns a write buffer over these rows."""
    return WriteBuffer(name, value_serde, row_format, a_context(committed, log, caching))


class _Store(BufferedStateStore):
    @override
    def view(self) -> WriteBuffer:
        return self.buffer


def a_store_over(buffer: WriteBuffer) -> StateStore:
    """Returns a store that keeps its changes in ``buffer``."""
    return _Store(KeyValueStoreBuilder(buffer.name, Serdes.bytes()), buffer, a_context(buffer.committed))
