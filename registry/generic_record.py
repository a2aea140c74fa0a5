"""A record of no type, which remembers its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from typing_extensions import override

from penstock.registry.contracts import Schema


class GenericRecord(dict[str, Any]):
    """The fields of a record, and the schema with which it is written: the one that it was read with, or another.

    ``Serdes.avro()`` without a type reads these. Mirrors Avro's ``GenericRecord``. ``name`` is the full name of the
    record if the schema is a union of several; otherwise None.
    """

    __slots__ = ("name", "schema")

    schema: Schema
    name: str | None

    def __init__(self, fields: Mapping[str, Any], schema: Schema, name: str | None = None) -> None:
        super().__init__(fields)
        self.schema = schema
        self.name = name

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return GenericRecord, (dict(self), self.schema, self.name)
