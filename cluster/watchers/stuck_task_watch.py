"""Looks for stuck tasks every few seconds, and logs them. ``stuck_tasks.py`` defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structlog.stdlib import BoundLogger

from penstock.actors.status import ActorStatus
from penstock.cluster.status import StuckTask
from penstock.cluster.watchers.silence import HUNG_S
from penstock.cluster.watchers.stuck_tasks import StuckTasks
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId

LOOK_EVERY_S = 2.0


def patience_s(config: StreamsConfig) -> float:
    """Returns the seconds without progress after which a task is stuck: one record may take as long as an actor may be
    silent (``HUNG_S``), after the longest wait for an empty partition that is asked for."""
    return HUNG_S + max(0, config.max_task_idle_ms) / 1000


class StuckTaskWatch:
    """Keeps the stuck tasks, and logs each: once when it is stuck, once when it continues."""

    def __init__(self, config: StreamsConfig, clock_s: Callable[[], float], log: BoundLogger) -> None:
        self._tasks = StuckTasks(patience_s(config))
        self._clock_s = clock_s
        self._log = log
        self.stuck: tuple[StuckTask, ...] = ()

    def look(self, actors: Sequence[ActorStatus], may_work: bool) -> None:
        """Find the stuck tasks by the last reports of the actors."""
        before: set[TaskId] = {it.task_id for it in self.stuck}
        self.stuck = self._tasks.look(self._clock_s(), actors, may_work)
        for it in self.stuck:
            if it.task_id not in before:
                where = {"topic": it.topic, "partition": it.partition, "offset": it.offset, "lag": it.lag}
                self._log.error("task is stuck", task=str(it.task_id), actor=it.actor_id, for_s=it.for_s, **where)
        for task_id in sorted(before - {it.task_id for it in self.stuck}) if may_work else ():
            self._log.info("task is not stuck any more", task=str(task_id))
