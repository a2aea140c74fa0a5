"""Records that are read by another schema, as Java reads them: the reader's logical types hold, and of a union the type
that is equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Named = Mapping[str, Any]
_WIDER = ("int", "long", "float", "double")
_PROMOTED = frozenset({"int", "long", "float", "string", "bytes"})
"""The types that may be read as another one, which then has no logical type."""


def resolved(reader: Any, writer: Any, readers: Named, writers: Named) -> Any:
    """Returns the parsed schema ``writer``. Its records, and the unions of ``reader``, are changed in place.

    fastavro reads a value as the writer's logical type. So one that ``reader`` does not have is left out, and one that
    only ``reader`` has is added. If both have one, the writer's remains: it says what the number means.
    """
    return _Alignment(readers, writers).aligned(reader, writer)


class _Alignment:
    def __init__(self, readers: Named, writers: Named) -> None:
        self._readers = readers
        self._writers = writers
        self._records: set[tuple[str, str]] = set()

    def aligned(self, reader: Any, writer: Any) -> Any:
        if isinstance(writer, list):
            return [self.aligned(reader, each) for each in writer]
        kind = self._kind(writer, self._writers)
        if isinstance(reader, list):
            reader.sort(key=lambda each: self._rank(each, kind))
            same = [each for each in reader if self._kind(each, self._readers) == kind]
            if len(same) > 1:
                return writer
            reader = same[0] if same else None
        if reader is None or kind != self._kind(reader, self._readers):
            return kind if kind in _PROMOTED else writer
        if kind == "array":
            return {**writer, "items": self.aligned(reader["items"], writer["items"])}
        if kind == "map":
            return {**writer, "values": self.aligned(reader["values"], writer["values"])}
        if kind in ("record", "error"):
            self._align_fields(_found(reader, self._readers), _found(writer, self._writers))
            return writer
        return self._with_logical_type(reader, writer, kind)

    def _align_fields(self, reader: Any, writer: Any) -> None:
        if (names := (reader["name"], writer["name"])) in self._records:
            return
        self._records.add(names)
        fields = {name: each for each in reader["fields"] for name in (*each.get("aliases", ()), each["name"])}
        for field in writer["fields"]:
            if field["name"] in fields:
                field["type"] = self.aligned(fields[field["name"]]["type"], field["type"])

    def _rank(self, each: Any, written: str) -> int:
        """Orders the types of a union, of which fastavro takes the first that can hold what was ``written``."""
        kind = self._kind(each, self._readers)
        return _WIDER.index(kind) if kind in _WIDER else int(kind != written)

    @staticmethod
    def _with_logical_type(reader: Any, writer: Any, kind: str) -> Any:
        wanted = reader.get("logicalType") if isinstance(reader, dict) else None
        has = writer.get("logicalType") if isinstance(writer, dict) else None
        if kind in ("fixed", "enum") or (wanted is None) == (has is None):
            return writer
        return kind if wanted is None else {**reader}

    @staticmethod
    def _kind(schema: Any, named: Named) -> str:
        found = _found(schema, named)
        return str(found["type"] if isinstance(found, dict) else found)


def _found(schema: Any, named: Named) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema
