"""Compares schemas: the rules by which a registry accepts the next version of a subject, for each format."""

from __future__ import annotations

from penstock.registry.contracts import Schema, SchemaType
from penstock.registry.on_use import module

_MODULES: dict[SchemaType, str] = {
    "AVRO": "avro_evolution",
    "JSON": "json_evolution",
    "PROTOBUF": "protobuf_evolution",
}


def checked(schema: Schema) -> Schema:
    """Returns the schema. Raises SchemaRefusedError if it is not valid."""
    module(_MODULES[schema.type]).checked(schema.text)
    return schema


def conflicts_between(*, reader: Schema, writer: Schema) -> list[str]:
    """Returns why ``reader`` cannot read what ``writer`` has written; empty if it can. Each names the path of a field,
    and both types."""
    if reader.type != writer.type:
        return [f"the format was {writer.type} and is {reader.type}"]
    found: list[str] = module(_MODULES[reader.type]).conflicts(reader.text, writer.text)
    return found
