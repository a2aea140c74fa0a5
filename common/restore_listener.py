"""The listener that hears of the progress of restoring each store."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.common.ids import TopicPartition


class StateRestoreListener(ABC):
    """Hears of every store that is restored from its changelog: start, batches, end. Mirrors ``StateRestoreListener``.

    It travels to the stream actors, where it is called by the thread that restores and processes, between records: it
    must not block. What it raises ends the application.
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
        """``num_restored`` more records are in the store, the last one at ``batch_end_offset``."""

    @abstractmethod
    def on_restore_end(self, partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The store is restored, with ``total_restored`` records since the start."""

    def on_restore_suspended(  # noqa: B027  # most have nothing to do
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The task leaves this actor, or the store begins again, before the store had all; ``total_restored`` records
        are in it."""
