"""Serdes: what ``Serdes.json`` is given says what it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

import penstock as ps


@dataclass
class Item:
    name: str


class Typed(TypedDict):
    name: str


class User(BaseModel):
    name: str


assert_type(ps.Serdes.json(), ps.Serde[Any])
assert_type(ps.Serdes.json(Item), ps.Serde[Item])
assert_type(ps.Serdes.json(Typed), ps.Serde[Typed])
assert_type(ps.Serdes.json(User), ps.Serde[User])
assert_type(ps.Serdes.json(list[int]), ps.Serde[list[int]])
assert_type(ps.Serdes.json(dict[int, Item]), ps.Serde[dict[int, Item]])
assert_type(ps.Serdes.json(Item | User), ps.Serde[Any])  # a union is no type[...] to type checkers
