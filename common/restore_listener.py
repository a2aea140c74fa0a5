"""The listener that is called with the progress of restoring each store."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.common.ids import TopicPartition


class StateRestoreListener(ABC):
    """Called for every store that is restored from its changelog: start, batches, end. Mirrors
    ``StateRestoreListener``.

    Each stream actor has a copy of it. The thread that restores and processes calls it between records, so it must not
    block. An exception in it ends the application.
    """

    @abstractmethod
    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """The store of this partition of a changelog is restored from ``starting_offset`` up to ``ending_offset``."""

    @abstractmethod
    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """The store has ``num_restored`` more records, the last one at ``batch_end_offset``."""

    @abstractmethod
    def on_restore_end(self, partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store is restored, with ``total_restored`` records since the start."""

    def on_restore_suspended(  # noqa: B027  # most have nothing to do
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The task leaves this actor, or the restore begins again, before the store is complete; ``total_restored``
        records are in it."""
