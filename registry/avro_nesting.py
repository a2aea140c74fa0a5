"""The properties of Avro schemas that decide which functions of fastavro may read and write their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fastavro import _read_py, _validation_py, _write_py, schemaless_reader, schemaless_writer
from fastavro.validation import validate

from penstock.common.errors import SerializationError

_DEEPEST = 300
"""Dicts and lists of a schema's JSON that may be within each other."""


class Codec(NamedTuple):
    """Functions of fastavro."""

    read: Callable[..., Any]
    write: Callable[..., None]
    validate: Callable[..., bool]


_COMPILED = Codec(schemaless_reader, schemaless_writer, validate)
_OF_PYTHON = Codec(_read_py.schemaless_reader, _write_py.schemaless_writer, _validation_py.validate)
"""Slower. For a record that is nested too deeply they raise RecursionError, where the compiled ones overflow the stack
and end the process: for that, 5 KB are enough."""


def check_depth(schema: Any) -> None:
    """Raise SerializationError for a schema that is nested too deeply: to parse it could overflow the stack."""
    within = [schema]
    for _ in range(_DEEPEST):
        within = [part for each in within for part in _json_parts(each)]
        if not within:
            return
    raise SerializationError(f"the schema is nested more than {_DEEPEST} deep")


def codec(recursive: bool) -> Codec:
    """Returns the functions for the records of a schema."""
    return _OF_PYTHON if recursive else _COMPILED


def is_recursive(named: Mapping[str, Any]) -> bool:
    """Returns True if a record of one of these types may hold another of the same type."""
    ended: set[str] = set()

    def leads_back(name: str, way: tuple[str, ...]) -> bool:
        if name in way:
            return True
        if name in ended:
            return False
        found = any(leads_back(each, (*way, name)) for each in _names_in(named[name], named))
        ended.add(name)
        return found

    return any(leads_back(name, ()) for name in named)


def check_arrays(schema: Any, named: Mapping[str, Any]) -> None:
    """Raise SerializationError for an array whose items take no bytes: a record of ten bytes could claim to have any
    number of them."""
    for part in (schema, *named.values()):
        for each in types_in(part):
            if isinstance(each, dict) and each["type"] == "array" and _takes_nothing(each["items"], named, ()):
                raise SerializationError("the schema has an array of items that take no bytes, such as null")


def has_ints(schema: Any, named: Mapping[str, Any]) -> bool:
    """Returns True if records have whole numbers that must fit into four bytes."""
    for part in (schema, *named.values()):
        for each in types_in(part):
            if each == "int" or (isinstance(each, dict) and each["type"] == "int" and "logicalType" not in each):
                return True
    return False


def int_fields(schema: Any) -> list[str]:
    """Returns the fields of a record that are such numbers; none if it has such numbers elsewhere, too."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    found = [each["name"] for each in fields if each["type"] == "int"]
    others = [each["type"] for each in fields if each["type"] != "int"]
    return [] if any(has_ints(each, {}) for each in others) else found


def _names_in(schema: Any, named: Mapping[str, Any]) -> Iterator[str]:
    """Yields the named types that a type has within itself."""
    for each in _parts(schema):
        for inner in types_in(each):
            name = inner if isinstance(inner, str) else inner.get("name") if isinstance(inner, dict) else None
            if name in named:
                yield str(name)


def types_in(schema: Any) -> Iterator[Any]:
    """Yields a type, and all that are written within it."""
    yield schema
    for each in _parts(schema):
        yield from types_in(each)


def _parts(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        yield from (schema[part] for part in ("items", "values") if part in schema)
        yield from (each["type"] for each in schema.get("fields", ()))


def _json_parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _takes_nothing(schema: Any, named: Mapping[str, Any], way: tuple[str, ...]) -> bool:
    """Returns True if values of a type have no bytes."""
    if isinstance(schema, str):
        return schema == "null" or (
            schema in named and schema not in way and _takes_nothing(named[schema], named, (*way, schema))
        )
    if isinstance(schema, list):  # its index takes one
        return False
    if schema["type"] in ("record", "error"):
        return all(_takes_nothing(each["type"], named, (*way, schema["name"])) for each in schema["fields"])
    return bool(schema["type"] == "null" or (schema["type"] == "fixed" and schema["size"] == 0))
