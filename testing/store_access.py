"""Gives a test the stores of a driver: a getter for each kind, as Kafka Streams has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from penstock.common.errors import UnknownStateStoreError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.versioned.views import VersionedKeyValueStore
from penstock.state.views import KeyValueStore, ValueAndTimestamp
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.state.windowed.views import SessionStore, WindowStore
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStoreBuilder
from penstock.tasks.wiring import Store
from penstock.testing.store_facades import KeyValueStoreFacade, WindowStoreFacade

# A kind that derives from another one comes before it.
_GETTERS: Mapping[type[AnyStoreBuilder], str] = {
    TimestampedKeyValueStoreBuilder: "get_timestamped_key_value_store",
    KeyValueStoreBuilder: "get_key_value_store",
    TimestampedWindowStoreBuilder: "get_timestamped_window_store",
    WindowStoreBuilder: "get_window_store",
    SessionStoreBuilder: "get_session_store",
    VersionedKeyValueStoreBuilder: "get_versioned_key_value_store",
}


class StoreAccess(ABC):
    """The getters. What they give may be read and written, also after records were piped in; it ends with the driver.

    Say which types a store has where you get it: ``kept: KeyValueStore[str, int] = driver.get_key_value_store("s")``.
    Each getter raises UnknownStateStoreError for a store that the topology does not have, or that is of another kind;
    the message names the one that fits. StreamsError once the driver is closed.
    """

    @abstractmethod
    def _all_stores(self) -> Mapping[str, Store]:
        """Returns the stores by name. Raises StreamsError when the driver is closed."""

    @abstractmethod
    def _now(self) -> int:
        """Returns the driver's wall clock (ms)."""

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Returns the key-value store ``name``; of a timestamped one, as tables have, the values alone. What is put
        gets the driver's time."""
        store = self._of(name, KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder)
        view: KeyValueStore[Any, Any] = store.opened.view()
        if isinstance(store.builder, TimestampedKeyValueStoreBuilder):
            return KeyValueStoreFacade(view, self._now)
        return view

    def get_timestamped_key_value_store(self, name: str) -> KeyValueStore[Any, ValueAndTimestamp[Any]]:
        """Returns the timestamped key-value store ``name``: values with their event time (ms)."""
        view: KeyValueStore[Any, ValueAndTimestamp[Any]] = self._of(name, TimestampedKeyValueStoreBuilder).opened.view()
        return view

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Returns the versioned key-value store ``name``."""
        view: VersionedKeyValueStore[Any, Any] = self._of(name, VersionedKeyValueStoreBuilder).opened.view()
        return view

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Returns the window store ``name``; of a timestamped one, as windowed aggregates have, the values alone. What
        is put gets the driver's time."""
        store = self._of(name, WindowStoreBuilder)
        view: WindowStore[Any, Any] = store.opened.view()
        if isinstance(store.builder, TimestampedWindowStoreBuilder):
            return WindowStoreFacade(view, self._now)
        return view

    def get_timestamped_window_store(self, name: str) -> WindowStore[Any, ValueAndTimestamp[Any]]:
        """Returns the timestamped window store ``name``: values with their event time (ms)."""
        view: WindowStore[Any, ValueAndTimestamp[Any]] = self._of(name, TimestampedWindowStoreBuilder).opened.view()
        return view

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Returns the session store ``name``."""
        view: SessionStore[Any, Any] = self._of(name, SessionStoreBuilder).opened.view()
        return view

    def get_state_store(self, name: str) -> Any:
        """Returns the store ``name`` as a processor sees it, of whatever kind: one of your own, too."""
        return self._of(name).opened.view()

    def get_all_state_stores(self) -> dict[str, Any]:
        """Returns all stores by name, the global ones too, each as :meth:`get_state_store` gives it."""
        return {name: store.opened.view() for name, store in self._all_stores().items()}

    def _of(self, name: str, *kinds: type[AnyStoreBuilder]) -> Store:
        stores = self._all_stores()
        store = stores.get(name)
        if store is None:
            known = ", ".join(stores) or "none"
            raise UnknownStateStoreError(f"there is no store {name!r}; stores of the topology: {known}")
        if not kinds or isinstance(store.builder, kinds):
            return store
        for kind, getter in _GETTERS.items():
            if isinstance(store.builder, kind):
                raise UnknownStateStoreError(f"store {name!r} is a {store.builder.kind} store: get it with {getter}")
        raise UnknownStateStoreError(f"store {name!r} is no {kinds[0].kind} store: get it with get_state_store")
