"""``penstock archive TOPIC… --to URL`` and ``archive list|verify|compact``: topics as files, each record once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup
from typing_extensions import override

from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at, command_settings, servers_option
from penstock.cli.iceberg_options import CATALOG, CatalogOption, catalog_and_rest, catalog_of
from penstock.cli.output import AsJson, console, print_json
from penstock.cli.spark_options import (
    ANY_PLACE,
    ConfOption,
    MasterOption,
    announced,
    interruptible,
    spark_extra,
    spark_place,
)
from penstock.cli.topic_options import serde_of
from penstock.common.errors import ConfigError
from penstock.common.offset_ranges import OffsetRange
from penstock.common.shown import counted

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients
    from penstock.objects.contracts import ObjectStore
    from penstock.objects.storage import ObjectLocation
    from penstock.pipeline.archive.archived_topic import ArchivedTopic
    from penstock.pipeline.archive.batches import Batch
    from penstock.pipeline.archive.catalog import Archive
    from penstock.pipeline.archive.decoding import Decoding, NamedSerde
    from penstock.pipeline.archive.iceberg_publisher import IcebergPublisher
    from penstock.pipeline.archive.kafka_comparison import KafkaComparison
    from penstock.pipeline.archive.manifest import PublishedTo
    from penstock.pipeline.archive.opening import ArchiveTask
    from penstock.pipeline.archive.verification import PartitionReport

_DAMAGED = 1
_TOPICS = "topics"
_ID = "penstock-archive"
ArchiveUrl = Annotated[str, typer.Argument(metavar="URL", help=f"The archive: {ANY_PLACE}")]
SomeTopics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated")
]


class ArchiveFormat(StrEnum):
    """The forms in which an archive can be read without penstock."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"


class _TopicsByDefault(TyperGroup):
    """A group whose first argument is a topic, unless it is a command or an option of the group. A word that resembles
    a command counts as a mistyped command if no --to follows."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            meant = difflib.get_close_matches(args[0], self.commands, 1)
            if meant and not any(each == "--to" or each.startswith("--to=") for each in args):
                ctx.fail(
                    f"no command {args[0]!r}: did you mean 'penstock archive {meant[0]}'? To archive a topic of this "
                    "name, add --to URL"
                )
            args = [_TOPICS, *args]
        return super().parse_args(ctx, args)


archive_app = typer.Typer(
    cls=_TopicsByDefault,
    help="Keep topics as Parquet files: penstock archive TOPIC... --to URL. penstock archive topics -h lists its "
    "options, such as --once and --decode. The other commands list, verify and compact such an archive.",
    no_args_is_help=True,
    subcommand_metavar="TOPIC... --to URL | COMMAND [ARGS]...",
)


def register(app: typer.Typer) -> None:
    """Mount ``archive`` on the root."""
    app.add_typer(archive_app, name="archive")


@archive_app.command(_TOPICS)
def archive_topics(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to archive")],
    to: Annotated[str, typer.Option("--to", metavar="URL", help=f"The archive: {ANY_PLACE}")],
    bootstrap_servers: BootstrapServers,
    once: Annotated[bool, typer.Option("--once", help="End when all records that are there now are archived")] = False,
    every: Annotated[float, typer.Option(help="Seconds from one commit to the next, without --once")] = 60.0,
    decode: Annotated[
        str | None, typer.Option(metavar="SERDE", help="Add a column of values decoded by a serde, or by MODULE:SERDE")
    ] = None,
    decode_key: Annotated[
        str | None, typer.Option(metavar="SERDE", help="Add a column of keys decoded by a serde, or by MODULE:SERDE")
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Continue after records that Kafka deleted before they were archived")
    ] = False,
    format_: Annotated[
        ArchiveFormat, typer.Option("--format", help="iceberg: also put the files into Iceberg tables")
    ] = ArchiveFormat.PARQUET,
    catalog: CatalogOption = CATALOG,
    master: MasterOption = None,
    conf: ConfOption = None,
    command_config: CommandConfig = None,
) -> None:
    """Archive topics with Spark, each record exactly once. If a run was interrupted, the same command continues it."""
    if every <= 0:
        raise ConfigError(f"--every {every}: give a number of seconds above 0")
    names = list(dict.fromkeys(topics))
    with interruptible(
        f"The archiving of {', '.join(names)} was interrupted. Run it again: it continues where it ended"
    ):
        with spark_extra():
            from penstock.pipeline.archive.opening import ArchiveTask
            from penstock.pipeline.spark.spark_session import spark_session
        decoding = _decoding(decode_key, decode, command_settings(command_config).schema_registry)
        task = ArchiveTask(
            names,
            _location(to, command_config),
            _clients(bootstrap_servers, command_config, "read_committed"),
            None if once else every,
            accept_loss,
            {} if decoding is None else dict.fromkeys(names, decoding),
        )
        objects = task.location.open()
        if format_ is ArchiveFormat.ICEBERG:
            task = replace(task, publisher=_publisher(objects, catalog, command_config))
        _run(task, objects, spark_session(spark_place(master, conf), "archive"))


def _run(task: ArchiveTask, objects: ObjectStore, session: AbstractContextManager[Any]) -> None:
    from penstock.pipeline.archive.opening import check, open_run
    from penstock.pipeline.archive.run import ArchiveRun
    from penstock.pipeline.archive.spark_tasks import SparkTasks

    check(task, objects)
    say = partial(console(stderr=True).print, soft_wrap=True, markup=False, highlight=False)
    names, batches = ", ".join(task.topics), 0

    def report(batch: Batch) -> None:
        nonlocal batches
        batches += 1
        say(batch_line(batch))

    with announced(session, say) as spark:
        ArchiveRun(task, open_run(task, objects), SparkTasks(spark), report).run()
    if not batches:
        say(f"Nothing to archive: {objects.url} has all records of {names}")


def batch_line(batch: Batch) -> str:
    """Returns one line that shows people what was committed."""
    refused = f", {batch.undecodable:,} keys or values not decoded" if batch.undecodable else ""
    rate = f"{batch.records / batch.seconds:,.0f} a second" if batch.seconds else ""
    size = f"{batch.bytes / 1e6:,.1f} MB"
    return f"{counted(batch.records, 'record')} archived in {counted(batch.files, 'file')} of {size}, {rate}{refused}"


@archive_app.command("list")
def list_archive(
    url: ArchiveUrl, topic: SomeTopics = None, as_json: AsJson = False, command_config: CommandConfig = None
) -> None:
    """Show the topics of an archive, and the offsets that it has of each partition."""
    archive = _open(url, command_config)
    rows = [
        row for archived in _chosen(archive, topic) for row in _listed(archived, archive.published_to(archived.folder))
    ]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None)
    for column in ("topic", "generation", "partition", "offsets", "records", "missing", "files", "MB", "Iceberg table"):
        table.add_column(column, justify="left" if column in ("topic", "offsets", "Iceberg table") else "right")
    for row in rows:
        offsets = OffsetRange(row["begin"], row["end"])
        table.add_row(
            row["topic"], str(row["generation"]), str(row["partition"]), str(offsets), f"{row['records']:,}",
            f"{row['missing']:,}", f"{row['files']:,}", f"{row['bytes'] / 1e6:,.1f}", row["iceberg"] or "",
        )  # fmt: skip
    console().print(table)


def _listed(archived: ArchivedTopic, place: PublishedTo | None) -> list[dict[str, Any]]:
    rows = []
    for partition, offsets in archived.partitions.items():
        files = [file for file in archived.all_files() if file.partition == partition]
        records = sum(file.rows for file in files)
        rows.append(
            {
                "topic": archived.topic,
                "generation": archived.generation.number,
                "topic_id": archived.topic_id,
                "partition": partition,
                "begin": offsets.begin,
                "end": offsets.end,
                "records": records,
                "missing": offsets.end - offsets.begin - records,
                "lost": [[it.begin, it.end] for it in archived.lost if it.partition == partition],
                "undecodable": sum(file.undecodable for file in files),
                "files": len(files),
                "bytes": sum(file.bytes for file in files),
                "first_timestamp": files[0].first_timestamp if files else None,
                "last_timestamp": files[-1].last_timestamp if files else None,
                "iceberg": place and f"{place.catalog}.{place.table}",
            }
        )
    return rows


@archive_app.command("verify")
def verify_archive(
    url: ArchiveUrl,
    topic: SomeTopics = None,
    bootstrap_servers: Annotated[
        str | None,
        servers_option(description="Compare with this Kafka, too", envvar="PENSTOCK_BOOTSTRAP_SERVERS"),
    ] = None,
    catalog: Annotated[
        str | None, typer.Option(metavar="NAME.NAMESPACE", help="Compare with the Iceberg tables of this catalog, too")
    ] = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Read all files again, compare them with their hashes and with Kafka, and show why offsets are missing.

    The exit code is 1 if anything is damaged or differs.
    """
    archive = _open(url, command_config)
    from penstock.pipeline.archive.verification import verify

    reports: list[PartitionReport] = []
    tables = None if catalog is None else _publisher(archive.objects, catalog, command_config)
    differences: list[str] = []
    for archived in _chosen(archive, topic):
        if tables is not None and (difference := tables.difference(archived)):
            differences.append(difference)
        kafka = None if bootstrap_servers is None else _in_kafka(archived, bootstrap_servers, command_config)
        for report in verify(archive.objects, archived, kafka):
            reports.append(report)
            if not as_json:
                _show(report)
    if as_json:
        print_json([asdict(report) for report in reports])
    for difference in differences:
        typer.echo(difference, err=as_json)
    if differences or any(report.problems for report in reports):
        raise typer.Exit(_DAMAGED)


def _show(report: PartitionReport) -> None:
    name = f"{report.topic}-{report.partition}" + (
        f" (generation {report.generation})" if report.generation > 1 else ""
    )
    compared = f", {report.compared:,} of them as in Kafka" if report.compared else ""
    state = "damaged" if report.problems else "in order"
    typer.echo(f"{name}: {state}: {counted(report.rows, 'record')}{compared}")
    for why, count in _by_reason(report).items():
        typer.echo(f"  {counted(count, 'offset')} missing: {why}")
    for problem in report.problems:
        typer.echo(f"  {problem}")


def _by_reason(report: PartitionReport) -> dict[str, int]:
    counts: dict[str, int] = {}
    for missing in report.missing:
        counts[missing.why] = counts.get(missing.why, 0) + missing.end - missing.begin
    return counts


@archive_app.command("compact")
def compact_archive(url: ArchiveUrl, topic: SomeTopics = None, command_config: CommandConfig = None) -> None:
    """Merge small files. Runs and readers may continue meanwhile: replaced files are kept for at least a day."""
    archive = _open(url, command_config)
    from penstock.pipeline.archive.compaction import compact
    from penstock.pipeline.archive.opening import now_ms
    from penstock.pipeline.archive.topic_log import TopicLog

    for archived in _chosen(archive, topic):
        done = compact(archive.objects, TopicLog(archive.objects, archived.generation), now_ms, worthwhile=2)
        if done.before:
            typer.echo(f"{archived.folder}: {counted(done.before, 'file')} became {done.after:,}")


def _chosen(archive: Archive, topics: list[str] | None) -> list[ArchivedTopic]:
    there = archive.topics()
    for topic in topics or ():
        if topic not in there:
            raise ConfigError(f"--topic {topic}: the archive has only {', '.join(there)}")
    return [archive.load(generation) for topic in topics or there for generation in archive.generations(topic)]


def _in_kafka(archived: ArchivedTopic, servers: str, command_config: Path | None) -> KafkaComparison | None:
    """Returns the topic in Kafka; None if it is not there, or was created again since."""
    from penstock.pipeline.archive.kafka_comparison import KafkaComparison
    from penstock.pipeline.archive.opening import look

    committed = _clients(servers, command_config, "read_committed")
    admin = committed.admin()
    if admin.topic_ids([archived.topic]).get(archived.topic) != archived.topic_id:
        return None
    policy = admin.topic_configs([archived.topic]).get(archived.topic, {}).get("cleanup.policy", "compact")
    return KafkaComparison(
        archived.topic,
        committed,
        _clients(servers, command_config, "read_uncommitted"),
        look(committed, [archived.topic]).offsets[archived.topic],
        "compact" in policy,
    )


def _open(url: str, command_config: Path | None) -> Archive:
    with spark_extra():
        from penstock.pipeline.archive.catalog import Archive
        from penstock.pipeline.archive.records import FILE_SCHEMA  # noqa: F401  # pyarrow is of the extra
    return Archive.open(_location(url, command_config))


def _publisher(objects: ObjectStore, catalog: str, command_config: Path | None) -> IcebergPublisher:
    from penstock.pipeline.archive.iceberg_publisher import IcebergPublisher

    name, namespace = catalog_and_rest(catalog, "NAMESPACE")
    return IcebergPublisher(objects, catalog_of(name, command_config), namespace)


def _location(url: str, command_config: Path | None) -> ObjectLocation:
    from penstock.objects.storage import ObjectLocation

    return ObjectLocation(url, command_settings(command_config).object_store)


def _clients(servers: str, command_config: Path | None, isolation: str) -> ConfluentClients:
    return clients_at(servers, command_config, _ID, consumer={"isolation.level": isolation})


def _decoding(key: str | None, value: str | None, registry: Mapping[str, Any]) -> Decoding | None:
    from penstock.pipeline.archive.decoding import Decoding

    if key is None and value is None:
        return None
    return Decoding(_named("--decode-key", key, registry), _named("--decode", value, registry))


def _named(option: str, text: str | None, registry: Mapping[str, Any]) -> NamedSerde | None:
    from penstock.pipeline.archive.decoding import NamedSerde

    return None if text is None else NamedSerde(text, serde_of(option, text, registry))
