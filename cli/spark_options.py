"""The common parts of the commands that run Spark: options, missing packages, an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from penstock.cli.output import console
from penstock.common.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipeline.spark.place import SparkPlace

_T = TypeVar("_T")
_INTERRUPTED = 130
ANY_PLACE = "a path, file://, s3://, gs:// or az://"
"""The forms of a URL of object storage, for help texts."""
MasterOption = Annotated[
    str | None,
    typer.Option(help="Spark's master URL. By default that of spark-submit or spark-defaults.conf, or else local[*]"),
]
ConfOption = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated")]
WorkOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Place for the results of stages, which all executors must reach. By default a local folder"
    ),
]


def spark_place(master: str | None, conf: list[str] | None) -> SparkPlace:
    """Returns the place of the options. Raises ConfigError for a setting of another form than KEY=VALUE."""
    from penstock.pipeline.spark.place import SparkPlace
    from penstock.pipeline.spark.spark_settings import settings_of_options

    return SparkPlace(master, settings_of_options(conf or []))


@contextmanager
def spark_extra() -> Iterator[None]:
    """Turns the failed import of a package in the block into a ConfigError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[spark]'") from error


@contextmanager
def announced(session: AbstractContextManager[_T], say: Callable[[str], None]) -> Iterator[_T]:
    """Reports that Spark starts, and then enters ``session``, which starts it: that takes some seconds."""
    say("starting Spark")
    with session as it:
        yield it


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """If Ctrl-C interrupts the block: ends the Spark that the command has started, and then the command, with
    ``message`` and the shell's exit code for Ctrl-C."""
    from penstock.pipeline.spark.interrupts import interrupts_end_spark

    try:
        with interrupts_end_spark():
            yield
    except KeyboardInterrupt:
        console(stderr=True).print(message, soft_wrap=True, markup=False)
        raise typer.Exit(_INTERRUPTED) from None
