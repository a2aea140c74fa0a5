"""``penstock doctor``: checks the machine, Kafka, Ray and a program, and reports faults with their remedies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli import doctor_checks as checks
from penstock.cli.client_options import CommandConfig, clients_at, servers_option
from penstock.cli.doctor_checks import Checked
from penstock.cli.output import LEVEL_STYLES, AsJson, console, print_json
from penstock.cluster.findings import Level
from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.version import version

if TYPE_CHECKING:
    from penstock.cluster.client.kafka_streams import KafkaStreams
    from penstock.kafka.clients import ConfluentClients

_SHORT_S, _KAFKA_S, _PROGRAM_S, _RAY_S = 10.0, 25.0, 60.0, 75.0
Check = tuple[str, float, Callable[[], Iterable[Checked | None]]]
"""The name of a check, the seconds that it may take, and the function that makes it."""


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(doctor)


def doctor(
    target: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="Also check this program, with its configuration")
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        servers_option(
            description="The addresses of Kafka; by default those of the program, or 127.0.0.1:9092",
            envvar="PENSTOCK_BOOTSTRAP_SERVERS",
        ),
    ] = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Check Kafka, Ray, state.dir, ports, limits, clocks and versions. For each fault it prints what to do.

    Exit code 0 if there is no fault, otherwise 1. A check that does not end in time is reported, and the other checks
    are made.
    """
    app = None
    if target is not None:
        from penstock.cli.loading import load_application

        app = load_application(target)
    results = [result for check in _checks(app, bootstrap_servers, command_config) for result in made(check)]
    if as_json:
        print_json([{**asdict(each), "level": each.level.value} for each in results])
    else:
        console().print(_table(results))
        console().print(_conclusion(results), soft_wrap=True)
    if any(each.level is Level.FAULT for each in results):
        raise typer.Exit(1)


def made(check: Check) -> list[Checked]:
    """Makes one check. What it raises, or a time-out, is its result."""
    from penstock.cli.doctor_probes import bounded

    name, timeout_s, make = check
    try:
        return [result for result in bounded(lambda: list(make()), timeout_s) if result is not None]
    except TimeoutError as error:
        return [checks.failed(name, str(error))]
    except Exception as error:  # whatever a probe runs into must not hide the other checks
        return [checks.failed(name, f"{type(error).__name__}: {error}".splitlines()[0])]


def _checks(app: KafkaStreams | None, servers: str | None, command_config: CommandConfig) -> list[Check]:
    from penstock.cli import doctor_probes as probes

    config = app.config if app is not None else StreamsConfig.of({"application.id": "doctor"})
    clients = _clients(app, servers, command_config)

    def of_ray() -> Iterable[Checked | None]:
        facts = probes.ray_facts()
        python = ".".join(map(str, sys.version_info[:2]))
        yield checks.ray(facts, probes.cpus_here())
        yield checks.nodes(facts, python, version())
        yield checks.clocks(facts)
        yield checks.open_files(*probes.open_file_limits(), facts)

    def of_port() -> Iterable[Checked]:
        address = config.application_server
        yield checks.port(address, *(probes.port_facts(address) if address else (None, False)))

    def of_memory() -> Iterable[Checked]:
        actors = config.max_stream_actors or probes.cpus_here()
        yield checks.memory(probes.available_memory(), config.entries_memory_bytes, actors)

    found: list[Check] = [
        ("broker", _KAFKA_S, lambda: [checks.broker(clients.bootstrap_servers, *probes.broker_facts(clients))]),
        ("HTTP port", _SHORT_S, of_port),
        ("state.dir", _SHORT_S, lambda: [checks.disk(probes.disk_facts(config.state_dir))]),
        ("Ray", _RAY_S, of_ray),
        ("memory", _SHORT_S, of_memory),
        ("libraries", _SHORT_S, lambda: [checks.libraries(probes.library_facts())]),
        ("Java", _SHORT_S, lambda: [checks.java(*probes.java_facts())]),
    ]
    if app is not None:
        found.append(("program", _PROGRAM_S, lambda: [checks.program(_problem_of(app))]))
    return found


def _clients(app: KafkaStreams | None, servers: str | None, command_config: CommandConfig) -> ConfluentClients:
    from dataclasses import replace

    from penstock.kafka.clients import ConfluentClients

    if app is None or command_config is not None:
        return clients_at(servers or "127.0.0.1:9092", command_config)
    clients = ConfluentClients.of(app.config)
    return clients if servers is None else replace(clients, bootstrap_servers=servers)


def _problem_of(app: KafkaStreams) -> str | None:
    try:
        app.check()
    except StreamsError as error:
        return str(error)
    return None


def _table(results: list[Checked]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for each in results:
        found = Text(each.found + (f"\n-> {each.advice}" if each.advice else ""))
        table.add_row(Text(each.level.value, style=LEVEL_STYLES[each.level]), Text(each.name), found)
    return table


def _conclusion(results: list[Checked]) -> Text:
    counts = {level: sum(each.level is level for each in results) for level in Level}
    if counts[Level.FAULT]:
        return Text(f"\n{counts[Level.FAULT]} of {len(results)} checks found a fault", style="red")
    if counts[Level.WARNING]:
        return Text(f"\nNo fault; {counts[Level.WARNING]} of {len(results)} checks found something to look at")
    return Text(f"\nAll {len(results)} checks are well", style="green")
