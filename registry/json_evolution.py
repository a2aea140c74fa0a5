"""Compares JSON Schemas: finds values that one accepts and another refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jsonschema import Draft7Validator, SchemaError
from jsonschema.validators import validator_for

from penstock.registry.contracts import SchemaRefusedError

DRAFT = Draft7Validator
"""The draft of a schema that names none, as in Confluent's registry."""
_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def checked(text: str) -> Any:
    """Returns the schema of ``text``. Raises SchemaRefusedError if it is none."""
    try:
        schema = json.loads(text)
        validator_for(schema, default=DRAFT).check_schema(schema)
    except (ValueError, SchemaError) as error:
        raise SchemaRefusedError(f"no JSON Schema: {error}") from error
    return schema


def conflicts(reader: str, writer: str) -> list[str]:
    """Returns the reasons why ``reader`` may refuse a value that ``writer`` accepts."""
    one, other = json.loads(reader), json.loads(writer)
    return list(_Comparison(one, other).compare(one, other, "$"))


class _Comparison:
    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._compared: set[tuple[int, int]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> Iterable[str]:
        reader, writer = _resolved(reader, self._reader), _resolved(writer, self._writer)
        if (id(reader), id(writer)) in self._compared or reader is True or reader == {} or writer is False:
            return
        self._compared.add((id(reader), id(writer)))
        if reader is False:
            yield f"{path}: the reader accepts nothing"
            return
        writer = {} if writer is True else writer
        for word in ("anyOf", "oneOf"):
            if word in writer:
                for each in writer[word]:
                    yield from self.compare(reader, each, path)
                return
        for word in ("anyOf", "oneOf"):
            if word in reader:
                if not any(self._accepts(each, writer, path) for each in reader[word]):
                    yield f"{path}: was written as {_shown(writer)}, and no choice of the reader's {word} accepts it"
                return
        for each in reader.get("allOf", ()):
            yield from self.compare(each, writer, path)
        yield from self._compare_plain(reader, writer, path)

    def _accepts(self, reader: Any, writer: Any, path: str) -> bool:
        trial = _Comparison(self._reader, self._writer)
        trial._compared = set(self._compared)
        return not any(True for _ in trial.compare(reader, writer, path))

    def _compare_plain(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterable[str]:
        read, written = _types(reader), _types(writer)
        if not written <= read and not written <= (read | ({"integer"} if "number" in read else set())):
            yield f"{path}: was written as {_shown(writer)}, and is read as {_shown(reader)}"
            return
        if (allowed := _values(reader)) is not None:
            values = _values(writer)
            unknown = None if values is None else [each for each in values if each not in allowed]
            if unknown is None or unknown:
                what = "any value" if unknown is None else ", ".join(json.dumps(each) for each in unknown)
                yield f"{path}: {what} was allowed, and the reader has another list of values"
        yield from _compare_limits(reader, writer, path)
        if "array" in read & written:
            yield from self.compare(reader.get("items", True), writer.get("items", True), f"{path}[]")
        if "object" in read & written:
            yield from self._compare_objects(reader, writer, path)

    def _compare_objects(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterable[str]:
        read, written = reader.get("properties", {}), writer.get("properties", {})
        others_read, others = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        for name in reader.get("required", ()):
            if name not in writer.get("required", ()) and not _has_default(read.get(name)):
                yield f"{path}.{name}: is required, and may be missing in what was written"
        for name, each in read.items():
            if name in written:
                yield from self.compare(each, written[name], f"{path}.{name}")
            elif others is not False and any(True for _ in self.compare(each, others, f"{path}.{name}")):
                yield (
                    f"{path}.{name}: is new, and what was written may have any value of that name: its schema has no "
                    "additionalProperties=false"
                )
        for name, each in written.items():
            if name not in read:
                if others_read is False:
                    yield f"{path}.{name}: was written, and the reader has no such property and accepts no others"
                else:
                    yield from self.compare(others_read, each, f"{path}.{name}")
        if others_read is False and others is not False:
            yield f"{path}: other properties were allowed, and the reader accepts none (additionalProperties)"
        elif others is not False:
            yield from self.compare(others_read, others, f"{path}.*")


def _compare_limits(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterable[str]:
    checks: list[tuple[tuple[str, ...], Callable[[Any, Any], bool]]] = [
        (_AT_LEAST, lambda own, other: other >= own),
        (_AT_MOST, lambda own, other: other <= own),
        (("multipleOf",), lambda own, other: other % own == 0),
        (("pattern",), lambda own, other: bool(other == own)),
        (("uniqueItems",), lambda own, other: not own or bool(other)),
    ]
    for words, fits in checks:
        for word in words:
            own, other = reader.get(word), writer.get(word)
            if own is not None and own is not False and (other is None or not fits(own, other)):
                was = "there was none" if other is None else f"it was {json.dumps(other)}"
                yield f"{path}: {word} is {json.dumps(own)}, and {was}"


def _resolved(schema: Any, root: Any) -> Any:
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#"):
        if schema["$ref"] in seen:
            return True  # it refers to itself, and so refuses nothing
        seen.add(schema["$ref"])
        found = root
        for part in schema["$ref"].removeprefix("#").split("/"):
            if part:
                found = found.get(part.replace("~1", "/").replace("~0", "~"), True) if isinstance(found, dict) else True
        schema = found
    return schema


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    given = schema.get("type")
    if given is None:
        return _TYPES
    return frozenset([given] if isinstance(given, str) else given)


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return list(found) if found is not None else None


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _shown(schema: Mapping[str, Any]) -> str:
    return "any type" if "type" not in schema else " or ".join(sorted(_types(schema)))
