"""The listener that is called with the progress of standbys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

from penstock.common.ids import TaskId, TopicPartition


class SuspendReason(Enum):
    """Reasons why a standby is no longer followed. Mirrors ``StandbyUpdateListener.SuspendReason``."""

    MIGRATED = "migrated"
    """The standby is closed, or wiped and begun again, or its actor ends."""
    PROMOTED = "promoted"
    """The task continues here, over these stores."""


class StandbyUpdateListener(ABC):
    """Called for every store of a standby that follows its changelog: start, batches, end. Mirrors
    ``StandbyUpdateListener`` (KIP-988).

    Each stream actor has a copy of it. The thread that follows and processes calls it between records, so it must not
    block. An exception in it ends the application.
    """

    @abstractmethod
    def on_update_start(self, partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """The store of this partition of a changelog is followed from ``starting_offset`` on. No record from there on
        is in it yet."""

    @abstractmethod
    def on_batch_loaded(
        self,
        partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """The store has ``batch_size`` more records, the last one at ``batch_end_offset``. ``current_end_offset`` is
        the end of the changelog, −1 if it is not known here."""

    @abstractmethod
    def on_update_suspended(
        self,
        partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """The store is no longer followed; the last record in it is that at ``store_offset``. If an active task is made
        of the standby, this is called before the task restores the records that are lacking."""
