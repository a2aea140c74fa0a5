"""``penstock ingest``: the rows of files become records of a topic, each exactly once."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at, command_settings
from penstock.cli.loading import search_current_folder_first
from penstock.cli.spark_options import ConfOption, MasterOption, spark_place
from penstock.cli.topic_options import SerdeName, pair
from penstock.common.errors import ConfigError
from penstock.common.secrets import Entries
from penstock.common.serdes import Serde
from penstock.common.shown import counted

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients
    from penstock.pipeline.ingest.contracts import CsvForm, FileFormat
    from penstock.pipeline.ingest.ingest import Ingest, IngestReport
    from penstock.pipeline.ingest.progress import Progress

_INTERRUPTED = 130
_LINE_EACH_S = 10.0
_FAIL, _SKIP = "fail", "skip"


def register(app: typer.Typer) -> None:
    """Mount ``ingest`` on the root."""
    app.command("ingest")(_ingest)


def _ingest(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A file or a folder: a path, file://, s3://, gs:// or az://")
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic that gets the records; it must exist")],
    bootstrap_servers: BootstrapServers,
    key_column: Annotated[str | None, typer.Option(help="The column of the keys; without it keys are null")] = None,
    key: Annotated[str, typer.Option("--key", metavar="SERDE", help="The serde of keys, or MODULE:SERDE")] = "string",
    value_column: Annotated[
        list[str] | None,
        typer.Option(help="The column of the values. Several: an object with these fields; none: with all columns"),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="SERDE", help="The serde of values: string for one column, else json"),
    ] = None,
    timestamp_column: Annotated[
        str | None, typer.Option(help="The column of the timestamps; without it the time of writing")
    ] = None,
    header_column: Annotated[
        list[str] | None, typer.Option("--header-column", metavar="NAME=COLUMN", help="A header, and its column")
    ] = None,
    partition_column: Annotated[str | None, typer.Option(help="The column of the partitions")] = None,
    partitioner: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="A partitioner instead of Kafka's murmur2")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="parquet|csv|jsonl", help="Instead of the ends of the names")
    ] = None,
    csv_delimiter: Annotated[str, typer.Option(help="The delimiter of CSV")] = ",",
    column_type: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=TYPE", help="Type of a column of CSV: long, double, boolean, or text"),
    ] = None,
    on_error: Annotated[str, typer.Option(metavar="fail|skip", help="The reaction to a row that is no record")] = _FAIL,
    ingest_id: Annotated[
        str | None, typer.Option("--id", help="The name of the ingest; by default made from topic and URL")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    command_config: CommandConfig = None,
) -> None:
    """Write the rows of Parquet, CSV or JSON Lines to a topic, each exactly once. A run that was ended is continued by
    the same command."""
    if on_error not in (_FAIL, _SKIP):
        raise ConfigError(f"--on-error {on_error!r}: it is {_FAIL} or {_SKIP}")
    try:
        from penstock.pipeline.ingest.files import find_source
        from penstock.pipeline.ingest.ingest import Ingest
        from penstock.pipeline.ingest.mapping import RecordMapping
        from penstock.pipeline.ingest.spark_lanes import spark_lanes
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[spark]'") from error
    source = find_source(url, command_settings(command_config).object_store, _format(format_))
    from penstock.objects.digests import digest_of

    id_ = ingest_id or f"{topic}-{digest_of(source.url.encode())[:8]}"
    clients = _clients(clients_at(bootstrap_servers, command_config, f"{id_}-ingest"))
    from penstock.kafka.topics import Topics

    columns = tuple(value_column or ())
    mapping = RecordMapping(
        topic,
        len(Topics.of(clients).partitions(topic)),
        key_column,
        _serde("--key", key),
        columns,
        _serde("--value", value or ("string" if len(columns) == 1 else "json")),
        timestamp_column,
        tuple(_header(text) for text in header_column or ()),
        partition_column,
        None if partitioner is None else _loaded("--partitioner", partitioner),
    )
    ingest = Ingest(id_, source, mapping, _csv_form(csv_delimiter, column_type or []), clients, on_error == _SKIP)
    _run(ingest, partial(spark_lanes, spark_place(master, conf), id_))


def _run(ingest: Ingest, lanes: Callable[[], Any]) -> None:
    try:
        with _shown(Console(stderr=True), len(ingest.source.files)) as report:
            made = ingest.run(lanes(), report)
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"The ingest into {ingest.mapping.topic} was interrupted. Run it again: it continues where it ended",
            soft_wrap=True,
            markup=False,
        )
        raise typer.Exit(_INTERRUPTED) from None
    for text in made.refused:
        typer.echo(f"skipped: {text}", err=True)
    typer.echo(summary(ingest.mapping.topic, made))


def summary(topic: str, made: IngestReport) -> str:
    """Returns one line that shows people what an ingest did."""
    if not made.files:
        return f"Nothing to do: {counted(made.all_files, 'file')} in topic {topic} before"
    skipped = f", {counted(made.skipped, 'row')} skipped" if made.skipped else ""
    before = made.all_files - made.files
    others = f" ({counted(before, 'file')} before)" if before else ""
    rate = f"{made.records / made.seconds:,.0f} a second"
    return (
        f"{counted(made.records, 'record')} of {counted(made.files, 'file')} written to {topic} "
        f"in {made.seconds:.1f} s, {rate}{skipped}{others}"
    )


@contextmanager
def _shown(console: Console, files: int) -> Iterator[Callable[[Progress], None]]:
    """Shows the progress: by a line that changes on a terminal, as lines elsewhere."""
    line = ProgressLine(files, time.monotonic)
    if not console.is_terminal:
        due = [time.monotonic() + _LINE_EACH_S]

        def print_line(progress: Progress) -> None:
            text = line.text(progress)
            if time.monotonic() >= due[0]:
                due[0] += _LINE_EACH_S
                console.print(text, soft_wrap=True, markup=False, highlight=False)

        yield print_line
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Bars(*columns, console=console, transient=True) as bars:
        shown = bars.add_task("starting Spark", total=None)
        yield lambda progress: bars.update(shown, description=line.text(progress))


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


def _clients(clients: ConfluentClients) -> ConfluentClients:
    """Returns clients that read what is committed, and whose transactions may be open for a while."""
    from penstock.pipeline.ingest.progress import TRANSACTION_TIMEOUT_MS

    return replace(
        clients,
        consumer_overrides=Entries({**clients.consumer_overrides, "isolation.level": "read_committed"}),
        producer_overrides=Entries({**clients.producer_overrides, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}),
    )


def _format(text: str | None) -> FileFormat | None:
    from penstock.pipeline.ingest.contracts import FileFormat

    if text is None:
        return None
    try:
        return FileFormat(text)
    except ValueError:
        raise ConfigError(f"--format {text!r} is none of {', '.join(FileFormat)}") from None


def _csv_form(delimiter: str, types: list[str]) -> CsvForm:
    from penstock.pipeline.ingest.contracts import CsvForm, CsvType

    if len(delimiter) != 1:
        raise ConfigError(f"--csv-delimiter {delimiter!r} is not one character")
    found = {}
    for text in types:
        column, kind = pair("--column-type", text, "COLUMN=TYPE")
        try:
            found[column] = CsvType(kind)
        except ValueError:
            raise ConfigError(f"--column-type {text!r}: the types are {', '.join(CsvType)}") from None
    return CsvForm(delimiter, found)


def _header(text: str) -> tuple[str, str]:
    return pair("--header-column", text, "NAME=COLUMN")


def _serde(option: str, text: str) -> Serde[Any]:
    if text in list(SerdeName):
        return SerdeName(text).serde
    if ":" not in text:
        raise ConfigError(f"{option} {text!r} is none of {', '.join(SerdeName)}, and no MODULE:SERDE")
    found = _loaded(option, text)
    if not isinstance(found, Serde):
        raise ConfigError(f"{option} {text} is a {type(found).__name__}, not a penstock.Serde")
    return found


def _loaded(option: str, text: str) -> Any:
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise ConfigError(f"{option} {text!r} is not MODULE:NAME")
    search_current_folder_first()
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs the user's code
        raise ConfigError(f"{option} {text} cannot be loaded: {type(error).__name__}: {error}") from error
