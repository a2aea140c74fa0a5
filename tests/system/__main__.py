"""``make system-test``: the programs of Kafka Streams' system tests, at the size of Kafka's own runs."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from random import randrange
from typing import Annotated

import typer

from penstock.kafka.local_broker.broker import LocalBroker
from tests.own_ray import own_ray
from tests.system.run import LONG, PLAYS, SHORT, Driver, system_test


def main(
    seed: Annotated[int | None, typer.Option(help="Seed of the strikes; by default another each time.")] = None,
    short: Annotated[bool, typer.Option("--short", help="Play a few seconds of input.")] = False,
) -> None:
    """Run penstock under Kafka Streams' own system tests; exit with 1 if one fails."""
    seed = randrange(2**32) if seed is None else seed
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    failed = False
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBroker(Path(folder) / "broker", port=0) as broker,
        own_ray(),
    ):
        driver = Driver(Path(folder))
        for program, guarantee in PLAYS:
            size = SHORT if short else LONG
            verdict = system_test(
                driver, program, broker.bootstrap_servers, guarantee, size, Path(folder) / guarantee, seed
            )
            typer.echo(f"{program.name}, {guarantee}: {verdict}")
            failed = failed or verdict != "PASSED"
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
