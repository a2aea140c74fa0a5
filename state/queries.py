"""What may be asked of a store, as values (KIP-796 has the names). Each kind of store says which of them it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from penstock.common.errors import UnknownQueryError


class QueryRow(NamedTuple):
    """One row of an answer. ``key`` stands in the form of the store's changelog; ``timestamp`` is None where the store
    keeps none."""

    key: bytes
    value: Any
    timestamp: int | None


@dataclass(frozen=True)
class Query:
    """A question to one store. Keys are serialised."""

    single: ClassVar[bool] = True
    """Whether one row at most is the answer. If not, it is given piece by piece."""


@dataclass(frozen=True)
class KeyQuery(Query):
    """The row of ``key``."""

    key: bytes


@dataclass(frozen=True)
class KeysQuery(Query):
    """The rows of ``keys``, which are sorted and each there once; the absent ones have none. Not of Kafka Streams."""

    single: ClassVar[bool] = False
    keys: tuple[bytes, ...]


@dataclass(frozen=True)
class RangeQuery(Query):
    """Rows by key, both ends included, None open."""

    single: ClassVar[bool] = False
    from_key: bytes | None = None
    to_key: bytes | None = None


@dataclass(frozen=True)
class CountQuery(Query):
    """About how many rows there are: one row, whose value is the number, and whose key is empty."""


def unknown_query(query: Query, store: str, answered: Iterable[type[Query]]) -> UnknownQueryError:
    """The error for a ``query`` that ``store`` does not answer: it answers those ``answered``."""
    known = ", ".join(each.__name__ for each in answered) or "none"
    return UnknownQueryError(f"store {store!r} does not answer {type(query).__name__}; it answers: {known}")
