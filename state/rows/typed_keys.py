"""Keys of a store as a processor gives them, and as bytes."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.state.rows.round_trip import RoundTripCheck


class TypedKeys:
    """Serialises the keys of ``store``, and checks now and then that they come back as they were."""

    def __init__(self, store: str, serde: Serde[Any]) -> None:
        self.deserialize = serde.deserialize
        """Makes a key of its bytes."""
        self._store = store
        self._serde = serde
        self._serialize = serde.serialize
        self._written = 0
        self._round_trip = RoundTripCheck(store, "key", serde)
        self._next_check = self._round_trip.next

    def serialize(self, key: Any) -> bytes:
        """The bytes of ``key``. Raises SerializationError for None and for what the serde refuses."""
        try:
            if key is not None:
                return self._serialize(key)
        except Exception as error:
            raise self._refused(key, error) from error
        raise SerializationError(f"store {self._store}: a key may not be None")

    def _refused(self, key: Any, error: Exception) -> SerializationError:
        return SerializationError(f"store {self._store}: key: {why_refused(self._serde, key, error)}")

    def bound(self, key: Any) -> bytes | None:
        """Returns the bytes of an end of a range, None for None, which is open. Raises like :meth:`serialize`."""
        return None if key is None else self.serialize(key)

    def written(self, key: Any) -> bytes:
        """The bytes of a ``key`` that is put."""
        self._written = written = self._written + 1
        if written == self._next_check or key is None:
            return self._checked(key)
        try:  # and no call of serialize: this is done for each update
            return self._serialize(key)
        except Exception as error:
            raise self._refused(key, error) from error

    def _checked(self, key: Any) -> bytes:
        data = self.serialize(key)
        self._round_trip.check(key, self._written)
        self._next_check = self._round_trip.next
        return data
