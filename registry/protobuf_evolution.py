"""Compares file descriptors of Protobuf, by the rules of Confluent's registry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as _Field
from google.protobuf.message import DecodeError

from penstock.registry.contracts import SchemaRefusedError

_ALIKE = (
    {_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT32, _Field.TYPE_UINT64, _Field.TYPE_BOOL},
    {_Field.TYPE_SINT32, _Field.TYPE_SINT64},
    {_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32},
    {_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64},
    {_Field.TYPE_STRING, _Field.TYPE_BYTES},
)
"""Types that have the same bytes: a reader of one may read another."""


def checked(text: str) -> FileDescriptorProto:
    """Returns the descriptor in ``text``, which is base 64. Raises SchemaRefusedError if it is none."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise SchemaRefusedError(f"no file descriptor of Protobuf in base 64: {error}") from error
    for path, message in _messages(file.message_type, ""):
        numbers = [field.number for field in message.field]
        if len(numbers) != len(set(numbers)):
            raise SchemaRefusedError(f"{path}: two fields have one number")
    return file


def conflicts(reader: str, writer: str) -> list[str]:
    """Returns the reasons why ``reader`` cannot read the records of ``writer``. Fields are identified by their
    numbers."""
    one, other = checked(reader), checked(writer)
    known = dict(_messages(one.message_type, ""))
    found = [f"package: was {other.package!r}, and is {one.package!r}"] if one.package != other.package else []
    for path, written in _messages(other.message_type, ""):
        if path not in known:
            found.append(f"{path}: the message was written, and the reader does not have it")
        else:
            found += _compare(path, known[path], written)
    return found


def _messages(messages: Iterable[DescriptorProto], path: str) -> Iterable[tuple[str, DescriptorProto]]:
    for message in messages:
        own = f"{path}{message.name}"
        yield own, message
        yield from _messages(message.nested_type, f"{own}.")


def _compare(path: str, reader: DescriptorProto, writer: DescriptorProto) -> Iterable[str]:
    read, written = ({field.number: field for field in message.field} for message in (reader, writer))
    for number, field in written.items():
        own = read.get(number)
        if own is None:
            if field.label == _Field.LABEL_REQUIRED or _in_oneof(field):
                kind = "required" if field.label == _Field.LABEL_REQUIRED else "of a oneof"
                yield f"{path}.{field.name}: the field is {kind}, and the reader does not have it"
        else:
            yield from _compare_fields(f"{path}.{own.name}", own, field)
    for number, field in read.items():
        if number not in written and field.label == _Field.LABEL_REQUIRED:
            yield f"{path}.{field.name}: the reader requires it, and it was not written"
    yield from _moved(path, reader, read, written)


def _compare_fields(path: str, reader: _Field, writer: _Field) -> Iterable[str]:
    alike = reader.type == writer.type or any({reader.type, writer.type} <= types for types in _ALIKE)
    if not alike or reader.type_name.rpartition(".")[2] != writer.type_name.rpartition(".")[2]:
        yield f"{path}: was written as {_shown(writer)}, and is read as {_shown(reader)}"
    repeated = _Field.LABEL_REPEATED
    if (reader.label == repeated) != (writer.label == repeated) and reader.type not in (
        _Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE
    ):  # fmt: skip
        yield f"{path}: was written {_label(writer)}, and is read {_label(reader)}"


def _moved(
    path: str, message: DescriptorProto, read: Mapping[int, _Field], written: Mapping[int, _Field]
) -> Iterable[str]:
    """Of several fields that have become one oneof, a record may have more than one."""
    for index, oneof in enumerate(message.oneof_decl):
        moved = [
            field.name
            for number, field in read.items()
            if _in_oneof(field) and field.oneof_index == index and number in written and not _in_oneof(written[number])
        ]
        if len(moved) > 1:
            yield f"{path}.{oneof.name}: {', '.join(moved)} were fields of their own, and are one oneof"


def _in_oneof(field: _Field) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional


def _label(field: _Field) -> str:
    return "repeated" if field.label == _Field.LABEL_REPEATED else "single"


def _shown(field: _Field) -> str:
    return field.type_name.lstrip(".") or str(_Field.Type.Name(field.type)).removeprefix("TYPE_").lower()
