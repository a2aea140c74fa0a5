"""``penstock describe``: a topology as Kafka Streams prints it, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, print_json
from penstock.topology.physical.topology import Node, ProcessorNode, SourceNode, Topology, changelog_topic

if TYPE_CHECKING:
    from penstock.state.builders import AnyStoreBuilder


def register(app: typer.Typer) -> None:
    """Mount ``describe`` on the root."""
    app.command()(describe)


def describe(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
    as_json: AsJson = False,
) -> None:
    """Print an application's topology as Kafka Streams does. Needs neither Ray nor a broker."""
    application = load_application(target)
    if as_json:
        print_json(topology_body(application.application_id, application.topology))
    else:
        typer.echo(application.describe(), nl=False)


def topology_body(application_id: str, topology: Topology) -> dict[str, Any]:
    """Sub-topologies with their nodes and stores. Names of repartition topics lack the application's prefix, as in
    the text; the names of changelogs are those in Kafka."""
    return {
        "application_id": application_id,
        "subtopologies": [
            {
                "id": sub.id,
                "nodes": [_node(node) for node in sub.nodes],
                "stores": [_store(application_id, store) for store in sub.stores],
            }
            for sub in topology.every_subtopology
        ],
    }


def _node(node: Node) -> dict[str, Any]:
    if isinstance(node, SourceNode):
        return {"type": "source", "name": node.name, "topics": list(node.topics)}
    if isinstance(node, ProcessorNode):
        return {"type": "processor", "name": node.name, "parents": list(node.parents), "stores": list(node.stores)}
    topic = node.topic if isinstance(node.topic, str) else None  # a function names it for each record
    return {"type": "sink", "name": node.name, "parents": list(node.parents), "topic": topic}


def _store(application_id: str, store: AnyStoreBuilder) -> dict[str, Any]:
    return {"name": store.name, "kind": store.kind, "changelog": changelog_topic(application_id, store)}
