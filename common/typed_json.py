"""JSON of a type that the user names: values that are read are of that type, and values that are written can be read
again."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from types import UnionType
from typing import Any

import msgspec
import msgspec.inspect as types
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.plain_json import check_depth, number_of_numpy, write_json
from penstock.common.sorted_sets import sort_lists_of_sets, with_sorted_sets

Functions = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""Writes and reads."""


_NOTED = (types.DataclassType, types.TypedDictType, types.NamedTupleType, types.EnumType)
# Only these can be written as plain JSON: if one is Any, the value is checked when it is written. An Any within
# anything else, such as a field of a dataclass, is not checked: docs/decisions/0011.
_PLAIN = (
    types.AnyType, types.BoolType, types.DictType, types.FloatType, types.IntType, types.ListType, types.NoneType,
    types.StrType, types.TypedDictType, types.UnionType,
)  # fmt: skip


def name_of(kind: Any) -> str:
    """Returns the type as a user writes it."""
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def typed_json(kind: Any) -> Functions:
    """The functions for ``kind``: by msgspec, or by pydantic where a model of pydantic is part of it.

    Raises TopologyError for a type that neither can read.
    """
    try:
        parts = list(parts_of(types.type_info(kind)))
    except (TypeError, NameError) as error:
        raise _unusable(kind, error) from error
    custom = [part.cls for part in parts if isinstance(part, types.CustomType)]
    if any(issubclass(cls, BaseModel) for cls in custom):
        return _by_pydantic(kind)
    if custom:
        raise _unusable(kind, f"there is no JSON form for {name_of(custom[0])}")
    try:
        return _by_msgspec(kind, parts)
    finally:
        # msgspec's note in a class cannot be pickled, and a class of the program's own script is pickled as a whole.
        for cls in [part.cls for part in parts if isinstance(part, _NOTED)]:
            if "__msgspec_cache__" in vars(cls):
                type.__delattr__(cls, "__msgspec_cache__")


def _unusable(kind: Any, why: object) -> TopologyError:
    return TopologyError(
        f"Serdes.json({name_of(kind)}): {why}. Dataclasses, TypedDict, NamedTuple, msgspec.Struct, pydantic models, "
        "enumerations, dates, UUIDs, numbers, text and containers of them can be used"
    )


def parts_of(part: Any, seen: set[Any] | None = None) -> Iterator[types.Type]:
    """Yields every type within ``part``, itself included, once."""
    seen = set() if seen is None else seen
    if isinstance(part, types.Type):
        if id(part) in seen:
            return
        seen.add(id(part))
        yield part
    if isinstance(part, types.Type | types.Field):
        for name in part.__struct_fields__:
            if name not in ("cls", "default", "default_factory"):
                yield from parts_of(getattr(part, name), seen)
    elif isinstance(part, tuple | list):
        for each in part:
            yield from parts_of(each, seen)


def _by_msgspec(kind: Any, parts: Sequence[types.Type]) -> Functions:
    has_floats = any(isinstance(part, types.FloatType) for part in parts)
    plain = any(isinstance(part, types.AnyType) for part in parts) and all(isinstance(part, _PLAIN) for part in parts)
    try:
        decode = msgspec.json.Decoder(kind).decode
    except (TypeError, NameError) as error:
        raise _unusable(kind, error) from error
    encode = write_json if plain else msgspec.json.Encoder(enc_hook=written_number).encode
    has_sets = any(isinstance(part, types.SetType | types.FrozenSetType) for part in parts)
    accepted, name = classes_of(kind), name_of(kind)

    def write(value: Any) -> bytes:
        if accepted is not None and type(value) not in accepted:
            number = number_of_numpy(value)
            if number is None or type(number) not in accepted:
                raise _wrong_type(name, value)
        try:
            data = encode(with_sorted_sets(value, encode) if has_sets else value)
            check_depth(data)
        except (TypeError, ValueError, RecursionError, SerializationError) as error:
            raise SerializationError(f"json({name}): {error}") from error
        if has_floats and b"null" in data:
            _refuse_infinite(name, msgspec.to_builtins(value, enc_hook=written_number, str_keys=True))
        return data

    def read(data: bytes) -> Any:
        try:
            check_depth(data)
            return decode(data)
        except (msgspec.MsgspecError, ValueError, SerializationError) as error:  # ValueError: text that is not UTF-8
            raise SerializationError(f"json({name}): {error}") from error

    return write, read


def _by_pydantic(kind: Any) -> Functions:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        raise _unusable(kind, error) from error
    accepted, name, has_sets = classes_of(kind), name_of(kind), _mentions_sets(adapter.core_schema)

    def dumped(value: Any) -> Any:
        try:
            return adapter.dump_python(value, by_alias=True)
        except TypeError as error:
            raise SerializationError(
                "a set of models has no order that is the same in every process: use a list, or a field_serializer "
                "that returns a sorted one"
            ) from error

    def write(value: Any) -> bytes:
        if accepted is not None and type(value) not in accepted:
            raise _wrong_type(name, value)
        try:
            data = adapter.dump_json(value, by_alias=True, warnings="error", fallback=written_number)
            if has_sets:
                data = sort_lists_of_sets(data, dumped(value))
            check_depth(data)
        except (SerializationError, RecursionError, PydanticSerializationError, TypeError, ValueError) as error:
            raise SerializationError(f"json({name}): {error}") from error
        if b"null" in data:
            _refuse_infinite(name, adapter.dump_python(value))
        return data

    def read(data: bytes) -> Any:
        try:
            check_depth(data)
            return adapter.validate_json(data)
        except (msgspec.MsgspecError, SerializationError) as error:
            raise SerializationError(f"json({name}): {error}") from error
        except ValidationError as error:
            first, *more = error.errors(include_url=False)
            at = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"])
            rest = f" (and {len(more)} more)" if more else ""
            raise SerializationError(f"json({name}): {first['msg']} - at `${at}`{rest}") from error

    return write, read


def _mentions_sets(schema: Any) -> bool:
    """True if a type of pydantic's ``schema`` is a set."""
    if isinstance(schema, dict):
        return schema.get("type") in ("set", "frozenset") or any(map(_mentions_sets, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_mentions_sets, schema))


def classes_of(kind: Any) -> tuple[type, ...] | None:
    """Returns the classes that a value of ``kind`` may be an instance of, exactly; None if they are not known."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, UnionType):
        each = [classes_of(choice) for choice in typing.get_args(kind)]
        return None if None in each else tuple(cls for classes in each if classes for cls in classes)
    if origin is typing.Annotated:
        return classes_of(kind.__origin__)
    kind = origin or kind
    if typing.is_typeddict(kind):
        return (dict,)
    if kind is float:
        return float, int
    if isinstance(kind, type) and kind is not object and not inspect.isabstract(kind):
        return (kind,)
    return None


def _wrong_type(name: str, value: object) -> SerializationError:
    return SerializationError(f"json({name}): {value!r} is of type {type(value).__qualname__}")


def written_number(value: object) -> Any:
    """Returns Python's number for one of numpy: a hook of msgspec's encoders. Raises TypeError for anything else."""
    number = number_of_numpy(value)
    if number is None:
        raise TypeError(f"there is no JSON form for {value!r} ({type(value).__qualname__})")
    return number


def _refuse_infinite(name: str, value: Any) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise SerializationError(f"json({name}): {value!r}, which JSON does not have: use None, or leave it out")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            _refuse_infinite(name, each)
