"""``penstock broker start|stop|status``: a real Kafka on this machine, for development.

The broker's dependencies are in the extra ``local`` and imported inside the commands: the rest of ``penstock`` runs
without it, on a Ray worker for one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from penstock.cli import output
from penstock.common.errors import ConfigError
from penstock.kafka.local_broker.node_files import DEFAULT_PORT

if TYPE_CHECKING:
    from penstock.kafka.local_broker.broker import BrokerStatus, LocalBroker

Port = Annotated[int, typer.Option(min=1, max=65_535, help="The port for clients; three nodes also take the next two.")]
Directory = Annotated[
    Path | None,
    typer.Option("--dir", help="The folder for data and logs. By default a folder of the user's, one for each port."),
]

broker_app = typer.Typer(help="A real Apache Kafka on this machine, for development.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Mount ``broker`` on the root."""
    app.add_typer(broker_app, name="broker")


@broker_app.command()
def start(
    port: Port = DEFAULT_PORT,
    directory: Directory = None,
    nodes: Annotated[int, typer.Option(help="Number of nodes: 1 or 3.")] = 1,
) -> None:
    """Start the broker and return when it answers. The first start fetches Kafka's jars.

    The broker runs until it is stopped."""
    began = time.monotonic()
    status = _broker(directory, port, nodes).start()
    console = output.console()
    for note in status.notes:
        console.print(note, style="yellow", soft_wrap=True)
    from penstock.kafka.local_broker.jars import KAFKA_VERSION

    console.print(
        f"Kafka {KAFKA_VERSION} answers at {status.bootstrap_servers} after {time.monotonic() - began:.1f} s; "
        f"its files are in {status.directory}",
        soft_wrap=True,
    )
    options = "" if port == DEFAULT_PORT else f" --port {port}"
    options += "" if directory is None else f" --dir {directory}"
    console.print(f"Stop it with: penstock broker stop{options}", soft_wrap=True)


@broker_app.command()
def stop(port: Port = DEFAULT_PORT, directory: Directory = None) -> None:
    """Stop the broker and keep its data. It is no error if the broker does not run."""
    broker = _broker(directory, port)
    stopped = broker.directory.exists() and broker.stop()
    output.console().print(
        f"The broker of {broker.directory} is stopped; its data stays there"
        if stopped
        else f"No broker runs in {broker.directory}",
        soft_wrap=True,
    )


@broker_app.command()
def status(port: Port = DEFAULT_PORT, directory: Directory = None) -> None:
    """Show the nodes of the broker. Exit code 0 if all of them run, else 1."""
    found = _broker(directory, port).status()
    if not found.nodes:
        output.console().print(f"No broker has been started in {found.directory}", soft_wrap=True)
    else:
        output.console().print(_table(found))
        output.console().print(f"Files: {found.directory}", soft_wrap=True)
    raise typer.Exit(0 if found.running else 1)


def _table(found: BrokerStatus) -> Table:
    table = Table("Node", "Address", "State", "Process")
    for node in found.nodes:
        lives = node.address.node_id in found.alive
        state = "[green]running" if lives else "[red]died" if node.pid else "stopped"
        process = str(node.pid) if lives else ""
        table.add_row(str(node.address.node_id), f"127.0.0.1:{node.address.port}", state, process)
    return table


def _broker(directory: Path | None, port: int, nodes: int = 1) -> LocalBroker:
    try:
        import platformdirs

        from penstock.kafka.local_broker.broker import LocalBroker
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[local]'") from error
    return LocalBroker(directory or platformdirs.user_data_path("penstock") / f"broker-{port}", port, nodes)
