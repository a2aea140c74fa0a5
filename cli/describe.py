"""``penstock describe``: a topology as Kafka Streams prints it, as a picture, or as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, print_json
from penstock.cluster.programs.description import topology_body
from penstock.common.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Mount ``describe`` on the root."""
    app.command()(describe)


class Form(StrEnum):
    """The forms in which a topology is printed."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"


def describe(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
    form: Annotated[
        Form | None,
        typer.Option(
            "--format", help="text: as Kafka Streams prints it (default); svg: a picture; mermaid: a flowchart's text"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print an application's topology as Kafka Streams does, or draw it. Needs neither Ray nor a broker."""
    if as_json and form not in (None, Form.JSON):
        raise ConfigError(f"--json and --format {form} ask for two forms: give one of them")
    from penstock.topology.physical.pictures import mermaid_of, svg_of

    application = load_application(target)
    topology, config = application.topology, application.config
    match Form.JSON if as_json else form or Form.TEXT:
        case Form.JSON:
            print_json(topology_body(topology, config))
        case Form.SVG:
            typer.echo(svg_of(topology, config.application_id), nl=False)
        case Form.MERMAID:
            typer.echo(mermaid_of(topology, config.application_id), nl=False)
        case Form.TEXT:
            typer.echo(application.describe(), nl=False)
