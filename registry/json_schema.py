"""JSON records: objects of a Python type, from which the schema is made, or plain values that are checked against a
schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import msgspec.inspect as types
from jsonschema import SchemaError
from jsonschema.validators import validator_for
from pydantic import BaseModel, TypeAdapter
from referencing import Registry
from referencing.exceptions import Unresolvable
from typing_extensions import override

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.plain_json import read_json, write_json
from penstock.common.typed_json import name_of, parts_of, typed_json
from penstock.registry.contracts import HEAD_BYTES, Format, Reference, RegisteredSchema, Schema
from penstock.registry.json_evolution import DRAFT, conflicts


@dataclass(frozen=True)
class JsonFormat(Format):
    """Records of ``kind``, or those that fit the schema ``text``. Made by :func:`json_format`."""

    kind: Any
    text: str

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return JsonFormat, (self.kind, self.text)

    @property
    @override
    def name(self) -> str:
        return f"json_schema({self.record_name if self.kind is None else name_of(self.kind)})"

    @cached_property
    @override
    def record_name(self) -> str | None:
        schema = json.loads(self.text)
        title = schema.get("title") if isinstance(schema, dict) else None
        return title if isinstance(title, str) else None

    @property
    @override
    def reads_without_writer(self) -> bool:
        return True

    @override
    def schema(self, registered: Callable[[str, Schema], RegisteredSchema]) -> Schema:
        return Schema(self.text, "JSON")

    @override
    def from_text(self, text: str) -> Any:
        return msgspec.json.decode(text, type=Any if self.kind is None else self.kind)

    @cached_property
    def _functions(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        if self.kind is not None:
            return typed_json(self.kind)
        check = _check_of(self.text)
        return lambda value: write_json(check(value)), lambda data: check(read_json(data))

    @override
    def reader(self, writer: Schema | None, referred: Callable[[Reference], Schema]) -> Callable[[bytes], Any]:
        read_one = self._functions[1]

        def read(data: bytes) -> Any:
            try:
                return read_one(data[HEAD_BYTES:])
            except msgspec.MsgspecError as error:
                raise SerializationError(str(error)) from error

        return read

    @override
    def writer(self, schema: Schema, head: bytes, referred: Callable[[Reference], Schema]) -> Callable[[Any], bytes]:
        if schema.type != "JSON":
            raise SerializationError(f"the schema is one of {schema.type}, and records are written as JSON")
        if schema.text != self.text and (found := conflicts(schema.text, self.text)):
            raise SerializationError(f"the schema to write with cannot hold what is written: {'; '.join(found)}")
        write_one = self._functions[0]
        return lambda value: head + write_one(value)


def json_format(kind: Any, schema: str | Mapping[str, Any] | None) -> JsonFormat:
    """Returns the format of a type or of a schema. Raises TopologyError for what is neither."""
    if schema is None:
        if kind is None:
            raise TopologyError("Serdes.json_schema: a type, or schema=…, is needed")
        typed_json(kind)
        return JsonFormat(kind, _schema_of(kind))
    try:
        found = json.loads(schema) if isinstance(schema, str) else dict(schema)
        validator_for(found, default=DRAFT).check_schema(found)
    except (ValueError, SchemaError) as error:
        raise TopologyError(f"Serdes.json_schema: no JSON Schema: {error}") from error
    return JsonFormat(kind, schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":")))


def _check_of(text: str) -> Callable[[Any], Any]:
    """Returns the function that returns its argument. It raises SerializationError for one that the schema refuses."""
    schema = json.loads(text)
    # Its own registry has the drafts alone: by default jsonschema would fetch what a reference names.
    validator = validator_for(schema, default=DRAFT)(schema, registry=Registry())

    def check(value: Any) -> Any:
        try:
            error = next(validator.iter_errors(value), None)
        except Unresolvable as missing:
            raise SerializationError(
                f"the schema refers to {missing.ref!r}, which is not within it: put it into its definitions"
            ) from missing
        except RecursionError as endless:
            raise SerializationError("schema or value are nested too deeply") from endless
        if error is not None:
            raise SerializationError(f"{error.message} - at `{error.json_path}`")
        return value

    return check


def _schema_of(kind: Any) -> str:
    """Returns the schema of a type, of draft 7. Objects are closed, as those of Confluent's Java serializer. Only then
    may a later version have another field."""
    definitions: dict[str, Any]
    parts = parts_of(types.type_info(kind))
    if any(isinstance(each, types.CustomType) and issubclass(each.cls, BaseModel) for each in parts):
        made = TypeAdapter(kind).json_schema(ref_template="#/definitions/{model}")
        definitions = made.pop("$defs", {})
    else:
        (made,), definitions = msgspec.json.schema_components([kind], ref_template="#/definitions/{name}")
    name = str(made.get("$ref", "")).rpartition("/")[2]
    if name:
        made = definitions[name] if f'"{made["$ref"]}"' in json.dumps(definitions) else definitions.pop(name)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name_of(kind), **made}
    if definitions:
        schema["definitions"] = definitions
    _close(schema)
    return json.dumps(schema, separators=(",", ":"))


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        for each in schema.values():
            _close(each)
    elif isinstance(schema, list):
        for each in schema:
            _close(each)
