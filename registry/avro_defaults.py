"""The defaults of a parsed Avro schema as objects. fastavro takes them as the schema's JSON has them: bytes are text
there, and times are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastavro.read import LOGICAL_READERS

from penstock.registry.avro_nesting import types_in


def decode_defaults(schema: Any, named: Mapping[str, Any]) -> bool:
    """Replaces the defaults of all fields by objects such as fastavro reads. Returns True if one of them can be changed
    in place: fastavro gives the same to all records."""
    fields = {
        id(field): field
        for part in (schema, *named.values())
        for each in types_in(part)
        if isinstance(each, dict)
        for field in each.get("fields", ())
        if "default" in field
    }
    made = {key: _if_it_fits(field["type"], field["default"], named) for key, field in fields.items()}
    for key, field in fields.items():
        field["default"] = made[key]
    return any(isinstance(each, list | dict) for each in made.values())


def _if_it_fits(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:
    try:
        return _decoded(schema, value, named)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        return value  # old versions of Avro took a default of any type; only a record that needs it is bad


def _decoded(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return _decoded(schema[0], value, named)  # the default of a union is one of its first type
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("record", "error"):
        return {
            field["name"]: _decoded(field["type"], value.get(field["name"], field.get("default")), named)
            for field in schema["fields"]
        }
    if kind == "array":
        return [_decoded(schema["items"], each, named) for each in value]
    if kind == "map":
        return {key: _decoded(schema["values"], each, named) for key, each in value.items()}
    if kind in ("bytes", "fixed") and isinstance(value, str):
        value = value.encode("latin-1")
    if kind in ("float", "double") and isinstance(value, int):
        value = float(value)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    reader = LOGICAL_READERS.get(f"{kind}-{logical}")
    return value if reader is None else reader(value, schema, None)
