"""The events that the user's standby update listener receives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from typing_extensions import override

from penstock.actors.restore.restore_events import RestoreEvents, calling
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.standby_listener import StandbyUpdateListener, SuspendReason


class StandbyEvents(RestoreEvents):
    """Events of one store of a standby. ``end`` returns the end of its changelog, None if it is not known."""

    def __init__(
        self,
        listener: StandbyUpdateListener,
        partition: TopicPartition,
        store: str,
        task_id: TaskId,
        end: Callable[[], int | None],
    ) -> None:
        super().__init__(None, partition, store)
        self._to = listener
        self._task_id = task_id
        self._end = end
        self._position = 0

    @override
    def start(self, begin: int, end: int) -> None:
        super().start(begin, end)
        self._position = begin
        with self._calls("on_update_start"):
            self._to.on_update_start(self._partition, self._store, begin)

    @override
    def restored(self, position: int, total: int) -> None:
        more, self.total, self._position = total - self.total, total, position
        if more:
            with self._calls("on_batch_loaded"):
                self._to.on_batch_loaded(
                    self._partition, self._store, self._task_id, position - 1, more, self._end_offset()
                )

    @override
    def suspended(self, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        with self._calls("on_update_suspended"):
            self._to.on_update_suspended(self._partition, self._store, self._position - 1, self._end_offset(), reason)

    def _end_offset(self) -> int:
        end = self._end()
        # This end may be outdated. Records that were read since exist, so the end is at least the position.
        return -1 if end is None else max(end, self._position)

    def _calls(self, method: str) -> AbstractContextManager[None]:
        return calling(self._to, method, self._partition, self._store)
