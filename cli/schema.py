"""``penstock schema check``: asks the schema registry, before a deploy, if it accepts the schemas of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, console, print_json
from penstock.common.errors import RetriableError, StreamsError

if TYPE_CHECKING:
    from penstock.cluster.client.kafka_streams import KafkaStreams

_INCOMPATIBLE = 3
"""The exit code if the registry would refuse a schema; 1 and 2 are errors."""

schema = typer.Typer(help="The schemas of a program, in its schema registry.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Mount ``schema`` on the root."""
    app.add_typer(schema, name="schema")


class Found(NamedTuple):
    """The registry's answer about one subject of the program. ``compatible`` is None if the program has no schema for
    it: then ``conflicts`` says why."""

    subject: str
    serde: str
    use: str
    compatible: bool | None
    conflicts: list[str]


@schema.callback()
def _group() -> None:
    """The schemas of a program, in its schema registry."""


@schema.command()
def check(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The application")],
    as_json: AsJson = False,
) -> None:
    """Ask the schema registry if each schema of a program is compatible with the versions of its subject.

    Registers nothing. Exit code 0 if all are compatible; 3 if the registry would refuse one, or if the program could
    not read a record of a subject's newest version.
    """
    application = load_application(target)
    found = check_schemas(application)
    if as_json:
        print_json([each._asdict() for each in found])
    else:
        console().print(_shown(found))
        for each in found:
            for conflict in each.conflicts:
                console().print(Text(f"{each.subject}: {conflict}"), soft_wrap=True)
    if found and (scope := _empty_mock(application)) is not None:
        typer.echo(
            f"Nothing was compared: {scope} is a registry in the memory of this process, and empty. Set "
            "schema.registry.url to the registry in which the schemas are",
            err=True,
        )
    if any(each.compatible is False for each in found):
        raise typer.Exit(_INCOMPATIBLE)


def check_schemas(application: KafkaStreams) -> list[Found]:
    """Returns the registry's answer about each subject that the program reads or writes, by the subject. Raises
    StreamsError if the registry does not answer."""
    from penstock.registry.serde import BoundRegistrySerde, within
    from penstock.tasks.program import TaskProgram

    config = application.config
    programs = [TaskProgram.of([sub], config) for sub in application.topology.every_subtopology]
    uses: dict[tuple[str, str], tuple[BoundRegistrySerde[Any], list[str]]] = {}
    for use, serdes in (
        ("read", (serde for program in programs for each in program.sources.values()
                  for serde in (each.key_serde, each.value_serde))),
        ("written", (serde for program in programs for serde in program.written)),
    ):  # fmt: skip
        for serde in serdes:
            if (bound := within(serde)) is not None:
                entry = uses.setdefault((bound.subject, bound.name), (bound, []))
                if use not in entry[1]:
                    entry[1].append(use)
    return [_found(bound, used) for _, (bound, used) in sorted(uses.items(), key=lambda item: item[0])]


def _empty_mock(application: KafkaStreams) -> str | None:
    """Returns the URL of the application's registry if that is one in memory which has no schemas; else None."""
    from penstock.registry.mock import SCHEME, MockSchemaRegistry

    url = str(application.config.serde_settings.get("schema.registry.url") or "")
    return url if url.startswith(SCHEME) and not MockSchemaRegistry(url.removeprefix(SCHEME)).subjects else None


def _found(bound: Any, uses: Iterable[str]) -> Found:
    try:
        conflicts: list[str] | None = bound.records.conflicts("written" in uses)
    except RetriableError as error:
        raise StreamsError(f"subject {bound.subject} cannot be checked: {error}") from error
    use = " and ".join(uses)
    if conflicts is None:
        return Found(bound.subject, bound.name, use, None, ["each record has its own schema: nothing to compare"])
    return Found(bound.subject, bound.name, use, not conflicts, conflicts)


def _shown(found: list[Found]) -> Table | Text:
    if not found:
        return Text("The program uses no schema registry.")
    words = {True: "compatible", False: "INCOMPATIBLE", None: "not checked"}
    table = Table("", "subject", "serde", "use", box=None, pad_edge=False)
    for each in found:
        table.add_row(*map(Text, (words[each.compatible], each.subject, each.serde, each.use)))
    return table
