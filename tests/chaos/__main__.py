"""``python -m tests.chaos --seconds 300 --seed 7``, or ``make chaos SECONDS=300 SEED=7``."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from tests.chaos.rig import Guarantee
from tests.chaos.run import Report, run
from tests.chaos.schedule import ON_ONE_NODE, OUTAGES, Kind

_RECORDS = 500_000
_PER_SECOND = 5_000


def main(
    seconds: Annotated[float, typer.Option(min=0, help="How long faults happen; start, rest and checks come on top.")],
    seed: Annotated[
        int | None, typer.Option(help="Which faults, when. By default one of chance, which is told.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=1, help="By default 500,000, or 5,000 a second where that is more.")
    ] = None,
    broker: Annotated[bool, typer.Option("--broker/--without-broker", help="Whether its nodes are hit, too.")] = True,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the Ray cluster; of several some are lost.")] = 1,
    guarantee: Annotated[Guarantee, typer.Option(help="processing.guarantee of the application.")] = Guarantee.EXACTLY,
) -> None:
    """Run an application on a Kafka and a Ray of its own, strike it for SECONDS, and prove that nothing was lost."""
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    typer.echo(f"seed {chosen}")
    kinds = tuple(kind for kind in (Kind if nodes > 1 else ON_ONE_NODE) if broker or kind not in OUTAGES)
    records = records or max(_RECORDS, int(seconds * _PER_SECOND))
    report = run(chosen, seconds, kinds, records, guarantee, nodes, typer.echo)
    _tell(report)
    raise typer.Exit(1 if report.violations else 0)


def _tell(report: Report) -> None:
    look_ups = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(report.look_ups.items()))
    rested = f"back to rest {report.rest_s:.1f} s after the last" if report.rest_s else "never at rest again"
    typer.echo(f"{report.faults} faults; {rested}")
    if report.rest_s:
        typer.echo(f"{report.records:,} records; {report.repeated:,} of them counted again ({report.guarantee.value})")
    typer.echo(f"look-ups: {look_ups}")
    if not report.violations:
        typer.echo("held: nothing lost, each attempt in order, stores and changelogs equal, back to rest")
        return
    for violation in report.violations:
        typer.secho(f"VIOLATED: {violation}", fg="red")
    again = f"SECONDS={report.seconds:g} SEED={report.seed} GUARANTEE={report.guarantee.value} NODES={report.nodes}"
    typer.echo(f"once more: make chaos {again}")
    typer.echo(f"logs and data: {report.folder}")


if __name__ == "__main__":
    typer.run(main)
