"""``penstock status|stop|pause|resume``: show, pause and stop applications from outside. ``query``: ``query.py``."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table

from penstock.api.status import application_body
from penstock.cli.draining import STOPPED, not_drained
from penstock.cli.live_view import LiveView, state_text
from penstock.cli.output import AsJson, console, print_json
from penstock.cluster.read_side import ApplicationStatus
from penstock.common.errors import ApplicationStateError

Application = Annotated[str, typer.Argument(metavar="APP", help="The application's id")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the root."""
    app.command()(status)
    app.command()(stop)
    app.command()(pause)
    app.command()(resume)


def status(
    application: Annotated[
        str | None, typer.Argument(metavar="APP", help="The application's id; by default all")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show an application's state, tasks, placement and lag; or list the applications of every Ray cluster here."""
    from penstock.cluster.client import control
    from penstock.cluster.ray_cluster import connections

    if application is None:
        _list(as_json)
        return
    connections.connect_to(application)
    found = control.require_status(application)
    if as_json:
        print_json(application_body(found))
    else:
        console().print(LiveView(rates=False).render(found, time.monotonic()))


def _list(as_json: bool) -> None:
    from penstock.cluster.client import control
    from penstock.cluster.ray_cluster import connections

    found: list[tuple[str, ApplicationStatus]] = []
    silent: list[str] = []
    for cluster in connections.each_cluster():
        for name in cluster.applications:
            try:
                found.append((cluster.address, control.require_status(name)))
            except ApplicationStateError as error:  # the others are shown all the same
                silent.append(f"{name} at {cluster.address}: {error}")
    if as_json:
        print_json([{"ray_address": address, **application_body(status)} for address, status in found])
    else:
        console().print(_overview(found) if found else "No application runs.")
    if silent:
        raise ApplicationStateError("; ".join(silent))


def _overview(found: list[tuple[str, ApplicationStatus]]) -> Table:
    several = len({address for address, _ in found}) > 1
    table = Table("Application", "State", "Actors", "Tasks", "HTTP", *(["Ray cluster"] if several else []))
    for address, each in sorted(found, key=lambda row: (row[1].application_id, row[0])):
        row = (each.application_id, state_text(each), str(len(each.actors)), _tasks(each))
        table.add_row(*row, each.http_address or "", *([address] if several else []))
    return table


def _tasks(status: ApplicationStatus) -> str:
    waiting = f", {len(status.unhosted)} of them waiting" if status.unhosted else ""
    return f"{status.task_count}{waiting}"


def stop(
    application: Application,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds until its actors are ended without a commit")] = 120.0,
    leave_group: Annotated[
        bool, typer.Option("--leave-group", help="Leave the consumer group at once, as for a Kafka Streams in Java")
    ] = False,
) -> None:
    """Drain and commit an application, then end all its actors."""
    from penstock.cluster.client import control
    from penstock.cluster.ray_cluster import connections

    connections.connect_to(application)
    last = control.stop_application(application, timeout, leave_group)
    if last is None:
        raise not_drained(application, timeout, leave_group)
    ended = f"has stopped; it had ended with: {last.error}" if last.error else STOPPED
    console().print(f"Application {application} {ended}", soft_wrap=True, markup=False)


def pause(application: Application) -> None:
    """Let an application process nothing until it is resumed; queries are answered, restores continue."""
    _pause(application, paused=True)
    console().print(
        f"Application {application} is paused; 'penstock resume {application}' resumes it",
        soft_wrap=True,
        markup=False,
    )


def resume(application: Application) -> None:
    """Resume an application that was paused."""
    _pause(application, paused=False)
    console().print(f"Application {application} is resumed", soft_wrap=True, markup=False)


def _pause(application: str, paused: bool) -> None:
    from penstock.cluster.client import control
    from penstock.cluster.ray_cluster import connections
    from penstock.cluster.ray_cluster.named_actors import require_coordinator

    connections.connect_to(application)
    control.pause_application(application, require_coordinator(application), paused)
