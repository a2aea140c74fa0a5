"""The serdes of a schema registry, of whatever format: a zero byte, the schema's id in four bytes, the record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NoReturn, SupportsIndex, TypeVar

from typing_extensions import override

from penstock.common.errors import SerializationError
from penstock.common.may_wait import may_wait_to_write_s
from penstock.common.serdes import Serde, SerdeOver, SerdePart
from penstock.registry.connection import Connection, connection
from penstock.registry.contracts import (
    HEAD_BYTES,
    Format,
    Reference,
    RegisteredSchema,
    Schema,
    SchemaNotFoundError,
    SchemaRefusedError,
    SchemaRegistry,
)
from penstock.registry.evolution import conflicts_between, referred_texts
from penstock.registry.generic_record import GenericRecord
from penstock.registry.mock import MockSchemaRegistry
from penstock.registry.settings import RegistrySettings

T = TypeVar("T")


def _not_bound(given: object) -> NoReturn:
    raise SerializationError("a serde of a schema registry works only after it is bound to a topic (Serde.bind)")


@dataclass(frozen=True, repr=False)
class RegistrySerde(Serde[T]):
    """A serde that is not bound to a topic yet: a format, and its own settings of the registry.

    Made by :class:`~penstock.registry.serdes.Serdes`.
    """

    format: Format = field(kw_only=True)
    entries: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, form: Format, config: Mapping[str, Any] | None) -> RegistrySerde[Any]:
        """Returns the serde of a format. Raises ConfigError if ``config`` has a URL, and settings that are wrong."""
        entries = tuple(sorted((config or {}).items()))
        if config:
            RegistrySettings.of(config)
        return cls(form.name, _not_bound, _not_bound, format=form, entries=entries)

    @override
    def configure(self, config: Mapping[str, Any]) -> Serde[T]:
        # Its own settings take precedence: a topic may belong to another registry.
        return self if self.entries else replace(self, entries=tuple(sorted(config.items())))

    @override
    def bind(self, topic: str, part: SerdePart) -> Serde[T]:
        form: Any = self.format
        return _bound(form, RegistrySettings.of(dict(self.entries)), topic, part)

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return _unbound, (self.format, self.entries)


def _unbound(form: Format, entries: tuple[tuple[str, Any], ...]) -> RegistrySerde[Any]:
    return replace(RegistrySerde.of(form, None), entries=entries)


@dataclass(frozen=True, repr=False)
class BoundRegistrySerde(Serde[T]):
    """The serde of the keys, or of the values, of one topic."""

    records: Records = field(kw_only=True)

    @override
    def prepare(self) -> None:
        self.records.prepare()

    @property
    def subject(self) -> str:
        """The subject of the topic's schemas."""
        return self.records.subject

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return _bound, self.records.made_of


def within(serde: Serde[Any]) -> BoundRegistrySerde[Any] | None:
    """Returns the serde of a schema registry that ``serde`` is, or has for its keys or elements; None if none."""
    if isinstance(serde, SerdeOver):
        return within(serde.inner)
    return serde if isinstance(serde, BoundRegistrySerde) else None


def _bound(form: Any, settings: RegistrySettings, topic: str, part: SerdePart) -> BoundRegistrySerde[Any]:
    # By process, too: a fork has no threads, and must not use the connections of its parent.
    return _once(form, settings, topic, part, (os.getpid(), MockSchemaRegistry.generation(settings.url)))


@cache
def _once(
    form: Any, settings: RegistrySettings, topic: str, part: SerdePart, where: tuple[int, int]
) -> BoundRegistrySerde[Any]:
    """Returns the serde, made once for each topic and part. So two serdes of one topic are equal, and share their
    schemas."""
    records = Records(form, settings, topic, part)
    from_text: Callable[[str], Any] = form.from_text
    return BoundRegistrySerde(form.name, records.write, records.read_function(), from_text, records=records)


class Records:
    """Reads and writes the records of one part of a topic."""

    def __init__(self, form: Format, settings: RegistrySettings, topic: str, part: SerdePart) -> None:
        self.made_of = form, settings, topic, part
        self.subject = settings.subject(topic, part, form.record_name)
        self._format = form
        self._settings = settings
        self._readers: dict[bytes, Callable[[bytes], Any]] = {}
        self._misfits: set[bytes] = set()
        """The heads of records whose schema the program's own cannot read."""
        self._writer: Callable[[Any], bytes] | None = None
        """Writes all values, unless each has its own schema."""
        self._writers: dict[Schema | None, tuple[int, Callable[[Any], bytes]]] = {}

    @cached_property
    def connection(self) -> Connection:
        """The registry. Raises ConfigError if its client is not installed."""
        return connection(self._settings)

    # ---- reading ----

    def read_function(self) -> Callable[[bytes], Any]:
        """Returns the function that reads a record: it knows each schema by the first five bytes of its records."""
        if self._format.reads_without_writer:
            return self._read_any()
        known, learn, described = self._readers.get, self._learn, self._described

        def read(data: bytes) -> Any:
            reader = known(data[:HEAD_BYTES])
            if reader is None:
                reader = learn(data)
            try:
                return reader(data)
            except SerializationError as error:
                raise described(data, error) from error

        return read

    def _read_any(self) -> Callable[[bytes], Any]:
        """Returns the function for a format that needs no schema: one for all ids, because records may have any id."""
        described, read_one = self._described, self._format.reader(None, self._refer)

        def read(data: bytes) -> Any:
            if len(data) < HEAD_BYTES or data[0] != 0:
                raise self._headless(data)
            try:
                return read_one(data)
            except SerializationError as error:
                raise described(data, error) from error

        return read

    def _refer(self, reference: Reference) -> Schema:
        return self.connection.referred(reference)

    def _headless(self, data: bytes) -> SerializationError:
        return SerializationError(
            f"{self._format.name}: a record of a schema registry begins with a zero byte and the four bytes of its "
            f"schema's id; these {len(data)} bytes begin with {data[:HEAD_BYTES].hex(' ') or 'nothing'}"
        )

    def _learn(self, data: bytes) -> Callable[[bytes], Any]:
        if len(data) < HEAD_BYTES or data[0] != 0:
            raise self._headless(data)
        schema_id = int.from_bytes(data[1:HEAD_BYTES])
        writer = self.connection.schema(schema_id)
        try:
            reader = self._format.reader(writer, self._refer)
        except SerializationError as error:
            reader = self._refusing(self._misfit(schema_id, error))
            self._misfits.add(data[:HEAD_BYTES])
        self._readers[data[:HEAD_BYTES]] = reader
        return reader

    def _described(self, data: bytes, error: SerializationError) -> SerializationError:
        if data[:HEAD_BYTES] in self._misfits:
            return error  # which names the schema, and more
        schema_id = int.from_bytes(data[1:HEAD_BYTES])
        return SerializationError(f"{self._format.name}: schema id {schema_id} of subject {self.subject}: {error}")

    def _misfit(self, schema_id: int, error: SerializationError) -> str:
        written = next((known for known, _ in self._writers.values()), None)
        own = "which is not registered" if written is None else f"schema id {written}"
        return (
            f"{self._format.name}: a record of schema id {schema_id}, subject {self.subject}, cannot be read by the "
            f"program's schema ({own}): {error}. Make the program's schema able to read it, as by a default for each "
            "field that is not in every record, or drop such records with a handler"
        )

    @staticmethod
    def _refusing(why: str) -> Callable[[bytes], Any]:
        def refuse(data: bytes) -> NoReturn:
            raise SerializationError(why)

        return refuse

    # ---- writing ----

    def write(self, value: Any) -> bytes:
        """Returns the bytes of a record."""
        writer = self._writer
        if writer is None:
            writer = self._writer_for(value)
        try:
            return writer(value)
        except SerializationError as error:
            raise SerializationError(f"{self._format.name}: subject {self.subject}: {error}") from error

    def _writer_for(self, value: Any) -> Callable[[Any], bytes]:
        own = value.schema if isinstance(value, GenericRecord) else None
        if own is not None and not self._settings.use_latest:
            if own not in self._writers:
                self._add_writer(own, own, may_wait_to_write_s())
            return self._writers[own][1]
        self._prepare(may_wait_to_write_s())
        return self._writers[None][1]

    def prepare(self) -> None:
        """Get the id of the schema to write with. Raises RetriableError if the registry has not answered yet."""
        if self._format.schema(self._unregistered) is not None or self._settings.use_latest:
            self._prepare(None)

    def _prepare(self, wait_s: float | None) -> None:
        if None not in self._writers:
            schema = self._format.schema(lambda subject, each: self._registered(subject, each, wait_s))
            self._add_writer(None, schema, wait_s)
            self._writer = self._writers[None][1]

    def _add_writer(self, name: Schema | None, schema: Schema | None, wait_s: float | None) -> None:
        try:
            schema_id, schema = self._schema_to_write(schema, wait_s)
            head = b"\0" + schema_id.to_bytes(4)
            self._writers[name] = schema_id, self._format.writer(schema, head, self.connection.referred)
        except SchemaNotFoundError as error:
            raise SerializationError(
                f"{self._format.name}: subject {self.subject}: {error}. Register the schema, or set "
                "auto.register.schemas=True"
            ) from error

    def _schema_to_write(self, schema: Schema | None, wait_s: float | None) -> tuple[int, Schema]:
        subject, registry = self.subject, self.connection.registry
        if schema is None and not self._settings.use_latest:
            raise SerializationError(
                "there is no schema for a value that no serde of a registry has read: pass a type or schema=…, or set "
                "use.latest.version=True"
            )
        if self._settings.use_latest or schema is None:
            found = self.connection.answer(("latest", subject), lambda: registry.latest(subject), wait_s)
            return found.id, found.schema
        if not self._settings.auto_register:
            return self._registered(subject, schema, wait_s).id, schema
        normalize = self._settings.normalize
        register = lambda: registry.register(subject, schema, normalize)  # noqa: E731
        return self.connection.answer(("register", subject, schema, normalize), register, wait_s), schema

    def _registered(self, subject: str, schema: Schema, wait_s: float | None) -> RegisteredSchema:
        registry, normalize = self.connection.registry, self._settings.normalize
        automatic = self._settings.auto_register and subject != self.subject

        def ask() -> RegisteredSchema:
            if automatic:
                registry.register(subject, schema, normalize)
            return registry.lookup(subject, schema, normalize)

        return self.connection.answer(("lookup", subject, schema, normalize), ask, wait_s)

    @staticmethod
    def _unregistered(subject: str, schema: Schema) -> RegisteredSchema:
        return RegisteredSchema(0, 0, subject, schema)

    # ---- checks ----

    def conflicts(self, written: bool) -> list[str] | None:
        """Returns the reasons why the program's schema and those of the subject do not fit; None if the program has no
        schema.

        If the program writes, the registry is asked if it would refuse the schema. In each case the program must be
        able to read records of the newest version.
        """
        registry, absent = self.connection.registry, list[str]()

        def referred(subject: str, each: Schema) -> RegisteredSchema:
            try:
                return _version_of(registry, subject, each, self._settings.normalize)
            except SchemaNotFoundError:
                absent.append(subject)
                return self._unregistered(subject, each)

        schema = self._format.schema(referred)
        if schema is None:
            return None
        # The registry refuses a schema that refers to one that it does not have yet.
        found = registry.conflicts(self.subject, schema) if written and not absent else []
        try:
            newest = registry.latest(self.subject)
        except SchemaNotFoundError:
            return found
        try:
            texts = referred_texts(newest.schema, self.connection.referred)
            same = newest.schema == schema
            own = [] if same else conflicts_between(reader=schema, writer=newest.schema, referred=texts)
        except SchemaRefusedError:  # such as the text of a .proto file, which only a registry can parse
            return found
        return found + [f"version {newest.version}, id {newest.id}: {each}" for each in own]


def _version_of(registry: SchemaRegistry, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
    """Returns the version of ``subject`` that has the schema, else the newest. Raises SchemaNotFoundError."""
    try:
        return registry.lookup(subject, schema, normalize)
    except SchemaNotFoundError:
        return registry.latest(subject)
