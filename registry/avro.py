"""Avro records: of a Python type, by a schema, or generic ones with the schema that they were written with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from functools import cached_property
from io import BytesIO
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import msgspec.inspect as types
from fastavro import parse_schema
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError
from typing_extensions import override

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.shown import shown_with_type
from penstock.common.typed_json import classes_of, name_of, parts_of, written_number
from penstock.registry.avro_defaults import decode_defaults
from penstock.registry.avro_evolution import conflicts
from penstock.registry.avro_nesting import check_arrays, check_depth, codec, has_ints, int_fields, is_recursive
from penstock.registry.avro_resolution import resolved
from penstock.registry.avro_types import KEPT, schema_of
from penstock.registry.contracts import HEAD_BYTES, Format, Reference, RegisteredSchema, Schema
from penstock.registry.evolution import referred_texts
from penstock.registry.generic_record import GenericRecord

Referred = Callable[[Reference], Schema]
# Only the type of a value shows which of them it is.
_FLAT = (
    types.BoolType, types.IntType, types.FloatType, types.StrType, types.BytesType, types.NoneType, types.UUIDType,
    types.DateType, types.TimeType,
)  # fmt: skip
_KEPT = (types.BytesType, types.DateTimeType, types.DateType, types.TimeType, types.UUIDType, types.DecimalType)
_TOP = "top"
_INT_END = 1 << 31
_REFUSED = (ValidationError, ValueError, TypeError, OverflowError, KeyError, AttributeError, RecursionError)
"""The errors of fastavro for a value that it cannot write."""
_NOT_COMPARED = frozenset({"doc", "aliases", "default", "__fastavro_parsed__", "__named_schemas"})


@dataclass(frozen=True)
class AvroFormat(Format):
    """Records of ``kind``, read and written by the schema ``text``. If both are None, each record has its schema.

    Made by :func:`avro_format`.
    """

    kind: Any
    text: str | None

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return AvroFormat, (self.kind, self.text)

    @property
    @override
    def name(self) -> str:
        if self.kind is not None:
            return f"avro({name_of(self.kind)})"
        return f"avro({self.record_name or self.text})" if self.text is not None else "avro"

    @cached_property
    @override
    def record_name(self) -> str | None:
        if self.text is None:
            return None
        parsed = parse_schema(json.loads(self.text))
        return parsed.get("name") if isinstance(parsed, dict) else None

    @property
    @override
    def reads_without_writer(self) -> bool:
        return False

    @override
    def schema(self, registered: Callable[[str, Schema], RegisteredSchema]) -> Schema | None:
        return None if self.text is None else Schema(self.text)

    @override
    def from_text(self, text: str) -> Any:
        return msgspec.json.decode(text, type=Any if self.kind is None else self.kind)

    @override
    def reader(self, writer: Schema | None, referred: Referred) -> Callable[[bytes], Any]:
        assert writer is not None
        if writer.type != "AVRO":
            raise SerializationError(f"the record was written as {writer.type}, and is read as Avro")
        texts = referred_texts(writer, referred)
        parsed, own, found = _parsed(writer.text, texts), None, list[str]()
        if self.text is not None:
            found = conflicts(self.text, writer.text, texts)
            if found and (always := conflicts(self.text, writer.text, texts, of_every_record=True)):
                raise SerializationError("; ".join(always))
            own = _parsed(self.text, top=parsed.top)
            parsed = parsed if parsed.top or not own.top else _parsed(writer.text, texts, top=True)
            if _compared(own.schema) == _compared(parsed.schema):
                own = None  # reads twice as fast
            else:
                schema = resolved(own.schema, parsed.schema, own.named, parsed.named)
                parsed = parsed._replace(schema=schema)
        reading = _Reading(parsed, own, "; ".join(found))
        if self.kind is not None:
            return _typed_reader(reading, self.kind)
        return _generic_reader(reading, writer if self.text is None else None)

    @override
    def writer(self, schema: Schema, head: bytes, referred: Referred) -> Callable[[Any], bytes]:
        if schema.type != "AVRO":
            raise SerializationError(f"the schema is one of {schema.type}, and records are written as Avro")
        texts = referred_texts(schema, referred)
        if self.text is not None and (found := conflicts(schema.text, self.text, texts)):
            raise SerializationError(f"the schema to write with cannot hold what is written: {'; '.join(found)}")
        parsed = _parsed(schema.text, texts)
        if self.kind is None:
            return _generic_writer(parsed, head)
        return _typed_writer(parsed, head, self.kind)


def avro_format(kind: Any, schema: str | Mapping[str, Any] | None) -> AvroFormat:
    """Returns the format of a type, of a schema, or of records with any schema. Raises TopologyError for an invalid
    schema."""
    if schema is None:
        return AvroFormat(kind, None if kind is None else schema_of(kind))
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
        parse_schema(json.loads(text))
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
        raise TopologyError(f"Serdes.avro: no Avro schema: {type(error).__name__}: {error}") from error
    return AvroFormat(kind, text)


class _Parsed(NamedTuple):
    """A schema as fastavro has it.

    ``top``: it is the type of the one field of a record, which has the same bytes. Otherwise fastavro would parse a
    union again for each record, and would not know the types that it refers to.
    """

    schema: Any
    named: Mapping[str, Any]
    top: bool
    recursive: bool
    has_ints: bool
    shares_defaults: bool


def _parsed(text: str, referred: Iterable[str] = (), top: bool = False) -> _Parsed:
    named: dict[str, Any] = {}
    try:
        for each in referred:
            check_depth(other := json.loads(each))
            parse_schema(other, named_schemas=named)
        given = json.loads(text)
        check_depth(given)
        kind = given.get("type") if isinstance(given, dict) else None
        top = top or isinstance(given, list) or kind in ("array", "map") or (isinstance(given, str) and given in named)
        if top:
            given = {"type": "record", "name": _TOP, "fields": [{"name": _TOP, "type": given}]}
        schema = parse_schema(given, named_schemas=named)
        shared = decode_defaults(schema, named)
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SerializationError(f"the registry's schema is no Avro schema: {type(error).__name__}: {error}") from error
    check_arrays(schema, named)
    return _Parsed(schema, named, top, is_recursive(named), has_ints(schema, named), shared)


def _compared(parsed: Any) -> Any:
    if isinstance(parsed, dict):
        return {key: _compared(value) for key, value in parsed.items() if key not in _NOT_COMPARED}
    return [_compared(each) for each in parsed] if isinstance(parsed, list) else parsed


# ---- reading ----


class _Reading(NamedTuple):
    """The schema with which records were written, the program's own if it differs, and the reasons why the program's
    own cannot read some of the records."""

    written: _Parsed
    own: _Parsed | None
    conflicts: str

    @property
    def decode(self) -> Callable[..., Any]:
        """fastavro's function."""
        return codec(self.written.recursive or (self.own is not None and self.own.recursive)).read

    @property
    def own_copy(self) -> Callable[[Any], Any]:
        """Makes a record independent of others, which may have got the same list or dict as a default."""
        return deepcopy if self.own is not None and self.own.shares_defaults else lambda found: found

    def broken(self, error: Exception) -> SerializationError:
        """Returns the error for what fastavro raises, which may be anything."""
        if isinstance(error, SchemaResolutionError):
            return SerializationError(self.conflicts or str(error))
        return SerializationError(f"the bytes are no record of that schema: {type(error).__name__}: {error}")


def _generic_reader(reading: _Reading, writer: Schema | None) -> Callable[[bytes], Any]:
    """``writer`` is the schema that a record remembers; None: it is to be written by another one."""
    decode, broken, own_copy, top = reading.decode, reading.broken, reading.own_copy, reading.written.top
    written, own = reading.written.schema, reading.own and reading.own.schema

    def read(data: bytes) -> Any:
        source = BytesIO(data)
        source.seek(HEAD_BYTES)
        try:
            # Of a union of records, also the name: two of them may have the same fields.
            found = decode(source, written, own, return_record_name=True, return_record_name_override=True)
        except Exception as error:
            raise broken(error) from _shown_cause(error)
        name, fields = None, own_copy(found[_TOP] if top else found)
        if writer is None:
            return fields
        if top and type(fields) is tuple:
            name, fields = fields
        return GenericRecord(fields, writer, name) if type(fields) is dict else fields

    return read


def _typed_reader(reading: _Reading, kind: Any) -> Callable[[bytes], Any]:
    convert, decode, broken, options = msgspec.convert, reading.decode, reading.broken, _options(kind)
    written, own, top = reading.written.schema, reading.own and reading.own.schema, reading.written.top
    own_copy = reading.own_copy
    plain = not options and not top and own is None  # an option that is not needed costs time

    def read(data: bytes) -> Any:
        try:
            found = decode(BytesIO(data[HEAD_BYTES:]), written, own)
            return convert(found, kind) if plain else convert(own_copy(found[_TOP] if top else found), kind, **options)
        except msgspec.ValidationError as error:
            raise SerializationError(str(error)) from error
        except Exception as error:
            raise broken(error) from _shown_cause(error)

    return read


def _shown_cause(error: Exception) -> Exception | None:
    """Returns ``error``, unless its traceback has a thousand lines, which dead letters would have, too."""
    return None if isinstance(error, RecursionError) else error


# ---- writing ----


def _refused(error: Exception) -> SerializationError:
    return SerializationError(f"{type(error).__name__}: {error}")


def _generic_writer(parsed: _Parsed, head: bytes) -> Callable[[Any], bytes]:
    (_, encode, validate), schema, top = codec(parsed.recursive), parsed.schema, parsed.top

    def write(value: Any) -> bytes:
        target = BytesIO()
        target.write(head)
        try:
            if top:
                named = isinstance(value, GenericRecord) and value.name is not None
                value = {_TOP: (value.name, value) if named else value}
            # fastavro's writer cuts 1.5 to 1 for a long, and writes "no" as true.
            validate(value, schema)
            encode(target, schema, value)
        except _REFUSED as error:
            raise _refused(error) from _shown_cause(error)
        return target.getvalue()

    return write


def _typed_writer(parsed: _Parsed, head: bytes, kind: Any) -> Callable[[Any], bytes]:
    fields, values, encode = _fields_of(kind), _flat_values(kind), codec(parsed.recursive).write
    schema, trusted = parsed.schema, not parsed.top and not parsed.has_ints
    known: set[tuple[type, ...]] = set()
    """Combinations of types of flat fields that were checked once."""

    def checked(value: Any) -> Any:
        made = fields(value)
        if values is not None and type(value) is kind:
            seen = tuple(map(type, values(value)))
            if all(each.__module__ in ("builtins", "datetime", "uuid") for each in seen):
                known.add(seen)
        return made

    ints = int_fields(schema)

    def carefully(value: Any) -> Any:
        """fastavro writes any number as an int, which takes four bytes: Java could not read it."""
        if ints and values is not None and type(value) is kind and tuple(map(type, values(value))) in known:
            made = value.__dict__
            if all(-_INT_END <= made[name] < _INT_END for name in ints):
                return made
        made = {_TOP: checked(value)} if parsed.top else checked(value)
        codec(parsed.recursive).validate(made, schema)
        return made

    def write(value: Any) -> bytes:
        target = BytesIO()
        try:
            if not trusted:
                encode(target, schema, carefully(value))
            elif values is not None and type(value) is kind and tuple(map(type, values(value))) in known:
                encode(target, schema, value.__dict__)
            else:
                encode(target, schema, checked(value))
        except msgspec.ValidationError as error:
            raise SerializationError(str(error)) from error
        except _REFUSED as error:
            raise _refused(error) from _shown_cause(error)
        return head + target.getvalue()

    return write


def _options(kind: Any) -> dict[str, Any]:
    """Returns the option of msgspec that leaves times, UUIDs and bytes as they are: without need it costs a third of
    the time."""
    info = parts_of(types.type_info(kind))
    return {"builtin_types": KEPT} if any(isinstance(part, _KEPT) for part in info) else {}


def _fields_of(kind: Any) -> Callable[[Any], Any]:
    """Returns the function that converts an object of ``kind`` to the form that fastavro writes. It raises
    msgspec.ValidationError and SerializationError for an object that does not have its declared type: fastavro would
    write 1.5 as 1."""
    accepted, name = classes_of(kind), name_of(kind)
    convert, to_builtins, options = msgspec.convert, msgspec.to_builtins, _options(kind)
    zones = {part.tz for part in parts_of(types.type_info(kind)) if isinstance(part, types.DateTimeType)}
    zoned = bool(zones) and False not in zones  # a type that knows of both is trusted

    def fields(value: Any) -> Any:
        if accepted is not None and type(value) not in accepted:
            raise SerializationError(f"a {name} is expected, not {shown_with_type(value)}")
        made = to_builtins(value, enc_hook=written_number, **options)
        convert(made, kind, **options)
        if zoned:
            _refuse_naive(made)
        return made

    return fields


def _flat_values(kind: Any) -> Callable[[Any], tuple[Any, ...]] | None:
    """Returns the function that returns the values of the fields of a dataclass, if these hold no other objects. Then
    fastavro can read its ``__dict__``. None for every other type."""
    info = types.type_info(kind)
    if not (is_dataclass(kind) and isinstance(info, types.DataclassType) and len(info.fields) > 1):
        return None
    if hasattr(kind, "__slots__") or not all(_is_flat(field.type) for field in info.fields):
        return None
    return attrgetter(*(field.name for field in info.fields))


def _is_flat(part: types.Type) -> bool:
    if isinstance(part, types.UnionType):
        return all(map(_is_flat, part.types))
    bounds = {"gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"}
    return isinstance(part, _FLAT) and all(getattr(part, bound, None) is None for bound in bounds)


def _refuse_naive(made: Any) -> None:
    """fastavro takes a time without a zone for one of this machine's zone; its record would depend on the machine."""
    if isinstance(made, datetime) and made.tzinfo is None:
        raise SerializationError(
            f"{made!r} has no time zone: use datetime.now(UTC), or declare the field as "
            "Annotated[datetime, msgspec.Meta(tz=False)]"
        )
    if isinstance(made, dict | list):
        for each in made.values() if isinstance(made, dict) else made:
            _refuse_naive(each)
