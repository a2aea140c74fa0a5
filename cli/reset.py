"""``penstock reset``: sets an application back to process its input again (Kafka's application reset tool)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli import reset_target
from penstock.cli.client_options import servers_option
from penstock.cli.loading import load_application
from penstock.cli.output import confirm, console
from penstock.cli.reset_plan import KafkaNow, OwnTopics, ResetPlan, Wanted, plan_reset
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.common.ids import CommittedOffset
from penstock.common.shown import counted
from penstock.common.written_times import moment

if TYPE_CHECKING:
    from penstock.checkpoints.repository import CheckpointRepository
    from penstock.cluster.client.local_state import NodeState
    from penstock.kafka.group_members import Member
    from penstock.kafka.group_tools import GroupTools
    from penstock.topology.physical.topology import Topology

_ADDRESS = "127.0.0.1:9092"
_STATE_DIR: Path = StreamsConfig.model_fields["state_dir"].default


def register(app: typer.Typer) -> None:
    """Mount ``reset`` on the root."""
    app.command()(reset)


def reset(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP|ID", help="The program, or the id of an application")],
    input_topics: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC,...", help="Input topics to reset; by default all that the program reads"),
    ] = None,
    intermediate_topics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC,...",
            help="Topics to skip to their ends; by default those that the program both writes and reads",
        ),
    ] = None,
    internal_topics: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC,...", help="Internal topics to delete; by default all")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Input from its beginning (the default)")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Input from its end")] = False,
    to_offset: Annotated[int | None, typer.Option(help="Each partition from this offset")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From 2026-11-21T09:30:00.000: in UTC, unless it names its zone"),
    ] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="PnDTnHnMnS", help="From this long ago")] = None,
    shift_by: Annotated[int | None, typer.Option(help="Number of records to move forward, or back if negative")] = None,
    from_file: Annotated[Path | None, typer.Option(help="CSV: topic,partition,offset")] = None,
    bootstrap_servers: Annotated[
        str | None, servers_option(description="The addresses of Kafka, instead of the program's")
    ] = None,
    state_dir: Annotated[Path | None, typer.Option(help="state.dir, instead of the program's")] = None,
    force: Annotated[bool, typer.Option("--force", help="Remove members that are left in the group")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
) -> None:
    """Set an application back, so that it processes its input again: offsets, internal topics, local state.

    The application must be stopped. The command lists what it will do, and asks before it begins.
    """
    offsets = reset_target.chosen(
        to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by, from_file, time.time_ns() // 1_000_000
    )
    wanted = Wanted(_listed(input_topics), _listed(intermediate_topics), _listed(internal_topics), offsets)
    _reset(_subject(target, bootstrap_servers, state_dir), wanted, force, dry_run, yes)


def _listed(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for each in given or () for name in each.split(",") if name.strip())


@dataclass(frozen=True)
class _Subject:
    """The application: by its program, or by its id alone."""

    application_id: str
    directory: Path
    tools: GroupTools
    program: tuple[Topology, StreamsConfig] | None = None


def _subject(target: str, bootstrap_servers: str | None, state_dir: Path | None) -> _Subject:
    from penstock.kafka.group_tools import GroupTools

    if ":" not in target:
        # Checks the id as well: it becomes part of a path.
        config = StreamsConfig.of({"application.id": target, "state.dir": state_dir or _STATE_DIR})
        address = bootstrap_servers or os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS") or _ADDRESS
        return _Subject(target, config.state_dir / target, GroupTools(address))
    app = load_application(target)
    config = app.config
    tools = GroupTools(bootstrap_servers or config.bootstrap_servers, config.client_entries("admin."))
    directory = (state_dir or config.state_dir) / app.application_id
    return _Subject(app.application_id, directory, tools, (app.topology, config))


def _reset(it: _Subject, wanted: Wanted, force: bool, dry_run: bool, yes: bool) -> None:
    from penstock.cluster.client import control, local_state
    from penstock.cluster.ray_cluster import connections
    from penstock.kafka.internal_topics.known_topics import forget_topics

    control.refuse_if_running(it.application_id)
    members = it.tools.members(it.application_id)
    refused = _has_members(it, members) if members and not force else None
    if refused is not None and not dry_run:
        raise refused
    plan, checkpoints = _plan(it, wanted), _checkpoints(it)
    with connections.connected_as_start_would() as ray_cluster:
        nodes = local_state.look(it.directory)
        console().print(_shown(it, plan, wanted.target, nodes, members if force else (), ray_cluster, checkpoints))
        if dry_run:
            if refused is not None:
                typer.echo(f"\nIt would be refused now: {refused}")
            return
        if yes:
            plan.refuse_unasked()
        else:
            confirm(f"Reset application {it.application_id}? This cannot be undone. (Use --yes to skip this question.)")
        if force:
            it.tools.free_static_members(it.application_id)
        elif members := it.tools.members(it.application_id):
            raise _has_members(it, members)
        try:
            if checkpoints is not None:
                checkpoints.delete_everything()
            local_state.clean_up(it.directory)
            forget_topics(it.tools, it.application_id)
            it.tools.delete_topics(plan.deleted)
            # Last, so that a reset that failed half-way can be run again: to shift twice would be too far.
            it.tools.commit(it.application_id, {each.partition: CommittedOffset(each.after) for each in plan.offsets})
        except StreamsError as error:
            raise StreamsError(
                f"{error}. The reset is not complete: run it again before the application starts"
            ) from error
    typer.echo(f"Application {it.application_id} is reset")


def _plan(it: _Subject, wanted: Wanted) -> ResetPlan:
    topics = it.tools.topics()
    committed = {at: found.offset for at, found in it.tools.committed(it.application_id).items()}
    own = None if it.program is None else OwnTopics.of(*it.program, topics)
    now = KafkaNow(topics, it.tools.groups(), committed)
    return plan_reset(it.application_id, own, wanted, now, it.tools)


def _checkpoints(it: _Subject) -> CheckpointRepository | None:
    """Returns the checkpoints of the application; None if the program has none, or is not known. Raises
    ObjectStoreError if the storage does not answer: then nothing is reset."""
    from penstock.actors.checkpoints.storage import CheckpointStorage

    storage = None if it.program is None else CheckpointStorage.of(it.program[1])
    return None if storage is None else storage.repository()


def _checkpoints_shown(it: _Subject, checkpoints: CheckpointRepository | None) -> str:
    if it.program is None:
        return (
            "none, for no program is named: those of an application with state.checkpoint.uri remain, and fit no more"
        )
    return "none" if checkpoints is None else f"all of {it.application_id} below the URL of state.checkpoint.uri"


def _has_members(it: _Subject, members: tuple[Member, ...]) -> ApplicationStateError:
    named = f"{counted(len(members), 'member')} ({', '.join(map(str, members))})"
    return ApplicationStateError(
        f"group {it.application_id!r} has {named}: stop the application first. One that has stopped stays a member "
        f"until its consumer.session.timeout.ms has passed ({_session(it)}): wait, or remove it now by --force"
    )


def _session(it: _Subject) -> str:
    from penstock.kafka.settings import SESSION_TIMEOUT_MS, session_timeout_ms

    if it.program is None:
        return f"{SESSION_TIMEOUT_MS / 1000:g} s, unless the program sets another"
    return f"{session_timeout_ms(it.program[1].client_entries('consumer.')) / 1000:g} s"


def _shown(
    it: _Subject,
    plan: ResetPlan,
    target: reset_target.Target,
    nodes: list[NodeState],
    members: tuple[Member, ...],
    ray_cluster: str | None,
    checkpoints: CheckpointRepository | None,
) -> RenderableType:
    parts: list[RenderableType] = [Text(f"Changes of a reset of application {plan.application_id}")]
    if members:
        parts += _block("Members that are removed from its group", [str(each) for each in members])
    parts += _offsets(plan, target)
    parts += _block("Topics that are deleted", list(plan.deleted) or ["none"])
    if plan.left:
        parts += _block("Topics that stay", [f"{topic}: {why}" for topic, why in plan.left.items()])
    parts += _block("Checkpoints that are deleted", [_checkpoints_shown(it, checkpoints)])
    where = (
        "on this machine, for no Ray cluster runs here"
        if ray_cluster is None
        else f"in the Ray cluster at {ray_cluster}"
    )
    parts += _block(f"Local state that is deleted, {where}: {it.directory}", [_node(each) for each in nodes])
    if ray_cluster is None:
        parts.append(Text("  on other machines that ran it: delete this directory there before it starts again"))
    return Group(*parts)


def _block(title: str, lines: list[str]) -> list[RenderableType]:
    return [Text(""), Text(title), *(Text(f"  {line}") for line in lines)]


def _offsets(plan: ResetPlan, target: reset_target.Target) -> list[RenderableType]:
    title = f"Offsets of group {plan.application_id}"
    absent = [f"{topic}: there is no such topic" for topic in plan.absent]
    if not plan.offsets:
        return _block(title, absent or ["stay as they are: no --input-topics"])
    if isinstance(target, reset_target.ToTime):
        title += f", from {moment(target.time_ms)} on"
    table = Table("", "topic", "partition", "from", "to", "", box=None, pad_edge=False)
    for each in plan.offsets:
        before = "-" if each.before is None else str(each.before)
        table.add_row("", each.partition.topic, str(each.partition.partition), before, str(each.after), each.note)
    return [Text(""), Text(title), table, *(Text(f"  {line}") for line in absent)]


def _node(state: NodeState) -> str:
    if state.error is not None:
        return f"{state.node}: not known: {state.error}"
    return (
        f"{state.node}: {state.directories} directories, {state.size / 1e6:.1f} MB"
        if state.directories
        else (f"{state.node}: none")
    )
