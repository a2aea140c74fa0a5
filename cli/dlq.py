"""``penstock dlq list|show|replay``: the records that an application could not process, in a dead letter topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from penstock.cli import dlq_options as options
from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at
from penstock.cli.dlq_show import SerdesOf, json_of, text_of
from penstock.cli.output import AsJson, confirm, console, print_json
from penstock.cli.step_progress import shown_progress
from penstock.cluster.dead_letters.letters import Letter
from penstock.cluster.dead_letters.notes import create_notes_topic, notes_topic, read_notes
from penstock.cluster.dead_letters.plan import Route
from penstock.cluster.dead_letters.reading import Letters, all_letters, partitions_of
from penstock.cluster.dead_letters.replay import (
    CONSUMER_SETTINGS,
    GROUP,
    PRODUCER_SETTINGS,
    Planned,
    Replayer,
    plan_replay,
)
from penstock.cluster.dead_letters.summary import Cause, Counted, Summary
from penstock.common.errors import ConfigError, StreamsError
from penstock.common.offset_ranges import OffsetRange
from penstock.common.shown import counted
from penstock.common.written_times import iso_time
from penstock.kafka.clients import KafkaClients

_SHOWN = 10

dlq_app = typer.Typer(help="Read and replay dead letters.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Mount ``dlq`` on the root."""
    app.add_typer(dlq_app, name="dlq")


def _clients(servers: str, command_config: Path | None) -> KafkaClients:
    return clients_at(servers, command_config, GROUP, consumer=CONSUMER_SETTINGS, producer=PRODUCER_SETTINGS)


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


@contextmanager
def _interruptible(hint: str = "") -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if hint:
            typer.echo(hint, err=True)
        raise typer.Exit(130) from None


@dlq_app.command("list")
def list_letters(
    topic: options.DeadLetterTopic,
    bootstrap_servers: BootstrapServers,
    exception: options.Exceptions = None,
    source: options.Topics = None,
    partition: options.Partitions = None,
    since: options.Since = None,
    until: options.Until = None,
    contains: options.Contains = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Count dead letters by source topic, exception and message, most letters first.

    Messages that differ only in numbers are counted together, with # for the numbers. If an exception has many
    messages, quoted parts are left out, too. Times are those of the records.
    """
    selected = options.filter_of(exception, source, partition, since, until, contains)
    clients = _clients(bootstrap_servers, command_config)
    letters, notes = all_letters(clients, topic, _tell), read_notes(clients, topic)
    summary, read = Summary(), 0
    with _interruptible(), shown_progress() as progress:
        for letter in letters.read(f"reading {topic}", progress):
            read += 1
            if selected.matches(letter):
                summary.add(letter, bool(notes.replays_of(letter)))
    if as_json:
        groups = [_json(cause, found) for cause, found in summary.counts()]
        print_json({"topic": topic, "read": read, "letters": summary.letters, "causes": groups})
    elif not read:
        typer.echo(f"Topic {topic} has no letters")
    else:
        _print_counts(summary)
        typer.echo(f"{counted(summary.letters, 'letter')} of {read:,}")


def _print_counts(summary: Summary) -> None:
    if not summary.letters:
        return
    table = Table("from", "error", "letters", "first", "last", "replayed", "again", "newest", box=None, pad_edge=False)
    for cause, found in summary.counts():
        error = cause.exception if cause.message is None else f"{cause.exception}: {cause.message}"
        again = f"{found.again:,} (≤ {found.most_replays}×)" if found.again else "0"
        numbers = f"{found.letters:,}", _time(found.first_ms), _time(found.last_ms), f"{found.replayed:,}", again
        table.add_row(escape(cause.topic or ""), escape(error), *numbers, found.example)
    console().print(table)


def _time(ms: int) -> str:
    return iso_time(ms) or str(ms)


def _json(cause: Cause, found: Counted) -> dict[str, Any]:
    return {
        "source": cause.topic, "exception": cause.exception, "message": cause.message, "letters": found.letters,
        "first": found.first_ms, "last": found.last_ms, "replayed": found.replayed, "again": found.again,
        "most_replays": found.most_replays, "newest": found.example,
    }  # fmt: skip


@dlq_app.command()
def show(
    topic: options.DeadLetterTopic,
    bootstrap_servers: BootstrapServers,
    places: options.Places = None,
    exception: options.Exceptions = None,
    source: options.Topics = None,
    partition: options.Partitions = None,
    since: options.Since = None,
    until: options.Until = None,
    contains: options.Contains = None,
    limit: options.Limit = _SHOWN,
    application: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULE:APP", help="Also decode keys and values with this application's serdes"),
    ] = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Show dead letters with all their parts: those at the given PARTITION@OFFSET, or the first ones that the options
    select.

    Keys, values and headers are shown as text if they are UTF-8, otherwise as hexadecimal numbers. With --json each
    letter is a line.
    """
    selected = options.filter_of(exception, source, partition, since, until, contains)
    clients = _clients(bootstrap_servers, command_config)
    serdes = None if application is None else _serdes_of(application)
    notes = read_notes(clients, topic)
    form = json_of if as_json else text_of
    with _interruptible():
        if places:
            found: Iterator[Letter] = _at(clients, topic, places)
        else:
            every = all_letters(clients, topic, _tell).read(f"reading {topic}", lambda _: None)
            found = (letter for letter in every if selected.matches(letter))
        shown = 0
        for letter in found:
            typer.echo(form(topic, letter, notes.replays_of(letter), serdes))
            shown += 1
            if shown == limit and not places:
                break
    if not shown and not as_json:
        typer.echo(f"Topic {topic} has no such letters")


def _at(clients: KafkaClients, topic: str, places: list[str]) -> Iterator[Letter]:
    """Yields the letters at ``places``. Raises ConfigError if there is none at one of them."""
    partitions = partitions_of(clients, topic)
    there = all_letters(clients, topic).ranges
    for at, offset in options.places_of(places, partitions):
        found: list[Letter] = []
        if there[at].begin <= offset < there[at].end:
            with closing(Letters(clients, {at: OffsetRange(offset, offset + 1)}).read("", lambda _: None)) as letters:
                found = list(letters)
        if not found:
            raise ConfigError(
                f"topic {topic!r} has no letter at {at.partition}@{offset}: partition {at.partition} has the offsets "
                f"{there[at]}, some of which may be deleted, or hold no records"
            )
        yield from found


def _serdes_of(target: str) -> SerdesOf:
    from penstock.cli.loading import load_application
    from penstock.cluster.topic_reading.topic_serdes import topic_serdes

    application = load_application(target)
    return cache(lambda topic: topic_serdes(application.topology, application.config, topic))


@dlq_app.command()
def replay(
    topic: options.DeadLetterTopic,
    bootstrap_servers: BootstrapServers,
    places: options.Places = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Write to this topic instead of the source topics")
    ] = None,
    exception: options.Exceptions = None,
    source: options.Topics = None,
    partition: options.Partitions = None,
    since: options.Since = None,
    until: options.Until = None,
    contains: options.Contains = None,
    limit: options.Limit = None,
    rate: Annotated[
        float | None, typer.Option(metavar="RECORDS", help="Maximum number of records a second", min=0.001)
    ] = None,
    by_key: Annotated[
        bool,
        typer.Option("--by-key", help="Choose partitions by the keys, as Kafka's default partitioner does"),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Write the records of dead letters again, each once, to the topics and partitions that they came from, or --to
    another topic.

    Key, value, timestamp and headers are those of the record, without the headers about the error. A header
    __penstock.replayed names the letter. A letter is not replayed twice to the same topic: an interrupted replay
    continues when it is run again.
    """
    selected = options.filter_of(exception, source, partition, since, until, contains)
    clients = _clients(bootstrap_servers, command_config)
    if to == topic:
        raise ConfigError(f"--to {to} is the dead letter topic itself: give another topic, or leave out --to")
    letters = all_letters(clients, topic, _tell)
    if places:
        list(_at(clients, topic, places))  # each must be there
        selected = options.with_places(selected, places, list(letters.ranges))
    if to is not None:
        partitions_of(clients, to)
    with _interruptible(), shown_progress() as progress:
        route = Route(topic, clients.admin().topics(), to, by_key)
        planned = plan_replay(letters, route, selected, limit, progress)
    if not as_json:
        typer.echo("\n".join(planned.plan.lines()))
    if dry_run or not planned.plan.letters:
        if as_json:
            print_json({**planned.plan.body(), "written": 0})
        return
    if not yes:
        confirm(f"Write {counted(planned.plan.letters, 'record')}?", err=as_json)
    written = _carry_out(clients, planned, rate)
    if as_json:
        print_json({**planned.plan.body(), "written": written})
    else:
        typer.echo(f"{counted(written, 'record')} written")


def _carry_out(clients: KafkaClients, planned: Planned, rate: float | None) -> int:
    plan, topic = planned.plan, planned.plan.route.dead_letter_topic
    create_notes_topic(clients.admin(), topic)
    replayer = Replayer(clients, planned.replay, plan, planned.letters, rate)
    try:
        with shown_progress() as progress:
            replayer.run(progress)
    except KeyboardInterrupt:
        typer.echo(f"Interrupted: {_so_far(replayer, topic)}", err=True)
        raise typer.Exit(130) from None
    except StreamsError as error:
        raise StreamsError(f"{error}; {_so_far(replayer, topic)}") from error
    return replayer.written


def _so_far(replayer: Replayer, topic: str) -> str:
    return (
        f"{counted(replayer.written, 'record')} written before it, as topic {notes_topic(topic)} notes. The same "
        "command continues there; nothing is written twice"
    )
