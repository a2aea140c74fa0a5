"""Columns for Python's types: a dataclass becomes a struct, a list a list, a dict a map. Part by part, and pure.

The type of a column follows from the type alone, never from values, so that all files have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import msgspec.inspect as types
import pyarrow as pa
from pydantic import BaseModel

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Form:
    """The type of a column in Arrow, and the function that makes of a value what Arrow takes; None stays None."""

    arrow: pa.DataType
    convert: Convert


def form_of(kind: Any) -> Form:
    """Returns the form of a type. Parts without one, such as unions and types that contain themselves, become their
    JSON as text."""
    try:
        return _form(types.type_info(kind), ())
    except (TypeError, NameError):  # no type that msgspec can read
        return _JSON


def as_json(value: Any) -> str:
    """Returns a value as JSON; parts that have none are text."""
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


_JSON = Form(pa.string(), as_json)
_TEXT = Form(pa.string(), lambda value: msgspec.to_builtins(value))
_SCALARS: dict[type, Form] = {
    types.BoolType: Form(pa.bool_(), bool),
    types.IntType: Form(pa.int64(), int),
    types.FloatType: Form(pa.float64(), float),
    types.StrType: Form(pa.string(), str),
    types.BytesType: Form(pa.binary(), bytes),
    types.DateTimeType: Form(pa.timestamp("us", "UTC"), lambda value: value),
    types.DateType: Form(pa.date32(), lambda value: value),
    types.UUIDType: _TEXT,
    types.DecimalType: _TEXT,
    types.TimeType: _TEXT,
    types.TimeDeltaType: _TEXT,
}


def _form(part: types.Type, within: tuple[Any, ...]) -> Form:
    """Returns the form of ``part``. ``within``: the classes around it."""
    if isinstance(part, types.Metadata):
        return _form(part.type, within)
    match part:
        case types.UnionType():
            others = [each for each in part.types if not isinstance(each, types.NoneType)]
            return _form(others[0], within) if len(others) == 1 else _JSON
        case types.EnumType() | types.LiteralType():
            return _of_values(part)
        case types.ListType() | types.SetType() | types.FrozenSetType() | types.VarTupleType():
            item = _form(part.item_type, within)
            return Form(pa.list_(item.arrow), lambda values: [_given(item, value) for value in values])
        case types.DictType():
            key, value = _form(part.key_type, within), _form(part.value_type, within)
            return Form(
                pa.map_(key.arrow, value.arrow),
                lambda found: [(key.convert(name), _given(value, each)) for name, each in found.items()],
            )
        case types.TypedDictType():
            return _struct(part.cls, {it.name: it.type for it in part.fields}, within, lambda row, name: row.get(name))
        case types.DataclassType() | types.StructType() | types.NamedTupleType():
            return _struct(part.cls, {it.name: it.type for it in part.fields}, within, getattr)
        case types.CustomType() if issubclass(part.cls, BaseModel):
            fields = {name: types.type_info(field.annotation) for name, field in part.cls.model_fields.items()}
            return _struct(part.cls, fields, within, getattr)
    return _SCALARS.get(type(part), _JSON)


def _of_values(part: types.EnumType | types.LiteralType) -> Form:
    values = list(part.cls) if isinstance(part, types.EnumType) else list(part.values)
    plain = [msgspec.to_builtins(value) for value in values]
    kind = pa.int64() if all(isinstance(value, int) for value in plain) else pa.string()
    if kind == pa.string() and not all(isinstance(value, str) for value in plain):
        return _JSON
    return Form(kind, lambda value: msgspec.to_builtins(value))


def _struct(cls: Any, fields: dict[str, types.Type], within: tuple[Any, ...], read: Callable[[Any, str], Any]) -> Form:
    if cls in within or not fields:  # Parquet has neither
        return _JSON
    forms = {name: _form(part, (*within, cls)) for name, part in fields.items()}
    return Form(
        pa.struct([pa.field(name, form.arrow) for name, form in forms.items()]),
        lambda row: {name: _given(form, read(row, name)) for name, form in forms.items()},
    )


def _given(form: Form, value: Any) -> Any:
    return None if value is None or value is msgspec.UNSET else form.convert(value)


def column_of(form: Form, values: Sequence[Any]) -> tuple[pa.Array, int]:
    """Returns a column of values, and the number of those that do not fit its type, such as an integer of more than 64
    bits: they are null."""
    try:
        return pa.array(values, form.arrow), 0
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        each = [_one(form, value) for value in values]
    return pa.array(each, form.arrow), sum(found is None for found in each) - sum(value is None for value in values)


def _one(form: Form, value: Any) -> Any:
    try:
        pa.scalar(value, form.arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return value
