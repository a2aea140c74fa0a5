"""Resolution of Avro schemas, by the rules of Avro's specification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from penstock.registry.contracts import SchemaRefusedError

_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = ("record", "error", "enum", "fixed")
_PROMOTED = {
    "int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "string": {"bytes"},
    "bytes": {"string"},
}  # fmt: skip
"""The types as which a reader may read a type."""


def checked(text: str) -> Any:
    """Returns the schema of ``text``, parsed by fastavro. Raises SchemaRefusedError if it is no Avro schema."""
    try:
        return parse_schema(json.loads(text))
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
        raise SchemaRefusedError(f"no Avro schema: {type(error).__name__}: {error}") from error


def conflicts(reader: str, writer: str, referred: Iterable[str] = (), *, of_every_record: bool = False) -> list[str]:
    """Returns the reasons why ``reader`` cannot read the records of ``writer``. ``referred``: schemas of types that
    either names, without defining them. ``of_every_record``: only what no record is without. Of a union, and of an
    enumeration, a record has one value, and that may be one that the reader can read."""
    known = _Names()
    for text in referred:
        known.define(json.loads(text), "")
    one, other = _Names(known.types), _Names(known.types)
    found: list[str] = []
    _Resolution(one, other, found, of_every_record).compare(
        one.define(json.loads(reader), ""), other.define(json.loads(writer), ""), ""
    )
    return found


class _Names:
    """Types by their full names. Definitions are copied, with the full names of what they refer to."""

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.types: dict[str, Any] = dict(known or {})

    def define(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self.define(each, namespace) for each in schema]
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVE else _full(schema, namespace)
        kind = schema["type"]
        if kind == "array":
            return {"type": "array", "items": self.define(schema["items"], namespace)}
        if kind == "map":
            return {"type": "map", "values": self.define(schema["values"], namespace)}
        if kind not in _NAMED:
            return self.define(kind, namespace)
        name = _full(schema["name"], schema.get("namespace", namespace))
        within = name.rpartition(".")[0]
        made = self.types[name] = {**schema, "name": name}
        made["aliases"] = [_full(each, within) for each in schema.get("aliases", [])]
        if "fields" in schema:
            made["fields"] = [{**each, "type": self.define(each["type"], within)} for each in schema["fields"]]
        return name

    def found(self, schema: Any) -> Any:
        return self.types.get(schema, schema) if isinstance(schema, str) else schema


class _Resolution:
    def __init__(self, readers: _Names, writers: _Names, found: list[str], of_every_record: bool) -> None:
        self._of_every_record = of_every_record
        self._readers = readers
        self._writers = writers
        self._found = found
        self._compared: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> None:
        reader, writer = self._readers.found(reader), self._writers.found(writer)
        if isinstance(writer, list):
            if self._of_every_record and any(self._fits(reader, each, path) for each in writer):
                return
            for each in writer:
                self.compare(reader, each, path)
        elif isinstance(reader, list):
            if not any(self._fits(each, writer, path) for each in reader):
                self._differ(reader, writer, path)
        elif _kind(reader) != _kind(writer):
            if _kind(reader) not in _PROMOTED.get(_kind(writer), ()):
                self._differ(reader, writer, path)
        elif _kind(reader) == "array":
            self.compare(reader["items"], writer["items"], f"{path}[]")
        elif _kind(reader) == "map":
            self.compare(reader["values"], writer["values"], f"{path}{{}}")
        elif isinstance(reader, dict):
            self._compare_named(reader, writer, path or _short(reader["name"]))

    def _fits(self, reader: Any, writer: Any, path: str) -> bool:
        trial = _Resolution(self._readers, self._writers, [], self._of_every_record)
        trial._compared = set(self._compared)
        trial.compare(reader, writer, path)
        return not trial._found

    def _compare_named(self, reader: Any, writer: Any, path: str) -> None:
        if (names := (reader["name"], writer["name"])) in self._compared:
            return
        self._compared.add(names)
        if _short(reader["name"]) != _short(writer["name"]) and writer["name"] not in reader["aliases"]:
            self._differ(reader, writer, path)
        elif reader["type"] == "fixed" and reader["size"] != writer["size"]:
            self._found.append(
                f"{path}: was written with {writer['size']} bytes, and is read with {reader['size']} bytes"
            )
        elif reader["type"] == "enum":
            unknown = [each for each in writer["symbols"] if each not in reader["symbols"]]
            some = self._of_every_record and len(unknown) < len(writer["symbols"])
            if unknown and "default" not in reader and not some:
                self._found.append(f"{path}: the reader has no symbol {', '.join(unknown)}, and no default")
        elif "fields" in reader:
            for each in reader["fields"]:
                self._compare_field(each, writer, f"{path}.{each['name']}")

    def _compare_field(self, reader: Any, writer: Any, path: str) -> None:
        names = (reader["name"], *reader.get("aliases", ()))
        written = next((each for name in names for each in writer["fields"] if each["name"] == name), None)
        if written is not None:
            self.compare(reader["type"], written["type"], path)
        elif "default" not in reader:
            self._found.append(
                f"{path}: was not written, and the reader has no default for its {_shown(reader['type'])}"
            )

    def _differ(self, reader: Any, writer: Any, path: str) -> None:
        at = f"{path}: " if path else ""
        self._found.append(f"{at}was written as {_shown(writer)}, and is read as {_shown(reader)}")


def _kind(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _shown(schema: Any) -> str:
    if isinstance(schema, list):
        return f"[{', '.join(map(_shown, schema))}]"
    if isinstance(schema, str):
        return schema
    return f"{schema['type']} {schema['name']}" if "name" in schema else str(schema["type"])


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]
