"""Serdes: the type that they are given is the one that they read and write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

import penstock as ps


@dataclass
class Item:
    name: str


class Typed(TypedDict):
    name: str


class User(BaseModel):
    name: str


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog"):
    name: str


assert_type(ps.Serdes.list(ps.Serdes.string()), ps.Serde[list[str]])
assert_type(ps.Serdes.list(ps.Serdes.list(ps.Serdes.long())), ps.Serde[list[list[int]]])
assert_type(ps.Serdes.byte_buffer(), ps.Serde[memoryview])
assert_type(ps.Serdes.avro(Item), ps.Serde[Item])
assert_type(ps.Serdes.avro(Item, schema="{}"), ps.Serde[Item])
assert_type(ps.Serdes.avro(schema={"type": "string"}), ps.Serde[dict[str, Any]])
assert_type(ps.Serdes.avro(), ps.Serde[ps.GenericRecord])
assert_type(ps.Serdes.json_schema(User), ps.Serde[User])
assert_type(ps.Serdes.json_schema(schema="{}"), ps.Serde[Any])
assert_type(ps.Serdes.protobuf(Item), ps.Serde[Item])  # any class to type checkers
assert_type(ps.Serdes.json(), ps.Serde[Any])
assert_type(ps.Serdes.json(Item), ps.Serde[Item])
assert_type(ps.Serdes.json(Typed), ps.Serde[Typed])
assert_type(ps.Serdes.json(User), ps.Serde[User])
assert_type(ps.Serdes.json(list[int]), ps.Serde[list[int]])
assert_type(ps.Serdes.json(dict[int, Item]), ps.Serde[dict[int, Item]])
assert_type(ps.Serdes.json(Cat | Dog), ps.Serde[Any])  # a union is no type[...] to type checkers
