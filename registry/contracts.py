"""The contract between the serdes and a schema registry: schemas, and the operations of a registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from penstock.common.errors import SerializationError

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
HEAD_BYTES = 5
"""Number of bytes before a record: a zero byte, and the id of its schema."""


@dataclass(frozen=True)
class Reference:
    """A schema that another one refers to by ``name``: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema as the registry keeps it: JSON text, or a file descriptor of Protobuf in base 64."""

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class RegisteredSchema:
    """A version of a subject."""

    id: int
    version: int
    subject: str
    schema: Schema


class SchemaNotFoundError(SerializationError):
    """The registry has no such schema, subject or version."""


class SchemaRefusedError(SerializationError):
    """The registry refuses a schema: it is not valid, or not compatible with an earlier version of its subject."""


class SchemaRegistry(Protocol):
    """A schema registry. Calls may take until their time-out.

    They raise SchemaNotFoundError, SchemaRefusedError, and RetriableError if the registry does not answer, or cannot
    now: it is down or overloaded, or refuses the credentials.
    """

    def schema(self, schema_id: int) -> Schema:
        """Returns the schema of an id."""

    def register(self, subject: str, schema: Schema, normalize: bool) -> int:
        """Adds a schema to a subject, unless it has it. Returns the schema's id."""

    def lookup(self, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
        """Returns the version of a subject that has this schema."""

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Returns one version of a subject."""

    def latest(self, subject: str) -> RegisteredSchema:
        """Returns the newest version of a subject."""

    def conflicts(self, subject: str, schema: Schema) -> list[str]:
        """Returns the reasons why the subject would refuse the schema; empty if it is compatible, or the subject is
        new."""


class Format(Protocol):
    """A format of records: Avro, Protobuf or JSON Schema, of one type or schema."""

    @property
    def name(self) -> str:
        """The name of the format and the type: ``avro(Order)``."""

    @property
    def record_name(self) -> str | None:
        """The full name of the record, for strategies that name subjects after it; None if it has none."""

    @property
    def reads_without_writer(self) -> bool:
        """True if a record can be read without the schema that it was written with."""

    def from_text(self, text: str) -> Any:
        """Returns the object that ``text`` shows as JSON."""

    def schema(self, registered: Callable[[str, Schema], RegisteredSchema]) -> Schema | None:
        """Returns the schema to write with; None if the latest one of the subject must be used. ``registered``
        registers, or looks up, a schema that this one refers to under the given subject."""

    def reader(self, writer: Schema | None, referred: Callable[[Reference], Schema]) -> Callable[[bytes], Any]:
        """Returns the function that reads whole records, id included, of the schema ``writer``. ``referred`` returns
        the schema of a reference. Raises SerializationError if records of that schema cannot be read."""

    def writer(self, schema: Schema, head: bytes, referred: Callable[[Reference], Schema]) -> Callable[[Any], bytes]:
        """Returns the function that writes records of ``schema`` behind the bytes ``head``."""
