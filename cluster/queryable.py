"""Which view of a store a program asks for, and of which kinds of stores it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.cluster.store_reader import StoreQuestions
from penstock.cluster.store_view import (
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

    def of(self, builder: AnyStoreBuilder, questions: StoreQuestions) -> T:
        """The view of a store. Raises UnknownQueryError for a store of another kind."""
        if self.accepts(builder):
            return self.view(questions)
        fitting = [each.name for each in _all() if each.accepts(builder)]
        raise UnknownQueryError(
            f"store {builder.name!r} is a {builder.kind} store: ask for it as "
            f"{' or '.join(f'QueryableStoreTypes.{name}()' for name in fitting)}, not {self.name}()"
        )


class QueryableStoreTypes:
    """The views that ``KafkaStreams.store`` gives. Mirrors ``QueryableStoreTypes``, which has none of versioned stores.

    Those of timestamped stores give values as :class:`ValueAndTimestamp`; the others give the values alone, of
    timestamped stores, too.
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
