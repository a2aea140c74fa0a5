"""Options of the commands that ask Kafka: its address, and a file with settings that must not be on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.common.config import SCHEMA_REGISTRY, is_security_key
from penstock.common.errors import ConfigError
from penstock.common.secrets import Entries

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients


def servers_option(*, description: str, **more: Any) -> Any:
    """Returns the option ``--bootstrap-servers`` with this help text."""
    return typer.Option("--bootstrap-servers", "-b", metavar="HOST:PORT,...", help=description, **more)


BootstrapServers = Annotated[
    str,
    servers_option(
        description="The addresses of Kafka",
        envvar="PENSTOCK_BOOTSTRAP_SERVERS",
        show_default="127.0.0.1:9092",
        default_factory=lambda: "127.0.0.1:9092",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="PENSTOCK_COMMAND_CONFIG",
        metavar="FILE",
        help="A properties file with security.protocol, sasl.* and ssl.* for Kafka, object.store.* for object storage, "
        "iceberg.* for an Iceberg catalog, and schema.registry.* for a schema registry",
    ),
]


_OBJECT_STORE, _ICEBERG = "object.store.", "iceberg."


@dataclass(frozen=True)
class CommandSettings:
    """The entries of a ``--command-config``: of Kafka's clients, of a schema registry, and, without their prefixes, of
    object storage and of a catalog of Iceberg tables."""

    kafka: Entries
    object_store: Entries
    iceberg: Entries
    schema_registry: Entries


def clients_at(
    bootstrap_servers: str,
    command_config: Path | None,
    group: str = "",
    *,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
) -> ConfluentClients:
    """Returns Kafka clients with these options; ``consumer`` and ``producer`` are settings of these clients alone.
    Raises ConfigError for a file that cannot be read, or its entries."""
    from penstock.kafka.client_settings import check_client_settings
    from penstock.kafka.clients import ConfluentClients

    entries = command_settings(command_config).kafka
    check_client_settings("", entries)
    of_consumer, of_producer = Entries({**entries, **(consumer or {})}), Entries({**entries, **(producer or {})})
    return ConfluentClients(bootstrap_servers, group, of_consumer, of_producer, entries)


def command_settings(command_config: Path | None) -> CommandSettings:
    """Returns the entries of the file, or none. Raises ConfigError for a file that cannot be read, or its entries."""
    entries = Entries() if command_config is None else _read(command_config)
    registry = {key: value for key, value in entries.items() if key.startswith(SCHEMA_REGISTRY)}
    others = (_OBJECT_STORE, _ICEBERG, *SCHEMA_REGISTRY)
    kafka = {key: value for key, value in entries.items() if not key.startswith(others)}
    return CommandSettings(Entries(kafka), _below(entries, _OBJECT_STORE), _below(entries, _ICEBERG), Entries(registry))


def _below(entries: Entries, prefix: str) -> Entries:
    return Entries({key.removeprefix(prefix): value for key, value in entries.items() if key.startswith(prefix)})


def _read(file: Path) -> Entries:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--command-config: cannot read {file}: {error}") from None
    found = Entries()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise ConfigError(f"--command-config: {file}, line {number} is not KEY=VALUE")
        if not is_security_key(key) and not key.startswith((_OBJECT_STORE, _ICEBERG, *SCHEMA_REGISTRY)):
            raise ConfigError(
                f"--command-config: {file}, line {number}: {key!r} is not of security.*, sasl.*, ssl.*, "
                f"{_OBJECT_STORE}*, {_ICEBERG}* or {SCHEMA_REGISTRY[0]}*; the address of Kafka is set by "
                "--bootstrap-servers"
            )
        found[key] = value
    return found
