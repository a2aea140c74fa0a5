"""The events that the user's restore listener receives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.standby_listener import SuspendReason


class RestoreEvents:
    """Events of one store. ``total``: the number of restored records that the listener knows of. Without a listener
    nothing is called.

    An exception of the listener is raised as a StreamsError, which ends the actor.
    """

    def __init__(self, listener: StateRestoreListener | None, partition: TopicPartition, store: str) -> None:
        self.total = 0
        self._listener = listener
        self._partition = partition
        self._store = store

    def start(self, begin: int, end: int) -> None:
        """The store is restored from ``begin`` up to ``end``."""
        self.total = 0
        if self._listener is not None:
            with self._calling("on_restore_start"):
                self._listener.on_restore_start(self._partition, self._store, begin, end)

    def restored(self, position: int, total: int) -> None:
        """The store has ``total`` records now, the last one before ``position``."""
        more, self.total = total - self.total, total
        if more and self._listener is not None:
            with self._calling("on_batch_restored"):
                self._listener.on_batch_restored(self._partition, self._store, position - 1, more)

    def end(self) -> None:
        """The store has all records."""
        if self._listener is not None:
            with self._calling("on_restore_end"):
                self._listener.on_restore_end(self._partition, self._store, self.total)

    def suspended(self, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        """The store is not restored any further; ``reason`` is that of a standby."""
        if self._listener is not None:
            with self._calling("on_restore_suspended"):
                self._listener.on_restore_suspended(self._partition, self._store, self.total)

    def _calling(self, method: str) -> AbstractContextManager[None]:
        return calling(self._listener, method, self._partition, self._store)


@contextmanager
def calling(listener: object, method: str, partition: TopicPartition, store: str) -> Iterator[None]:
    """Raise an exception of ``listener`` as a StreamsError that names the listener."""
    try:
        yield
    except Exception as error:
        raise StreamsError(
            f"{type(listener).__name__}.{method} raised an exception for store {store!r}, partition "
            f"{partition.partition} of {partition.topic!r}: {error!r}. A listener must catch what it may raise"
        ) from error
