"""``python -m penstock.testing.chaos --seconds 300 --seed 7``, or ``make chaos SECONDS=300 SEED=7``.

Exit codes: 1 when something is violated, or the run could not be played to its end, 2 for arguments that are wrong,
130 after Ctrl-C.
"""

from __future__ import annotations

import importlib
import random
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.common.errors import StreamsError
from penstock.testing.chaos.numbered import Numbered
from penstock.testing.chaos.program import Guarantee, Program
from penstock.testing.chaos.run import Report, run
from penstock.testing.chaos.schedule import OF_NODES, Kind, possible

_RECORDS = 500_000
_PER_SECOND = 5_000
_SHOWN = 20
_LONGEST = 1000
_ALL = "violations.txt"
_NEEDS = {
    Kind.EXPIRE_TRANSACTION: "--guarantee exactly_once_v2",
    Kind.ELECT_LEADERS: "--guarantee exactly_once_v2",
    Kind.FILL_DISK: "Linux",
    Kind.POISON: "a program with poison()",
    **dict.fromkeys(OF_NODES, "--nodes 2 or more"),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def name_of(kind: Kind) -> str:
    """Returns its name in the options."""
    return kind.name.lower().replace("_", "-")


NAMES = frozenset(map(name_of, Kind))


@app.command()
def main(
    target: Annotated[
        str | None, typer.Argument(metavar="[MODULE:PROGRAM]", help="A Program of yours, such as shop.chaos:orders.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="Seconds with faults; start, rest and checks take longer.")
    ] = 60,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the faults and their times. By default a random one, which is printed.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(min=1, help="Records of the built-in program; by default 500,000, or 5,000 per second."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help=f"Only these faults: {', '.join(map(name_of, Kind))}.")] = None,
    nodes: Annotated[
        int, typer.Option(min=1, help="Nodes of the Ray cluster; if there are several, some are lost.")
    ] = 1,
    guarantee: Annotated[Guarantee, typer.Option(help="processing.guarantee of the application.")] = Guarantee.EXACTLY,
) -> None:
    """Run an application on its own Kafka and Ray, inject faults for SECONDS, and prove that nothing was lost."""
    if target and records:
        raise typer.BadParameter("--records is for the built-in program; your own sets its rounds itself")
    program = load(target) if target else Numbered(records or max(_RECORDS, int(seconds * _PER_SECOND)))
    kinds = chosen_kinds(only, possible(nodes, guarantee, bool(program.poison())))
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    typer.echo(f"seed {chosen}")
    try:
        report = run(program, chosen, seconds, guarantee, nodes, kinds, typer.echo)
    except StreamsError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    _print_report(report, program, ([target] if target else []) + (["--records", str(records)] if records else []))
    raise typer.Exit(1 if report.violations else 0)


def chosen_kinds(only: list[str] | None, there: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Returns those of ``there`` that are asked for: all of them, or those that ``--only`` names."""
    if only is None:
        return there
    wanted = {name for each in only for name in each.split(",")}
    if unknown := wanted - NAMES:
        names = ", ".join(map(repr, sorted(unknown)))
        raise typer.BadParameter(f"there is no fault {names}; there are {', '.join(map(name_of, Kind))}")
    asked = [kind for kind in Kind if name_of(kind) in wanted]
    # If they were left out silently, a user would believe that they were played.
    if lacking := [f"{name_of(kind)} needs {_NEEDS[kind]}" for kind in asked if kind not in there]:
        raise typer.BadParameter("; ".join(lacking))
    return tuple(asked)


def load(target: str) -> Program:
    """Returns the Program that ``MODULE:PROGRAM`` names; the current folder is searched first."""
    module, _, name = target.partition(":")
    if not module or not name.isidentifier():
        raise typer.BadParameter(f"{target!r} is not MODULE:PROGRAM, such as shop.chaos:orders")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found_in = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # it is another one that the program wants
        raise typer.BadParameter(f"there is no module {module!r} in {Path.cwd()} or on Python's path") from None
    found = getattr(found_in, name, None)
    if not isinstance(found, Program):
        there = [f"{module}:{key}" for key, value in vars(found_in).items() if isinstance(value, Program)]
        hint = f"; there is {', '.join(there)}" if there else ""
        what = "a class, not one of its objects" if isinstance(found, type) else f"a {type(found).__name__}"
        message = f"{target} is {what}" if hasattr(found_in, name) else f"module {module!r} has no {name!r}"
        raise typer.BadParameter(f"{message}: it takes a penstock.testing.chaos.Program{hint}")
    return found


def _print_report(report: Report, program: Program, arguments: list[str]) -> None:
    look_ups = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(report.look_ups.items()))
    rested = f"back to rest {report.rest_s:.1f} s after the last" if report.rest_s else "never at rest again"
    typer.echo(f"{report.faults} faults; {rested}")
    if report.rest_s and isinstance(program, Numbered):
        records = sum(program.expected.values())
        typer.echo(f"{records:,} records; {program.repeated:,} of them counted again ({report.guarantee.value})")
    typer.echo(f"look-ups: {look_ups}")
    if not report.violations:
        typer.echo("held: the program's own checks, stores and changelogs equal, back to rest, ended cleanly")
        return
    for violation in report.violations[:_SHOWN]:
        typer.secho(f"VIOLATED: {cut(violation)}", fg="red")
    if len(report.violations) > _SHOWN:
        typer.secho(f"VIOLATED: {len(report.violations) - _SHOWN:,} more", fg="red")
    (report.folder / _ALL).write_text("".join(f"{violation}\n" for violation in report.violations))
    typer.echo(f"all that is violated: {report.folder / _ALL}")
    typer.echo(f"to repeat it: {once_more(report, program, arguments)}")
    typer.echo(f"logs and data: {report.folder}")


def cut(sentence: str) -> str:
    """Returns the part of it that fits a screen: a program's own check may put whole stores into a sentence."""
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]} …"


def once_more(report: Report, program: Program, arguments: list[str]) -> str:
    """Returns the command that repeats the run, with these arguments and those that the report knows."""
    command = ["python", "-m", "penstock.testing.chaos", *arguments, "--seconds", f"{report.seconds:g}"]
    command += ["--seed", str(report.seed), "--guarantee", report.guarantee.value, "--nodes", str(report.nodes)]
    if set(report.kinds) != set(possible(report.nodes, report.guarantee, bool(program.poison()))):
        command += ["--only", ",".join(map(name_of, report.kinds))]
    return shlex.join(command)


if __name__ == "__main__":
    app(prog_name="python -m penstock.testing.chaos")
