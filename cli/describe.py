"""``penstock describe``: a topology as Kafka Streams prints it, as a picture, or as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, print_json
from penstock.common.errors import ConfigError
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import Node, ProcessorNode, SourceNode, Topology, changelog_topic

if TYPE_CHECKING:
    from penstock.common.config import StreamsConfig
    from penstock.state.builders import AnyStoreBuilder


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


def topology_body(topology: Topology, config: StreamsConfig) -> dict[str, Any]:
    """Sub-topologies with their nodes and stores. Names of repartition topics lack the application's prefix, as in
    the text; the names of changelogs are those in Kafka."""
    return {
        "application_id": config.application_id,
        "subtopologies": [
            {
                "id": sub.id,
                "global": sub in topology.global_subtopologies,
                "nodes": [_node(node) for node in sub.nodes],
                "stores": [
                    _store(config.application_id, store) for store in TaskProgram.of([sub], config).stores.values()
                ],
            }
            for sub in topology.every_subtopology
        ],
        "repartition_topics": list(topology.repartition_topics),
        "generated_names": sorted(topology.generated_names),
    }


def _node(node: Node) -> dict[str, Any]:
    if isinstance(node, SourceNode):
        pattern = {} if node.pattern is None else {"pattern": node.pattern.pattern}
        return {"type": "source", "name": node.name, "topics": list(node.topics), **pattern}
    if isinstance(node, ProcessorNode):
        return {"type": "processor", "name": node.name, "parents": list(node.parents), "stores": list(node.stores)}
    topic = node.topic if isinstance(node.topic, str) else None  # a function names it for each record
    return {"type": "sink", "name": node.name, "parents": list(node.parents), "topic": topic}


def _store(application_id: str, store: AnyStoreBuilder) -> dict[str, Any]:
    serdes = {"key_serde": store.key_serde, "value_serde": store.value_serde}
    return {
        "name": store.name,
        "kind": store.kind,
        "layout": store.layout,
        "persistent": store.persistent,
        "changelog": changelog_topic(application_id, store),
        **{part: None if serde is None else serde.name for part, serde in serdes.items()},
    }
