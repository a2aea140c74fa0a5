"""``penstock topic create|list|describe|delete|send|read``: work with topics during development."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from penstock.cli import topic_read, topic_send
from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at
from penstock.cli.output import AsJson, confirm, console, print_json
from penstock.cli.topic_options import TopicName, pair
from penstock.common.errors import ConfigError
from penstock.common.topics import NewTopic, has_internal_name

if TYPE_CHECKING:
    from penstock.kafka.topics import TopicLayout

_BROKERS_CHOICE = -1

topic_app = typer.Typer(help="Create, show, fill and read topics.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Mount ``topic`` on the root."""
    topic_app.command("send")(topic_send.send)
    topic_app.command("read")(topic_read.read)
    app.add_typer(topic_app, name="topic")


@topic_app.command()
def create(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="One topic or several, all with the same settings")
    ],
    bootstrap_servers: BootstrapServers,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions; -1: the broker's default")
    ] = 1,
    replication: Annotated[int, typer.Option(help="Replicas of each partition; -1: the broker's default")] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="Such as cleanup.policy=compact")
    ] = None,
    command_config: CommandConfig = None,
) -> None:
    """Create topics. A topic that exists already is left unchanged and is an error; the others are created."""
    from penstock.kafka.topics import Topics

    if partitions < 1 and partitions != _BROKERS_CHOICE:
        raise ConfigError(f"--partitions {partitions}: a topic has at least one")
    entries = dict(pair("--config", text, "KEY=VALUE") for text in config or [])
    there = Topics.of(clients_at(bootstrap_servers, command_config))
    existing = []
    for name in topics:
        try:
            there.create(NewTopic(name, partitions, replication, entries))
        except ConfigError as error:
            existing.append(str(error))
        else:
            typer.echo(f"Topic {name} is created")
    if existing:
        raise ConfigError("; ".join(existing))


@topic_app.command("list")
def list_topics(
    bootstrap_servers: BootstrapServers,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also Kafka's own topics, changelog topics and repartition topics")
    ] = False,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """List the topics with their partitions."""
    from penstock.kafka.topics import Topics

    counts = Topics.of(clients_at(bootstrap_servers, command_config)).topics()
    shown = {name: counts[name] for name in sorted(counts) if internal or not _is_internal(name)}
    if as_json:
        print_json([{"name": name, "partitions": count} for name, count in shown.items()])
        return
    table = Table("Topic", "Partitions", box=None, pad_edge=False)
    for name, count in shown.items():
        table.add_row(name, str(count))
    if shown:
        console().print(table)
    if hidden := len(counts) - len(shown):
        typer.echo(f"{hidden} internal topics are not shown: --internal", err=True)


def _is_internal(name: str) -> bool:
    return name.startswith("__") or has_internal_name(name)


@topic_app.command()
def describe(
    topic: TopicName,
    bootstrap_servers: BootstrapServers,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Show a topic's partitions, leaders and offsets, and the configuration that was set for it."""
    from penstock.kafka.topics import Topics

    layout = Topics.of(clients_at(bootstrap_servers, command_config)).describe(topic)
    if as_json:
        print_json(asdict(layout))
    else:
        console().print(_table(layout))
        for key, value in layout.configs.items():
            typer.echo(f"{key}={value}")


def _table(layout: TopicLayout) -> Table:
    table = Table("partition", "leader", "replicas", "in sync", "first offset", "end", box=None, pad_edge=False)
    for each in layout.partitions:
        leader = "none" if each.leader < 0 else str(each.leader)
        replicas, in_sync = (",".join(map(str, nodes)) for nodes in (each.replicas, each.in_sync))
        table.add_row(str(each.number), leader, replicas, in_sync, str(each.beginning), str(each.end))
    return table


@topic_app.command()
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="One topic or several")],
    bootstrap_servers: BootstrapServers,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    command_config: CommandConfig = None,
) -> None:
    """Delete topics with all their records. If one of them does not exist, none is deleted."""
    from penstock.kafka.topics import Topics

    there = Topics.of(clients_at(bootstrap_servers, command_config))
    names = list(dict.fromkeys(topics))
    shown = ", ".join(f"{name} ({len(there.partitions(name))} partitions)" for name in names)
    if not yes:
        confirm(f"Delete {'topic' if len(names) == 1 else 'topics'} {shown} with all it holds?")
    there.delete_topics(names)
    for name in names:
        typer.echo(f"Topic {name} is deleted")
