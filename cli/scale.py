"""``penstock scale``: sets the number of stream actors of an application, or explains how many it needs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from penstock.api.status import scaling_body
from penstock.cli.output import AsJson, console, print_json
from penstock.cluster.read_side import ActorCount, ScalingStatus
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.shown import counted


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(scale)


def scale(
    application: Annotated[str, typer.Argument(metavar="APP", help="The application's id")],
    actors: Annotated[
        int | None, typer.Argument(metavar="ACTORS", min=1, help="The new number of stream actors")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Change nothing: show the measured load, the number of actors that it needs, and the reason",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set the number of stream actors, or explain with --dry-run how many the load needs."""
    from penstock.cluster.client import actor_changes, control
    from penstock.cluster.client.operations_log import log_operation
    from penstock.cluster.ray_cluster import connections
    from penstock.cluster.ray_cluster.named_actors import require_coordinator

    if actors is not None and dry_run:
        raise ConfigError("--dry-run takes no number: it shows the effect of each. Leave out one of the two")
    if actors is None and not dry_run:
        raise ConfigError("give the number of stream actors, or --dry-run to see how many the load needs")
    connections.connect_to(application)
    scaling = control.require_status(application).scaling
    if dry_run:
        if scaling is None:
            raise ApplicationStateError(f"application {application!r} has no tasks yet, so its load is not known")
        if as_json:
            print_json(scaling_body(scaling))
        else:
            console().print(_headline(scaling))
            if scaling.counts:
                console().print(_table(scaling))
        return
    coordinator = require_coordinator(application)
    refused = actor_changes.ask_coordinator(coordinator, "set_stream_actors", actors)
    log_operation(coordinator, f"scale to {actors}", "done" if refused is None else f"refused: {refused}")
    if refused is not None:
        raise ApplicationStateError(f"application {application!r} keeps its stream actors: {refused}")
    text = f"Application {application} is to have {counted(actors or 0, 'stream actor')}"
    if scaling is not None and actors is not None and actors > scaling.maximum:
        text += f"; no more than {scaling.maximum} while it has no more tasks than now"
    console(soft_wrap=True).print(text, markup=False, highlight=False)


def _headline(scaling: ScalingStatus) -> Text:
    now = f"{counted(scaling.wanted, 'stream actor')} wanted; "
    if scaling.advised == scaling.wanted:
        advice = f"no change advised: {scaling.reason}"
    elif scaling.automatic:
        advice = f"{scaling.advised} from now on: {scaling.reason}"
    else:
        advice = f"{scaling.advised} advised: {scaling.reason}"
    line = Text(f"{now}{advice}\n")
    bounds = f"{scaling.minimum} to {scaling.maximum}"
    how = (
        "follows the load" if scaling.automatic else "is fixed (neither min.stream.actors nor max.stream.actors is set)"
    )
    return line.append(f"The number {how}; possible: {bounds}", style="dim")


def _table(scaling: ScalingStatus) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("actors", "tasks each", "busiest actor", "caught up after"):
        table.add_column(name, justify="right")
    table.add_column("")
    for count in scaling.counts:
        marks = ["now"] if count.actors == scaling.wanted else []
        marks += ["advised"] if count.actors == scaling.advised != scaling.wanted else []
        style = "red" if count.busiest > 1 else ""
        busiest = Text(f"{count.busiest:.0%}", style=style)
        table.add_row(str(count.actors), str(count.tasks_each), busiest, _time(count), ", ".join(marks))
    return table


def _time(count: ActorCount) -> str:
    return "never" if count.catch_up_s is None else f"{count.catch_up_s:,.0f} s"
