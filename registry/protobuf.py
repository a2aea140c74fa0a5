"""Protobuf messages of a generated class: the indices of the message within its file, then its bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError, EncodeError, Message
from typing_extensions import override

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.shown import shown, shown_with_type
from penstock.common.varints import read_varint, varint
from penstock.registry.contracts import HEAD_BYTES, Format, Reference, RegisteredSchema, Schema, SchemaRefusedError
from penstock.registry.protobuf_evolution import conflicts

_KNOWN = ("google/protobuf/", "google/type/", "confluent/")
"""Every reader of Protobuf has these files: they are not registered."""


@dataclass(frozen=True)
class ProtobufFormat(Format):
    """Messages of the generated class ``kind``. Made by :func:`protobuf_format`."""

    kind: type[Message]

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufFormat, (self.kind,)

    @property
    @override
    def name(self) -> str:
        return f"protobuf({self.kind.__qualname__})"

    @property
    @override
    def record_name(self) -> str:
        full_name: str = self.kind.DESCRIPTOR.full_name
        return full_name

    @property
    @override
    def reads_without_writer(self) -> bool:
        return True

    @cached_property
    def _text(self) -> str:
        return _text_of(self.kind.DESCRIPTOR.file)

    @override
    def schema(self, registered: Callable[[str, Schema], RegisteredSchema]) -> Schema:
        return Schema(self._text, "PROTOBUF", _references(self.kind.DESCRIPTOR.file, registered))

    @override
    def from_text(self, text: str) -> Any:
        return json_format.Parse(text, self.kind())

    @override
    def reader(self, writer: Schema | None, referred: Callable[[Reference], Schema]) -> Callable[[bytes], Any]:
        parse = self.kind.FromString

        def read(data: bytes) -> Message:
            try:
                return parse(data[6:] if data[HEAD_BYTES] == 0 else data[_after_indices(data) :])
            except (DecodeError, IndexError) as error:
                raise SerializationError(f"the bytes are no such message: {error}") from error

        return read

    @override
    def writer(self, schema: Schema, head: bytes, referred: Callable[[Reference], Schema]) -> Callable[[Any], bytes]:
        if schema.type != "PROTOBUF":
            raise SerializationError(f"the schema is one of {schema.type}, and records are written as Protobuf")
        if schema.text != self._text and (found := _conflicts(schema.text, self._text)):
            raise SerializationError(f"the schema to write with cannot hold what is written: {'; '.join(found)}")
        head, kind = head + _indices(self.kind.DESCRIPTOR), self.kind

        def write(value: Any) -> bytes:
            if type(value) is not kind:
                raise SerializationError(f"a {kind.__qualname__} is expected, not {shown_with_type(value)}")
            try:
                # Otherwise equal maps could have different bytes.
                data: bytes = head + value.SerializeToString(deterministic=True)
                return data
            except EncodeError as error:
                raise SerializationError(f"{shown(value)}: {error}") from error

        return write


def protobuf_format(kind: Any) -> ProtobufFormat:
    """Returns the format of a generated class. Raises TopologyError for anything else."""
    if not (isinstance(kind, type) and issubclass(kind, Message)):
        raise TopologyError(f"Serdes.protobuf: a class that protoc has generated is expected, not {shown(kind)}")
    return ProtobufFormat(kind)


def _conflicts(reader: str, writer: str) -> list[str]:
    try:
        return conflicts(reader, writer)
    except SchemaRefusedError:  # the text of a .proto file, which only a registry can parse
        return []


def _text_of(file: Any) -> str:
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return base64.standard_b64encode(proto.SerializeToString()).decode("ascii")


def _references(file: Any, registered: Callable[[str, Schema], RegisteredSchema]) -> tuple[Reference, ...]:
    """Returns those to the files that ``file`` imports, each under a subject of the file's name, as in Confluent's
    serializer."""
    found = []
    for imported in file.dependencies:
        if not imported.name.startswith(_KNOWN):
            schema = Schema(_text_of(imported), "PROTOBUF", _references(imported, registered))
            version = registered(imported.name, schema)
            found.append(Reference(imported.name, version.subject, version.version))
    return tuple(found)


def _indices(message: Any) -> bytes:
    """Returns the path to a message within its file: the number of messages on it, and the index of each. The path to
    the first message of a file, the usual case, is one zero."""
    indices: list[int] = []
    while message is not None:
        siblings = message.file.message_types_by_name if message.containing_type is None else None
        among = siblings.values() if siblings is not None else message.containing_type.nested_types
        indices.insert(0, [each.full_name for each in among].index(message.full_name))
        message = message.containing_type
    return b"\0" if indices == [0] else b"".join(map(varint, (len(indices), *indices)))


def _after_indices(data: bytes) -> int:
    count, at = read_varint(data, HEAD_BYTES)
    for _ in range(count):
        _, at = read_varint(data, at)
    return at
