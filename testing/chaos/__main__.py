"""``python -m penstock.testing.chaos --seconds 300 --seed 7``, or ``make chaos SECONDS=300 SEED=7``."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.testing.chaos.numbered import Numbered
from penstock.testing.chaos.program import Guarantee, Program
from penstock.testing.chaos.run import Report, run
from penstock.testing.chaos.schedule import Kind, possible

_RECORDS = 500_000
_PER_SECOND = 5_000


def name_of(kind: Kind) -> str:
    """What it is called here."""
    return kind.name.lower().replace("_", "-")


NAMES = frozenset(map(name_of, Kind))


def main(
    target: Annotated[
        str | None, typer.Argument(metavar="[MODULE:PROGRAM]", help="A Program of yours, such as shop.chaos:orders.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long faults happen; more for start, rest, checks.")] = 60,
    seed: Annotated[
        int | None, typer.Option(help="Which faults, when. By default one of chance, which is told.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(min=1, help="Of the program that comes with it; 500,000, or 5,000 a second."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"These faults alone: {', '.join(map(name_of, Kind))}.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the Ray cluster; of several some are lost.")] = 1,
    guarantee: Annotated[Guarantee, typer.Option(help="processing.guarantee of the application.")] = Guarantee.EXACTLY,
) -> None:
    """Run an application on a Kafka and a Ray of its own, strike it for SECONDS, and prove that nothing was lost."""
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    typer.echo(f"seed {chosen}")
    program = _load(target) if target else Numbered(records or max(_RECORDS, int(seconds * _PER_SECOND)))
    kinds = _kinds(only, possible(nodes, guarantee, bool(program.poison())))
    report = run(program, chosen, seconds, guarantee, nodes, kinds, typer.echo)
    _tell(report, program)
    raise typer.Exit(1 if report.violations else 0)


def _kinds(only: list[str] | None, there: tuple[Kind, ...]) -> tuple[Kind, ...]:
    wanted = NAMES if only is None else {name for each in only for name in each.split(",")}
    if unknown := wanted - NAMES:
        raise typer.BadParameter(f"there is no fault {', '.join(sorted(unknown))}: {', '.join(map(name_of, Kind))}")
    found = tuple(kind for kind in there if name_of(kind) in wanted)
    if not found:
        raise typer.BadParameter("none of these faults is possible with these options")
    return found


def _load(target: str) -> Program:
    module, _, name = target.partition(":")
    if not name.isidentifier():
        raise typer.BadParameter(f"{target!r} is not MODULE:PROGRAM, such as shop.chaos:orders")
    sys.path.insert(0, str(Path.cwd()))
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, Program):
        raise typer.BadParameter(f"{target} is {found!r}, not a penstock.testing.chaos.Program")
    return found


def _tell(report: Report, program: Program) -> None:
    look_ups = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(report.look_ups.items()))
    rested = f"back to rest {report.rest_s:.1f} s after the last" if report.rest_s else "never at rest again"
    typer.echo(f"{report.faults} faults; {rested}")
    if report.rest_s and isinstance(program, Numbered):
        records = sum(program.expected.values())
        typer.echo(f"{records:,} records; {program.repeated:,} of them counted again ({report.guarantee.value})")
    typer.echo(f"look-ups: {look_ups}")
    if not report.violations:
        typer.echo("held: the program's own checks, stores and changelogs equal, back to rest, ended in good order")
        return
    for violation in report.violations:
        typer.secho(f"VIOLATED: {violation}", fg="red")
    again = f"SECONDS={report.seconds:g} SEED={report.seed} GUARANTEE={report.guarantee.value} NODES={report.nodes}"
    if set(report.kinds) != set(possible(report.nodes, report.guarantee, bool(program.poison()))):
        again += f" ONLY={','.join(map(name_of, report.kinds))}"
    typer.echo(f"once more: make chaos {again}")
    typer.echo(f"logs and data: {report.folder}")


if __name__ == "__main__":
    typer.run(main)
