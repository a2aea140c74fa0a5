"""The Avro schema of a Python type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import msgspec.inspect as types

from penstock.common.errors import TopologyError
from penstock.common.typed_json import name_of

KEPT = (bytes, datetime, date, time, UUID, Decimal)
"""The types that fastavro takes as they are."""
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHERS = "pass the schema: Serdes.avro({kind}, schema='…')"
_PLAIN: Mapping[type[types.Type], Any] = {
    types.NoneType: "null",
    types.BoolType: "boolean",
    types.IntType: "long",
    types.FloatType: "double",
    types.StrType: "string",
    types.BytesType: "bytes",
    types.UUIDType: {"type": "string", "logicalType": "uuid"},
    types.DateType: {"type": "int", "logicalType": "date"},
    types.TimeType: {"type": "long", "logicalType": "time-micros"},
}
_RECORDS = (types.DataclassType, types.StructType, types.TypedDictType)
_LISTS = (types.ListType, types.VarTupleType)


def schema_of(kind: Any) -> str:
    """Returns the Avro schema of a type, as JSON. Raises TopologyError for one that has none."""
    try:
        info = types.type_info(kind)
    except (TypeError, NameError) as error:
        raise TopologyError(
            f"Serdes.avro({name_of(kind)}): {error}. Of several records make one with optional fields, or use dicts: "
            "Serdes.avro(schema='…')"
        ) from error
    return json.dumps(_Writer(name_of(kind)).schema(info), separators=(",", ":"))


class _Writer:
    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._named: dict[str, Any] = {}

    def schema(self, part: types.Type) -> Any:
        if isinstance(part, types.Metadata):
            return self.schema(part.type)
        if (plain := _PLAIN.get(type(part))) is not None:
            return plain
        if isinstance(part, types.DateTimeType):
            return {"type": "long", "logicalType": "local-timestamp-micros" if part.tz is False else "timestamp-micros"}
        if isinstance(part, _LISTS):
            return {"type": "array", "items": self.schema(part.item_type)}
        if isinstance(part, types.DictType) and isinstance(part.key_type, types.StrType):
            return {"type": "map", "values": self.schema(part.value_type)}
        if isinstance(part, types.UnionType):
            return self._union(part.types)
        if isinstance(part, types.EnumType):
            return self._enum(part.cls)
        if isinstance(part, types.LiteralType):
            return "string" if all(isinstance(each, str) for each in part.values) else "long"
        if isinstance(part, _RECORDS):
            return self._record(part)
        raise self._unusable(f"there is no Avro form for {type(part).__name__.removesuffix('Type')}")

    def _union(self, parts: tuple[types.Type, ...]) -> Any:
        # null first: then the default of an optional field may be null. float last: fastavro writes a value as the
        # first type that can hold it, and a large int would become another number.
        places: dict[type, int] = {types.NoneType: -1, types.FloatType: 1}
        return [self.schema(part) for part in sorted(parts, key=lambda part: places.get(type(part), 0))]

    def _enum(self, cls: type[Enum]) -> Any:
        values = [each.value for each in cls]
        if all(isinstance(each, int) for each in values):
            return "long"
        if not all(isinstance(each, str) for each in values):
            raise self._unusable(f"the values of enumeration {cls.__qualname__} are neither all str nor all int")
        if not all(_SYMBOL.fullmatch(each) for each in values):
            return "string"
        if self._named.get(cls.__name__) is cls:
            return cls.__name__
        return self._once(cls, {"type": "enum", "name": cls.__name__, "symbols": values})

    def _record(self, part: types.DataclassType | types.StructType | types.TypedDictType) -> Any:
        if isinstance(part, types.StructType) and (part.array_like or part.tag_field is not None):
            raise self._unusable(f"{part.cls.__qualname__} is array_like or has a tag")
        name = part.cls.__name__
        if self._named.get(name) is part.cls:
            return name
        schema: dict[str, Any] = {"type": "record", "name": name}
        found = self._once(part.cls, schema)
        schema["fields"] = [self._field(each) for each in part.fields]
        return found

    def _field(self, field: types.Field) -> Any:
        made = {"name": field.encode_name, "type": self.schema(field.type)}
        default = _default(field)
        if default is msgspec.NODEFAULT:
            return made
        kind = made["type"]
        if isinstance(kind, list) and default is not None:  # the default of a union is one of its first type
            made["type"] = sorted(kind, key=lambda each: each == "null")
            if len(kind) > 2 or (isinstance(default, float) and kind[0] == "long"):
                return made
        made["default"] = default
        return made

    def _once(self, cls: type, schema: dict[str, Any]) -> Any:
        if self._named.setdefault(cls.__name__, cls) is not cls:
            raise self._unusable(f"two types are called {cls.__name__}")
        return schema

    def _unusable(self, why: str) -> TopologyError:
        return TopologyError(f"Serdes.avro({self._kind}): {why}: {_OTHERS.format(kind=self._kind)}")


def _default(field: types.Field) -> Any:
    """Returns the default of a field as JSON; NODEFAULT for one that has none, or none that JSON can show."""
    default = field.default
    if default is msgspec.NODEFAULT and field.default_factory in (list, dict, tuple):
        default = [] if field.default_factory is tuple else field.default_factory()
    if isinstance(default, bytes):
        return default.decode("latin-1")
    if isinstance(default, Enum):
        default = default.value
    return (
        default if default is None or isinstance(default, bool | int | float | str | list | dict) else msgspec.NODEFAULT
    )
