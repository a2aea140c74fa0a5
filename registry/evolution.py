"""Compares schemas: the rules by which a registry accepts the next version of a subject, for each format."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from penstock.common.errors import ConfigError
from penstock.registry.contracts import Schema, SchemaType

_MODULES: dict[SchemaType, str] = {
    "AVRO": "penstock.registry.avro_evolution",
    "JSON": "penstock.registry.json_evolution",
    "PROTOBUF": "penstock.registry.protobuf_evolution",
}


def checked(schema: Schema) -> Schema:
    """Returns the schema. Raises SchemaRefusedError if it is not valid."""
    _module(schema.type).checked(schema.text)
    return schema


def conflicts_between(*, reader: Schema, writer: Schema) -> list[str]:
    """Returns why ``reader`` cannot read what ``writer`` has written; empty if it can. Each names the path of a field,
    and both types."""
    if reader.type != writer.type:
        return [f"the format was {writer.type} and is {reader.type}"]
    found: list[str] = _module(reader.type).conflicts(reader.text, writer.text)
    return found


def _module(schema_type: SchemaType) -> ModuleType:
    """Imported on use: a program with one format needs the packages of no other."""
    try:
        return import_module(_MODULES[schema_type])
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[registry]'") from error
