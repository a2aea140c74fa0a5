"""Timestamped stores without their timestamps: what the driver's ``get_key_value_store`` and ``get_window_store`` give.

Mirror ``KeyValueStoreFacade`` and ``WindowStoreFacade``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from typing_extensions import override

from penstock.common.windows import Windowed
from penstock.state.views import KeyValueStore, ValueAndTimestamp
from penstock.state.windowed.views import WindowStore


class _Facade:
    """``inner`` holds values with timestamps; one that is put gets the time of ``now``."""

    def __init__(self, inner: Any, now: Callable[[], int]) -> None:
        self.name = inner.name
        self._inner = inner
        self._now = now

    def _stamped(self, value: Any) -> ValueAndTimestamp[Any] | None:
        if isinstance(value, ValueAndTimestamp):
            raise TypeError(
                f"store {self.name!r} is shown without its timestamps here: put the value alone, or get the store with "
                "get_timestamped_key_value_store or get_timestamped_window_store"
            )
        return None if value is None else ValueAndTimestamp(value, self._now())


def _value(found: ValueAndTimestamp[Any] | None) -> Any:
    return None if found is None else found.value


def _values(entries: Iterator[tuple[Any, ValueAndTimestamp[Any]]]) -> Iterator[tuple[Any, Any]]:
    return ((key, found.value) for key, found in entries)


class KeyValueStoreFacade(_Facade, KeyValueStore[Any, Any]):
    """A timestamped key-value store that shows values alone."""

    @override
    def get(self, key: Any) -> Any:
        return _value(self._inner.get(key))

    @override
    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, self._stamped(value))

    @override
    def put_if_absent(self, key: Any, value: Any) -> Any:
        return _value(self._inner.put_if_absent(key, self._stamped(value)))

    @override
    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        self._inner.put_all([(key, self._stamped(value)) for key, value in entries])

    @override
    def delete(self, key: Any) -> Any:
        return _value(self._inner.delete(key))

    @override
    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return _values(self._inner.range(from_key, to_key))

    @override
    def reverse_range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return _values(self._inner.reverse_range(from_key, to_key))

    @override
    def all(self) -> Iterator[tuple[Any, Any]]:
        return _values(self._inner.all())

    @override
    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return _values(self._inner.reverse_all())

    @override
    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        return _values(self._inner.prefix_scan(prefix))

    @override
    def approximate_num_entries(self) -> int:
        entries: int = self._inner.approximate_num_entries()
        return entries


class WindowStoreFacade(_Facade, WindowStore[Any, Any]):
    """A timestamped window store that shows values alone."""

    @override
    def put(self, key: Any, value: Any, window_start: int) -> None:
        self._inner.put(key, self._stamped(value), window_start)

    @override
    def fetch(self, key: Any, *rest: Any) -> Any:
        found = self._inner.fetch(key, *rest)
        return _value(found) if len(rest) == 1 else _values(found)

    @override
    def backward_fetch(self, key: Any, *rest: Any) -> Any:
        return _values(self._inner.backward_fetch(key, *rest))

    @override
    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return _values(self._inner.fetch_all(time_from, time_to))

    @override
    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return _values(self._inner.backward_fetch_all(time_from, time_to))

    @override
    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return _values(self._inner.all())

    @override
    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return _values(self._inner.backward_all())
