"""``penstock ingest``: the rows of files become records of a topic, each exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.cli import ingest_options as options
from penstock.cli import output
from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at, command_settings
from penstock.cli.iceberg_options import catalog_and_rest, catalog_of
from penstock.cli.loading import load_object
from penstock.cli.spark_options import (
    ConfOption,
    MasterOption,
    announced,
    interruptible,
    spark_extra,
    spark_place,
)
from penstock.cli.topic_options import serde_of
from penstock.common.errors import ConfigError
from penstock.common.shown import counted

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients
    from penstock.pipeline.iceberg_catalog import IcebergCatalog
    from penstock.pipeline.ingest.files import Source
    from penstock.pipeline.ingest.ingest import Ingest, IngestReport, RunLanes
    from penstock.pipeline.ingest.progress import Progress

_LINE_EACH_S = 10.0


def register(app: typer.Typer) -> None:
    """Mount ``ingest`` on the root."""
    app.command("ingest")(_ingest)


def _ingest(
    url: options.Url,
    topic: options.Topic,
    bootstrap_servers: BootstrapServers,
    key_column: options.KeyColumn = None,
    key: options.Key = "string",
    value_column: options.ValueColumn = None,
    value: options.Value = None,
    timestamp_column: options.TimestampColumn = None,
    header_column: options.HeaderColumn = None,
    partition_column: options.PartitionColumn = None,
    partitioner: options.PartitionerName = None,
    format_: options.Format = None,
    csv_delimiter: options.CsvDelimiter = ",",
    column_type: options.ColumnType = None,
    on_error: options.OnError = options.FAIL,
    ingest_id: options.IngestId = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    command_config: CommandConfig = None,
) -> None:
    """Write the rows of Parquet, CSV, JSON Lines or an Iceberg table to a topic, each exactly once. If a run was
    interrupted, the same command continues it."""
    skips = options.skips(on_error)
    with interruptible(f"The ingest into {topic} was interrupted. Run it again: it continues where it ended"):
        with spark_extra():
            from penstock.pipeline.ingest import spark_lanes
            from penstock.pipeline.ingest.ingest import Ingest
            from penstock.pipeline.ingest.mapping import RecordMapping
        from penstock.kafka.topics import Topics

        id_, source, clients = _begin(url, topic, format_, ingest_id, bootstrap_servers, command_config)
        columns, registry = tuple(value_column or ()), command_settings(command_config).schema_registry
        mapping = RecordMapping(
            topic,
            len(Topics.of(clients).partitions(topic)),
            key_column,
            serde_of("--key", key, registry),
            columns,
            serde_of("--value", value or ("string" if len(columns) == 1 else "json"), registry),
            timestamp_column,
            tuple(options.header(text) for text in header_column or ()),
            partition_column,
            None if partitioner is None else load_object("--partitioner", partitioner),
        )
        ingest = Ingest(id_, source, mapping, options.csv_form(csv_delimiter, column_type or []), clients, skips)
        _run(ingest, spark_lanes.spark_lanes(spark_place(master, conf), id_))


def _begin(
    url: str, topic: str, format_: str | None, given: str | None, servers: str, command_config: Path | None
) -> tuple[str, Source, ConfluentClients]:
    """Returns the id of the ingest, its files, and its clients."""
    from penstock.pipeline.ingest.files import find_source
    from penstock.pipeline.ingest.iceberg_files import find_table, table_url
    from penstock.pipeline.ingest.ingest import snapshot_of

    storage = command_settings(command_config).object_store
    if format_ != options.ICEBERG:
        source = find_source(url, storage, options.format_of(format_))
        id_ = given or _default_id(topic, source.url)
        return id_, source, _clients(servers, command_config, id_)
    catalog, table = _table(url, command_config)
    id_ = given or _default_id(topic, table_url(catalog, table))
    clients = _clients(servers, command_config, id_)
    source = find_table(catalog, table, storage, snapshot_of(id_, clients))
    typer.echo(f"{table}: snapshot {source.snapshot}, {counted(len(source.files), 'file')}", err=True)
    return id_, source, clients


def _clients(servers: str, command_config: Path | None, ingest_id: str) -> ConfluentClients:
    from penstock.pipeline.ingest.progress import TRANSACTION_TIMEOUT_MS

    return clients_at(
        servers,
        command_config,
        f"{ingest_id}-ingest",
        consumer={"isolation.level": "read_committed"},
        producer={"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS},
    )


def _table(name: str, command_config: Path | None) -> tuple[IcebergCatalog, str]:
    catalog, table = catalog_and_rest(name, "NAMESPACE.TABLE")
    if "." not in table:
        raise ConfigError(f"{name!r} is not CATALOG.NAMESPACE.TABLE, which --format iceberg needs instead of a URL")
    return catalog_of(catalog, command_config), table


def _default_id(topic: str, url: str) -> str:
    from penstock.objects.digests import digest_of

    return f"{topic}-{digest_of(url.encode())[:8]}"


def _run(ingest: Ingest, lanes: AbstractContextManager[RunLanes]) -> None:
    with _shown(output.console(stderr=True), len(ingest.source.files)) as shown:
        made = ingest.run(announced(lanes, shown.say), shown.report)
    for text in made.refused:
        typer.echo(f"skipped: {text}", err=True)
    typer.echo(summary(ingest.mapping.topic, made))


def summary(topic: str, made: IngestReport) -> str:
    """Returns one line that shows people what an ingest did."""
    if not made.files:
        return f"Nothing to do: {counted(made.all_files, 'file')} already in topic {topic}"
    skipped = f", {counted(made.skipped, 'row')} skipped" if made.skipped else ""
    before = made.all_files - made.files
    others = f" ({counted(before, 'file')} already there)" if before else ""
    rate = f"{made.records / made.seconds:,.0f} a second"
    keyless = f", {made.null_keys:,} with a null key" if made.null_keys else ""
    return (
        f"{counted(made.records, 'record')} of {counted(made.files, 'file')} written to {topic} in {made.seconds:.1f} s"
        f", {rate}{keyless}{skipped}{others}"
    )


class _Shown(NamedTuple):
    say: Callable[[str], None]
    report: Callable[[Progress], None]


@contextmanager
def _shown(console: Console, files: int) -> Iterator[_Shown]:
    """Shows the progress: by a line that changes on a terminal, as lines elsewhere."""
    line = ProgressLine(files, time.monotonic)
    if not console.is_terminal:
        due = [time.monotonic() + _LINE_EACH_S]
        say = partial(console.print, soft_wrap=True, markup=False, highlight=False)

        def print_line(progress: Progress) -> None:
            text = line.text(progress)
            if time.monotonic() >= due[0]:
                due[0] += _LINE_EACH_S
                say(text)

        yield _Shown(say, print_line)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Bars(*columns, console=console, transient=True) as bars:
        shown = bars.add_task("checking the files", total=None)
        yield _Shown(
            lambda text: bars.update(shown, description=text),
            lambda progress: bars.update(shown, description=line.text(progress)),
        )


class ProgressLine:
    """The progress as text, with the speed since the first one."""

    def __init__(self, files: int, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def text(self, progress: Progress) -> str:
        """Returns the line for ``progress``."""
        now = self._clock()
        if self._first is None:
            self._first = progress.rows, now
        rows, since = progress.rows - self._first[0], now - self._first[1]
        done = sum(each.done for each in progress.files.values())
        speed = f", {rows / since:,.0f} a second" if since > 0 else ""
        return f"{progress.rows:,} rows, {done} of {counted(self._files, 'file')} done{speed}"
