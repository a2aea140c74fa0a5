"""``penstock plan``: shows, before a deploy, the topics, stores and tasks that it keeps, moves, restores or loses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.client_options import servers_option
from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, console, print_json
from penstock.cluster.programs.deploy_plan import RESTORED_PER_S, DeployPlan, Fate, InKafka, plan_deploy, tasks_of
from penstock.cluster.programs.description import Description, description_of, read_description
from penstock.common.config import StreamsConfig
from penstock.common.errors import MissingTopicError, TopologyError
from penstock.common.ids import TopicPartition
from penstock.topology.physical.topic_plan import plan_topics

if TYPE_CHECKING:
    from penstock.kafka.topics import Topics
    from penstock.topology.physical.topology import Topology

_LOSES = 3
"""The exit code if something would be lost; 1 and 2 are errors."""


def register(app: typer.Typer) -> None:
    """Mount ``plan`` on the root."""
    app.command()(plan)


def plan(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="MODULE:APP, or a file with the output of 'penstock describe --json'")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="MODULE:APP")],
    bootstrap_servers: Annotated[
        str | None, servers_option(description="The addresses of Kafka, to show tasks and records")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the fates of topics, stores and tasks if NEW replaces OLD.

    Exit code 0 if all is kept, moved or restored; 3 if something is orphaned, must be rebuilt, or would not start.
    """
    before = _description(old)
    app = load_application(new)
    after = description_of(app.topology, app.config)
    kafka = None
    if bootstrap_servers is not None:
        from penstock.kafka.topics import Topics

        topics = Topics(bootstrap_servers, app.config.client_entries("admin."))
        kafka = in_kafka(before, after, app.topology, app.config, topics)
    found = plan_deploy(before, after, kafka)
    if as_json:
        print_json(_body(found))
    else:
        console().print(_shown(found, None if kafka is not None else app.config.bootstrap_servers))
    if found.loses:
        raise typer.Exit(_LOSES)


def _description(target: str) -> Description:
    if ":" not in target:
        return read_description(Path(target))
    app = load_application(target)
    return description_of(app.topology, app.config)


def in_kafka(old: Description, new: Description, topology: Topology, config: StreamsConfig, topics: Topics) -> InKafka:
    """Returns the facts that the comparison needs from a broker. Raises BrokerUnreachableError."""
    existing = topics.topics()
    internal = old.repartition | old.changelogs | new.repartition | new.changelogs
    of_users = {name: count for name, count in existing.items() if name not in internal}
    wanted: dict[str, int] = {}
    tasks: dict[int, int] = {}
    refused = None
    try:
        planned = plan_topics(topology, config, of_users)
    except (MissingTopicError, TopologyError) as error:
        refused = str(error)
    else:
        wanted = {topic.name: topic.partitions for topic in planned.internal}
        tasks = {sub.id: sub.tasks for sub in planned.tasks.subtopologies}
    restoring = {store.changelog for _, store in new.stores.values() if store.changelog is not None}
    asked = [TopicPartition(name, n) for name in sorted(internal | restoring) for n in range(existing.get(name, 0))]
    begins, ends = topics.beginning_offsets(asked), topics.end_offsets(asked)
    committed = topics.committed(old.application_id)
    records, unread = dict.fromkeys((at.topic for at in asked), 0), dict.fromkeys(old.repartition, 0)
    for at in asked:
        records[at.topic] += ends[at] - begins[at]
        if at.topic in unread:
            unread[at.topic] += ends[at] - max(begins[at], committed[at].offset if at in committed else 0)
    return InKafka(existing, wanted, tasks, records, unread, refused)


# ---- output ----


def _body(found: DeployPlan) -> dict[str, Any]:
    body = asdict(found, dict_factory=lambda pairs: {key: _plain(value) for key, value in pairs})
    restored = {"records": found.records, "seconds": _seconds(found)}
    return {**body, "restored": restored, "loses": found.loses}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _seconds(found: DeployPlan) -> float | None:
    return None if found.records is None else round(found.records / RESTORED_PER_S, 1)


def _shown(found: DeployPlan, unasked: str | None) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{found.old} -> {found.new}" if found.old != found.new else found.new)]
    if found.refused is not None:
        parts += [Text(""), Text(f"The new program would not start: {found.refused}")]
    tasks = _table("Tasks", "was", "now", "tasks")
    for task in found.tasks:
        _row(tasks, task.fate.value, tasks_of(task.was), tasks_of(task.now), _count(task.tasks), task.note)
    stores = _table("Stores", "store", "was", "now", "records to restore", "seconds")
    for store in found.stores:
        figures = _count(store.records), "" if store.seconds is None else f"{store.seconds:.1f}"
        _row(stores, store.fate.value, store.name, tasks_of(store.was), tasks_of(store.now), *figures, store.note)
    topics = _table("Topics", "topic", "use", "records")
    for topic in found.topics:
        _row(topics, topic.fate.value, topic.name, topic.use, _count(topic.records), topic.note)
    for table in (tasks, stores, topics):
        if table.row_count:
            parts += [Text(""), table]
    return Group(*parts, Text(""), *map(Text, _conclusion(found, unasked)))


def _table(title: str, *columns: str) -> Table:
    return Table("", *columns, "", title=title, title_justify="left", title_style="", box=None, pad_edge=False)


def _row(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))  # literal: Rich would take [a-z] of a pattern for markup


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _conclusion(found: DeployPlan, unasked: str | None) -> Iterable[str]:
    if found.records:
        yield f"Restored: {found.records:,} records at most, about {_seconds(found):.1f} s by one stream actor"
    elif unasked is not None:
        yield f"Tasks and records are not counted; to count them in the program's own Kafka, add -b {unasked}"
    fates = [each.fate for each in found.topics] + [each.fate for each in found.stores]
    if found.loses:
        counts = [f"{fates.count(fate)} {fate.value}" for fate in Fate if fate.is_loss and fate in fates]
        yield f"Needs attention: {', '.join(counts) or 'it would not start'}"
    else:
        yield "Nothing is orphaned, and nothing must be rebuilt"
