"""What may be asked of a store, as values (KIP-796 has the names). Each kind of store says which of them it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self

from typing_extensions import TypeVar

from penstock.common.errors import UnknownQueryError
from penstock.common.shown import shown_with_type

K = TypeVar("K", default=bytes)


class QueryRow(NamedTuple):
    """One row of an answer. ``key`` stands in the form of the store's changelog; ``timestamp`` is None where the store
    keeps none."""

    key: bytes
    value: Any
    timestamp: int | None


PASSED: Final = object()
"""Stands for the value in what is no row: up to this key there was nothing (more) to give. A store that must look at
many rows to find few yields it now and then: the answer then gives way to records, and goes on behind this key."""


@dataclass(frozen=True)
class Query:
    """A question to one store. Whoever asks from outside gives keys as objects; a store is asked with their bytes."""

    single: ClassVar[bool] = True
    """Whether one row at most is the answer. If not, it is given piece by piece."""
    key_fields: ClassVar[tuple[str, ...]] = ()
    """Which of its fields hold keys, or None. One called ``key`` is the key that the question is about: it says which
    task has the answer. All tasks are asked what is about no single key."""

    @property
    def is_of_one_key(self) -> bool:
        """Whether one task has the answer."""
        return "key" in self.key_fields

    @property
    def about(self) -> Any:
        """That key."""
        return getattr(self, self.key_fields[0])

    def with_keys(self, serialize: Callable[[Any], bytes]) -> Self:
        """The same with the bytes of its keys."""
        given = {name: getattr(self, name) for name in self.key_fields}
        return replace(self, **{name: serialize(key) for name, key in given.items() if key is not None})


@dataclass(frozen=True)
class RowsQuery(Query):
    """One whose answer is any number of rows, in the order of their keys, or with ``descending`` backwards."""

    single: ClassVar[bool] = False
    descending: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class KeyQuery(Query, Generic[K]):
    """The row of ``key``."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K


@dataclass(frozen=True)
class KeysQuery(Query):
    """The rows of ``keys``, which are sorted and each there once; the absent ones have none. Not of Kafka Streams."""

    single: ClassVar[bool] = False
    keys: tuple[bytes, ...]


@dataclass(frozen=True)
class RangeQuery(RowsQuery, Generic[K]):
    """Rows by key, both ends included, None open."""

    key_fields: ClassVar[tuple[str, ...]] = ("from_key", "to_key")
    from_key: K | None = None
    to_key: K | None = None


@dataclass(frozen=True)
class PrefixQuery(RowsQuery):
    """The rows whose serialised keys begin with ``prefix``. Kafka Streams has it as ``prefixScan`` alone."""

    prefix: bytes

    def __post_init__(self) -> None:
        check_prefix(self.prefix)


@dataclass(frozen=True)
class CountQuery(Query):
    """About how many rows there are: one row, whose value is the number, and whose key is empty."""


def unknown_query(query: Query, store: str, answered: Iterable[type[Query]]) -> UnknownQueryError:
    """The error for a ``query`` that ``store`` does not answer: it answers those ``answered``."""
    return UnknownQueryError.of(type(query).__name__, f"store {store!r}", [each.__name__ for each in answered])


def check_prefix(prefix: object) -> None:
    """Raises TypeError unless it is bytes."""
    if not isinstance(prefix, bytes):
        raise TypeError(
            f"a prefix is that of serialised keys, bytes, such as serde.serialize({prefix!r}), "
            f"not {shown_with_type(prefix)}"
        )


def behind_prefix(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with ``prefix``; None when there can be none. Raises TypeError unless it is
    bytes."""
    check_prefix(prefix)
    shortest = prefix.rstrip(b"\xff")
    return shortest[:-1] + bytes([shortest[-1] + 1]) if shortest else None
