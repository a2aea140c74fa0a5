"""The wait until the tasks of an application will not move by themselves any more."""

from __future__ import annotations

from penstock.actors.status import TaskState
from penstock.cluster.client.control import CoordinatorSilentError
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.client.running_application import RunningApplication
from penstock.cluster.status import ApplicationState, ApplicationStatus
from tests.waiting import PATIENCE_S, eventually, once_ready


def until_settled(app: KafkaStreams | RunningApplication, timeout_s: float = PATIENCE_S) -> ApplicationStatus:
    """Waits until all wanted actors are up and run all tasks. Returns a status that says so.

    ``wait_until_running`` returns as soon as all tasks run, which may be on the first actor alone. When the next one is
    up, tasks move to it: for a moment the state is REBALANCING, a task has no actor, and its counts begin at zero.
    It also waits for a coordinator that is being restarted.
    """
    seen: list[ApplicationStatus] = []

    def settled() -> bool:
        seen[:] = [once_ready(app.status, CoordinatorSilentError)]
        return is_settled(seen[0])

    eventually(settled, f"{app.application_id} is settled", timeout_s)
    return seen[0]


def is_settled(status: ApplicationStatus) -> bool:
    """Returns True if all wanted actors are up, and each reports that it runs the tasks that it is meant to have. A
    report from before that would lack figures of the tasks."""
    tasks = [(actor.actor_id, task) for actor in status.actors for task in actor.tasks]
    reported = {task.task_id: actor_id for actor_id, task in tasks if task.state is TaskState.RUNNING}
    return (
        status.state is ApplicationState.RUNNING
        and status.scaling is not None
        and len(status.actors) == status.scaling.wanted
        and status.lag_is_known
        and not status.moving
        and reported == status.placement
    )
