"""``penstock topic read``: the records of a topic as lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

from penstock.api.encoding import to_json
from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at
from penstock.cli.output import shown
from penstock.cli.topic_options import KeySerde, SerdeName, TopicName, ValueSerde
from penstock.cli.where import Condition, headers_as_text, plain
from penstock.cluster.topic_reading.deleted_records import skip_deleted
from penstock.common.errors import ConfigError, DeserializationError
from penstock.common.ids import TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.common.secrets import Entries
from penstock.common.serdes import Serde, bound
from penstock.common.written_times import WithoutZone, ms_of_iso
from penstock.kafka.contracts import BEGINNING, RecordConsumer

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients
    from penstock.kafka.topics import Topics

_POLL_S = 0.1
_RECORDS = 1000
_BEGINNING, _END = "beginning", "end"
_GROUP = "penstock-topic-read"


@dataclass(frozen=True)
class Form:
    """The parts of a record that are shown, and their form."""

    key: Serde[Any]
    value: Serde[Any]
    keys: bool = False
    headers: bool = False
    timestamps: bool = False
    offsets: bool = False
    as_json: bool = False
    separator: str = "\t"
    where: Condition | None = None

    def lines(self, batch: RecordBatch) -> Iterator[str]:
        """Yields one line per record. Raises DeserializationError when a serde does not fit."""
        headers = batch.headers or [None] * len(batch)
        rows = zip(batch.keys, batch.values, batch.timestamps, batch.offsets, headers, strict=True)
        for raw_key, raw_value, timestamp, offset, each in rows:
            at = (*batch.partition, offset)
            if self.where is not None and not self.where(_Found(self, at, timestamp, each, raw_key, raw_value)):
                continue
            key = _decoded("key", self.key, raw_key, at) if self.keys or self.as_json else None
            value = _decoded("value", self.value, raw_value, at)
            yield (
                self._json(at, timestamp, each, key, value)
                if self.as_json
                else self._line(at, timestamp, each, key, value)
            )

    def _json(self, at: tuple[str, int, int], timestamp: int, headers: Headers | None, key: Any, value: Any) -> str:
        record = {
            "partition": at[1], "offset": at[2], "timestamp": timestamp,
            "headers": [[name, _text(data)] for name, data in headers or ()], "key": key, "value": value,
        }  # fmt: skip
        return to_json(record).decode()

    def _line(self, at: tuple[str, int, int], timestamp: int, headers: Headers | None, key: Any, value: Any) -> str:
        parts: list[str] = []
        if self.timestamps:
            parts.append(_time(timestamp))
        if self.offsets:
            parts.append(f"{at[1]}:{at[2]}")
        if self.headers:
            parts.append(",".join(f"{name}={_text(data)}" for name, data in headers or ()))
        if self.keys:
            parts.append(shown(key))
        return self.separator.join([*parts, shown(value)])


class _Found:
    """A record as conditions see it: its parts are decoded when they are used."""

    def __init__(
        self,
        form: Form,
        at: tuple[str, int, int],
        timestamp: int,
        headers: Headers | None,
        key: bytes | None,
        value: bytes | None,
    ) -> None:
        self._form, self._at, self._headers, self._key, self._value = form, at, headers, key, value
        self.timestamp, self.partition, self.offset = timestamp, at[1], at[2]

    @cached_property
    def key(self) -> Any:
        return plain(_decoded("key", self._form.key, self._key, self._at))

    @cached_property
    def value(self) -> Any:
        return plain(_decoded("value", self._form.value, self._value, self._at))

    @property
    def headers(self) -> Any:
        return headers_as_text(self._headers)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # a time in other units than Kafka's milliseconds, most often
        return str(timestamp)


def _decoded(part: str, serde: Serde[Any], data: bytes | None, at: tuple[str, int, int]) -> Any:
    if data is None:
        return None
    try:
        return serde.deserialize(data)
    except Exception as error:  # whatever a serde raises
        topic, partition, offset = at
        raise DeserializationError(
            f"the {part} is no {serde.name}: {error}; give its serde by --{part} (bytes shows anything)",
            topic=topic, partition=partition, offset=offset,
        ) from error  # fmt: skip


class Offsets(Protocol):
    """Questions about the offsets of a topic."""

    def beginning_offsets(self, partitions: list[TopicPartition], /) -> dict[TopicPartition, int]:
        """Returns the first offset there is in each partition."""

    def end_offsets(self, partitions: list[TopicPartition], /) -> dict[TopicPartition, int]:
        """Returns the offset of the next record to be written to each partition."""

    def offsets_at(self, partitions: list[TopicPartition], time_ms: int, /) -> dict[TopicPartition, int]:
        """Returns the first offset of that time or later in each partition."""


def positions(option: str, start: str, partitions: list[TopicPartition], topics: Offsets) -> dict[TopicPartition, int]:
    """Returns the offset in each partition that ``option`` names. ``start`` is ``beginning``, ``end``, an offset, a
    number of offsets before the end (negative), or a time (ISO 8601, local unless it names its zone). An offset that
    does not exist becomes the nearest one. Raises ConfigError for anything else."""
    if start == _BEGINNING:
        return dict.fromkeys(partitions, BEGINNING)
    if start == _END:
        return topics.end_offsets(partitions)
    try:
        offset = int(start)
    except ValueError:
        return topics.offsets_at(partitions, _time_ms(option, start))
    first, ends = topics.beginning_offsets(partitions), topics.end_offsets(partitions)
    wanted = {each: offset if offset >= 0 else ends[each] + offset for each in partitions}
    return {each: min(max(wanted[each], first[each]), ends[each]) for each in partitions}


def _time_ms(option: str, text: str) -> int:
    try:
        return ms_of_iso(text, WithoutZone.LOCAL)
    except ValueError:
        raise ConfigError(
            f"{option} {text!r}: neither beginning nor end, nor an offset such as 100 or -10 (the last ten of each "
            "partition), nor a time such as 2026-11-21T09:30"
        ) from None


def batches(
    consumer: RecordConsumer, start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None
) -> Iterator[RecordBatch]:
    """Yields the records of the partitions from ``start`` on: up to ``ends``, or for ever. Records that go (retention)
    before they are read are left out, and named on standard error. Raises StreamsError if a topic was created again, or
    cut, meanwhile."""
    consumer.assign(start)
    while ends is None or any(not _has_reached(consumer.position(each), end) for each, end in ends.items()):
        for batch in consumer.poll(_RECORDS, _POLL_S):
            yield batch if ends is None else batch.before(ends[batch.partition])
        for partition, offset in consumer.lost_positions().items():
            typer.echo(skip_deleted(consumer, partition, offset), err=True)


def _has_reached(position: int, end: int) -> bool:
    # An empty partition has nothing to read, whatever its position.
    return position >= end or end == 0


_Application = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", help="Use the serdes and the Kafka of this application"),
]
_Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Only records that fulfil it, such as value.total > 100")
]
_From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="beginning|end|OFFSET|TIME",
        help="First offset in each partition; -10: ten before the end; or a time such as 2026-11-21T09:30",
    ),
]
_To = Annotated[
    str | None,
    typer.Option("--to", metavar="OFFSET|TIME", help="End in each partition, exclusive; in the forms of --from"),
]


def read(
    ctx: typer.Context,
    topic: TopicName,
    bootstrap_servers: BootstrapServers,
    application: _Application = None,
    where: _Where = None,
    start: _From = _BEGINNING,
    to: _To = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of records")] = None,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition; may be repeated")] = None,
    key: KeySerde = SerdeName.STRING,
    value: ValueSerde = SerdeName.STRING,
    keys: Annotated[bool, typer.Option("--keys", help="Show keys, before the value")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Show headers")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show times")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show partition:offset")] = False,
    separator: Annotated[str, typer.Option(help="Text between the columns", show_default="a tab")] = "\t",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each record as a line of JSON, with all its parts")
    ] = False,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Also show records of open and aborted transactions")
    ] = False,
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic, each on a line: the present ones, or with --follow new ones, too.

    Records are in order within each partition. A null value is printed as null. Records of transactions are shown when
    they are committed. A CONDITION compares parts of a record: key, value, timestamp, partition, offset, headers.
    """
    from penstock.kafka.topics import Topics

    if follow and to is not None:
        raise ConfigError("--follow has no end: leave out --follow, or --to")
    condition = None if where is None else Condition(where)
    named = Named(*(_is_given(ctx, name) for name in ("bootstrap_servers", "key", "value")))
    clients, serdes = source_of(
        topic, application, named, clients_at(bootstrap_servers, command_config, _GROUP), (key.serde, value.serde)
    )
    clients = _with_isolation(clients, uncommitted)
    topics = Topics.of(clients)
    wanted = _wanted(topic, topics.partitions(topic), partition)
    form = Form(*serdes, keys, headers, timestamps, offsets, as_json, separator, condition)
    began = positions("--from", start, wanted, topics)
    ends = None if follow else _ends(to, wanted, topics, uncommitted)
    with closing(clients.consumer()) as consumer:
        try:
            _print(form, batches(consumer, began, ends), limit)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    if condition is not None and condition.uncompared:
        typer.echo(condition.note, err=True)


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")


class Named(NamedTuple):
    """The options that were given: they take precedence over an application's settings."""

    servers: bool
    key: bool
    value: bool


def source_of(
    topic: str,
    application: str | None,
    named: Named,
    clients: ConfluentClients,
    serdes: tuple[Serde[Any], Serde[Any]],
) -> tuple[ConfluentClients, tuple[Serde[Any], Serde[Any]]]:
    """Returns the clients and serdes with which to read ``topic``: those that are ``named``, and otherwise those of
    ``application`` (MODULE:APP)."""
    if application is None:
        return clients, (bound(serdes[0], topic, "key"), bound(serdes[1], topic, "value"))
    from penstock.cli.loading import load_application
    from penstock.cluster.topic_reading.topic_serdes import topic_serdes
    from penstock.kafka.clients import ConfluentClients

    app = load_application(application)
    known = topic_serdes(app.topology, app.config, topic)
    key = bound(serdes[0], topic, "key") if named.key else known.key
    value = bound(serdes[1], topic, "value") if named.value else known.value
    if not named.servers:
        clients = replace(ConfluentClients.of(app.config), group=_GROUP, exactly_once=False)
    return clients, (key, value)


def _ends(to: str | None, wanted: list[TopicPartition], topics: Topics, uncommitted: bool) -> dict[TopicPartition, int]:
    ends = topics.high_watermarks(wanted) if uncommitted else topics.end_offsets(wanted)
    if to is None:
        return ends
    last = positions("--to", to, wanted, topics)
    return {each: min(end, max(last[each], 0)) for each, end in ends.items()}


def _wanted(topic: str, there: list[TopicPartition], partition: list[int] | None) -> list[TopicPartition]:
    wanted = there if not partition else [TopicPartition(topic, number) for number in dict.fromkeys(partition)]
    if absent := [each.partition for each in wanted if each not in there]:
        raise ConfigError(f"topic {topic!r} has no partition {absent[0]}: it has 0 to {len(there) - 1}")
    return wanted


def _with_isolation(clients: ConfluentClients, uncommitted: bool) -> ConfluentClients:
    isolation = "read_uncommitted" if uncommitted else "read_committed"
    return replace(clients, consumer_overrides=Entries({**clients.consumer_overrides, "isolation.level": isolation}))


def _print(form: Form, found: Iterator[RecordBatch], limit: int | None) -> None:
    left = sys.maxsize if limit is None else limit
    for batch in found:
        for line in form.lines(batch):
            sys.stdout.write(line + "\n")
            left -= 1
            if left == 0:
                break
        sys.stdout.flush()
        if left == 0:
            return
