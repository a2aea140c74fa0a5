"""Options of the commands that read or write Iceberg tables: their catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.client_options import command_settings
from penstock.common.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipeline.iceberg_catalog import IcebergCatalog

CATALOG = "default.kafka"
CatalogOption = Annotated[
    str,
    typer.Option(
        "--catalog", metavar="NAME.NAMESPACE", help="With --format iceberg: the catalog and namespace of the tables"
    ),
]


def catalog_and_rest(text: str, rest: str) -> tuple[str, str]:
    """Returns the name of a catalog, and what follows it. Raises ConfigError if there is only one part."""
    name, _, others = text.partition(".")
    if not name or not others:
        raise ConfigError(f"{text!r} is not NAME.{rest}: the name of an Iceberg catalog, and a {rest.lower()} in it")
    return name, others


def catalog_of(name: str, command_config: Path | None) -> IcebergCatalog:
    """Returns the catalog with the settings of ``--command-config``."""
    from penstock.pipeline.iceberg_catalog import IcebergCatalog

    settings = command_settings(command_config)
    return IcebergCatalog(name, settings.iceberg, settings.object_store)
