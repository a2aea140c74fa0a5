"""``penstock topic send``: lines of files, or of standard input, into a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from penstock.cli.client_options import BootstrapServers, CommandConfig, clients_at
from penstock.cli.output import console
from penstock.cli.topic_options import (
    KeySerde,
    SerdeName,
    TopicName,
    ValueSerde,
    bytes_of_json,
    bytes_of_line,
    pair,
)
from penstock.common.errors import BrokerUnreachableError, ConfigError
from penstock.common.plain_json import read_json
from penstock.common.records import Header
from penstock.common.shown import counted

_LOOK_EVERY = 1000
_FLUSH_S = 1.0
_GIVE_UP_S = 30.0
_FIELDS = ("key", "value", "headers", "timestamp", "partition", "offset")
"""The fields of a record as ``penstock topic read --json`` shows it; the sender cannot choose the offset."""
_LONG_MAX = (1 << 63) - 1


class Outgoing(NamedTuple):
    """One record, ready to be sent; ``partition`` −1 is Kafka's choice by the key, ``timestamp`` None is now."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int = -1


@dataclass(frozen=True)
class LineFormat:
    """The form of a line that becomes a record."""

    key: SerdeName = SerdeName.STRING
    value: SerdeName = SerdeName.STRING
    separator: str | None = None
    headers: tuple[Header, ...] = ()
    as_json: bool = False

    def read(self, line: bytes, where: str) -> Outgoing:
        """Returns the record in ``line``. Raises ConfigError naming ``where`` that is."""
        if self.as_json:
            return self._read_json(line, where)
        if self.separator is None:
            return Outgoing(None, bytes_of_line(self.value, line, f"{where}: value"), self.headers)
        key, found, value = line.partition(self.separator.encode())
        if not found:
            raise ConfigError(f"{where}: {_shown(line)} has no separator {self.separator!r}, so no key")
        return Outgoing(
            bytes_of_line(self.key, key, f"{where}: key"), bytes_of_line(self.value, value, f"{where}: value"),
            self.headers,
        )  # fmt: skip

    def _read_json(self, line: bytes, where: str) -> Outgoing:
        try:
            record = read_json(line)
        except Exception as error:  # broken JSON or UTF-8, or nesting without end
            raise ConfigError(f"{where}: not JSON: {error}") from None
        if not isinstance(record, dict) or "value" not in record:
            unknown = _unknown(record) if isinstance(record, dict) else ""
            raise ConfigError(
                f'{where}: a record is an object such as {{"key": "k", "value": "v"}}, not {_shown(line)}{unknown}'
            )
        if unknown := _unknown(record):
            raise ConfigError(f"{where}: {_shown(line)}{unknown}")
        return Outgoing(
            None if record.get("key") is None else bytes_of_json(self.key, record["key"], f"{where}: key"),
            None if record["value"] is None else bytes_of_json(self.value, record["value"], f"{where}: value"),
            (*self.headers, *_headers(record, where)),
            _number(record, "timestamp", where, " of ms"),
            -1 if (partition := _number(record, "partition", where)) is None else partition,
        )


def _unknown(record: dict[str, Any]) -> str:
    lacks = "" if "value" in record else ": the field 'value' is missing (null deletes)"
    names = [repr(name) for name in record if name not in _FIELDS]
    also = f"{': ' if not lacks else ', '}{', '.join(names)} is none of {', '.join(_FIELDS)}" if names else ""
    return lacks + also


def _number(record: dict[str, Any], name: str, where: str, unit: str = "") -> int | None:
    value = record.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _LONG_MAX:
        raise ConfigError(f"{where}: {name} {value!r} is not a whole number{unit}, 0 or more")
    return value


def _headers(record: dict[str, Any], where: str) -> tuple[Header, ...]:
    given = record.get("headers")
    pairs = list(given.items()) if isinstance(given, dict) else [] if given is None else given
    if not isinstance(pairs, list) or not all(map(_is_header, pairs)):
        raise ConfigError(f"{where}: headers are an object, or a list of [name, value], with values of text or null")
    return tuple((name, None if text is None else text.encode()) for name, text in pairs)


def _is_header(pair: Any) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    return isinstance(pair[0], str) and isinstance(pair[1], str | None)


def _shown(line: bytes) -> str:
    return repr(line.decode(errors="backslashreplace"))


def send(
    topic: TopicName,
    bootstrap_servers: BootstrapServers,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Files to read; none, or -: standard input")
    ] = None,
    key: KeySerde = SerdeName.STRING,
    value: ValueSerde = SerdeName.STRING,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Each line is a key, this separator, and a value")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a record as 'penstock topic read --json' prints it")
    ] = False,
    command_config: CommandConfig = None,
) -> None:
    """Write each line of files, or of standard input, to a topic. The timestamp of each record is the current time.

    Records without a key go to all partitions in turn.

    $ echo '{"n": 1}' | penstock topic send numbers --value json
    """
    from penstock.kafka.topics import Topics

    if as_json and key_separator is not None:
        raise ConfigError("give either --json or --key-separator")
    form = LineFormat(key, value, key_separator, tuple(_header(text) for text in header or []), as_json)
    for file in files or []:
        if str(file) != "-" and not file.is_file():
            raise ConfigError(f"there is no file {file}")
    clients = clients_at(bootstrap_servers, command_config)
    partitions = len(Topics.of(clients).partitions(topic))
    producer = clients.producer()
    sent = 0
    screen = console(stderr=True)
    with closing(producer), screen.status("") as status:
        try:
            for line, where in _lines(files or [Path("-")]):
                record = form.read(line, where)
                if not -1 <= record.partition < partitions:
                    raise ConfigError(f"{where}: topic {topic!r} has no partition {record.partition}")
                now_ms = time.time_ns() // 1_000_000
                producer.send(
                    topic, record.key, record.value, now_ms if record.timestamp is None else record.timestamp,
                    record.headers or None, _partition(record, sent, partitions),
                )  # fmt: skip
                sent += 1
                if sent % _LOOK_EVERY == 0:
                    producer.poll()
                    status.update(f"{sent:,} records sent")
        except ConfigError as error:
            _flush(producer, topic)
            raise ConfigError(f"{error}; sent before it: {counted(sent, 'record')}") from None
        _flush(producer, topic)
    typer.echo(f"{counted(sent, 'record')} sent to {topic}")


def _partition(record: Outgoing, sent: int, partitions: int) -> int:
    # Without a key librdkafka fills one partition for as long as records come quickly: others would stay empty.
    return sent % partitions if record.key is None and record.partition < 0 else record.partition


def _flush(producer: Any, topic: str) -> None:
    deadline = time.monotonic() + _GIVE_UP_S
    while not producer.flush(_FLUSH_S):
        if time.monotonic() > deadline:
            raise BrokerUnreachableError(
                f"the broker has not taken all records for topic {topic!r} within {_GIVE_UP_S:.0f} s: is it up?"
            )


def _header(text: str) -> Header:
    name, value = pair("--header", text, "NAME=VALUE")
    return name, value.encode()


def _lines(files: list[Path]) -> Iterator[tuple[bytes, str]]:
    """Yields each line without its end, and a text that names its place."""
    for file in files:
        name = "standard input" if str(file) == "-" else str(file)
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
        with source:
            for number, line in enumerate(source, 1):
                yield line.removesuffix(b"\n").removesuffix(b"\r"), f"{name}, line {number}"
