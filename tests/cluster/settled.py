"""Waiting for an application whose tasks will not move by themselves any more."""

from __future__ import annotations

from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.status import ApplicationState, ApplicationStatus
from tests.waiting import PATIENCE_S, eventually


def until_settled(app: KafkaStreams, timeout_s: float = PATIENCE_S) -> ApplicationStatus:
    """Waits until all wanted actors are up and run all tasks. Returns a status that says so.

    ``wait_until_running`` returns as soon as all tasks run, which may be on the first actor alone. When the next one is
    up, tasks move to it: for a moment the state is REBALANCING, a task has no actor, and its counts begin at zero.
    """
    seen: list[ApplicationStatus] = []

    def settled() -> bool:
        seen[:] = [app.status()]
        return is_settled(seen[0])

    eventually(settled, f"{app.application_id} is settled", timeout_s)
    return seen[0]


def is_settled(status: ApplicationStatus) -> bool:
    """Returns True if all wanted actors are up, and each reports the tasks that it is meant to have."""
    reported = {task.task_id: actor.actor_id for actor in status.actors for task in actor.tasks}
    return (
        status.state is ApplicationState.RUNNING
        and status.scaling is not None
        and len(status.actors) == status.scaling.wanted
        and status.lag_is_known
        and not status.moving
        and reported == status.placement
    )
