"""The options of commands that run Spark: its master, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.pipeline.spark.place import SparkPlace

MasterOption = Annotated[
    str | None,
    typer.Option(help="Spark's master URL. By default that of spark-submit or spark-defaults.conf, else local[*]"),
]
ConfOption = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated")]


def spark_place(master: str | None, conf: list[str] | None) -> SparkPlace:
    """Returns the place of the options. Raises ConfigError for a setting of another form than KEY=VALUE."""
    from penstock.pipeline.spark.place import SparkPlace
    from penstock.pipeline.spark.spark_settings import settings_of_options

    return SparkPlace(master, settings_of_options(conf or []))
