"""The stores of a processor that is watched: what they give and take is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.common.windows import Windowed
from penstock.state.key_value.typed_store import TypedKeyValueStore
from penstock.state.read_only_view import ReadOnlyView
from penstock.state.versioned.store import TypedVersionedKeyValueStore
from penstock.state.windowed.session_store import TypedSessionStore
from penstock.state.windowed.window_store import TypedWindowStore

Note = Callable[[str, Any], None]
"""(what it is, the object): it must stay as it is until the call ends."""


def tracked_view(store: Any, note: Note) -> Any:
    """``store`` as the processor gets it. One of a kind that is not known here is given as it is."""
    match store:
        case TypedKeyValueStore():
            return _TrackedKeyValueStore(store, note)
        case TypedWindowStore():
            return _TrackedWindowStore(store, note)
        case TypedSessionStore():
            return _TrackedSessionStore(store, note)
        case ReadOnlyView():
            return ReadOnlyView(store.name, tracked_view(store.view, note), store.why)
        case TypedVersionedKeyValueStore():
            return _TrackedVersionedStore(store, note)
        case _:
            return store


class _TrackedStore:
    """A store that takes note of the values it gives and takes."""

    def __init__(self, store: Any, note: Note) -> None:
        self._store = store
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _given(self, value: Any) -> Any:
        self._note(f"a value that it got from store {self._store.name}", value)
        return value

    def _taken(self, value: Any) -> Any:
        self._note(f"a value that it put into store {self._store.name}", value)
        return value

    def _each(self, entries: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        return ((key, self._given(value)) for key, value in entries)


class _TrackedKeyValueStore(_TrackedStore):
    def get(self, key: Any) -> Any:
        return self._given(self._store.get(key))

    def put(self, key: Any, value: Any) -> None:
        self._store.put(key, self._taken(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        return self._given(self._store.put_if_absent(key, self._taken(value)))

    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        return self._given(self._store.delete(key))

    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.range(from_key, to_key))

    def reverse_range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.reverse_range(from_key, to_key))

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.all())

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.reverse_all())

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.prefix_scan(prefix))


class _TrackedWindowStore(_TrackedStore):
    def put(self, key: Any, value: Any, window_start: int) -> None:
        self._store.put(key, self._taken(value), window_start)

    def fetch(self, *given: Any, **named: Any) -> Any:
        found = self._store.fetch(*given, **named)
        return self._given(found) if len(given) + len(named) == 2 else self._each(found)

    def backward_fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.backward_fetch(*given, **named))

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.backward_fetch_all(time_from, time_to))

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.all())

    def backward_all(self) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.backward_all())


class _TrackedSessionStore(_TrackedStore):
    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        self._store.put(session_key, self._taken(aggregate))

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        return self._given(self._store.fetch_session(key, session_start, session_end))

    def find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.find_sessions(*given, **named))

    def backward_find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.backward_find_sessions(*given, **named))

    def fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.fetch(*given, **named))

    def backward_fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        return self._each(self._store.backward_fetch(*given, **named))


class _TrackedVersionedStore(_TrackedStore):
    def put(self, key: Any, value: Any, timestamp: int) -> Any:
        return self._store.put(key, self._taken(value), timestamp)

    def get(self, *given: Any, **named: Any) -> Any:
        return self._given(self._store.get(*given, **named))

    def delete(self, key: Any, timestamp: int) -> Any:
        return self._given(self._store.delete(key, timestamp))
