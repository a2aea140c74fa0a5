"""Reports in the log that tasks drop records: late ones, those without a time or a key that an operator needs, others.

Kafka Streams writes a line for each such record. Here a line covers all that a task has dropped since the last one.
Records that a handler of exceptions drops are left out: the handler has reported them, as ``LogAndContinue`` does. The
metric ``dropped-records-total`` counts all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from structlog.stdlib import BoundLogger

from penstock.actors.status import ActorStatus
from penstock.common.ids import TaskId

_EACH_S = 30.0


class DroppedRecords:
    """Hears what every actor reports. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float], log: BoundLogger) -> None:
        self._clock = clock
        self._log = log
        self._logged: dict[tuple[str, TaskId], tuple[float, int]] = {}

    def reported(self, status: ActorStatus) -> None:
        """Log a line for each task that has dropped more than was reported, one in half a minute at most."""
        now = self._clock()
        mine = {
            (status.actor_id, task.task_id): task.dropped_records - task.dropped_by_handlers for task in status.tasks
        }
        for task in [task for task in self._logged if task[0] == status.actor_id and task not in mine]:
            del self._logged[task]
        for task, dropped in mine.items():
            logged_s, logged = self._logged.get(task, (now - _EACH_S, 0))
            logged = min(logged, dropped)  # a task that was taken back to its last commit counts from zero again
            if dropped > logged and now - logged_s >= _EACH_S:
                self._logged[task] = now, dropped
                self._log.warning(
                    "records dropped: they came late, lack a valid timestamp, or a key or value that an operator needs",
                    task=str(task[1]), actor=task[0], records=dropped - logged, since_the_task_began=dropped,
                )  # fmt: skip
            elif task in self._logged:
                self._logged[task] = logged_s, logged
