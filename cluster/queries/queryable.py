"""Views of stores that a program may ask for, and the kinds of stores that have each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.cluster.queries.store_reader import StoreQuestions
from penstock.cluster.queries.store_view import (
    ReadOnlyKeyValueStore,
    ReadOnlyVersionedKeyValueStore,
    SessionStoreView,
    WindowStoreView,
)
from penstock.common.errors import UnknownQueryError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.views import ValueAndTimestamp
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.state.windowed.views import ReadOnlySessionStore, ReadOnlyWindowStore
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStoreBuilder

T = TypeVar("T")

_TIMED = (ExpiringStoreBuilder, VersionedKeyValueStoreBuilder)


@dataclass(frozen=True)
class QueryableStoreType(Generic[T]):
    """A kind of view: see :class:`QueryableStoreTypes`. Mirrors ``QueryableStoreType``."""

    name: str
    accepts: Callable[[AnyStoreBuilder], bool]
    view: Callable[[StoreQuestions], T]

    def of(self, kind: str, views: Collection[str], questions: StoreQuestions) -> T:
        """The view of a store of that ``kind``, which may be asked as any of ``views``: see :func:`views_of`. Raises
        UnknownQueryError if this is none of them."""
        if self.name in views:
            return self.view(questions)
        raise UnknownQueryError(
            f"store {questions.name!r} is a {kind} store: ask for it as "
            f"{' or '.join(f'QueryableStoreTypes.{name}()' for name in views)}, not {self.name}()"
        )


class QueryableStoreTypes:
    """The views that ``KafkaStreams.store`` gives. Mirrors ``QueryableStoreTypes``, which has none of versioned stores.

    Views of timestamped stores return values as :class:`ValueAndTimestamp`; the others return values without
    timestamps, of timestamped stores, too.
    """

    @staticmethod
    def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
        """A key-value store, or one of a kind of the program's own that answers the same queries."""
        return QueryableStoreType("key_value_store", _is_key_value, ReadOnlyKeyValueStore)

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueAndTimestamp[Any]]]:
        """A timestamped key-value store, as tables of the DSL have it."""
        return QueryableStoreType(
            "timestamped_key_value_store",
            partial(_is_a, TimestampedKeyValueStoreBuilder),
            partial(ReadOnlyKeyValueStore, timestamped=True),
        )

    @staticmethod
    def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
        """A window store."""
        return QueryableStoreType("window_store", partial(_is_a, WindowStoreBuilder), WindowStoreView)

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueAndTimestamp[Any]]]:
        """A timestamped window store, as windowed tables of the DSL have it."""
        return QueryableStoreType(
            "timestamped_window_store",
            partial(_is_a, TimestampedWindowStoreBuilder),
            partial(WindowStoreView, timestamped=True),
        )

    @staticmethod
    def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """A session store."""
        return QueryableStoreType("session_store", partial(_is_a, SessionStoreBuilder), SessionStoreView)

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType[ReadOnlyVersionedKeyValueStore[Any, Any]]:
        """A versioned store."""
        return QueryableStoreType(
            "versioned_key_value_store",
            partial(_is_a, VersionedKeyValueStoreBuilder),
            ReadOnlyVersionedKeyValueStore,
        )


def _is_key_value(builder: AnyStoreBuilder) -> bool:
    return not isinstance(builder, _TIMED)


def _is_a(kind: type[AnyStoreBuilder], builder: AnyStoreBuilder) -> bool:
    return isinstance(builder, kind)


def views_of(builder: AnyStoreBuilder) -> tuple[str, ...]:
    """Returns the names of the :class:`QueryableStoreTypes` by which a store can be queried."""
    return tuple(each.name for each in _all() if each.accepts(builder))


def _all() -> tuple[QueryableStoreType[Any], ...]:
    kinds = QueryableStoreTypes
    return (
        kinds.key_value_store(),
        kinds.timestamped_key_value_store(),
        kinds.window_store(),
        kinds.timestamped_window_store(),
        kinds.session_store(),
        kinds.versioned_key_value_store(),
    )
