"""Compares schemas: the rules by which a registry accepts the next version of a subject, for each format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.registry.contracts import Reference, Schema, SchemaType
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


def conflicts_between(*, reader: Schema, writer: Schema, referred: Iterable[str] = ()) -> list[str]:
    """Returns the reasons why ``reader`` cannot read the records of ``writer``; empty if it can. Each names the path of
    a field, and both types. ``referred``: the schemas that they refer to, which those of Avro need."""
    if reader.type != writer.type:
        return [f"the format was {writer.type} and is {reader.type}"]
    more = (referred,) if reader.type == "AVRO" else ()
    found: list[str] = module(_MODULES[reader.type]).conflicts(reader.text, writer.text, *more)
    return found


def referred_texts(schema: Schema, referred: Callable[[Reference], Schema]) -> list[str]:
    """Returns the schemas that ``schema`` refers to, each once, and after those that it refers to itself."""
    texts: dict[Reference, str] = {}
    begun: set[Reference] = set()

    def add(references: tuple[Reference, ...]) -> None:
        for reference in references:
            if reference not in begun:
                begun.add(reference)
                found = referred(reference)
                add(found.references)
                texts[reference] = found.text

    add(schema.references)
    return list(dict.fromkeys(texts.values()))
