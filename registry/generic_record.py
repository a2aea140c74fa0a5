"""A record of no type, which remembers its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from typing_extensions import override

from penstock.registry.contracts import Schema


class GenericRecord(dict[str, Any]):
    """The fields of a record, and the schema with which it is written: the one that it was read with, or another.

    ``Serdes.avro()`` without a type reads these. Mirrors Avro's ``GenericRecord``.
    """

    __slots__ = ("schema",)

    schema: Schema

    def __init__(self, fields: Mapping[str, Any], schema: Schema) -> None:
        super().__init__(fields)
        self.schema = schema

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return GenericRecord, (dict(self), self.schema)
