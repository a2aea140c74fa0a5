"""Queries of stores, as values (KIP-796 has the names). Each kind of store lists those that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self

from typing_extensions import TypeVar

from penstock.common.errors import UnknownQueryError
from penstock.common.shown import shown_with_type

K = TypeVar("K", default=bytes)


class QueryRow(NamedTuple):
    """One row of an answer. ``key`` has the form of the store's changelog; ``timestamp`` is None if the store keeps
    none."""

    key: bytes
    value: Any
    timestamp: int | None


PASSED: Final = object()
"""The value of an item that represents no row: up to this key, the store found nothing (more) to return.

A store that must look at many rows to find few yields such items now and then, so that records can be processed in
between. The answer continues after the key.
"""


@dataclass(frozen=True)
class Query:
    """A query of one store. Clients give keys as objects; the store gets their bytes."""

    single: ClassVar[bool] = True
    """True if the answer is one row at most. Otherwise the answer is given in pieces."""
    key_fields: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that hold keys, or None. A field ``key`` is the key that the query is about: it decides
    which task has the answer. A query without such a field goes to all tasks."""

    @property
    def is_of_one_key(self) -> bool:
        """True if one task has the answer."""
        return "key" in self.key_fields

    @property
    def about(self) -> Any:
        """The key that the question is about."""
        return getattr(self, self.key_fields[0])

    def with_keys(self, serialize: Callable[[Any], bytes]) -> Self:
        """Returns the query with the bytes of its keys."""
        given = {name: getattr(self, name) for name in self.key_fields}
        return replace(self, **{name: serialize(key) for name, key in given.items() if key is not None})


@dataclass(frozen=True)
class RowsQuery(Query):
    """A query whose answer is any number of rows, in the order of their keys, or with ``descending`` backwards."""

    single: ClassVar[bool] = False
    descending: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class KeyQuery(Query, Generic[K]):
    """The row of ``key``."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K


@dataclass(frozen=True)
class TimestampedKeyQuery(KeyQuery[K]):
    """The row of ``key`` in a store that keeps timestamps; another store refuses it. A :class:`KeyQuery` has the same
    answer. Mirrors ``TimestampedKeyQuery``."""


@dataclass(frozen=True)
class KeysQuery(Query):
    """The rows of ``keys``, which are sorted and distinct; absent keys have no row. Kafka Streams has no such query."""

    single: ClassVar[bool] = False
    keys: tuple[bytes, ...]


@dataclass(frozen=True)
class RangeQuery(RowsQuery, Generic[K]):
    """Rows by key, both ends included, None open."""

    key_fields: ClassVar[tuple[str, ...]] = ("from_key", "to_key")
    from_key: K | None = None
    to_key: K | None = None


@dataclass(frozen=True)
class TimestampedRangeQuery(RangeQuery[K]):
    """Rows by key of a store that keeps timestamps; another store refuses it. A :class:`RangeQuery` has the same
    answer. Mirrors ``TimestampedRangeQuery``."""


@dataclass(frozen=True)
class PrefixQuery(RowsQuery):
    """The rows whose serialised keys begin with ``prefix``. Kafka Streams has it only as ``prefixScan``."""

    prefix: bytes

    def __post_init__(self) -> None:
        check_prefix(self.prefix)


@dataclass(frozen=True)
class CountQuery(Query):
    """The approximate number of rows: the answer is one row, whose value is the number, and whose key is empty."""


def unknown_query(query: Query, store: str, answered: Iterable[type[Query]]) -> UnknownQueryError:
    """The error for a ``query`` that ``store`` does not answer: it answers those of the types ``answered``."""
    return UnknownQueryError.of(type(query).__name__, f"store {store!r}", [each.__name__ for each in answered])


def check_prefix(prefix: object) -> None:
    """Raises TypeError unless ``prefix`` is bytes."""
    if not isinstance(prefix, bytes):
        raise TypeError(
            f"a prefix is that of serialised keys, bytes, such as serde.serialize({prefix!r}), "
            f"not {shown_with_type(prefix)}"
        )


def end_of_prefix(prefix: bytes) -> bytes | None:
    """The first key after all that begin with ``prefix``; None if there can be none. Raises TypeError unless it is
    bytes."""
    check_prefix(prefix)
    shortest = prefix.rstrip(b"\xff")
    return shortest[:-1] + bytes([shortest[-1] + 1]) if shortest else None
