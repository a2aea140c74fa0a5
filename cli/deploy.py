"""``penstock deploy``: a new version of a program replaces the one that runs, task by task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.loading import load_application
from penstock.cli.rolling import Counted, Progress, obstacles
from penstock.cluster.programs.deploy_plan import plan_deploy
from penstock.cluster.programs.description import Description, description_of
from penstock.cluster.read_side import ApplicationState, ApplicationStatus, RolloutPhase
from penstock.common.errors import ApplicationStateError

if TYPE_CHECKING:
    from penstock.cluster.client.kafka_streams import KafkaStreams

_LOOK_EACH_S = 0.25


def register(app: typer.Typer) -> None:
    """Mount ``deploy`` on the root."""
    app.command()(deploy)


def deploy(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The new version of a running application")],
    watch: Annotated[
        float, typer.Option(min=0, help="Seconds for which a failure of the new version brings the old one back")
    ] = 60.0,
) -> None:
    """Replace the program of a running application, task by task; a version that fails is rolled back.

    Exit code 0 if the new version has been watched for long enough, or waits for tasks in a cluster that has none; 1
    if it is refused or was rolled back.
    """
    with _message_at_ctrl_c("Interrupted: nothing was deployed"):
        application = load_application(target)
        from penstock.cluster.client import deploying
        from penstock.cluster.ray_cluster import connections

        name = application.application_id
        connections.connect_to(name)
        running = deploying.running_version(name)
        _refuse_unlike(application, description_of(running.program.topology, running.program.config))
    with _message_at_ctrl_c(f"Interrupted: 'penstock status {name}' shows if the roll-out has begun"):
        generation = deploying.begin_rollout(running, application, watch)
        typer.echo(f"{name}: version {generation} is rolled out")
    with _message_at_ctrl_c(f"The roll-out continues: 'penstock status {name}' shows it"):
        follow(name, generation, statuses_of(running.coordinator))


@contextmanager
def _message_at_ctrl_c(what: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(what, err=True)
        raise


def _refuse_unlike(application: KafkaStreams, before: Description) -> None:
    after = description_of(application.topology, application.config)
    if found := obstacles(plan_deploy(before, after), before, after):
        raise ApplicationStateError(
            f"the new version of application {application.application_id!r} cannot take over task by task. Stop the "
            "application and start the new version, or reset it where 'penstock plan' demands that:\n"
            + "\n".join(f"  {line}" for line in found)
        )


def statuses_of(coordinator: Any) -> Iterator[ApplicationStatus]:
    """Yields the status again and again, also while the coordinator is being restarted."""
    from penstock.cluster.client.control import status_of

    while True:
        try:
            status = status_of(coordinator)
        except ApplicationStateError as error:  # it is being restarted, and continues with the roll-out
            typer.echo(str(error), err=True)
        else:
            if status is None:
                raise ApplicationStateError("the application was ended during the roll-out")
            yield status
        time.sleep(_LOOK_EACH_S)


def follow(application_id: str, generation: int, statuses: Iterator[ApplicationStatus]) -> None:
    """Report the roll-out of version ``generation`` until it is done, or until nothing is left to do in a cluster that
    has no tasks. Raises ApplicationStateError when the version was rolled back, or made way for another, or the
    application has ended."""
    progress, counted = Progress(), Counted()
    for status in statuses:
        rollout = status.rollout
        if rollout.last < generation:
            continue  # a restarted coordinator has not begun yet
        if rollout.last > generation:
            raise ApplicationStateError(f"version {generation} made way for version {rollout.last}, deployed meanwhile")
        counted.look(status)
        for line in progress.lines(status):
            typer.echo(line)
        if status.state.has_ended:
            raise ApplicationStateError(
                f"application {application_id!r} ended during the roll-out in state {status.state.value}: "
                f"{status.error or 'it was stopped'}"
            )
        if rollout.phase is RolloutPhase.ROLLED_BACK:
            raise ApplicationStateError(
                f"version {generation} of application {application_id!r} failed and was rolled back; version "
                f"{rollout.generation} runs every task. It failed with: {rollout.reason}"
            )
        if _has_no_tasks(status):
            typer.secho(
                f"{application_id}: version {generation} has replaced the old one, but the group gives no task to this "
                f"Ray cluster. The version stays on trial until tasks run it here for {rollout.watch_s:g} s. Deploy it "
                "at the other Ray clusters of the group, too",
                fg="yellow",
            )
            return
        if rollout.phase is RolloutPhase.DONE:
            proven = f"{application_id}: version {generation} runs every task; since it began it has {counted}"
            typer.secho(proven, fg="yellow" if counted.dropped else None)
            return


def _has_no_tasks(status: ApplicationStatus) -> bool:
    """True if all actors run the version on trial, and wait for tasks. In any other state the group may still give
    tasks."""
    watching = status.rollout.phase is RolloutPhase.WATCHING
    return watching and status.state is ApplicationState.RUNNING and status.task_count == 0
