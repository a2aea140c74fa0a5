"""``penstock move-task`` and ``penstock restart-actor``: change where the tasks of an application run."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from penstock.cli.output import console
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId

_App = Annotated[str, typer.Argument(metavar="APP", help="The application's id")]
_Actor = Annotated[str, typer.Argument(metavar="ACTOR", help="The stream actor's id, such as stream/2")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the root."""
    app.command(name="move-task")(move_task)
    app.command(name="restart-actor")(restart_actor)


def move_task(
    application: _App,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id, such as 1_3")],
    actor: _Actor,
) -> None:
    """Move a task to another stream actor.

    A task with stores moves when these have caught up there. It stays there until a stream actor comes or goes.
    """
    try:
        task_id = TaskId.parse(task)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _operate(application, f"move task {task} to {actor}", "move_task", task_id, actor)
    where = f"'penstock top {application}' shows when it is there"
    _print(f"Task {task} of application {application} moves to {actor}: {where}")


def restart_actor(application: _App, actor: _Actor) -> None:
    """Let a stream actor commit and end, and start another in its place."""
    _operate(application, f"restart {actor}", "restart_actor", actor, uuid.uuid4().hex)
    _print(f"Actor {actor} of application {application} commits and ends, and another starts in its place")


def _operate(application: str, what: str, method: str, *arguments: Any) -> None:
    from penstock.cluster.client import actor_changes
    from penstock.cluster.client.operations_log import log_operation
    from penstock.cluster.ray_cluster import connections
    from penstock.cluster.ray_cluster.named_actors import require_coordinator

    connections.connect_to(application)
    coordinator = require_coordinator(application)
    refused = actor_changes.ask_coordinator(coordinator, method, *arguments)
    log_operation(coordinator, what, "begun" if refused is None else f"refused: {refused}")
    if refused is not None:
        raise ApplicationStateError(f"application {application!r} does not {what}: {refused}")


def _print(text: str) -> None:
    console(soft_wrap=True).print(text, markup=False, highlight=False)
