"""Changes of an object within a user function: those that count, and those that do not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Flag
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest
from pydantic import BaseModel

from penstock.testing.object_forms import form


@dataclass
class Tally:
    n: int = 0
    by: dict[int, int] = field(default_factory=dict)


class Opaque:
    """Equal only to itself, as most classes are."""

    def __init__(self, n: int) -> None:
        self.n = n


class Struct(msgspec.Struct):
    n: int


class Model(BaseModel):
    n: int


class Slots:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = [1]


class Lazy:
    def __init__(self) -> None:
        self.n = 1

    @cached_property
    def double(self) -> int:
        return 2 * self.n


CHANGES: list[tuple[Any, Callable[[Any], object]]] = [
    ([1], lambda v: v.append(2)),
    ({"a": [1]}, lambda v: v["a"].append(1)),
    ({"a": 1}, lambda v: v.update(a=True)),
    ({1}, lambda v: v.add(2)),
    (([],), lambda v: v[0].append(1)),
    (bytearray(b"a"), lambda v: v.append(1)),
    (Counter("a"), lambda v: v.update("a")),
    (defaultdict(list), lambda v: v["a"]),
    (Tally(), lambda v: v.by.update({1: 1})),
    (Tally(), lambda v: setattr(v, "n", 2)),
    (Slots(), lambda v: v.n.append(1)),
    (Opaque(1), lambda v: setattr(v, "n", 2)),
    (Struct(1), lambda v: setattr(v, "n", 2)),
    (Model(n=1), lambda v: setattr(v, "n", 2)),
    (numpy.array([1, 2]), lambda v: v.fill(3)),
]


@pytest.mark.parametrize(("value", "change"), CHANGES, ids=lambda each: type(each).__name__)
def test_a_change_anywhere_within_is_seen(value: Any, change: Callable[[Any], object]) -> None:
    before = form(value)
    assert form(value) == before
    change(value)
    assert form(value) != before


def test_a_value_that_an_object_caches_is_no_change() -> None:
    value = Lazy()
    before = form(value)
    assert value.double == 2
    assert form(value) == before


def test_an_object_that_holds_itself_is_looked_at_once() -> None:
    value: list[Any] = [1]
    value.append(value)
    before = form(value)
    value.append(2)
    assert form(value) != before


def test_not_a_number_stays_as_it_is() -> None:
    value = {"a": float("nan")}
    assert form(value) == form(value)


class Modes(Flag):
    READ = 1
    WRITE = 2


class Located(BaseModel):
    path: Path


@pytest.mark.parametrize(
    "make", [lambda: Path("a/b"), lambda: Located(path=Path("a/b")), lambda: Modes.READ | Modes.WRITE, lambda: Modes]
)
def test_an_object_that_was_only_shown_hashed_and_compared_has_not_changed(make: Callable[[], Any]) -> None:
    value = make()
    before = form(value)
    for part in (value, getattr(value, "path", None)):
        assert repr(part)
        assert str(part)
    assert value == make()
    assert form(value) == before


def test_a_part_that_is_shared_is_looked_at_once() -> None:
    looked: list[int] = []

    class Leaf:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # counts
            looked.append(1)
            return {"n": 1}

    value: Any = Leaf()
    for _ in range(12):
        value = [value, value]
    form(value)
    assert len(looked) == 1
